// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bounds says how much an agent may hold of other clusters, by the memory limit of Go, which agent/tuning sets from that of the process.
package bounds

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"runtime/debug"

	"github.com/roster-mesh/roster/syncrules/engine/inforce"
)

// ErrTooMuch is returned when a cluster has more for the rules than Bounds allow.
var ErrTooMuch = errors.New("more than may be held")

const (
	// DefaultObjects and DefaultBytes bound one view; one peer may have twice as much in all, and all peers
	// together what four of them may have. Where the process has a memory limit, one view gets a tenth of it at most, and all
	// together a fifth of it.
	DefaultObjects = 100_000
	DefaultBytes   = 512 << 20
	// DefaultCopies is how much the copies here may take. An etcd has 2 GiB by default. Where the process has a memory limit, they get a fifth of it.
	DefaultCopies = 512 << 20
	// DefaultPlaces is how much the places may take that rules have for copies. Where the process has a memory limit, it is a tenth of that at most.
	DefaultPlaces = 256 << 20
	// DefaultWatches is how many watches are open at most, and WatchMemory the part of the memory limit for each. It takes less than half of that,
	// most of it stacks of goroutines. What is left is for the mesh, which keeps 64 MiB of others at most (package replica), and for everything else.
	DefaultWatches = 32_768
	WatchMemory    = 192 << 10

	strangers = " (clusters share by who admitted them). If agentctl members --tree shows clusters beside or below it that nobody knows, remove the one that admitted them"
)

// Limits bound the objects that are held. Zero fields mean the defaults.
type Limits struct {
	Objects int64
	Bytes   int64 // as CBOR
}

func (l Limits) or(objects, bytes int64) Limits {
	return Limits{Objects: cmp.Or(l.Objects, objects), Bytes: cmp.Or(l.Bytes, bytes)}
}

// Bounds are how much is held. Zero fields mean the defaults.
type Bounds struct {
	// View bounds what is held of one peer's objects in one scope, Peer what is held of one peer in all.
	View, Peer Limits
	// All bounds what is held of all peers together, in bytes. Then a peer within its share has others give way.
	All int64
	// Copies bounds what the copies take that are here, with what this process needs for each. They are not taken away for others, so one of the
	// clusters that this one admitted, with all below it, has half at most (quota.Stock).
	Copies int64
	// Places bounds what it takes that rules select objects and have places for copies of them (package selections). Then authors of rules within their
	// share have others give way.
	Places int64
	// Watches bounds how many watches are open, here and at all peers together; where this cluster's own rules need more than three
	// quarters of that here, somewhat more are.
	Watches int
}

// Negative says that a field is.
func (b *Bounds) Negative() bool {
	return min(b.View.Objects, b.View.Bytes, b.Peer.Objects, b.Peer.Bytes, b.All, b.Copies, b.Places, int64(b.Watches)) < 0
}

// SetDefaults sets the fields that are zero.
func (b *Bounds) SetDefaults() {
	limit := debug.SetMemoryLimit(-1)
	b.View = b.View.or(DefaultObjects, min(DefaultBytes, limit/10))
	b.Peer = b.Peer.or(2*b.View.Objects, 2*b.View.Bytes)
	all, here := 4*b.Peer.Bytes, int64(DefaultCopies)
	if limit != math.MaxInt64 { // there is one
		all, here = limit/5, limit/5
	}
	b.All, b.Copies = cmp.Or(b.All, all), cmp.Or(b.Copies, here)
	b.Places = cmp.Or(b.Places, min(DefaultPlaces, limit/10))
	b.Watches = cmp.Or(b.Watches, int(min(DefaultWatches, limit/WatchMemory)))
}

// ViewsOfOthers is how many watches the rules of all other clusters open at one cluster, another one or here.
func (b *Bounds) ViewsOfOthers() int { return min(inforce.MaxAllViews, b.Watches/2) }

// Views is how many watches may be open at all peers together beside so many here.
func (b *Bounds) Views(here int) int { return max(b.Watches-here, b.Watches/4) }

// TooMuch says that a view or a peer has more than may be held of it.
func (b *Bounds) TooMuch() error {
	return fmt.Errorf("%w: at most %d objects and %d MiB for one watch, %d and %d MiB for one cluster", ErrTooMuch,
		b.View.Objects, b.View.Bytes>>20, b.Peer.Objects, b.Peer.Bytes>>20)
}

// TooMuchInAll says that a peer has more than its share, and all of them too much.
func (b *Bounds) TooMuchInAll() error {
	return fmt.Errorf("%w: at most %d MiB of all clusters together, and this one has used up its share%s", ErrTooMuch, b.All>>20, strangers)
}

// NoRoom says that the copies that rules of an author make of a cluster's objects have no more room here.
func (b *Bounds) NoRoom(author, cluster string) error {
	return fmt.Errorf("%w: at most %d MiB of copies, and those that rules of cluster %s make of objects of cluster %s have used up their share",
		ErrTooMuch, b.Copies>>20, author, cluster)
}

// TooManyPlaces says that the rules of an author want too many copies of a cluster's objects, or select too many that others select, too.
func (b *Bounds) TooManyPlaces(author, cluster string) error {
	return fmt.Errorf("%w: of objects that several rules select, or that are copied to several places, at most %d MiB are kept in mind, and rules of cluster %s "+
		"have used up their share with objects of cluster %s%s", ErrTooMuch, b.Places>>20, author, cluster, strangers)
}

// TooManyWatches says that the rules of an author have more than its share of watches, and all of them too many.
func (b *Bounds) TooManyWatches(author string) error {
	return fmt.Errorf("%w: at most %d watches (one for each kind and namespace, here and at each cluster), and cluster %s, whose rule this is, has used up its share%s",
		ErrTooMuch, b.Watches, author, strangers)
}
