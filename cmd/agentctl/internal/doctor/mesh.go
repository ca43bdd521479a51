// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/doctor/meshport"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// maxAddresses of one member are dialled: the list comes from that member.
const maxAddresses = 8

// checkMesh dials the mesh port of each member from here, and compares the key that it shows with the one that
// its Cluster object records. The other directions are checkMembers': what the agents say of each other.
func checkMesh(ctx context.Context, x *inspection) []Finding {
	var mu sync.Mutex
	var out []Finding
	var group errgroup.Group
	group.SetLimit(16)
	for _, c := range x.members() {
		group.Go(func() error {
			if d := x.checkPort(ctx, c); d != nil {
				mu.Lock()
				defer mu.Unlock()
				out = append(out, *d)
			}
			return nil
		})
	}
	_ = group.Wait() // no error is returned
	return out
}

// members are the clusters that any target lists, once each; of itself a target knows best.
func (x *inspection) members() []*v1alpha1.Cluster {
	var out []*v1alpha1.Cluster
	seen := map[string]bool{}
	add := func(c *v1alpha1.Cluster) {
		if id := string(c.Spec.ClusterID); !seen[id] {
			seen[id] = true
			out = append(out, c)
		}
	}
	for _, t := range x.targets {
		if c := t.local(); c != nil {
			add(c)
		}
	}
	for _, t := range x.targets {
		for _, c := range t.clusters {
			if t.isPeer(c) {
				add(c)
			}
		}
	}
	return out
}

func (x *inspection) checkPort(ctx context.Context, c *v1alpha1.Cluster) *Finding {
	m := c.Spec.Mesh
	d := &Finding{Severity: Error, Cluster: c.Name}
	switch {
	case m == nil || len(m.PublicKey) == 0:
		return nil // checkMembers says so
	case len(m.Endpoints) == 0:
		d.Message = "it advertises no address of its mesh port"
		d.Fix = "helm upgrade cluster-registry-controller charts/agent --namespace " + cli.ShellWord(x.namespace) + " --reuse-values --set mesh.advertise=HOST:PORT  # in cluster " + cli.ShellWord(c.Name)
		return d
	}
	var failed []error
	for _, address := range m.Endpoints[:min(len(m.Endpoints), maxAddresses)] {
		key, err := meshport.Key(ctx, address)
		switch {
		case err != nil:
			failed = append(failed, fmt.Errorf("%s: %w", address, err))
		case key.Equal(ed25519.PublicKey(m.PublicKey)):
			return nil
		default:
			d.Message = fmt.Sprintf("what answers at its mesh address %s has another key than its Cluster object records", address)
			d.Fix = x.kubectlIn(c, "get", "cluster", c.Name, "-o", "yaml")
			return d
		}
	}
	return x.portFinding(c, errors.Join(failed...))
}

// portFinding says what it means that nobody answers here: from where one stands alone, only that it is not known.
func (x *inspection) portFinding(c *v1alpha1.Cluster, err error) *Finding {
	reason := clusters.Reason(errors.New(strings.ReplaceAll(err.Error(), "\n", "; ")))
	d := &Finding{Severity: Unknown, Cluster: c.Name, Fix: x.restart(c)}
	reached, failed := x.reachability(c)
	switch {
	case len(reached) == 0 && errors.Is(err, meshport.ErrOther):
		d.Severity, d.Message = Error, "at its mesh address "+reason
		d.Fix = x.kubectlIn(c, "-n", x.namespace, "get", "services,endpoints")
	case len(reached) > 0:
		d.Message = fmt.Sprintf("its mesh port is unreachable from here (%s), while agents in %s reach it", reason, cli.Brief(reached))
		d.Fix = "agentctl doctor  # on a machine, or in a pod, from which that address is reached"
	case len(failed) > 0, errors.Is(err, syscall.ECONNREFUSED):
		d.Severity = Error
		d.Message = "its mesh port does not answer: is its agent running? " + reason
		if len(failed) > 0 {
			d.Message = fmt.Sprintf("its mesh port does not answer, neither here nor to the agents in %s: is its agent running? %s", cli.Brief(failed), reason)
		}
	default:
		d.Message = "its mesh port is unreachable from here, and no agent says whether it is reachable from elsewhere: " + reason
	}
	return d
}

// reachability are the names of the targets whose agents reach a cluster's agent, and of those whose do not.
func (x *inspection) reachability(c *v1alpha1.Cluster) (reached, failed []string) {
	for _, t := range x.targets {
		if t.id == string(c.Spec.ClusterID) {
			continue
		}
		for _, other := range t.clusters {
			if other.Spec.ClusterID != c.Spec.ClusterID {
				continue
			}
			cond := clusters.Condition(other, v1alpha1.ConditionMember)
			switch {
			case cond == nil:
			case cond.Status == metav1.ConditionTrue:
				reached = append(reached, t.name())
			case cond.Status == metav1.ConditionFalse:
				failed = append(failed, t.name())
			}
		}
	}
	return reached, failed
}
