// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"maps"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/kube/exported"
)

// asSecrets has a Secret for each member, as another tool wants it. With renew, the agent keeps the credential in it.
func asSecrets(members []*member, network string, format exported.Format, renew bool) (any, *file) {
	items, f := []any{}, &file{}
	for _, m := range members {
		secret, err := secretFor(m, network, format, renew)
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

func secretFor(m *member, network string, format exported.Format, renew bool) (map[string]any, error) {
	access, err := m.access(network)
	if err != nil {
		return nil, err
	}
	name, err := format.SecretName(m.name)
	if err != nil {
		return nil, err
	}
	data, err := format.Data(m.name, access)
	if err != nil {
		return nil, err
	}
	text := map[string]string{}
	for key, value := range data {
		text[key] = string(value)
	}
	labels := map[string]string{}
	if format == exported.ArgoCD { // the cluster generator of an ApplicationSet selects by them
		maps.Copy(labels, clusters.CleanCluster(m.object, v1alpha1.NamespacedName{}).GetLabels())
	}
	maps.Copy(labels, format.Labels())
	labels[v1alpha1.LabelExportedFor] = string(format)
	annotations := map[string]string{v1alpha1.AnnotationExportedClusterID: clusters.IDOf(m.object)}
	if renew {
		annotations[v1alpha1.AnnotationRenewCredentialOf] = m.name
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
		"metadata":   map[string]any{"name": name, "labels": labels, "annotations": annotations},
		"stringData": text,
	}, nil
}
