// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/offlocal"
)

// way is how a member is reached.
type way struct {
	Member

	local   *clusters.Client // of the own cluster, which holds the credentials
	context string           // of the caller's own; "" for the credential
	failed  error            // why the context leads nowhere
}

// find lists the members with the ways to them, the own cluster first.
func (g *Group) find(ctx context.Context) ([]*way, error) {
	local, err := g.Open()
	if err != nil {
		return nil, err
	}
	own, err := local.Local(ctx)
	if err != nil {
		return nil, err
	}
	members, err := local.Members(ctx)
	if err != nil {
		return nil, err
	}
	decoding := make(chan struct{}, maxDecoding)
	var ways []*way
	for _, c := range members {
		w := &way{local: local, Member: Member{Name: c.Name, ID: string(c.Spec.ClusterID), Local: c.Name == own.GetName(), Cluster: c, decoding: decoding}}
		if ways = append(ways, w); w.Local { // they are in name order
			ways = slices.Insert(ways[:len(ways)-1], 0, w)
		}
	}
	for name, context := range g.Named {
		i := slices.IndexFunc(ways, func(w *way) bool { return w.Name == name && !w.Local })
		if i < 0 {
			return nil, cli.Usagef("--peer-context names cluster %q, and context %s has no other cluster of that name", name, local.Context)
		}
		ways[i].context, ways[i].Certain = context, true
	}
	return g.identify(ctx, ways)
}

// Alone is the caller's own cluster without the others, where it does not say who they are.
func (g *Group) Alone() (*Member, error) {
	c, err := g.Open()
	if err != nil {
		return nil, err
	}
	return &Member{Name: c.Context, Local: true, Client: c, Own: true, Certain: true, decoding: make(chan struct{}, maxDecoding)}, nil
}

// identify finds out which members the contexts lead to. One that does not answer is taken for the member of its name; one
// that leads to no member, or to nobody, is unknown, and so is a member that two contexts lead to: who is it only says so.
func (g *Group) identify(ctx context.Context, ways []*way) ([]*way, error) {
	asked := make([]*way, 0, len(g.Contexts))
	for _, name := range g.Contexts {
		if _, err := g.To(name).Open(); err != nil {
			return nil, err // there is no such context
		}
		asked = append(asked, &way{Member: Member{Name: name}})
	}
	ids := gather(ctx, g.Timeout, asked, func(ctx context.Context, w *way) (string, error) {
		c, err := g.client(w.Name)
		if err != nil {
			return "", err
		}
		defer c.Close()
		return c.ClusterID(ctx)
	})
	for _, found := range ids {
		i := slices.IndexFunc(ways, func(w *way) bool {
			return found.Err == nil && w.ID == found.Value || found.Err != nil && w.Name == found.Name
		})
		switch {
		case i >= 0 && (ways[i].Local || ways[i].Certain || ways[i].context == found.Name):
		case i >= 0 && ways[i].context != "":
			ways[i].failed = fmt.Errorf("two contexts claim to be it, %s and %s: leave out the wrong one", ways[i].context, found.Name)
		case i >= 0:
			ways[i].context, ways[i].failed = found.Name, found.Err
		case found.Err != nil:
			ways = append(ways, &way{Member: Member{Name: "of context " + found.Name}, failed: found.Err})
		default:
			return nil, cli.Usagef("--contexts names %s, whose cluster (clusterID %s) is no member of the group in context %s", found.Name, found.Value, ways[0].local.Context)
		}
	}
	return ways, nil
}

func (g *Group) client(context string) (*clusters.Client, error) {
	c, err := g.To(context).Open()
	if err != nil {
		return nil, err
	}
	return clusters.New(context, clusters.Bounded(c.Config, MaxAnswer))
}

// open goes the way, and proves that it leads to the member.
func (g *Group) open(ctx context.Context, w *way) (err error) {
	switch {
	case w.failed != nil:
		return w.failed
	case w.Local:
		w.Client, w.Own, w.Certain = w.local, true, true
		return nil
	case w.context != "":
		c, err := g.To(w.context).Open()
		if err != nil {
			return err
		}
		w.Own, w.config = true, c.Config
	default:
		if w.config, err = g.withCredential(ctx, w); err != nil {
			return err
		}
	}
	if w.Client, err = clusters.New(cmp.Or(w.context, w.Name), clusters.Bounded(w.config, MaxAnswer)); err != nil {
		return err
	}
	return w.Client.Verify(ctx, w.ID)
}

// withCredential leads to a member with the credential that the own cluster holds, with which nothing can be written.
func (g *Group) withCredential(ctx context.Context, w *way) (*rest.Config, error) {
	ref := w.Cluster.Spec.AuthInfo.SecretRef
	if ref.Name == "" {
		return nil, errors.New("its Cluster object names no credential; give a context that leads there")
	}
	if err := clusters.CheckRef(ref, w.ID); err != nil {
		return nil, err
	}
	secret, err := w.local.Secrets(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("its credential, Secret %s/%s here, cannot be read (%s); give a context that leads there", ref.Namespace, ref.Name, clusters.Reason(err))
	}
	kubeconfig, err := clusters.KubeconfigOf(secret)
	if err != nil {
		return nil, fmt.Errorf("its credential, Secret %s/%s here: %w", ref.Namespace, ref.Name, err)
	}
	config, err := clusters.PeerConfig(kubeconfig, w.Cluster, g.Network)
	if err == nil && w.local.InCluster { // members choose the addresses, as they do for an agent in a pod
		offlocal.KeepOff(config)
	}
	return config, err
}
