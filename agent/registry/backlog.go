// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// backlogLook is how often it is looked at while something waits, and how long that must last to be worth a word. backlogTold is how often
	// it is told anew, since it changes all the time.
	backlogLook = 10 * time.Second
	backlogTold = time.Minute
	// backlogPath is how many clusters are named of a chain of admissions.
	backlogPath = 8
)

// backlog tells people of the Clusters and rules of other clusters that wait to be written here, and where they come from. It says
// what waits, and not who is to blame: also a large group that this cluster joins has it wait.
type backlog struct {
	self    string
	waiting func() map[string]int         // changes, by cluster
	parent  func(clusterID string) string // who admitted a cluster
	name    func(clusterID string) string // for people
	changed func()                        // is called when text has changed
	log     *slog.Logger

	wake chan struct{} // something waits
	text atomic.Pointer[string]
	told time.Time
}

// Slowed says which Clusters and rules wait to be written here, since so much was written because of other clusters; "" while none does.
func (i *Importer) Slowed() string {
	if text := i.backlog.text.Load(); text != nil {
		return *text
	}
	return ""
}

// waits notes that something waits. It does not block.
func (b *backlog) waits() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// run looks at what waits, until ctx ends. It keeps no timer while nothing does.
func (b *backlog) run(ctx context.Context) error {
	ticks := time.NewTicker(backlogLook)
	defer ticks.Stop()
	for ctx.Err() == nil {
		ticks.Stop()
		select {
		case <-ctx.Done():
		case <-b.wake:
		}
		ticks.Reset(backlogLook)
		for some := true; some; {
			select {
			case <-ctx.Done():
				return nil
			case now := <-ticks.C:
				some = b.look(now)
			}
		}
	}
	return nil
}

// look brings what is said up to date, and reports whether something waits.
func (b *backlog) look(now time.Time) bool {
	waiting := b.waiting()
	switch before := b.text.Load(); {
	case len(waiting) == 0 && before != nil:
		b.text.Store(nil)
		b.changed()
	case len(waiting) > 0 && (before == nil || now.Sub(b.told) >= backlogTold):
		text := b.describe(waiting)
		b.log.Warn("changes of other clusters wait", "what", text)
		b.text.Store(&text)
		b.told = now
		b.changed()
	}
	return len(waiting) > 0
}

func (b *backlog) describe(waiting map[string]int) string {
	all, of, from := b.main(waiting)
	text := fmt.Sprintf("so much was written here because of other clusters that changes of their Clusters and rules wait for their turn: %d", all)
	if len(from) == 0 {
		return text
	}
	names := make([]string, 0, backlogPath)
	for _, id := range from[:min(len(from), backlogPath)] {
		names = append(names, b.name(id))
	}
	return text + fmt.Sprintf(", %d of them of cluster %s and those that it admitted", of, strings.Join(names, ", which was admitted by "))
}

// main is how many changes wait in all, and the cluster that together with all that it admitted has more than half of them, if there is one:
// of several the one that is nearest to them, and then who admitted that one, up to this cluster.
func (b *backlog) main(waiting map[string]int) (all, of int, from []string) {
	changes, places := maps.Clone(waiting), map[string]place{}
	for _, id := range slices.Sorted(maps.Keys(waiting)) { // where a circle is cut depends on where one begins
		all += waiting[id]
		b.find(id, places)
	}
	farthest := slices.SortedFunc(maps.Keys(places), func(a, b string) int {
		return cmp.Or(cmp.Compare(places[b].depth, places[a].depth), strings.Compare(a, b))
	})
	for _, id := range farthest {
		if of = changes[id]; 2*of > all {
			for ; id != "" && len(from) < len(places); id = places[id].parent {
				from = append(from, id)
			}
			return all, of, from
		}
		changes[places[id].parent] += of
	}
	return all, 0, nil
}

// place is where a cluster is in the tree of admissions.
type place struct {
	parent string // "" for this cluster, and where nobody knows
	depth  int
}

// find notes the places of a cluster and of all between it and this one.
func (b *backlog) find(id string, places map[string]place) {
	var path []string
	for id != "" && id != b.self {
		if _, known := places[id]; known {
			break
		}
		places[id] = place{} // which also ends a circle
		path = append(path, id)
		id = b.parent(id)
	}
	for _, below := range slices.Backward(path) {
		if id == b.self {
			id = ""
		}
		places[below] = place{id, places[id].depth + 1}
		id = below
	}
}
