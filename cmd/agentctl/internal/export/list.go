// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"encoding/base64"
	"fmt"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// asList is the Cluster objects, each after the Secret with its credential if there is one: an agent never sees a Cluster
// that names a Secret that is not there. The Secrets have the names of the clusters, as after a swap.
func asList(members []*member, namespace string) (any, *file) {
	items, f := []any{}, &file{clusters: len(members)}
	for _, m := range members {
		var ref v1alpha1.NamespacedName
		switch {
		case m.credential != nil:
			ref = v1alpha1.NamespacedName{Name: m.name, Namespace: namespace}
			items = append(items, secretOf(m, ref))
			f.credentials++
		case m.why != "":
			f.lacks = append(f.lacks, fmt.Sprintf("cluster %s is without a credential: %s", m.name, m.why))
		}
		items = append(items, clusters.CleanCluster(m.object, ref).Object)
	}
	return list(items), f
}

func secretOf(m *member, ref v1alpha1.NamespacedName) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": v1alpha1.SecretType,
		"metadata": map[string]any{"name": ref.Name, "namespace": ref.Namespace},
		"data":     map[string]any{v1alpha1.SecretKubeconfigKey: base64.StdEncoding.EncodeToString(m.credential)},
	}
}

func list(items []any) any {
	return map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
}
