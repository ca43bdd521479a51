// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

// setAside takes a copy out of the rules' hands, or gives it back.
func (w *world) setAside(name string, aside bool) {
	w.local.edit(cm(name), func(o *unstructured.Unstructured) {
		set := o.GetAnnotations()
		if delete(set, v1alpha1.AnnotationSyncDisabled); aside {
			set[v1alpha1.AnnotationSyncDisabled] = ""
		}
		o.SetAnnotations(set)
	})
	w.settle()
	w.checkIndexes()
}

// wantGuarded says how many copies there are, and what the guard says of them.
func (w *world) wantGuarded(copies int, would string) {
	w.t.Helper()
	w.settle()
	w.wantReady("r", metav1.ConditionFalse, problem.ReasonDeletionGuard)
	if m := w.report("r").Conditions[0].Message; !strings.HasPrefix(m, would) {
		w.t.Errorf("message %q, want %q", m, would)
	}
	if n := len(w.local.names("ConfigMap")); n != copies {
		w.t.Fatalf("%d copies of %d", n, copies)
	}
	w.checkIndexes()
}

func (w *world) wantOpen(copies int) {
	w.t.Helper()
	w.settle()
	w.settle()
	w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
	if got := w.local.names("ConfigMap"); len(got) != copies {
		w.t.Errorf("there are %q, want %d", got, copies)
	}
	w.checkIndexes()
}

const besides = " copies would be deleted because their sources are missing from a list, as are those of "

// guarded runs a test in a world where a rule's four copies from one cluster lack, and so many from the other.
func guarded(t *testing.T, others int, r *v1alpha1.ResourceSyncRule, f func(w *world)) {
	t.Helper()
	inWorld(t, func(w *world) {
		w.setRule(r)
		w.putMany(a, "x", 4)
		w.putMany(b, "y", others)
		w.settle()
		w.loseAway(a, "x", 4)
		w.loseAway(b, "y", others)
		w.wantGuarded(4+others, "")
		f(w)
	})
}

// Copies that somebody sets aside do not keep the rule stopped, and do not open it for the others: not over an edit, an
// outage and a restart either.
func TestGuardWhenCopiesAreSetAside(t *testing.T) {
	r := testRule("r")
	guarded(t, 0, r, func(w *world) {
		w.setAside("x00", true)
		w.wantGuarded(4, "3 of 3"+besides+"1 that")
		w.setAside("x00", false)
		w.wantGuarded(4, "4 of 4 copies would be deleted because their sources are missing from a list, which")
		w.setAside("x00", true)
		edited := *r
		edited.Generation++
		w.setRule(&edited)
		w.wantGuarded(4, "3 of 3"+besides+"1 that")
		w.peers[a].cut(errUnavailable())
		w.now()
		w.peers[a].cut(nil)
		w.wantGuarded(4, "3 of 3"+besides+"1 that")
		w.kill()
		w.start()
		w.wantGuarded(4, "3 of 3"+besides+"1 that")
		w.setAside("x01", true)
		w.setAside("x02", true)
		w.wantGuarded(4, "1 of 1"+besides+"3 that")
		w.setAside("x03", true)
		w.wantOpen(4)
		w.setAside("x03", false)
		w.wantGuarded(4, "1 of 1"+besides+"3 that")
	})
}

// What one cluster's copies were set aside for goes for those of another, when the whole rule was stopped.
func TestGuardWhenAllOfOneClusterAreSetAside(t *testing.T) {
	guarded(t, 2, testRule("r"), func(w *world) {
		for i := range 4 {
			w.setAside(fmt.Sprintf("x%02d", i), true)
		}
		w.wantGuarded(6, "2 of 2"+besides+"4 that")
		w.e.RemovePeer(a)
		w.wantOpen(4) // what is kept of a cluster that left is no sign of a fault
	})
}

// inNamespaces is a rule that selects in namespaces, and that lets go of what it does not select by deleting it.
func inNamespaces(r *v1alpha1.ResourceSyncRule, namespaces ...string) *v1alpha1.ResourceSyncRule {
	r.Spec.RuleDeletionPolicy = v1alpha1.DeletionDelete
	r.Spec.Rules[0].Matches = []v1alpha1.SyncRuleMatch{{Namespaces: namespaces}}
	return r
}

// An edit of what the rule selects is no way around it, and a restart after it neither.
func TestGuardKeepsThroughAnEdit(t *testing.T) {
	guarded(t, 0, inNamespaces(testRule("r"), "default"), func(w *world) {
		w.setAside("x00", true)
		w.setRule(inNamespaces(testRule("r"), "default", "team"))
		w.wantGuarded(4, "3 of 3"+besides+"1 that")
		w.rules["r"].Status.Conditions = w.report("r").Conditions
		w.kill()
		w.start()
		w.wantGuarded(4, "3 of 3"+besides+"1 that")
	})
}

