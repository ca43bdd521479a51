// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"crypto/sha256"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A restore for Kubernetes moves etcd's revision ahead, by 1,000,000,000 as a rule (etcdutl snapshot restore
// --bump-revision), so that no watch sees it go back. No etcd is written to that fast: alwaysAhead and aheadPerSecond
// bound how far the revision may get while nobody looks. A resourceVersion from notRevision on is not a revision of
// etcd, but a time for example.
const (
	alwaysAhead    = 10_000_000
	aheadPerSecond = 10_000
	notRevision    = 100_000_000_000_000
)

// maxConfirmations bounds how many confirmations of one cluster are remembered. A cluster that had more is restored
// rather often.
const maxConfirmations = 1024

// Positions remember, for each kind, how far one cluster's API server was. They are safe for concurrent use. The
// documentation of the package says what for.
type Positions struct {
	trusting     bool                               // lists are never refused
	onRolledBack func(schema.GroupVersionKind) bool // see TrustingPositions; may be nil

	mu        sync.Mutex
	rollbacks int // how many restores were noticed
	kinds     map[schema.GroupVersionKind]*kindPosition
	confirmed map[string]struct{} // digests of the confirmations: of this start of the program, and the last ones before
	recent    [][]byte            // digests of the last confirmations, oldest first
	changed   chan struct{}       // closed, and replaced, with each new confirmation
	ends      map[*func()]bool    // see OnRestore
	news      bool                // something has changed that is worth a Note
	noted     time.Time           // when the last Note was made, also by an earlier start of the program
}

// Position is how far an API server was for one kind.
type Position struct {
	Highest     string // the highest resourceVersion; "" where nothing was read yet
	RolledBack  bool   // a restore was noticed, and no list was accepted since
	Incarnation int    // how many restores were accepted

	seen time.Time // when Highest was read
}

// kindPosition is what is remembered of one kind.
type kindPosition struct {
	Position

	lastSeen      map[string]SeenObject   // the newest object, by the namespace that was watched, "" for all
	lastAbsent    map[string]AbsentObject // the last absent object; likewise
	confirmations int                     // how many confirmations were known when Highest was read
	rollbacks     int                     // Positions.rollbacks when Highest was read
}

// TooFarAhead says whether a resourceVersion is further ahead than an API server gets by being written to.
func (at Position) TooFarAhead(version string) bool {
	is, err := strconv.ParseInt(version, 10, 64)
	was, err2 := strconv.ParseInt(at.Highest, 10, 64)
	elapsed := max(0, time.Since(at.seen).Seconds()) // seen may be by the clock of another machine
	return err == nil && err2 == nil && is < notRevision && float64(is-was) > alwaysAhead+aheadPerSecond*elapsed
}

// NewPositions makes positions, which know nothing yet.
func NewPositions() *Positions {
	return &Positions{
		kinds: map[schema.GroupVersionKind]*kindPosition{}, confirmed: map[string]struct{}{}, changed: make(chan struct{}),
		ends: map[*func()]bool{},
	}
}

// TrustingPositions are for an API server whose lists are always accepted, the local one. When it was restored,
// onRolledBack is called with the kind that proves it. It is called on the goroutine of a Watch, with a lock held and
// before that Watch hands on anything of the new history: it must not block, nor call Positions. It returns whether the
// kind counts for all others, which are then of the same restore and not reported on their own. It may be nil.
func TrustingPositions(onRolledBack func(schema.GroupVersionKind) bool) *Positions {
	p := NewPositions()
	p.trusting, p.onRolledBack = true, onRolledBack
	return p
}

// Confirm takes the last confirmation of the cluster's owner, the annotation AnnotationConfirmRestore of its Cluster
// object. Call it with what is known before the first Watch, and whenever it may have changed. A text that was seen
// before confirms nothing, since a restored server may state it; neither does "".
func (p *Positions) Confirm(text string) {
	if text == "" {
		return
	}
	digest := sha256.Sum256([]byte(text)) // the text may be long, and is a peer's
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.confirmed[string(digest[:])]; known || len(p.confirmed) >= maxConfirmations {
		return
	}
	p.confirmLocked(digest[:])
	close(p.changed)
	p.changed = make(chan struct{})
}

// confirmLocked keeps the digest of a confirmation.
func (p *Positions) confirmLocked(digest []byte) {
	p.confirmed[string(digest)] = struct{}{}
	p.recent, p.news = append(p.recent[max(0, len(p.recent)+1-notedConfirmations):], digest), true
}

// kindLocked finds or makes the position of a kind.
func (p *Positions) kindLocked(kind schema.GroupVersionKind) *kindPosition {
	at, ok := p.kinds[kind]
	if !ok {
		at = &kindPosition{}
		p.kinds[kind] = at
	}
	return at
}

// At returns the position of a kind. Call it before a list is requested, and give it to AcceptList: what the server has
// stored when it is asked is at least what was read before.
func (p *Positions) At(kind schema.GroupVersionKind) Position {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kindLocked(kind).Position
}

// LastSeen returns the newest object of a kind that watches of a namespace have seen, and the last object that was
// absent, if that is newer still. These are what a server is asked about.
func (p *Positions) LastSeen(kind schema.GroupVersionKind, namespace string) (seen SeenObject, absent AbsentObject) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.kindLocked(kind)
	seen, absent = at.lastSeen[namespace], at.lastAbsent[namespace]
	if seen.ResourceVersion != "" && !Before(seen.ResourceVersion, absent.ResourceVersion) {
		absent = AbsentObject{}
	}
	return seen, absent
}

