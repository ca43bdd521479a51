// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// argoConfig is the key config of a cluster Secret of Argo CD, as far as it is used:
// https://argo-cd.readthedocs.io/en/stable/operator-manual/declarative-setup/#clusters
type argoConfig struct {
	BearerToken string  `json:"bearerToken,omitempty"`
	TLS         argoTLS `json:"tlsClientConfig"`
}

type argoTLS struct {
	Insecure   bool   `json:"insecure"`
	ServerName string `json:"serverName,omitempty"`
	CAData     []byte `json:"caData,omitempty"`
	CertData   []byte `json:"certData,omitempty"`
	KeyData    []byte `json:"keyData,omitempty"`
}

// asArgoCD has a Secret for each member, which has the labels of its Cluster object as well: the cluster generator of an
// ApplicationSet selects by them.
func asArgoCD(members []*member, network string) (any, *file) {
	items, f := []any{}, &file{}
	for _, m := range members {
		secret, err := argoSecret(m, network)
		if err != nil {
			f.leaveOut(m, err)
			continue
		}
		f.clusters++
		f.credentials++
		items = append(items, secret)
	}
	return list(items), f
}

func argoSecret(m *member, network string) (map[string]any, error) {
	access, err := m.access(network)
	if err != nil {
		return nil, err
	}
	name := "cluster-" + m.name
	if len(name) > validation.DNS1123SubdomainMaxLength {
		return nil, fmt.Errorf("a Secret cannot have the name %s: it is longer than %d characters", name, validation.DNS1123SubdomainMaxLength)
	}
	config, err := json.Marshal(argoConfig{access.BearerToken, argoTLS{
		ServerName: access.ServerName, CAData: access.CAData, CertData: access.CertData, KeyData: access.KeyData,
	}})
	if err != nil {
		return nil, err
	}
	labels := map[string]string{}
	maps.Copy(labels, clusters.CleanCluster(m.object, v1alpha1.NamespacedName{}).GetLabels())
	labels["argocd.argoproj.io/secret-type"] = "cluster"
	return map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
		"metadata":   map[string]any{"name": name, "labels": labels},
		"stringData": map[string]string{"name": m.name, "server": access.Host, "config": string(config)},
	}, nil
}
