// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"container/list"
	"fmt"
	"strings"
	"time"
)

// Account is who is charged for a write: a cluster, or the rules of one with the objects of another.
type Account string

// between is between the two of an Account. No ID of a cluster has it.
const between = "\x00"

// AccountOf is the account of a cluster: the author of an entry, or the source of a copy that a rule of this cluster makes.
func AccountOf(clusterID string) Account { return Account(clusterID) }

// Account is that of a copy that a rule of somebody makes. With the rules of another cluster it is one of its own for each owner of objects: otherwise a member could have
// its rules use up what there is for the changes of an honest one, by more and more copies of what that one has.
func (by By) Account(own string) Account {
	if by.Author == "" || by.Author == own {
		return AccountOf(by.Owner)
	}
	return Account(by.Author + between + by.Owner)
}

// calledPart is the part of an account's bytes that must be there for each key that is called and not written yet, before
// another one is called: 1 MiB of the default.
const calledPart = 1.0 / 128

const (
	// averaged is of how many writes the average is taken.
	averaged = 16
	// forever is in seconds.
	forever = 1e6
)

// manyAccounts is how many accounts are kept before they are looked through for those that say nothing any more.
const manyAccounts = 1024

// Quota is all accounts, and the keys that wait.
type Quota[K comparable] struct {
	limits   Limits
	began    time.Time
	accounts map[Account]*account
	waiting  map[K]place
	came     uint64     // how many keys have come into some line
	turns    []*account // whose first key is to be told by Next
}

// account is what one cluster has left, and the line of its keys.
type account struct {
	of            Account
	bytes, writes level
	each          float64 // bytes that a write has, on average of the last ones
	line          list.List
	called        int  // keys whose turn has come, and that were not looked at to the end yet
	turn          bool // it is among turns
}

// place is where a key waits.
type place struct {
	account *account
	element *list.Element // its Value is the key; nil once the key is called
	n       uint64        // of all that came into some line
}

// New returns a quota that nobody has used. Zero limits are the default ones.
func New[K comparable](limits Limits, now time.Time) *Quota[K] {
	if limits == (Limits{}) {
		limits = DefaultLimits()
	}
	return &Quota[K]{limits: limits, began: now, accounts: map[Account]*account{}, waiting: map[K]place{}}
}

// Limits are those of each account.
func (q *Quota[K]) Limits() Limits { return q.limits }

// Waiting is how many keys wait.
func (q *Quota[K]) Waiting() int { return len(q.waiting) }

// WaitingOf is how many keys of each account wait.
func (q *Quota[K]) WaitingOf() map[Account]int {
	of := map[Account]int{}
	for _, at := range q.waiting {
		of[at.account.of]++
	}
	return of
}

// InLine says that a key waits, and that its turn has not come yet.
func (q *Quota[K]) InLine(k K) bool {
	at, waits := q.waiting[k]
	return waits && at.element != nil
}

// Delay is how long a key waits at least, as far as can be told now, that comes into the line of an account; half of it where the key is there already, which keeps it from going
// back and forth: each time it would be the last.
func (q *Quota[K]) Delay(of Account, k K, now time.Time) time.Duration {
	crowded, a := q.crowded(of, now), q.accounts[of]
	if a == nil {
		return crowded
	}
	q.refill(a, now)
	part, before := 1, a.called+a.line.Len()
	if at := q.waiting[k]; at.account == a {
		part, before = 2, a.called
		if at.element != nil {
			before += max(0, min(a.line.Len(), int(at.n-q.waiting[a.line.Front().Value.(K)].n))) //nolint:forcetypeassert,gosec // Lines have keys, and the first came first.
		}
	}
	lacking := func(l level, b Bucket, each float64) float64 { return (float64(before)*each - l.left) / b.PerSecond }
	alone := max(0, lacking(a.bytes, q.limits.Bytes, a.each), lacking(a.writes, q.limits.Writes, 1))
	return max(crowded, time.Duration(min(alone, forever)*float64(time.Second))) / time.Duration(part)
}

// May says whether a key may be written now. Keys that wait come first. One that may is called: it holds up no other, however
// long its write takes.
func (q *Quota[K]) May(of Account, k K, now time.Time) bool {
	a := q.accounts[of]
	if a == nil {
		return q.crowded(of, now) == 0 // a new account has something
	}
	q.refill(a, now)
	if a.bytes.left <= 0 || a.writes.left <= 0 || q.crowded(of, now) > 0 {
		return false
	}
	at, ok := q.waiting[k]
	if !ok || at.account != a {
		return a.line.Len() == 0
	}
	if at.element != nil && at.element != a.line.Front() {
		return false
	}
	q.call(a, k)
	return true
}

// crowded is how long an account has to wait because of what all clusters together have used up.
func (q *Quota[K]) crowded(of Account, now time.Time) time.Duration {
	if q.limits.Common == nil {
		return 0
	}
	return q.limits.Common.Wait(of, now)
}

// Text says to people why something waits; name is that of a cluster.
func (q *Quota[K]) Text(what string, of Account, name func(id string) string, now time.Time) string {
	const then = "; the newest content is written when its turn comes"
	author, owner, ofRules := strings.Cut(string(of), between)
	if !ofRules {
		owner = author
	}
	whose := name(owner)
	if author != owner {
		whose += ", which rules of cluster " + name(author) + " select,"
	}
	if q.crowded(of, now) > 0 {
		return fmt.Sprintf("%s: so much was written here because of all other clusters together that changes of cluster %s follow slowly: see who brought them along with `agentctl members --tree`%s", what, whose, then)
	}
	why := fmt.Sprintf("cluster %s that its", name(owner))
	if author != owner {
		why = fmt.Sprintf("rules of cluster %s with objects of cluster %s that their", name(author), name(owner))
	}
	return fmt.Sprintf("%s: so much was written here because of %s changes follow slowly (%g KiB and %g writes a second)%s",
		what, why, q.limits.Bytes.PerSecond/1024, q.limits.Writes.PerSecond, then)
}

