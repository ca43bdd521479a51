// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package apiconn

import (
	"context"
	"errors"
	"net"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/offlocal"
	"github.com/roster-mesh/roster/mesh"
)

// errLocalMesh is offlocal.ErrAddress for the mesh port.
var errLocalMesh = errors.New("spec.mesh.endpoints leads to a loopback or link-local address: agents in pods do not dial these")

// InPod reports whether the agent runs in a pod of its cluster: it has the credential of that pod.
func InPod(local *kube.Client) bool { return local.Config.BearerTokenFile == kube.PodTokenFile }

// MeshNetwork is the network of the mesh. In a pod it does not dial loopback and link-local addresses.
func MeshNetwork(local *kube.Client) mesh.Network {
	if InPod(local) {
		return podNetwork{}
	}
	return mesh.TCP{}
}

type podNetwork struct{ mesh.TCP }

// Dial implements mesh.Network.
func (podNetwork) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return offlocal.Dialer(errLocalMesh).DialContext(ctx, "tcp", addr)
}
