// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/claimtest"
)

// What an agent concludes is what is written in claimtest, and what agentctl says.
func TestClaims(t *testing.T) {
	for _, c := range claimtest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testClaim(t, c) })
		})
	}
}

func testClaim(t *testing.T, c claimtest.Case) {
	local, beta := newServer("shop"), newServer("shop")
	local.put(c.Copy)
	if c.Source != nil {
		beta.put(c.Source)
	}
	if c.Unknown {
		beta.cut(errUnavailable())
	}
	alpha := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: claimtest.Alpha, Labels: claimtest.Labels()}}
	e, err := New(Options{LocalClusterID: claimtest.AlphaID, Local: local, Target: local, Cluster: func() *v1alpha1.Cluster { return alpha }})
	if err != nil {
		t.Fatal(err)
	}
	e.queue.open() // and no worker takes from it
	for _, r := range c.Rules {
		e.SetRule(r)
	}
	e.SetPeer(Peer{ClusterID: claimtest.BetaID, Name: claimtest.Beta, Source: beta, FeaturesKnown: true})
	e.local.watches[Scope{GVK: c.Copy.GroupVersionKind(), LabelSelector: v1alpha1.LabelOwnerClusterID}] = &localWatch{}
	for s, w := range e.local.watches { // of an earlier run: some of the rules are gone
		w.scope = s
	}
	e.Ready()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 3 {
		e.supervise(ctx, &group)
		time.Sleep(2 * settleTime)
		synctest.Wait()
	}
	e.mu.Lock()
	j := e.gatherLocked(serverKey(c.Copy))
	e.mu.Unlock()
	cancel()
	group.Wait()
	e.queue.ShutDown()
	time.Sleep(time.Minute)
	if j == nil {
		t.Fatal("nothing may be decided")
	}
	w, err := e.weigh(j)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(w.Claims, func(claim syncrules.Claim) bool { return claim.Origin == claimtest.BetaID })
	if i < 0 {
		t.Fatalf("beta has no claim: %+v", w.Claims)
	}
	if got := w.Claims[i]; got.Standing != c.Standing || got.Fate != c.Fate || got.Reason != c.Reason {
		t.Errorf("claim %d, %q, %q; want %d, %q, %q", got.Standing, got.Fate, got.Reason, c.Standing, c.Fate, c.Reason)
	}
	if got := syncrules.Plan(w.Facts); got.Action != c.Action {
		t.Errorf("action %s, want %s", got.Action, c.Action)
	}
}
