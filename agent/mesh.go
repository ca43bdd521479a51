// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"net"
	"time"

	"github.com/roster-mesh/roster/agent/apiconn"
	"github.com/roster-mesh/roster/agent/group"
	"github.com/roster-mesh/roster/agent/install"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/replica"
)

// This file is where the mesh meets the parts: what members may call (Methods), and what else is served at the mesh port
// (Protocols).

// methodCredential is the wire name of the method by which a member asks for a credential to read this cluster with.
const methodCredential = "Credential"

// openPort opens the mesh port. In a group, the port is open already, and the leader takes over from the group.
func (a *Agent) openPort(ctx context.Context, g *group.Group) (net.Listener, error) {
	if g != nil {
		return g.Front().Open(), nil
	}
	port, err := mesh.TCP{}.Listen(ctx, a.options.MeshListen)
	if err != nil {
		return nil, install.MeshListenError(a.options.MeshListen, err)
	}
	return port, nil
}

// openMesh makes the mesh, with the methods that members may call.
func (p *parts) openMesh(port net.Listener, quiet bool) error {
	methods := p.membership.Methods()
	methods[methodCredential] = mesh.Method{Serve: p.credentials.Issue, Every: 10 * time.Second, Burst: 5}
	opened, err := mesh.New(mesh.Options{
		Identity: mesh.Identity{ClusterID: p.clusterID, PrivateKey: p.key},
		Trust:    p.membership.Trust(), State: p.replica, Listen: p.options.MeshListen, Listener: port, Origin: replica.Origin, Network: apiconn.MeshNetwork(p.client),
		Endpoints: p.directory.MeshEndpoints, Methods: methods, RemovalNotice: p.membership.Farewell, MemberChanged: p.memberChanged,
		Log: p.log, Metrics: p.metrics, Quiet: quiet,
	})
	if err != nil {
		return err
	}
	p.mesh = opened
	p.stops.Push("mesh", opened.Close)
	p.membership.Bind(p.replica, opened)
	return nil
}

// askForCredential asks the agent of a member for a credential to read its cluster. It returns nil while that agent is
// not met in the mesh.
func (p *parts) askForCredential(ctx context.Context, id string) ([]byte, error) {
	if state := p.mesh.Member(id).State; state != mesh.Alive && state != mesh.Suspect {
		return nil, nil
	}
	return p.mesh.Call(ctx, id, methodCredential, nil)
}
