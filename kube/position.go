// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"crypto/sha256"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// A restore for Kubernetes moves etcd's revision ahead, by 1,000,000,000 as a rule (etcdutl snapshot restore
// --bump-revision), so that no watch sees it go back. No etcd is written to that fast: leapAlways and
// leapPerSecond bound what it may advance while nobody looks. Versions from notRevision on are counted
// in other ways, by a clock for example.
const (
	leapAlways    = 10_000_000
	leapPerSecond = 10_000
	notRevision   = 100_000_000_000_000
)

// maxConfirmations bounds how many confirmations of one cluster are remembered. A cluster that had
// more is restored rather often.
const maxConfirmations = 1024

// Positions remember how far one cluster's API server was, for each kind, by the highest
// resourceVersion and the newest object that were read. A list from before, or from a history that
// does not have that object, comes from a server that was restored from a backup: what it lacks was
// lost, and not deleted. Such a list is refused until the cluster's owner confirms the restore.
//
//	         a list from before the highest, or too far
//	         ahead, or a history without what was read
//	going ─────────────────────────────────► back: every list is refused, also when
//	  ▲                                       │     the server has caught up since
//	  └───────────────────────────────────────┘
//	         a list, after a new confirmation: it sets the highest anew
//
// They belong to the cluster and not to a connection, so they outlive a Client, and with Note and
// Recall the program. Kinds may be stored apart, and so are not compared with each other. Positions
// are safe for concurrent use.
type Positions struct {
	trusting bool                               // a list from before is taken as it comes
	noticed  func(schema.GroupVersionKind) bool // told that the server went back; nil where nobody asked

	mu      sync.Mutex
	backs   int // how often it was noticed
	kinds   map[schema.GroupVersionKind]*position
	heard   map[string]struct{} // the confirmations, as digests: of this start of the program, and the last ones before
	recent  [][]byte            // the last ones that were heard
	changed chan struct{}       // closed, and made anew, with each new one
	news    bool                // there is something to Note
	noted   time.Time           // when there was a Note last, also of an earlier start
}

// position is how far the server was for one kind.
type position struct {
	highest   string
	seen      time.Time          // when that was
	witnesses map[string]witness // by the namespace that was watched, "" for all
	absences  map[string]absence // the last ones that were told of; likewise
	confirmed int                // how many confirmations were known when it was seen
	back      bool               // a list from before it was read since
	era       int                // how often it was set back
	checked   int                // how often any kind had gone back when it was last right
}

// witness is the newest object that watches were told of, whether it was wanted or not, and the
// version that it had: in the history of the same server it is there for as long as etcd keeps that.
type witness struct {
	key     types.NamespacedName
	version string
}

// absence is that no object of a name was there, or matched the selectors, at a version: it was deleted then, or a list
// lacked it. One that is there and matches, and that was changed last before that, is from another history.
type absence struct {
	witness
	labels, fields string
}

// witnessOf is the object as a witness.
func witnessOf(obj *unstructured.Unstructured) witness {
	return witness{types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}, obj.GetResourceVersion()}
}

// newer is the newer one.
func (w witness) newer(o witness) witness {
	if w.version == "" || before(w.version, o.version) {
		return o
	}
	return w
}

// leapt says that a version is further ahead than an API server gets by being written to.
func (at position) leapt(version string) bool {
	is, err := strconv.ParseInt(version, 10, 64)
	was, err2 := strconv.ParseInt(at.highest, 10, 64)
	since := max(0, time.Since(at.seen).Seconds()) // it may be by the clock of another machine
	return err == nil && err2 == nil && is < notRevision && float64(is-was) > leapAlways+leapPerSecond*since
}

// NewPositions makes positions that know nothing yet.
func NewPositions() *Positions {
	return &Positions{
		kinds: map[schema.GroupVersionKind]*position{}, heard: map[string]struct{}{}, changed: make(chan struct{}),
	}
}

// TrustingPositions are for an API server that is believed whatever it says, the local one. When it
// went back, noticed is called with the kind that tells, on the goroutine of a Watch and before that
// Watch states anything of the new history to its sink. It must not block, and says whether the kind
// is one to go by: then the other kinds are of the same restore, and it is not called for them.
func TrustingPositions(noticed func(schema.GroupVersionKind) bool) *Positions {
	p := NewPositions()
	p.trusting, p.noticed = true, noticed
	return p
}

// Confirm takes in the confirmation that the cluster's owner has given last, the annotation
// AnnotationConfirmRestore of its Cluster object. Call it with what is known before the first Watch,
// and whenever it may have changed. A text that was heard before, as a restored server may state,
// confirms nothing, and neither does "".
func (p *Positions) Confirm(text string) {
	if text == "" {
		return
	}
	digest := sha256.Sum256([]byte(text)) // a text may be long, and is a peer's
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, heard := p.heard[string(digest[:])]; heard || len(p.heard) >= maxConfirmations {
		return
	}
	p.hear(digest[:])
	close(p.changed)
	p.changed = make(chan struct{})
}