// Spend charges an account with a write of a key, which waits no more.
func (q *Quota[K]) Spend(of Account, k K, bytes int64, now time.Time) {
	a := q.account(of, now)
	q.refill(a, now)
	a.bytes.left -= float64(bytes)
	a.writes.left--
	a.each += (float64(bytes) - a.each) / averaged
	if q.limits.Common != nil {
		q.limits.Common.Spend(of, float64(bytes), 1, now)
	}
	q.Drop(k)
}

// Owe charges an account with a write of a key that waited for nothing, and waits no more. Others wait for it, but not for long: what is left does not become less than a
// small part below zero, and what all accounts have in common stays as it is.
func (q *Quota[K]) Owe(of Account, k K, bytes int64, now time.Time) {
	a := q.account(of, now)
	q.refill(a, now)
	a.bytes.owe(float64(bytes), q.limits.Bytes)
	a.writes.owe(1, q.limits.Writes)
	q.Drop(k)
}

// Refund gives back what Spend took for a write that was not made.
func (q *Quota[K]) Refund(of Account, bytes int64, now time.Time) {
	a := q.account(of, now)
	q.refill(a, now)
	if q.limits.Common != nil {
		q.limits.Common.Spend(of, -float64(bytes), -1, now)
	}
	a.bytes.left, a.writes.left = min(q.limits.Bytes.Most, a.bytes.left+float64(bytes)), min(q.limits.Writes.Most, a.writes.left+1)
	if a.line.Len() > 0 {
		q.tell(a) // its turn comes earlier
	}
}

// Wait puts a key into the line of an account, if it is not in it. The caller has asked May.
func (q *Quota[K]) Wait(of Account, k K, now time.Time) {
	a := q.account(of, now)
	if at, ok := q.waiting[k]; ok && at.account == a {
		if at.element == nil { // others were faster
			a.called--
			at.element = a.line.PushFront(k)
			q.waiting[k] = at
		}
		if a.line.Front() == at.element {
			q.tell(a) // it was too early
		}
		return
	}
	q.Drop(k)
	q.came++
	q.waiting[k] = place{a, a.line.PushBack(k), q.came}
	if a.line.Len() == 1 {
		q.tell(a)
	}
}

// Drop takes a key out of its line, if it is in one.
func (q *Quota[K]) Drop(k K) {
	at, ok := q.waiting[k]
	if !ok {
		return
	}
	delete(q.waiting, k)
	a, first := at.account, at.element == nil || at.account.line.Front() == at.element
	if at.element == nil {
		a.called--
	} else {
		a.line.Remove(at.element)
	}
	if first && a.line.Len() > 0 {
		q.tell(a)
	}
}

// call takes a key out of the line, if it is in it, and lets the next one be told.
func (q *Quota[K]) call(a *account, k K) {
	at := q.waiting[k]
	if at.element == nil {
		return
	}
	a.line.Remove(at.element)
	a.called++
	q.waiting[k] = place{account: a, n: at.n}
	if a.line.Len() > 0 {
		q.tell(a)
	}
}

// Next returns a key that is to be looked at again, and after how long. It is called until it returns false after each
// May, Spend, Owe, Refund, Wait and Drop, or a key that waits might never be told.
func (q *Quota[K]) Next(now time.Time) (k K, after time.Duration, ok bool) {
	for len(q.turns) > 0 {
		a := q.turns[len(q.turns)-1]
		q.turns = q.turns[:len(q.turns)-1]
		a.turn = false
		if first := a.line.Front(); first != nil {
			q.refill(a, now)
			k, _ = first.Value.(K)
			n, crowded := float64(a.called), q.crowded(a.of, now)
			if crowded > 0 {
				q.limits.Common.Queue(a.of, crowded, now)
			}
			after = max(a.bytes.wait(q.limits.Bytes, n*calledPart*q.limits.Bytes.Most), a.writes.wait(q.limits.Writes, n), crowded)
			if after == 0 {
				q.call(a, k)
			}
			return k, after, true
		}
	}
	return k, 0, false
}

// tell makes Next return the first key of an account.
func (q *Quota[K]) tell(a *account) {
	if !a.turn {
		a.turn = true
		q.turns = append(q.turns, a)
	}
}

// account is the account of that name, which is made if there is none: as it would be if it had been there from the
// beginning.
func (q *Quota[K]) account(of Account, now time.Time) *account {
	if a := q.accounts[of]; a != nil {
		return a
	}
	if len(q.accounts) >= manyAccounts && len(q.accounts)&(len(q.accounts)-1) == 0 { // at powers of two
		q.sweep(now)
	}
	a := &account{of: of, bytes: level{q.limits.Bytes.First, q.began}, writes: level{q.limits.Writes.First, q.began}}
	q.accounts[of] = a
	return a
}

// sweep forgets accounts that are as new ones would be.
func (q *Quota[K]) sweep(now time.Time) {
	for of, a := range q.accounts {
		q.refill(a, now)
		if a.bytes.left == q.limits.Bytes.Most && a.writes.left == q.limits.Writes.Most && a.line.Len() == 0 && a.called == 0 {
			delete(q.accounts, of)
		}
	}
}

func (q *Quota[K]) refill(a *account, now time.Time) {
	a.bytes.refill(q.limits.Bytes, now)
	a.writes.refill(q.limits.Writes, now)
}