// AcceptList judges a list of a namespace by its resourceVersion; newest is the newest object in it, and asked is what At
// returned before the list was requested. It returns the position from here on. Where ok is false, the list is refused
// because the server was restored.
func (p *Positions) AcceptList(kind schema.GroupVersionKind, asked Position, namespace, version string, newest SeenObject) (now Position, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.kindLocked(kind)
	if at.RolledBack || at.Incarnation == asked.Incarnation && (Before(version, asked.Highest) || asked.TooFarAhead(version)) {
		p.rollBackLocked(kind, at)
		if p.refusesLocked(at) {
			return at.Position, false
		}
		*at = kindPosition{Position: Position{Incarnation: at.Incarnation + 1}}
	}
	p.news = p.news || at.Highest == ""
	if Before(at.Highest, version) || at.Highest == "" {
		at.Highest = version
	}
	p.currentLocked(at)
	p.news = at.sawLocked(namespace, newest) || p.news
	return at.Position, true
}

// currentLocked notes that the server was not behind just now.
func (p *Positions) currentLocked(at *kindPosition) {
	now := time.Now()
	p.news = p.news || at.confirmations != len(p.confirmed) || now.Sub(p.noted) > noteAge
	at.seen, at.confirmations, at.rollbacks = now, len(p.confirmed), p.rollbacks
}

// sawLocked keeps the newest object of a namespace, and says whether that is another one than before.
func (at *kindPosition) sawLocked(namespace string, o SeenObject) (news bool) {
	if at.lastSeen == nil {
		at.lastSeen = map[string]SeenObject{}
	}
	before := at.lastSeen[namespace]
	at.lastSeen[namespace] = before.Newer(o)
	return at.lastSeen[namespace] != before
}

// missedLocked keeps the last absent object of a namespace, and says whether that is another one than before.
func (at *kindPosition) missedLocked(namespace string, o AbsentObject) (news bool) {
	if at.lastAbsent == nil {
		at.lastAbsent = map[string]AbsentObject{}
	}
	before := at.lastAbsent[namespace]
	if news = before.ResourceVersion == "" || Before(before.ResourceVersion, o.ResourceVersion); news {
		at.lastAbsent[namespace] = o
	}
	return news
}

// followedLocked returns the position of a kind, where a watch continues a list of the incarnation that is followed now.
func (p *Positions) followedLocked(kind schema.GroupVersionKind, incarnation int) (*kindPosition, bool) {
	at := p.kindLocked(kind)
	return at, !at.RolledBack && at.Incarnation == incarnation
}

// Saw takes an object that a watch of a namespace has reported, which continues a list of an incarnation.
func (p *Positions) Saw(kind schema.GroupVersionKind, incarnation int, namespace string, o SeenObject) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, ok := p.followedLocked(kind, incarnation); ok {
		p.news = at.sawLocked(namespace, o) || p.news
	}
}

// Missed takes an object that is absent according to a watch of a namespace, or a list.
func (p *Positions) Missed(kind schema.GroupVersionKind, incarnation int, namespace string, o AbsentObject) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, ok := p.followedLocked(kind, incarnation); ok {
		p.news = at.missedLocked(namespace, o) || p.news
	}
}

// Advance takes the resourceVersion of an event or a bookmark of a watch.
func (p *Positions) Advance(kind schema.GroupVersionKind, incarnation int, version string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, ok := p.followedLocked(kind, incarnation); ok && Before(at.Highest, version) {
		at.Highest = version
		p.currentLocked(at)
	}
}

// RollBack takes a proof that the server's history is not the one that was read in an incarnation.
func (p *Positions) RollBack(kind schema.GroupVersionKind, incarnation int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.kindLocked(kind); at.Incarnation == incarnation {
		p.rollBackLocked(kind, at)
	}
}

// OnRestore calls end when a kind proves a restore that counts for all kinds, until stop is called. A watch must then end,
// and list again: at a server that has caught up, one whose newest object is as it was goes on after the resourceVersion
// that it had, and never gets what the server wrote below that since the restore. end must not block, nor call Positions.
func (p *Positions) OnRestore(end func()) (stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ends[&end] = true
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.ends, &end)
	}
}

// rollBackLocked marks a kind, and reports it where that is news: another kind may have been rolled back since this one
// was current, and then it is the same restore.
func (p *Positions) rollBackLocked(kind schema.GroupVersionKind, at *kindPosition) {
	first := !at.RolledBack && at.rollbacks == p.rollbacks
	p.news = p.news || !at.RolledBack
	at.RolledBack = true
	if !first || p.onRolledBack != nil && !p.onRolledBack(kind) {
		return
	}
	if p.onRolledBack != nil {
		p.rollbacks++
	}
	for end := range p.ends {
		(*end)()
	}
}

// Refuses says whether every list of a kind is refused, whatever its resourceVersion.
func (p *Positions) Refuses(kind schema.GroupVersionKind) bool {
	refused, _ := p.refuses(kind)
	return refused
}

// refuses returns also a channel that is closed with the next confirmation.
func (p *Positions) refuses(kind schema.GroupVersionKind) (bool, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refusesLocked(p.kindLocked(kind)), p.changed
}

func (p *Positions) refusesLocked(at *kindPosition) bool {
	return at.RolledBack && !p.trusting && len(p.confirmed) <= at.confirmations
}

// AwaitConfirmation blocks until lists of a kind are not refused, or ctx ends.
func (p *Positions) AwaitConfirmation(ctx context.Context, kind schema.GroupVersionKind) {
	for {
		refused, changed := p.refuses(kind)
		if !refused {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}
