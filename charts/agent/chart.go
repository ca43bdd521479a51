// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chart is what the agent and the tools share with the Helm chart that lies in the same folder, so that
// each of these is written in one place: the CRDs, and the rights.
package chart

import (
	"embed"
	"fmt"
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

//go:embed crds/*.yaml
var crds embed.FS

//go:embed files/rights.yaml
var rights []byte

// CRDs are the CustomResourceDefinitions of the chart, in the order of their names.
func CRDs() ([]*unstructured.Unstructured, error) {
	files, err := fs.Glob(crds, "crds/*.yaml")
	if err != nil {
		return nil, err
	}
	out := make([]*unstructured.Unstructured, 0, len(files))
	for _, file := range files {
		data, err := crds.ReadFile(file)
		if err != nil {
			return nil, err
		}
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(data, &crd.Object); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, crd)
	}
	return out, nil
}

// Right is one rule of RBAC that the chart grants, with what is said of it.
type Right struct {
	APIGroups     []string `json:"apiGroups"`
	Resources     []string `json:"resources"`
	ResourceNames []string `json:"resourceNames,omitempty"`
	Verbs         []string `json:"verbs"`

	// Why is for the one who reads it in the cluster or in the documentation.
	Why string `json:"why"`
	// When is the condition on the chart's values under which it is granted; empty means always.
	When string `json:"when,omitempty"`
	// Need are the verbs without which the agent does not start.
	Need []string `json:"need,omitempty"`
}

// Rights are all that the chart grants, by who gets it and where.
type Rights struct {
	Agent  Places `json:"agent"`
	Reader Places `json:"reader"`
	// Swapped is who has a swapped credential, and none of its own.
	Swapped Places `json:"swapped"`
	// CRDs is the Job that upgrades the CRDs.
	CRDs Places `json:"crds"`
	// Registry is the server of the registry API, and Caller who may ask it.
	Registry Places `json:"registry"`
	Caller   Places `json:"caller"`
	// UI is the page for others, and Visitor who may see it.
	UI      Places `json:"ui"`
	Visitor Places `json:"visitor"`
}

// Places are the rights in the whole cluster and in single namespaces: the agent's own, NAMESPACE-private,
// NAMESPACE-readers, default, that of the chart value publish.namespace, and those of renew.namespaces.
type Places struct {
	Cluster []Right `json:"cluster,omitempty"`
	Own     []Right `json:"own,omitempty"`
	Private []Right `json:"private,omitempty"`
	Readers []Right `json:"readers,omitempty"`
	Default []Right `json:"default,omitempty"`
	Publish []Right `json:"publish,omitempty"`
	Renew   []Right `json:"renew,omitempty"`
}

// DefaultRights reads the rights. What is in the file and not in the types is an error.
func DefaultRights() (Rights, error) {
	var out Rights
	if err := yaml.UnmarshalStrict(rights, &out); err != nil {
		return out, fmt.Errorf("files/rights.yaml: %w", err)
	}
	return out, nil
}
