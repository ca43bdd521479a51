// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rivals

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh/trust"
)

type events struct{ texts []string }

func (e *events) Event(_ schema.GroupVersionKind, about metav1.Object, _, reason, message string) {
	e.texts = append(e.texts, about.GetName()+" "+reason+": "+message)
}

// seen runs f with the rivals of "self", which has pinned a, m and n; shown are the clusters that Hooks told of.
func seen(t *testing.T, f func(t *testing.T, table *trust.Table, r *Rivals, told *events, shown *[]string)) {
	synctest.Test(t, func(t *testing.T) {
		table := trust.New(trust.Pin{ClusterID: "self", PublicKey: agenttest.PublicKey("self")}, trust.Options{})
		for _, id := range []string{"a", "m", "n"} {
			if err := table.Pin(id, agenttest.PublicKey(id)); err != nil {
				t.Fatal(err)
			}
		}
		told, shown := &events{}, &[]string{}
		r := New(Options{
			ClusterID: "self", Trust: table, Events: told, Log: slog.New(slog.DiscardHandler), Name: func(id string) string { return "name-" + id },
			Clusters: func(id string) []*v1alpha1.Cluster { return []*v1alpha1.Cluster{agenttest.Cluster(id, id)} },
		})
		r.Hooks.Shown = func(id string) { *shown = append(*shown, id) }
		go func() { _ = r.Run(t.Context()) }()
		f(t, table, r, told, shown)
	})
}

// pass lets time pass, and what is due then be done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func admit(table *trust.Table, r *Rivals, author, id, key string) {
	table.Admit(trust.Admission{Author: author, ClusterID: id, PublicKey: agenttest.PublicKey(key)})
	r.Changed()
}

// TestOtherKeyIsShown: a member that admits a cluster under another key than the pinned one is named with what to do, on the objects of
// that cluster and on the own one, in one event, until it takes that back, is removed, or the key has ended.
func TestOtherKeyIsShown(t *testing.T) {
	for name, end := range map[string]func(*trust.Table){
		"taken back":          func(table *trust.Table) { table.Withdraw("m", "a") },
		"its author removed":  func(table *trust.Table) { table.Remove("m", agenttest.PublicKey("m"), nil, false) },
		"the key has ended":   func(table *trust.Table) { table.Remove("a", agenttest.PublicKey("other"), nil, false) },
		"the cluster removed": func(table *trust.Table) { table.Remove("a", agenttest.PublicKey("a"), nil, false) },
	} {
		t.Run(name, func(t *testing.T) {
			seen(t, func(t *testing.T, table *trust.Table, r *Rivals, told *events, shown *[]string) {
				admit(table, r, "n", "a", "a")
				admit(table, r, "m", "a", "other")
				pass(2 * settle)
				for _, want := range []string{"cluster name-m (m) admits cluster name-a (a) under another key, " + trust.Fingerprint(agenttest.PublicKey("other")), "agentctl members --tree", "agentctl remove name-m"} {
					if !strings.Contains(r.Of("a"), want) || !strings.Contains(r.All(), want) {
						t.Errorf("%q is missing in %q, %q", want, r.Of("a"), r.All())
					}
				}
				if r.Of("n") != "" || !slices.Equal(*shown, []string{"a"}) || !table.IsPinned("a", agenttest.PublicKey("a")) {
					t.Errorf("of n it is %q, and told is %v", r.Of("n"), *shown)
				}
				admit(table, r, "m", "n", "more")
				pass(2 * settle)
				if len(told.texts) != 1 || !strings.HasPrefix(told.texts[0], "a OtherKeyAdmitted: cluster name-m (m) admits") {
					t.Errorf("the events are %q", told.texts)
				}
				table.Withdraw("m", "n")
				end(table)
				pass(2 * settle)
				if r.All() != "" || r.Of("a") != "" || (*shown)[len(*shown)-1] != "n" && (*shown)[len(*shown)-1] != "a" {
					t.Errorf("it is still shown: %q", r.All())
				}
			})
		})
	}
}

// TestOwnOtherKey: that a member admits this very cluster under another key is shown here, too.
func TestOwnOtherKey(t *testing.T) {
	seen(t, func(t *testing.T, table *trust.Table, r *Rivals, _ *events, _ *[]string) {
		admit(table, r, "n", "self", "self")
		admit(table, r, "m", "self", "other")
		pass(2 * settle)
		if got := r.Of("self"); !strings.Contains(got, "cluster name-m (m) admits this cluster under another key") || strings.Contains(got, "name-n") {
			t.Errorf("it is %q", got)
		}
	})
}

// TestShortRival: while a cluster gets a new key, its new admission comes before the end of the old key is heard: nothing is shown.
func TestShortRival(t *testing.T) {
	seen(t, func(t *testing.T, table *trust.Table, r *Rivals, told *events, shown *[]string) {
		admit(table, r, "m", "a", "next")
		pass(settle - 2*time.Second)
		table.Remove("a", agenttest.PublicKey("a"), agenttest.PublicKey("next"), true)
		if err := table.Introduce("a", agenttest.PublicKey("next"), "m"); err != nil {
			t.Fatal(err)
		}
		pass(3 * settle)
		if r.All() != "" || len(told.texts)+len(*shown) > 0 {
			t.Errorf("%q is shown, %q, %v", r.All(), told.texts, *shown)
		}
	})
}

// TestRivalsAreBounded: one that makes up keys for all takes no more than its part, hides no other, and causes one event.
func TestRivalsAreBounded(t *testing.T) {
	seen(t, func(t *testing.T, table *trust.Table, r *Rivals, told *events, _ *[]string) {
		var err error
		for i := range 3 * maxShown {
			id := fmt.Sprint("c", i)
			err = errors.Join(err, table.Pin(id, agenttest.PublicKey(id)))
			admit(table, r, "m", id, "other of "+id)
		}
		if err != nil {
			t.Fatal(err)
		}
		admit(table, r, "n", "a", "other")
		pass(2 * settle)
		if got := len(*r.shown.Load()); got > maxShown || got < maxShown/2 || !strings.Contains(r.Of("a"), "name-n") || len(told.texts) != 2 {
			t.Errorf("%d are shown, of a %q, in %d events", got, r.Of("a"), len(told.texts))
		}
		if got := r.All(); strings.Count(got, "under another key") != maxListed || !strings.Contains(got, " more. ") {
			t.Errorf("it is %q", got)
		}
	})
}
