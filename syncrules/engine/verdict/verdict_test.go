// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"slices"
	"testing"
	"time"

	"github.com/roster-mesh/roster/syncrules"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	first, same, more := Offer{"a", 1, true}, Offer{"b", 2, true}, Offer{"c", 1, false}
	read := func() *Memory {
		m := &Memory{}
		m.Take(7, time.Time{}, syncrules.Decision{Action: syncrules.Conflict, Rivals: []string{"a"}, Reason: "no consent"}, []Offer{first, same})
		return m
	}
	if d, known := read().Decide([]Offer{first, same, more}); !known || d.Reason != "no consent" || !slices.Equal(d.Rivals, []string{"a", "c"}) {
		t.Errorf("what is as it was: %v, %+v", known, d)
	}
	if d, known := read().Decide([]Offer{more}); !known || d.Reason == "no consent" || d.Action != syncrules.Conflict {
		t.Errorf("for a rule that does not adopt: %v, %+v", known, d)
	}
	for name, offers := range map[string][]Offer{
		"nothing is offered": nil, "other content": {first, {"b", 3, false}}, "another cluster would adopt it": {same, more},
		"other rules would": {{"a", 2, true}},
	} {
		if _, known := read().Decide(offers); known {
			t.Errorf("%s: that is not known", name)
		}
	}
	m := read()
	m.Changed()
	if _, known := m.Decide([]Offer{first}); known {
		t.Error("the object has changed")
	}
	m = read()
	m.Take(7, time.Time{}, syncrules.Decision{Action: syncrules.Update}, []Offer{first})
	if _, known := m.Decide([]Offer{first}); known {
		t.Error("it was adopted")
	}
}

func TestAbsent(t *testing.T) {
	t.Parallel()
	m, now := &Memory{}, time.Unix(7, 0)
	m.Missed(now)
	if _, known := m.Decide([]Offer{{"a", 1, false}}); known || !m.Absent || m.Read != now {
		t.Errorf("nothing is there: %+v", m)
	}
	if m.Changed(); m.Absent {
		t.Error("something may be there now")
	}
	m.Missed(now)
	if m.Take(7, now, syncrules.Decision{}, nil); m.Absent {
		t.Error("something is there")
	}
}