// A stop that is over is forgotten, whether its end was seen or not: an edit is an edit then.
func TestGuardForgetsAStop(t *testing.T) {
	for how, end := range map[string]func(w *world){
		"seen": func(w *world) {
			w.setRule(inNamespaces(testRule("r"), "default", "team"))
			w.settle()
			w.putMany(a, "x", 4)
		},
		"while away": func(w *world) {
			w.rules["r"].Status.Conditions = w.report("r").Conditions
			w.kill()
			w.putMany(a, "x", 4)
			w.start()
		},
		"one set aside": func(w *world) {
			w.setAside("x00", true)
			w.rules["r"].Status.Conditions = w.report("r").Conditions
			w.kill()
			w.putMany(a, "x", 4)
			w.peers[a].remove(cm("x00"))
			w.start()
		},
	} {
		t.Run(how, func(t *testing.T) {
			guarded(t, 0, inNamespaces(testRule("r"), "default"), func(w *world) {
				end(w)
				w.settle()
				w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
				w.setRule(inNamespaces(testRule("r"), "team"))
				w.settle()
				w.wantOpen(map[string]int{"one set aside": 1}[how])
				for _, s := range w.scopes {
					if s.Namespace == "default" {
						t.Errorf("%v is still watched", s)
					}
				}
			})
		})
	}
}

// One of many that is kept is no reason to doubt an edit.
func TestGuardDoesNotMindOneThatIsKept(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(inNamespaces(testRule("r"), "default"))
		w.putMany(a, "x", 6)
		w.settle()
		w.setAside("x00", true)
		w.peers[a].remove(cm("x00"))
		w.kill()
		w.start()
		w.wantOpen(6)
		w.setRule(inNamespaces(testRule("r"), "team"))
		w.wantOpen(1)
	})
}

// Nor is an edit that leaves the namespace of the kept copy out.
func TestGuardKeepsWhatIsInANamespaceNoMore(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(inNamespaces(testRule("r"), "default", "team"))
		w.putMany(a, "x", 1)
		var others []*unstructured.Unstructured
		for i := range 3 {
			y := configMap(fmt.Sprintf("y%02d", i), "1")
			y.SetNamespace("team")
			w.peers[a].put(y)
			others = append(others, y)
		}
		w.settle()
		w.peers[a].cut(errUnavailable())
		w.now()
		for _, y := range others {
			w.peers[a].remove(serverKey(y))
		}
		w.peers[a].remove(cm("x00"))
		w.peers[a].cut(nil)
		w.wantGuarded(4, "4 of 4 copies")
		w.setAside("x00", true)
		w.setRule(inNamespaces(testRule("r"), "team"))
		w.wantGuarded(4, "3 of 3"+besides+"1 that")
	})
}

// A source may have one copy that is kept and one that is not. Each counts for itself.
func TestGuardOfTwoCopiesOfOneSource(t *testing.T) {
	named := func(i int, as string) *unstructured.Unstructured {
		return labelled(configMap(fmt.Sprintf("x%02d", i), "1"), "as", as)
	}
	inWorld(t, func(w *world) {
		w.setRule(moving(testRule("r"), "name", "{{ .Object.metadata.labels.as }}"))
		for i := range 4 {
			w.peers[a].put(named(i, fmt.Sprintf("one%02d", i)))
		}
		w.settle()
		w.setAside("one00", true)
		w.peers[a].put(named(0, "two00"))
		w.settle()
		w.loseAway(a, "x", 4)
		w.wantGuarded(5, "4 of 4"+besides+"1 that")
		w.setAside("one00", false)
		w.wantGuarded(5, "5 of 5 copies")
		stray := w.local.find(cm("one00"))
		stray.SetName("stray")
		w.local.put(stray)
		w.wantGuarded(6, "6 of 6 copies")
		w.peers[a].put(named(0, "two00"))
		w.settle()
		w.wantValue(cm("two00"), "1")
		w.checkIndexes()
	})
}

// What was seen to be deleted while its copy was on its way was seen, all the same.
func TestGuardWhenSourcesGoWhileTheirCopiesAreMade(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.settle()
		w.local.mu.Lock()
		w.local.late = time.Second
		w.local.mu.Unlock()
		w.putMany(a, "x", 16)
		time.Sleep(500 * time.Millisecond)
		for i := range 16 {
			w.peers[a].remove(cm(fmt.Sprintf("x%02d", i)))
		}
		time.Sleep(20 * time.Second)
		w.wantOpen(0)
	})
}