// hear keeps the digest of a confirmation. mu is held.
func (p *Positions) hear(digest []byte) {
	p.heard[string(digest)] = struct{}{}
	p.recent, p.news = append(p.recent[max(0, len(p.recent)+1-notedConfirmations):], digest), true
}

// of finds or makes the position of a kind. mu is held.
func (p *Positions) of(kind schema.GroupVersionKind) *position {
	at, ok := p.kinds[kind]
	if !ok {
		at = &position{}
		p.kinds[kind] = at
	}
	return at
}

// now is the position of a kind, for comparing a list with that is asked for from now on: what the
// server stored when it is asked is at least what was read before.
func (p *Positions) now(kind schema.GroupVersionKind) position {
	p.mu.Lock()
	defer p.mu.Unlock()
	return *p.of(kind)
}

// witness is the newest object of a kind that watches of a namespace were told of, and gone the last one that they were
// told is not there, if that is newer still.
func (p *Positions) witness(kind schema.GroupVersionKind, namespace string) (newest witness, gone absence) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.of(kind)
	if newest, gone = at.witnesses[namespace], at.absences[namespace]; !before(newest.version, gone.version) && newest.version != "" {
		gone = absence{}
	}
	return newest, gone
}

// take judges a list of a namespace, with its newest object, that was asked for when the position was
// asked. It returns the position that holds from here on, or ErrRestored.
func (p *Positions) take(kind schema.GroupVersionKind, asked position, namespace, version string, newest witness) (position, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.of(kind)
	if at.back || at.era == asked.era && (before(version, asked.highest) || asked.leapt(version)) {
		p.setBack(kind, at)
		if p.refusing(at) {
			return position{}, &fault{class: ErrRestored}
		}
		*at = position{era: at.era + 1}
	}
	p.news = p.news || at.highest == ""
	if before(at.highest, version) || at.highest == "" {
		at.highest = version
	}
	p.sawServer(at)
	p.news = at.saw(namespace, newest) || p.news
	return *at, nil
}

// sawServer takes in that the server was right just now about a kind. mu is held.
func (p *Positions) sawServer(at *position) {
	now := time.Now()
	p.news = p.news || at.confirmed != len(p.heard) || now.Sub(p.noted) > noteAge
	at.seen, at.confirmed, at.checked = now, len(p.heard), p.backs
}

// saw keeps the newest witness of a namespace, and says whether that is another one. Positions.mu is held.
func (at *position) saw(namespace string, w witness) (news bool) {
	if at.witnesses == nil {
		at.witnesses = map[string]witness{}
	}
	was := at.witnesses[namespace]
	at.witnesses[namespace] = was.newer(w)
	return at.witnesses[namespace] != was
}

// tell takes in an object of a watch of a namespace that continues a list of era, and tellGone one that is not there.
func (p *Positions) tell(kind schema.GroupVersionKind, era int, namespace string, w witness) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.of(kind); !at.back && at.era == era {
		p.news = at.saw(namespace, w) || p.news
	}
}

func (p *Positions) tellGone(kind schema.GroupVersionKind, era int, namespace string, gone absence) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.of(kind); !at.back && at.era == era {
		p.news = at.missed(namespace, gone) || p.news
	}
}

// missed keeps the last absence in a namespace, and says whether that is another one. Positions.mu is held.
func (at *position) missed(namespace string, gone absence) (news bool) {
	if at.absences == nil {
		at.absences = map[string]absence{}
	}
	was := at.absences[namespace]
	if news = was.version == "" || before(was.version, gone.version); news {
		at.absences[namespace] = gone
	}
	return news
}

// wentBack takes in a proof that the server's history is not the one that was read in an era.
func (p *Positions) wentBack(kind schema.GroupVersionKind, era int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.of(kind); at.era == era {
		p.setBack(kind, at)
	}
}

// setBack marks a position, and tells it where it is news: another kind may have gone back since this
// one was right last, and then it is the same restore. mu is held.
func (p *Positions) setBack(kind schema.GroupVersionKind, at *position) {
	first := !at.back && at.checked == p.backs
	p.news = p.news || !at.back
	at.back = true
	if first && p.noticed != nil && p.noticed(kind) {
		p.backs++
	}
}

// raise takes in the version of an event, or bookmark, of a watch that continues a list of era.
func (p *Positions) raise(kind schema.GroupVersionKind, era int, version string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.of(kind); !at.back && at.era == era && before(at.highest, version) {
		at.highest = version
		p.sawServer(at)
	}
}

// refuses says whether a list of a kind would be refused, whatever its version, and returns what is
// closed when that may have changed.
func (p *Positions) refuses(kind schema.GroupVersionKind) (bool, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refusing(p.of(kind)), p.changed
}

func (p *Positions) refusing(at *position) bool {
	return at.back && !p.trusting && len(p.heard) <= at.confirmed
}

// await returns when a list of a kind would not be refused, or ctx ends.
func (p *Positions) await(ctx context.Context, kind schema.GroupVersionKind) {
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

// before compares versions; those that are no numbers, as of an API server that is not on etcd,
// have no order.
func before(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
