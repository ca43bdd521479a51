// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/copies"
	"github.com/roster-mesh/roster/syncrules/engine/pace"
	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

// job is everything that is known about one key at one moment, still packed.
type job struct {
	key    Key
	kind   *kind // nil when no rule is about the kind
	local  *copies.Copy
	claims []claim
	// surplus are sources of clusters that have another one for the same place.
	surplus []surplus
	// foreign says that an object without marks was in the way; judged that it still is, as it was, and of
	// what content, and with what verdict; absent that nothing is there. It is read again after recheck, if that is set.
	foreign, judged, absent bool
	// ownerGone says that the owner of local has left the group.
	ownerGone bool
	// observes is why rules that made local only look; "" for none, and in a job that is looked at for them.
	observes string
	verdict  syncrules.Decision
	recheck  time.Duration
	// cluster is the local one, and namespaced what is known of kinds, for rules that ask for them.
	cluster    *v1alpha1.Cluster
	namespaced func(schema.GroupVersionKind) (bool, error)
	allowance  pace.Allowance
	// observed says that what is decided is not done: rules that only look are asked as if they wrote.
	observed bool
	// namespaceNews is that of the engine when the job was gathered.
	namespaceNews uint64
}

// secret says that the copy or a source of it is a Secret: what a server says about one may repeat its content, also
// where a rule makes something else of it.
func (j *job) secret() bool {
	kind := schema.GroupKind{Kind: "Secret"}
	if j.key.GroupKind == kind || j.local != nil && j.local.Source(j.key).GroupKind == kind {
		return true
	}
	return slices.ContainsFunc(j.claims, func(c claim) bool { return len(c.rules) > 0 && c.rules[0].Kind().GroupKind() == kind })
}

// gatherLocked collects what is known about a key; nil when nothing may be decided yet.
func (e *Engine) gatherLocked(key Key) *job {
	if !e.supervisor.ready || !e.localCompleteLocked(key.GroupKind, key.Namespace) {
		return nil
	}
	j := &job{
		key: key, cluster: e.clusters.snapshot.cluster, namespaced: e.scoping.namespaced, namespaceNews: e.namespaces.NewsLocked(),
		allowance: e.outcomes.pacer.Allowance(key, time.Now()),
	}
	if c := e.local.copies.At(key); c != nil {
		taken := *c // the fields of c change under mu
		j.local = &taken
		if p := e.clusters.peers[c.Owner]; p != nil {
			j.ownerGone = p.Left
		}
		for _, name := range c.Rules {
			if r := e.rules.byName[name]; r != nil {
				j.observes = cmp.Or(j.observes, r.observes())
			}
		}
	}
	j.kind = e.rules.kinds[key.GroupKind]
	e.gatherClaimsLocked(j)
	e.gatherQuotaLocked(j)
	e.gatherVerdictLocked(j)
	if j.local == nil {
		e.gatherAwaitedLocked(j)
	}
	return j
}

// gatherAwaitedLocked adds the claim of a peer that was asked a moment ago and, if it has the object, comes before the
// one that is to get the copy. One is enough: when it has answered, the key is looked at again.
func (e *Engine) gatherAwaitedLocked(j *job) {
	gk := j.key.GroupKind
	list := e.views.awaited[gk]
	for len(list) > 0 && !list[0].awaitedLocked() {
		list = list[1:]
	}
	if e.views.awaited[gk] = list; len(list) == 0 {
		delete(e.views.awaited, gk)
		return
	}
	first := slices.IndexFunc(j.claims, func(c claim) bool { return c.Standing == syncrules.Offered })
	if first < 0 {
		return
	}
	for _, v := range list {
		p := e.clusters.peers[v.peer]
		if v.peer >= j.claims[first].Origin {
			return
		}
		if p == nil || p.Left || !v.awaitedLocked() {
			continue
		}
		i, found := j.findClaim(v.peer)
		if found {
			continue
		}
		if e.awaitedForLocked(v, p, j.key) {
			j.claims = slices.Insert(j.claims, i, claim{Claim: syncrules.Claim{Origin: v.peer, Standing: syncrules.Awaited}})
			return
		}
	}
}

