// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// pastedSecret is the Secret with the record of claims: by clusterID, the NAMESPACE/NAME of the Secret that serves it.
const pastedSecret = "roster-pasted"

// claims knows which cluster each pasted Secret serves: the first whose Cluster object named it. Otherwise a second Cluster
// object that names it, by mistake or because somebody may edit it, would have the credential sent to another server. A
// claim is recorded before the Secret is used, also if it is not there yet, and outlives restarts. It ends when the cluster is listed no more, or uses
// another pasted Secret; not when its Cluster object names an issued credential instead.
type claims struct {
	mu   sync.Mutex
	held map[string]string // the record; nil before it was read
}

// claim returns the cluster that a pasted Secret serves, which is id if no other one has claimed it.
func (p *Peers) claim(ctx context.Context, id string, ref v1alpha1.NamespacedName) (holder string, err error) {
	c, secret := &p.claims, ref.Namespace+"/"+ref.Name
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil {
		if c.held, err = p.readClaims(ctx); err != nil {
			return "", err
		}
	}
	if slices.Contains(p.options.Directory.Registry.ByCredentialSecret(ref.Namespace, ref.Name), p.options.ClusterID) {
		return p.options.ClusterID, nil // it is for others to read this cluster with
	}
	held := maps.Clone(c.held)
	maps.DeleteFunc(held, func(other, _ string) bool { return other != id && !p.options.Directory.Listed(other) })
	for other, claimed := range held {
		if claimed == secret {
			return other, nil
		}
	}
	holder = p.firstToName(id, ref)
	held[holder] = secret
	record := make(map[string][]byte, len(held))
	for other, claimed := range held {
		record[other] = []byte(claimed)
	}
	if err := p.options.Store.Replace(ctx, pastedSecret, record); err != nil {
		return "", err
	}
	c.held = held
	return holder, nil
}

// firstToName is the cluster whose Cluster object is the oldest of those that name a Secret; id names it, too.
func (p *Peers) firstToName(id string, ref v1alpha1.NamespacedName) string {
	registry := p.options.Directory.Registry
	naming := slices.DeleteFunc(registry.ByCredentialSecret(ref.Namespace, ref.Name), func(other string) bool {
		return !p.options.Directory.Listed(other)
	})
	if len(naming) == 0 {
		return id
	}
	return slices.MinFunc(naming, func(a, b string) int {
		first, second := registry.ByID(a)[0], registry.ByID(b)[0] // they are listed
		return cmp.Or(first.CreationTimestamp.Compare(second.CreationTimestamp.Time), strings.Compare(first.Name, second.Name))
	})
}

func (p *Peers) readClaims(ctx context.Context) (map[string]string, error) {
	held := map[string]string{}
	secret, err := p.options.Store.Read(ctx, pastedSecret)
	if apierrors.IsNotFound(err) {
		return held, nil
	}
	if err != nil {
		return nil, err
	}
	for id, claimed := range secret.Data {
		held[id] = string(claimed)
	}
	return held, nil
}

// wakeWaiting wakes the links of other clusters that name the Secret of one that is no longer listed.
func (p *Peers) wakeWaiting(id string) {
	p.claims.mu.Lock()
	namespace, name, claimed := strings.Cut(p.claims.held[id], "/")
	p.claims.mu.Unlock()
	if claimed {
		for _, other := range p.options.Directory.Registry.ByCredentialSecret(namespace, name) {
			p.Changed(other)
		}
	}
}
