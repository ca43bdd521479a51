// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/kube"
)

// Where the agents of other clusters dial this one is said by --mesh-advertise; else, with --mesh-service, found from
// that Service; else it is the address that the agent itself listens on.

const (
	// addressGrace is how long a cloud may take to give a Service its address before that counts as wrong.
	addressGrace = 2 * time.Minute
	// maxMeshNodes is how many nodes are named for a NodePort: enough to survive one of them.
	maxMeshNodes = 3
	// maxMeshEndpoints is what a Cluster object has room for.
	maxMeshEndpoints = 16
	meshPortName     = "mesh"
)

// errNoAddress is what the Cluster object, /readyz and the log say while other clusters have nowhere to dial.
var errNoAddress = errors.New("other clusters cannot reach this one")

// serviceEndpoints is where a Service leads to the mesh from other clusters: nowhere, without an error, when
// it is for its own cluster only.
func serviceEndpoints(s *kube.Service, nodes []*kube.Node) ([]string, error) {
	if s == nil {
		return nil, errors.New("does not exist: install charts/agent, or set mesh.advertise")
	}
	i := slices.IndexFunc(s.Spec.Ports, func(p kube.ServicePort) bool { return p.Name == meshPortName })
	if i < 0 && len(s.Spec.Ports) == 1 {
		i = 0
	}
	if i < 0 {
		return nil, fmt.Errorf("has no port named %s", meshPortName)
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
		return nil, errors.New("has no external address: nothing in this cluster serves Services of type LoadBalancer, or the cloud refused it (see its events); mend that, or set mesh.service.type to NodePort, or mesh.advertise")
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

// nodeAddresses is one address of each of some nodes: external ones, where a node has such.
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
	return external[:min(len(external), maxMeshNodes)]
}

func joinPort(hosts []string, port int32) []string {
	var out []string
	for _, host := range hosts[:min(len(hosts), maxMeshEndpoints)] {
		out = append(out, net.JoinHostPort(host, strconv.Itoa(int(port))))
	}
	return out
}

// address is what is known of where the mesh port is reached from other clusters. The zero value knows nothing.
type address struct {
	mu        sync.Mutex
	asked     bool // the Service was read, or cannot be
	service   *kube.Service
	refused   error // why it cannot be read
	nodes     []*kube.Node
	endpoints []string
	own       bool      // the agent's own address is all there is
	missing   error     // why there is none
	since     time.Time // when that began
	logged    string    // what was logged last
}

// learn takes in what change makes known, and says whether the endpoints are others now.
func (a *address) learn(now time.Time, change func(*address)) (changed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(a)
	if !a.asked {
		return false
	}
	endpoints, err := []string(nil), a.refused
	if err == nil {
		endpoints, err = serviceEndpoints(a.service, a.nodes)
	}
	if err != nil {
		if a.missing == nil {
			a.since = now
		}
		a.missing = err
		return false // what was found before may still lead here
	}
	own := len(endpoints) == 0
	changed = own != a.own || !slices.Equal(endpoints, a.endpoints)
	a.endpoints, a.own, a.missing = endpoints, own, nil
	return changed
}

// found is the endpoints; none when nothing is known, or when the agent's own address is to be used.
func (a *address) found() (endpoints []string, own bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.endpoints, a.own
}

// lacks is why there is no address now, and since when.
func (a *address) lacks() (since time.Time, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.since, a.missing
}

// news says whether the line is another one than last time.
func (a *address) news(line string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.logged
	a.logged = line
	return line != "" && line != was
}

// meshEndpoints is where members dial this cluster; recorded is what its Cluster object says.
func (s *session) meshEndpoints(recorded []string) []string {
	if s.options.MeshAdvertise != "" {
		return []string{s.options.MeshAdvertise}
	}
	if s.options.MeshService != "" {
		endpoints, own := s.address.found()
		if len(endpoints) > 0 {
			return endpoints
		}
		if !own {
			return recorded // from an earlier start; better than an address that nobody reaches
		}
	}
	return []string{s.ownAddress()}
}

// ownAddress is the host:port that the mesh listens on, with a host that others can name.
func (s *session) ownAddress() string {
	host, port, err := net.SplitHostPort(s.mesh.Addr().String())
	if err != nil {
		return s.mesh.Addr().String()
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
		return net.JoinHostPort(host, port)
	}
	return net.JoinHostPort(firstGlobalAddress(), port)
}

// firstGlobalAddress is the first address of this machine that is not its own alone; in a pod there is one.
func firstGlobalAddress() string {
	addresses, err := net.InterfaceAddrs()
	if err == nil {
		for _, a := range addresses {
			if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
				return n.IP.String()
			}
		}
	}
	return "127.0.0.1"
}

// watchMeshService keeps the address that the Service gives. Until the first one the agent is not ready.
func (s *session) watchMeshService(ctx context.Context) error {
	if s.options.MeshService == "" {
		return nil
	}
	name := parseNamespacedName(s.options.MeshService)
	for {
		err := kube.WatchService(ctx, s.client, name, func(now *kube.Service) {
			s.learnAddress(func(a *address) { a.asked, a.service, a.refused = true, now, nil })
		})
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it ended because the agent ends
		}
		s.learnAddress(func(a *address) {
			a.asked, a.refused = true, fmt.Errorf("cannot be read: %w; helm upgrade gives the right to that", err)
		})
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(untilWoken):
		}
	}
}

// learnAddress takes in what was learnt of the Service or of nodes, and has other clusters told.
func (s *session) learnAddress(change func(*address)) {
	if s.options.MeshService == "" {
		return
	}
	if s.address.learn(time.Now(), change) {
		endpoints := s.meshEndpoints(nil)
		s.log.Info("other clusters are told where to reach this one", "service", s.options.MeshService, "mesh", endpoints)
		s.publish.add(clusterKey(s.clusterID))
	}
	s.chores.add(choreAddress)
}

// judgeAddress says what is wrong with the address: at once in /readyz where the agent has had none since its start,
// and when the grace is over wherever problems are shown.
func (s *session) judgeAddress(now time.Time) {
	endpoints, own := s.address.found()
	since, missing := s.address.lacks()
	if missing == nil {
		s.address.news("")
		s.health.waitFor("")
		_ = s.problems.set(problemAddress, nil)
		return
	}
	if left := addressGrace - now.Sub(since); left > 0 {
		if len(endpoints) == 0 && !own {
			s.health.waitFor(fmt.Sprintf("the Service %s %v", s.options.MeshService, missing))
		}
		s.chores.addAfter(choreAddress, left)
		return
	}
	err := fmt.Errorf("%w: after two minutes the Service %s %w", errNoAddress, s.options.MeshService, missing)
	s.health.waitFor(err.Error())
	_ = s.problems.set(problemAddress, err)
	if s.address.news(err.Error()) {
		s.log.Warn("not ready", "error", err)
	}
}

// parseNamespacedName reads what Validate has checked.
func parseNamespacedName(text string) types.NamespacedName {
	namespace, name, _ := strings.Cut(text, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}
