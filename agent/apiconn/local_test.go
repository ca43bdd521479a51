// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package apiconn

import (
	"net"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/mesh"
)

// In a pod the mesh does not dial what leads to that pod, whatever the text of the address.
func TestMeshKeepsOffLocalAddresses(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	local := &kube.Client{Config: &rest.Config{BearerTokenFile: kube.PodTokenFile}}
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "127.1.2.3"} {
		if _, err := MeshNetwork(local).Dial(t.Context(), host+":"+port); err == nil {
			t.Errorf("the mesh dials %s", host)
		}
	}
	if _, is := MeshNetwork(&kube.Client{Config: &rest.Config{}}).(mesh.TCP); !is {
		t.Error("outside pods the mesh does not dial everything")
	}
}
