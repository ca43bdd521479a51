// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"cmp"
	"crypto/ed25519"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// check states what holds at every moment: nothing is shown older than it was shown before, nothing is called
// absent, or vanishes, that its origin has not deleted, and no withdrawal is forgotten.
func (m *machine) check(t *rapid.T) {
	for _, o := range m.clusters {
		for _, name := range []string{"p", "q", "r"} {
			if e, ok := o.replica.Lookup(rule(name), o.id); ok && e.Status == Live && later(e, o.live[name]) {
				o.live[name] = e
			}
		}
	}
	for _, c := range append(slices.Clone(m.clusters), m.observer) {
		for _, o := range m.clusters {
			if o == c || o.lost {
				continue
			}
			for _, name := range []string{"p", "q", "r"} {
				m.checkKey(t, c, o, name)
			}
		}
	}
}

func (m *machine) checkKey(t *rapid.T, c, o *cluster, name string) {
	key := seenKey{o.id, name}
	last, seen := c.saw[key]
	shown := slices.IndexFunc(c.replica.Find(rule(name)), func(e Entry) bool { return e.Origin == o.id })
	if shown >= 0 {
		e := c.replica.Find(rule(name))[shown]
		if e.Status == Withdrawn {
			c.kept[key] = e
		} else {
			m.checkAge(t, c, key, string(e.Payload))
		}
	}
	absent := c.replica.Absent(rule(name), o.id)
	if seen && o.deaths[name] <= last.deaths && absent {
		t.Fatalf("%s calls %s of %s absent, which was not deleted", c.id, name, o.id)
	}
	if seen && o.deaths[name] <= last.deaths && shown < 0 && c != m.observer && c.replica.state.origin(o.id).forgotten == 0 {
		t.Fatalf("%s does not show %s of %s any more, which was not deleted", c.id, name, o.id)
	}
	if c.keeps(o, name) && (absent || shown < 0 && c != m.observer) { // who has no room may let go, and says nothing then
		t.Fatalf("%s forgot that %s of %s was withdrawn", c.id, name, o.id)
	}
}

// keeps reports whether a cluster has shown the last withdrawal of an object, and not an earlier one, which the origin has taken back and
// which may have the same content: whoever hears of that and of no other withdrawal forgets rightly.
func (c *cluster) keeps(o *cluster, name string) bool {
	kept, shown := c.kept[seenKey{o.id, name}]
	return shown && string(kept.Payload) == o.retired[name] && later(kept, o.live[name])
}

func later(a, b Entry) bool {
	return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Sequence, b.Sequence)) > 0
}

// checkAge looks at a live entry that is shown.
func (m *machine) checkAge(t *rapid.T, c *cluster, key seenKey, payload string) {
	var now sight
	if _, err := fmt.Sscanf(payload, "%d/%d", &now.deaths, &now.version); err != nil {
		t.Fatalf("payload %q: %v", payload, err)
	}
	if last := c.saw[key]; now.version < last.version && c != m.observer { // who has no room falls back to what came first
		t.Fatalf("%s shows %s of %s as %+v after %+v", c.id, key.name, key.origin, now, last)
	}
	c.saw[key] = now
}

// settle ends all trouble and lets the members talk until they are quiet.
func (m *machine) settle(t *rapid.T) {
	clear(m.cut)
	for i := range m.clusters {
		m.finish(t, i)
	}
	for range 20 {
		quiet := true
		m.commit(t, 1<<20)
		for i, a := range m.clusters {
			for j, b := range m.clusters {
				lack, err := a.replica.Lacks(b.replica.Digest())
				if err != nil {
					t.Fatal(err)
				}
				if i != j && lack && m.reaches(i, j) {
					quiet = quiet && honest(a) == honest(b)
					m.sync(t, i, j)
				}
			}
			if m.reopen(t, i) {
				quiet = false
			}
		}
		if quiet && len(m.clusters[disked].log.queue) == 0 {
			return
		}
	}
	for _, c := range m.clusters {
		t.Logf("%s holds %v", c.id, contents(c.replica.state))
	}
	t.Fatal("members never stop pulling")
}

func (m *machine) audit(t *rapid.T) {
	first := m.clusters[0].replica
	m.verify(t, m.observer)
	for _, c := range m.clusters {
		m.verify(t, c)
		if honest(c) != honest(m.clusters[0]) {
			t.Fatalf("%s and %s differ: %v %v", first.self, c.id, contents(first.state), contents(c.replica.state))
		}
		for _, o := range m.clusters {
			for _, name := range []string{"p", "q", "r"} {
				m.auditKey(t, c, o, name)
			}
		}
	}
}

// verify checks the signature of everything that is held, and that memory is bounded and counted.
func (m *machine) verify(t *rapid.T, at *cluster) {
	checkInvariants(t, at.replica.state)
	for id, o := range at.replica.state.origins {
		for _, r := range o.all() {
			if m.verified[id+string(r.msg)] {
				continue
			}
			msg, err := decodeMessage(r.msg)
			if err == nil {
				err = msg.verify(testKey(id).Public().(ed25519.PublicKey))
			}
			if err != nil {
				t.Fatalf("%s holds of %s as %s: %v", at.id, r.Key.Name, id, err)
			}
			m.verified[id+string(r.msg)] = true
		}
	}
}

func (m *machine) auditKey(t *rapid.T, at, origin *cluster, name string) {
	got := "nothing"
	for _, e := range at.replica.Find(rule(name)) {
		if e.Origin == origin.id {
			got = fmt.Sprint(e.Status, " ", string(e.Payload))
		}
	}
	want := "nothing"
	if o, ok := origin.api[name]; ok {
		want = fmt.Sprint(Live, " ", o.payload)
		if o.withdrawn {
			want = fmt.Sprint(Withdrawn, " ", o.payload)
		}
	} else if origin.stale[name] && got != "nothing" && got[0] == fmt.Sprint(Withdrawn)[0] {
		return // it was withdrawn once: that may be all that is remembered
	} else if slices.ContainsFunc(m.clusters, func(c *cluster) bool { return c.keeps(origin, name) }) {
		t.Fatalf("%s holds %s of %s as %s, which was withdrawn and not said otherwise", at.id, name, origin.id, got)
	}
	if got != want {
		t.Fatalf("%s holds %q of %s as %s, want %s", at.id, name, origin.id, got, want)
	}
	if want == "nothing" && !at.replica.Absent(rule(name), origin.id) && !at.replica.state.origin(origin.id).withdrawalLost {
		t.Fatalf("%s cannot prove that %s of %s is gone", at.id, name, origin.id)
	}
}

func TestMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		t.Repeat(m.actions())
		m.settle(t)
		m.audit(t)
	})
}
