// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// secretForm is how another tool wants the kubeconfig of a cluster in a Secret.
type secretForm struct {
	suffix string // of the Secret's name, after that of the cluster
	key    string // of the kubeconfig
	labels map[string]any
}

// forFlux is for spec.kubeConfig.secretRef of a Kustomization or HelmRelease:
// https://fluxcd.io/flux/components/kustomize/kustomizations/#kubeconfig-remote-clusters
func forFlux() secretForm { return secretForm{suffix: "-kubeconfig", key: "value"} }

// forMulticlusterRuntime is for the kubeconfig provider of multicluster-runtime, which finds the Secrets by their label:
// https://github.com/kubernetes-sigs/multicluster-runtime/tree/main/providers/kubeconfig
func forMulticlusterRuntime() secretForm {
	return secretForm{key: "kubeconfig", labels: map[string]any{"sigs.k8s.io/multicluster-runtime-kubeconfig": "true"}}
}

// asSecrets has a Secret for each member, with a kubeconfig of one context.
func asSecrets(members []*member, network string, form secretForm) (any, *file) {
	items, f := []any{}, &file{}
	for _, m := range members {
		secret, err := form.of(m, network)
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

func (s secretForm) of(m *member, network string) (map[string]any, error) {
	if _, err := m.access(network); err != nil {
		return nil, err
	}
	name := m.name + s.suffix
	if len(name) > validation.DNS1123SubdomainMaxLength {
		return nil, fmt.Errorf("a Secret cannot have the name %s: it is longer than %d characters", name, validation.DNS1123SubdomainMaxLength)
	}
	config, _ := asKubeconfig([]*member{m}, network)
	data, err := yaml.Marshal(config)
	if err != nil {
		return nil, err
	}
	metadata := map[string]any{"name": name}
	if s.labels != nil {
		metadata["labels"] = s.labels
	}
	return map[string]any{"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata, "stringData": map[string]any{s.key: string(data)}}, nil
}
