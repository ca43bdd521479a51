// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package history records what clients ask of an API server about single objects, and what they are told, and checks that
// all of it could have come from one server that does one thing at a time, in an order that no client can contradict. That
// is linearizability (Herlihy and Wing, 1990): a write that was acknowledged is seen by everybody who asks afterwards, and
// nobody sees an older value after a newer one. Crashes of the server do not excuse it.
//
// Each object is a history of its own. Every write has a value that no other write has, so that a reply tells which write
// it saw. The search for an order is porcupine's.
package history

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Op is what a client asks for.
type Op string

// What clients ask for.
const (
	Get    Op = "get"
	List   Op = "list" // of the objects with that name: it tells what Get tells
	Create Op = "create"
	Update Op = "update"
)

// Reads says whether it changes nothing.
func (o Op) Reads() bool { return o == Get || o == List }

// Call is a request about one object.
type Call struct {
	Client int // a client has one request under way at a time
	Op     Op
	Name   string
	Via    string // the server that is asked, for people
	Value  string // what create and update write
	Over   string // what update replaces: the client sends the resourceVersion that it got with this value
}

// Outcome is how a call ended for the client that made it.
type Outcome string

const (
	// Done: the server did it.
	Done Outcome = "done"
	// NotFound, Exists and Conflict: the server says that the object is missing, is there already, or is another one than
	// the client takes it for. It did nothing.
	NotFound Outcome = "not found"
	Exists   Outcome = "exists"   // see NotFound
	Conflict Outcome = "conflict" // see NotFound
	// Unknown: there was no answer, or none that tells. A write may have happened, or may happen at any time from now on.
	Unknown Outcome = "unknown"
)

// Reply is what a client is told.
type Reply struct {
	Outcome Outcome
	Value   string // what get or list found
}

// History is safe for use by several goroutines.
type History struct {
	began time.Time

	mu     sync.Mutex
	byName map[string][]porcupine.Operation
}

// New returns an empty history.
func New() *History {
	return &History{began: time.Now(), byName: map[string][]porcupine.Operation{}}
}

// Begin is called before a request is sent, and what it returns when there is a reply. A request that has certainly not
// left the client is left without an end; it is no part of the history.
func (h *History) Begin(c Call) (end func(Reply)) {
	from := h.now()
	return func(r Reply) { h.add(c, r, from, h.now()) }
}

// now is the time since the history began, in nanoseconds.
func (h *History) now() int64 { return int64(time.Since(h.began)) }

func (h *History) add(c Call, r Reply, from, to int64) {
	if r.Outcome == Unknown {
		if c.Op.Reads() {
			return // it changed nothing, and told nothing
		}
		to = math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.byName[c.Name] = append(h.byName[c.Name], porcupine.Operation{ClientId: c.Client, Input: c, Call: from, Output: r, Return: to})
}

// Names returns the objects that a client asked about and had an answer for, or wrote, in order.
func (h *History) Names() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.byName))
}

// Count returns how many calls of this kind had this outcome.
func (h *History) Count(op Op, outcome Outcome) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, operations := range h.byName {
		for _, o := range operations {
			if o.Input.(Call).Op == op && o.Output.(Reply).Outcome == outcome {
				n++
			}
		}
	}
	return n
}

// Check returns an error for each object whose replies fit no order, with its history, and for each for which none was
// found or ruled out in this time.
func (h *History) Check(within time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	model := porcupine.Model{Init: func() any { return "" }, Step: step}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(h.byName)) {
		switch operations := h.byName[name]; porcupine.CheckOperationsTimeout(model, operations, within) {
		case porcupine.Ok:
		case porcupine.Illegal:
			errs = append(errs, fmt.Errorf("%s: no order of these calls explains the replies:\n%s", name, describe(operations)))
		default:
			errs = append(errs, fmt.Errorf("%s: %d calls were not put into an order within %s", name, len(operations), within))
		}
	}
	return errors.Join(errs...)
}

// step says whether an object with this value, empty when it does not exist, can lead to this reply, and which value it has
// afterwards.
func step(state, input, output any) (bool, any) {
	have, call, reply := state.(string), input.(Call), output.(Reply)
	allowed := have == "" // whether the object is as the write wants it
	if call.Op == Update {
		allowed = have != "" && have == call.Over
	}
	switch {
	case call.Op.Reads() && reply.Outcome == Done:
		return have != "" && have == reply.Value, have
	case reply.Outcome == Done:
		return allowed, call.Value
	case reply.Outcome == NotFound && call.Op != Create:
		return have == "", have
	case reply.Outcome == Exists && call.Op == Create:
		return have != "", have
	case reply.Outcome == Conflict && call.Op == Update:
		return have != "" && !allowed, have
	case reply.Outcome == Unknown && allowed: // one that did not happen is last in the order, where nobody sees it
		return true, call.Value
	default:
		return reply.Outcome == Unknown, have
	}
}

// describe writes one line for each call, by when it began.
func describe(operations []porcupine.Operation) string {
	operations = slices.SortedFunc(slices.Values(operations), func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var out strings.Builder
	for _, o := range operations {
		call, reply := o.Input.(Call), o.Output.(Reply)
		until := "?"
		if o.Return != math.MaxInt64 {
			until = time.Duration(o.Return).String()
		}
		fmt.Fprintf(&out, "  %s to %s: client %d at %s: %s", time.Duration(o.Call), until, call.Client, call.Via, call.Op)
		if call.Over != "" {
			fmt.Fprintf(&out, " %s to", call.Over)
		}
		if call.Value != "" {
			fmt.Fprintf(&out, " %s", call.Value)
		}
		fmt.Fprintf(&out, ": %s %s\n", reply.Outcome, reply.Value)
	}
	return out.String()
}