// awaitedForLocked says that some rule that the view is for asks for the source of a copy, which the view may bring.
func (e *Engine) awaitedForLocked(v *view, p *peer, key Key) bool {
	for name := range v.feed.judges {
		r := e.rules.byName[name]
		if r == nil || r.observes() != "" || !r.makes(key) || !r.moves && !v.scope.Covers(key.Namespace) {
			continue
		}
		if rel, _, _ := e.relateLocked(r, p); rel != syncrules.Asks {
			continue
		}
		if r.moves {
			return true // whatever it brings may belong there
		}
		if f, _ := e.findLocked(r, v.peer, key, key); f == syncrules.FoundAwaited {
			return true
		}
	}
	return false
}

// awaits is the peer that a decision to wait is waiting for.
func (j *job) awaits() string {
	if i := slices.IndexFunc(j.claims, func(c claim) bool { return c.Standing == syncrules.Awaited }); i >= 0 {
		return j.claims[i].Origin
	}
	return ""
}

// weighed is a job made into facts, with what went wrong on the way.
type weighed struct {
	syncrules.Facts
	problem *problem.Problem
}

// weigh decodes and renders; mu is not held.
func (e *Engine) weigh(j *job) (*weighed, error) {
	w := &weighed{Facts: syncrules.Facts{Self: e.o.LocalClusterID, OwnerGone: j.ownerGone, Observes: j.observes}}
	made := map[uint64]*rendered{}
	if j.local != nil {
		var err error
		if w.Local, err = j.local.Object.Unpack(); err != nil {
			return nil, fmt.Errorf("%s: %w", j.key, err)
		}
		w.Accepted, w.Tolerate = j.local.Accepted, j.local.Tolerated
		if i := slices.IndexFunc(j.claims, func(c claim) bool { return c.Origin == j.local.Owner }); i >= 0 { // its own copy is the one to compare with
			e.renderOnce(made, j, &j.claims[i])
		}
	}
	for i := range j.claims {
		c := &j.claims[i]
		if r := e.renderOnce(made, j, c); r != nil && r.err != nil {
			p := e.errors().Problem(r.err, j.key, j.secret())
			w.problem, c.Standing, c.Reason = p, syncrules.Held, p.Text
		} else if r != nil {
			c.Desired = r.object
		}
		w.Claims = append(w.Claims, c.Claim)
	}
	return w, nil
}

type rendered struct {
	object *unstructured.Unstructured
	err    error
}

// renderOnce renders what a claim offers, once for all that have the same content: then the copies are the same
// but for the owner's mark, and that of the first (or of the owner) is the only one that may be written.
func (e *Engine) renderOnce(made map[uint64]*rendered, j *job, c *claim) *rendered {
	if c.Standing != syncrules.Offered {
		return nil
	}
	r := made[c.content]
	if r == nil {
		r = &rendered{}
		r.object, r.err = e.render(j, c)
		made[c.content] = r
	}
	return r
}

func (e *Engine) render(j *job, c *claim) (*unstructured.Unstructured, error) {
	source, err := c.object.Unpack()
	if err != nil {
		return nil, err
	}
	if err := e.o.Consent.RefuseSource(source, j.key.GroupKind); err != nil {
		return nil, err
	}
	desired, err := syncrules.Render(c.rules, source, syncrules.Input{
		Owner: c.Origin, Cluster: c.cluster, LocalCluster: j.cluster, Namespaced: j.namespaced, Into: j.key.Namespace,
	})
	if err != nil {
		return nil, err
	}
	if at := place.KeyOf(desired.GroupVersionKind().GroupKind(), desired); at != j.key {
		return nil, fmt.Errorf("%w: its rules together would put it into another place, %s", syncrules.ErrSource, at)
	}
	return desired, e.o.Consent.Refuse(desired)
}
