// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/engine/quota"
)

// TestRoleIsOfAKey: the role that a person wrote on a copy goes when the copy gets another key: it would make more of that key than
// who admitted it says. Other local annotations stay, also on a copy that gets another name.
func TestRoleIsOfAKey(t *testing.T) {
	t.Parallel()
	const id, local = agenttest.IDB, v1alpha1.LocalPrefix + "mine"
	for key, stays := range map[string]bool{id: true, agenttest.IDC: false} {
		for _, name := range []string{"b", "earlier"} {
			f := newFlooded(t, quota.NewLimits(1<<20, 1<<20, 1000, 100))
			sent := f.patches(t)
			have := agenttest.Cluster(name, id)
			have.Spec.Mesh.PublicKey = agenttest.PublicKey(key)
			payload.MarkCopy(have, payload.Meta{}, id)
			have.Annotations[v1alpha1.AnnotationRole], have.Annotations[local] = v1alpha1.RoleFull, "x"
			if err := f.o.Registry.Put(have); err != nil {
				t.Fatal(err)
			}
			f.api.SetObject(name, []byte(`{"apiVersion": "clusterregistry.k8s.cisco.com/v1alpha1", "kind": "Cluster", "metadata": {"name": "`+name+`"}}`))
			c := agenttest.Cluster("b", id)
			c.Labels = map[string]string{"new": "x"} // also a copy that has the key is written
			data, err := payload.EncodeCluster(c)
			if err != nil {
				t.Fatal(err)
			}
			f.publish(t, id, payload.ClusterKey(id), data)
			var written struct {
				Metadata struct {
					Annotations map[string]*string `json:"annotations"`
				} `json:"metadata"`
			}
			body := f.api.Object("b")
			if name == "b" {
				body = <-sent
			}
			if err := json.Unmarshal(body, &written); err != nil {
				t.Fatal(err)
			}
			role, there := written.Metadata.Annotations[v1alpha1.AnnotationRole]
			_, mine := written.Metadata.Annotations[local]
			if name == "b" { // a change: what stays is not in it, and null is what goes
				if gone := there && role == nil; gone == stays || mine {
					t.Errorf("the key of %s: the role stays: %t, want %t; changed: %v", key, !gone, stays, written)
				}
			} else if there != stays || !mine {
				t.Errorf("another name, the key of %s: the role stays: %t, want %t; %v", key, there, stays, written)
			}
		}
	}
}

// patches has the importer write to a server that tells its patches, and does not carry them out.
func (f *flooded) patches(t *testing.T) <-chan []byte {
	t.Helper()
	sent := make(chan []byte, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			sent <- body
		}
		f.api.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	client, err := kube.NewClient(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	f.o.Client = client
	return sent
}
