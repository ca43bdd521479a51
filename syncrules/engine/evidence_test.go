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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
	e.queue.Open() // and no worker takes from it
	for _, r := range c.Rules {
		e.SetRule(r, nil)
	}
	e.SetPeer(Peer{ClusterID: claimtest.BetaID, Name: claimtest.Beta, Source: beta, FeaturesKnown: true})
	e.local.watches[Scope{GVK: c.Copy.GroupVersionKind(), LabelSelector: v1alpha1.LabelOwnerClusterID}] = &localWatch{earlier: true}
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
	if got := w.Claims[i]; got.Standing != c.Standing || got.Policy != c.Policy || got.Reason != c.Reason {
		t.Errorf("claim %d, %q, %q; want %d, %q, %q", got.Standing, got.Policy, got.Reason, c.Standing, c.Policy, c.Reason)
	}
	if got := syncrules.Plan(w.Facts); got.Action != c.Action {
		t.Errorf("action %s, want %s", got.Action, c.Action)
	}
}

// closedHere is a namespace of this cluster whose copies cannot be listed, so that it is not known what there is.
func (w *world) closedHere(namespace string) {
	w.local.mu.Lock()
	defer w.local.mu.Unlock()
	w.local.closed = map[string]bool{namespace: true}
}

// Marks that lead to where the rule reads nothing prove nothing while something that it does read is not known.
func TestMarksThatLeadAwayAreNotRead(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(moving(testRule("r"), "name", "copy-of-{{ .Object.GetName }}"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.restart(func() {
			w.peers[a].cut(errUnavailable())
			w.local.edit(cm("copy-of-x"), func(o *unstructured.Unstructured) {
				withAnnotations(o, map[string]string{v1alpha1.AnnotationOriginalGVK: "Secret./v1"})
			})
		})
		w.wantCopies("copy-of-x")
		w.wantOwner(cm("copy-of-x"), a, false)
		w.peers[a].cut(nil)
		w.peers[a].remove(cm("x"))
		w.settle()
		w.wantGone(cm("copy-of-x"))
	})
}

// What an edit lets go of while the guard has stopped the rule stays until the copies are counted again.
func TestEditOfAStoppedRuleWaitsForTheCount(t *testing.T) {
	guarded(t, 2, inNamespaces(testRule("r"), "default"), func(w *world) {
		w.closedHere("team")
		w.setRule(inNamespaces(testRule("r"), "team"))
		w.settle()
		w.local.remove(cm("x00")) // the rule goes on by this: of the others it is not known that they lack
		w.settle()
		if n := len(w.local.names("ConfigMap")); n != 5 {
			t.Fatalf("%d copies of 5 while they cannot be counted", n)
		}
		w.local.openNamespace("team")
		w.wantGuarded(5, "5 of 5 copies")
	})
}

// The guard counts the copies in all namespaces: before they are known, nothing is deleted, proven or not.
func TestNothingIsDeletedBeforeAllCopiesAreKnown(t *testing.T) {
	inWorld(t, func(w *world) {
		w.closedHere("team")
		w.setRule(inNamespaces(testRule("r"), "default", "team"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.wantValue(cm("x"), "1")
		w.peers[a].remove(cm("x"))
		w.settle()
		w.wantValue(cm("x"), "1")
		w.local.openNamespace("team")
		w.settle()
		w.wantGone(cm("x"))
	})
}