// Given back while its source is not known, a copy counts as it did.
func TestGuardWhenACopyIsGivenBackInAnOutage(t *testing.T) {
	guarded(t, 2, testRule("r"), func(w *world) {
		w.setAside("x00", true)
		w.wantGuarded(6, "5 of 5"+besides+"1 that")
		w.peers[a].cut(errUnavailable())
		w.now()
		w.setAside("x00", false)
		w.wantGuarded(6, "6 of 6 copies")
		w.setAside("x01", true)
		w.wantGuarded(6, "5 of 5"+besides+"1 that")
		w.peers[a].cut(nil)
		w.wantGuarded(6, "5 of 5"+besides+"1 that")
	})
}

// With its source back, a copy that was set aside counts for nothing any more.
func TestGuardWhenAKeptSourceIsBack(t *testing.T) {
	guarded(t, 0, testRule("r"), func(w *world) {
		w.setAside("x00", true)
		w.peers[a].put(configMap("x00", "2"))
		w.wantOpen(1)
		w.wantValue(cm("x00"), "1")
	})
}

// Who deletes copies has decided, whether they were set aside before or not; and who takes the rule's name from them.
func TestGuardWhenKeptCopiesAreGone(t *testing.T) {
	for how, take := range map[string]func(w *world, name string){
		"deleted": func(w *world, name string) { w.local.remove(cm(name)) },
		"not the rule's": func(w *world, name string) {
			if w.local.find(cm(name)) == nil {
				return // few enough were left
			}
			w.local.edit(cm(name), func(o *unstructured.Unstructured) {
				set := o.GetAnnotations()
				delete(set, v1alpha1.AnnotationRule)
				o.SetAnnotations(set)
			})
		},
	} {
		t.Run(how, func(t *testing.T) {
			guarded(t, 0, testRule("r"), func(w *world) {
				w.setAside("x00", true)
				w.setAside("x01", true)
				for i := range 4 {
					take(w, fmt.Sprintf("x%02d", i))
					w.settle()
					w.checkIndexes()
				}
				w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
			})
		})
	}
}

// A copy that was set aside before the others went missing counts when it is given back.
func TestGuardCountsWhatIsGivenBack(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.putMany(a, "x", 30)
		w.settle()
		for i := range 30 {
			w.setAside(fmt.Sprintf("x%02d", i), true)
		}
		w.loseAway(a, "x", 30)
		w.wantOpen(30)
		w.setAside("x00", false)
		w.wantGuarded(30, "1 of 1"+besides+"29 that")
	})
}

// What is stopped of one cluster alone stays so, too.
func TestGuardOfOneClusterWhenACopyIsSetAside(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.putMany(a, "x", 4)
		w.putMany(b, "y", 10)
		w.settle()
		w.loseAway(a, "x", 4)
		w.wantGuarded(14, "4 of 4 copies from cluster "+a+" would")
		w.setAside("x00", true)
		w.wantGuarded(14, "3 of 3 copies from cluster "+a+" would be deleted because their sources are missing from a list, as are those of 1 that")
		w.setAside("y00", true)
		w.wantGuarded(14, "3 of 3 copies from cluster "+a)
	})
}

// A copy that comes from a backup, say, and whose source is not there either does not thin out those that lack.
func TestGuardWhenOneMoreCopyLacks(t *testing.T) {
	guarded(t, 0, testRule("r"), func(w *world) {
		stray := w.local.find(cm("x00"))
		stray.SetName("x04")
		w.local.put(stray)
		w.wantGuarded(5, "5 of 5 copies")
	})
}

// Of two sources for one place, the one that the copy was not made from leaves nothing lacking.
func TestGuardLiveCountsTheSourceOfTheCopy(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kill()
		w.options = func(o *Options) { o.GuardLive = true }
		w.start()
		w.setRule(moving(testRule("r"), "name", "one"))
		w.putMany(a, "x", 2)
		w.settle()
		w.peers[a].remove(cm("x01"))
		w.settle()
		w.checkIndexes()
		w.wantValue(cm("one"), "1")
	})
}

// What was set aside counts as well when its source is seen to be deleted.
func TestGuardLiveCountsWhatIsKept(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kill()
		w.options = func(o *Options) { o.GuardLive = true }
		w.start()
		w.setRule(testRule("r"))
		w.putMany(a, "x", 5)
		w.settle()
		for i := range 4 {
			name := fmt.Sprintf("x%02d", i)
			w.setAside(name, true)
			w.peers[a].remove(cm(name))
		}
		w.wantOpen(5)
		w.peers[a].remove(cm("x04"))
		w.wantGuarded(5, "1 of 1"+besides+"4 that")
	})
}
