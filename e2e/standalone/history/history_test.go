// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"strings"
	"testing"
	"time"
)

// within is more than any of these histories needs.
const within = time.Minute

// told is one call of a made-up history, with its reply and the times of both.
type told struct {
	from, to int64
	op       Op
	value    string // what is written, or what get found
	over     string
	outcome  Outcome
}

func made(calls ...told) *History {
	h := New()
	for i, c := range calls {
		call := Call{Client: i, Op: c.op, Name: "a", Value: c.value, Over: c.over}
		reply := Reply{Outcome: c.outcome}
		if c.op.Reads() {
			call.Value, reply.Value = "", c.value
		}
		h.add(call, reply, c.from, c.to)
	}
	return h
}

// TestCheck: made-up histories that could have happened, and such that could not.
func TestCheck(t *testing.T) {
	t.Parallel()
	created := told{1, 2, Create, "v1", "", Done}
	for _, c := range []struct {
		name  string
		good  bool
		calls []told
	}{
		{"one after the other", true, []told{
			{0, 1, Get, "", "", NotFound},
			{2, 3, Create, "v1", "", Done},
			{4, 5, Create, "v2", "", Exists},
			{6, 7, Get, "v1", "", Done},
			{8, 9, Update, "v3", "v1", Done},
			{10, 11, Update, "v4", "v1", Conflict},
			{12, 13, Get, "v3", "", Done},
		}},
		{"a read beside a write sees the new value", true, []told{created, {3, 9, Update, "v2", "v1", Done}, {4, 5, Get, "v2", "", Done}}},
		{"a read beside a write sees the old value", true, []told{created, {3, 9, Update, "v2", "v1", Done}, {4, 5, Get, "v1", "", Done}}},
		{"of two creates at the same time one is done", true, []told{{1, 5, Create, "v1", "", Done}, {2, 4, Create, "v2", "", Exists}}},
		{"a write without an answer happened", true, []told{created, {3, 4, Update, "v2", "v1", Unknown}, {5, 6, Get, "v2", "", Done}}},
		{"a write without an answer did not happen", true, []told{created, {3, 4, Update, "v2", "v1", Unknown}, {5, 6, Get, "v1", "", Done}}},
		{"a write without an answer happens later", true, []told{
			created,
			{3, 4, Update, "v2", "v1", Unknown},
			{5, 6, Get, "v1", "", Done},
			{7, 8, Get, "v2", "", Done},
		}},
		{"a create without an answer happened", true, []told{{1, 2, Create, "v1", "", Unknown}, {3, 4, Create, "v2", "", Exists}}},
		{"a read without an answer", true, []told{{1, 2, Get, "v1", "", Unknown}}},
		{"a list without an answer", true, []told{{1, 2, List, "v1", "", Unknown}}},
		{"a list sees what a get sees", true, []told{{0, 1, List, "", "", NotFound}, {2, 3, Create, "v1", "", Done}, {4, 5, List, "v1", "", Done}}},

		{"an acknowledged create is lost", false, []told{created, {3, 4, Get, "", "", NotFound}}},
		{"an acknowledged create is lost, says a list", false, []told{created, {3, 4, List, "", "", NotFound}}},
		{"a list sees an older value than a get before it", false, []told{
			created,
			{3, 20, Update, "v2", "v1", Done},
			{4, 5, Get, "v2", "", Done},
			{6, 7, List, "v1", "", Done},
		}},
		{"an acknowledged create is lost, says an update", false, []told{created, {3, 4, Update, "v2", "v1", NotFound}}},
		{"an acknowledged update is lost", false, []told{created, {3, 4, Update, "v2", "v1", Done}, {5, 6, Get, "v1", "", Done}}},
		{"an object is created twice", false, []told{created, {3, 4, Create, "v2", "", Done}}},
		{"an update is overwritten by one that did not see it", false, []told{
			created,
			{3, 4, Update, "v2", "v1", Done},
			{5, 6, Update, "v3", "v1", Done},
		}},
		{"a conflict without a reason", false, []told{created, {3, 4, Update, "v2", "v1", Conflict}}},
		{"an object exists that nobody made", false, []told{{1, 2, Create, "v1", "", Exists}}},
		{"a value that nobody wrote", false, []told{created, {3, 4, Get, "v2", "", Done}}},
		{"a refused write is seen", false, []told{created, {3, 4, Create, "v2", "", Exists}, {5, 6, Get, "v2", "", Done}}},
		{"a write without an answer is seen, and then not", false, []told{
			created,
			{3, 4, Update, "v2", "v1", Unknown},
			{5, 6, Get, "v2", "", Done},
			{7, 8, Get, "v1", "", Done},
		}},
		{"two reads beside a write go back", false, []told{
			created,
			{3, 20, Update, "v2", "v1", Done},
			{4, 5, Get, "v2", "", Done},
			{6, 7, Get, "v1", "", Done},
		}},
		{"an answer that does not go with the call", false, []told{created, {3, 4, Get, "", "", Conflict}}},
	} {
		err := made(c.calls...).Check(within)
		if c.good && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if !c.good && (err == nil || !strings.Contains(err.Error(), "a: no order of these calls")) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestRecord: what was begun counts when it has an end, and objects do not mix.
func TestRecord(t *testing.T) {
	t.Parallel()
	h := New()
	h.Begin(Call{Op: Create, Name: "never sent", Value: "v0"})
	h.Begin(Call{Op: Create, Name: "a", Value: "v1"})(Reply{Outcome: Done})
	h.Begin(Call{Op: Create, Name: "b", Value: "v2"})(Reply{Outcome: Done})
	early := h.Begin(Call{Client: 1, Op: Get, Name: "b"})
	h.Begin(Call{Op: Update, Name: "b", Value: "v3", Over: "v2"})(Reply{Outcome: Unknown})
	early(Reply{Outcome: Done, Value: "v2"})
	if err := h.Check(within); err != nil {
		t.Error(err)
	}
	if names := strings.Join(h.Names(), " "); names != "a b" {
		t.Errorf("the objects are %q", names)
	}
	if done, unknown := h.Count(Create, Done), h.Count(Update, Unknown); done != 2 || unknown != 1 {
		t.Errorf("%d creates were done, and of %d updates nobody knows", done, unknown)
	}

	h.Begin(Call{Op: Get, Name: "a"})(Reply{Outcome: NotFound})
	h.Begin(Call{Op: Get, Name: "b"})(Reply{Outcome: Done, Value: "v3"})
	err := h.Check(within)
	if err == nil || !strings.Contains(err.Error(), "a: no order") || strings.Contains(err.Error(), "b: no order") {
		t.Errorf("a was lost, and b was not: %v", err)
	}
}
