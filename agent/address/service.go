// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package address

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/roster-mesh/roster/kube"
)

const (
	// maxNodes is how many nodes are published for a NodePort: enough to survive the loss of one.
	maxNodes = 3
	// maxEndpoints is the limit of a Cluster object.
	maxEndpoints = 16
	portName     = "mesh"
)

// serviceEndpoints are the external addresses of a Service. They are empty, without an error, for a Service that is
// only for its own cluster.
func serviceEndpoints(s *kube.Service, nodes []*kube.Node) ([]string, error) {
	if s == nil {
		return nil, errors.New("does not exist: install charts/agent, or set mesh.advertise")
	}
	i := slices.IndexFunc(s.Spec.Ports, func(p kube.ServicePort) bool { return p.Name == portName })
	if i < 0 && len(s.Spec.Ports) == 1 {
		i = 0
	}
	if i < 0 {
		return nil, fmt.Errorf("has no port named %s", portName)
	}
	port := s.Spec.Ports[i]
	hosts := slices.Clone(s.Spec.ExternalIPs)
	for _, in := range s.Status.LoadBalancer.Ingress {
		if host := cmp.Or(in.IP, in.Hostname); host != "" {
			hosts = append(hosts, host)
		}
	}
	if len(hosts) > 0 {
		return joinPort(hosts, port.Port), nil
	}
	switch s.Spec.Type {
	case kube.ServiceLoadBalancer:
		return nil, errors.New("has no external address: nothing in this cluster serves Services of type LoadBalancer, or the cloud refused it (see its events); fix that, or set mesh.service.type to NodePort, or mesh.advertise")
	case kube.ServiceNodePort:
		if hosts = nodeAddresses(nodes); len(hosts) == 0 {
			return nil, errors.New("has type NodePort, and no node is ready and has an address: set mesh.advertise to one that leads to a node")
		}
		return joinPort(hosts, port.NodePort), nil
	case kube.ServiceClusterIP:
		return nil, nil
	}
	return nil, fmt.Errorf("has type %s: set mesh.service.type to LoadBalancer or NodePort", s.Spec.Type)
}

// nodeAddresses is one address for each of a few nodes: external ones, if a node has one.
func nodeAddresses(nodes []*kube.Node) []string {
	var external, internal []string
	for _, n := range slices.SortedFunc(slices.Values(nodes), func(a, b *kube.Node) int { return strings.Compare(a.Name, b.Name) }) {
		switch {
		case !n.Ready:
		case len(n.ExternalIPs) > 0:
			external = append(external, n.ExternalIPs[0])
		case len(n.InternalIPs) > 0:
			internal = append(internal, n.InternalIPs[0])
		}
	}
	if len(external) == 0 {
		external = internal
	}
	return external[:min(len(external), maxNodes)]
}

func joinPort(hosts []string, port int32) []string {
	var out []string
	for _, host := range hosts[:min(len(hosts), maxEndpoints)] {
		out = append(out, net.JoinHostPort(host, strconv.Itoa(int(port))))
	}
	return out
}
