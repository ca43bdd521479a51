// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// MaxNote is the size of the largest note, in bytes.
const MaxNote = 256 << 10

// Bounds of what a note holds, since an API server decides what there is: the last confirmations; the kinds that were
// seen last; of each kind the newest objects that were seen and that were absent, one for each namespace that is watched,
// or fewer where MaxNote demands it; bytes of a resourceVersion; bytes of a name with its namespaces.
const (
	notedConfirmations = 16
	notedKinds         = 32
	notedObjects       = 64
	notedVersion       = 32
	notedName          = 512
)

// noteAge is how old a note may get while the server is written to and nothing that is watched changes.
const noteAge = time.Hour

// note is what a later start of the program reads. Its keys are a file format.
type note struct {
	Confirmations [][]byte        `json:"confirmations,omitempty"` // digests of the last ones
	Kinds         []notedPosition `json:"kinds,omitempty"`
}

// notedPosition is the position of a kind.
type notedPosition struct {
	Group      string        `json:"group,omitempty"`
	Version    string        `json:"version"`
	Kind       string        `json:"kind"`
	Highest    string        `json:"highest"`
	Seen       int64         `json:"seen"`                // Unix time, in seconds
	RolledBack bool          `json:"back,omitempty"`      // it waits for a confirmation
	Confirmed  bool          `json:"confirmed,omitempty"` // it was seen after the last confirmation
	LastSeen   []notedObject `json:"newest,omitempty"`
	LastAbsent []notedObject `json:"gone,omitempty"`
}

// notedObject is an object that was seen, or was absent.
type notedObject struct {
	Watched   string `json:"watched,omitempty"` // the namespace that was watched, "" for all
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Version   string `json:"version"`
}

// News says whether something has changed since the last call that is worth a Note: an object, a confirmation, or a
// restore. That the server was merely written to is news when the last note is older than an hour.
func (p *Positions) News() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	news := p.news
	p.news = false
	return news
}

// Note encodes the positions of some kinds, or of all where none is given, for Recall. It has at most MaxNote bytes. A
// kind that was not read since a restore was noticed is left out: its position is of the history before, and the next
// start of the program would take it for the proof of another restore.
func (p *Positions) Note(kinds ...schema.GroupVersionKind) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noted = time.Now()
	for objects := notedObjects; ; objects /= 2 {
		if data, err := p.encodeLocked(kinds, objects); err != nil || len(data) <= MaxNote || objects == 0 {
			return data, err
		}
	}
}

// encodeLocked makes a note with at most so many objects of each kind.
func (p *Positions) encodeLocked(kinds []schema.GroupVersionKind, objects int) ([]byte, error) {
	out := note{Confirmations: p.recent}
	for kind, at := range p.kinds {
		if len(kinds) > 0 && !slices.Contains(kinds, kind) || at.Highest == "" || len(at.Highest) > notedVersion {
			continue
		}
		if at.rollbacks != p.rollbacks {
			continue // of the history before
		}
		out.Kinds = append(out.Kinds, notedPosition{
			Group: kind.Group, Version: kind.Version, Kind: kind.Kind,
			Highest: at.Highest, Seen: at.seen.Unix(),
			// A server that is trusted needs no confirmation.
			RolledBack: at.RolledBack && !p.trusting, Confirmed: at.confirmations == len(p.confirmed),
			LastSeen: newestObjects(at.lastSeen, objects, func(o SeenObject) (SeenObject, bool) { return o, true }),
			LastAbsent: newestObjects(at.lastAbsent, objects, func(o AbsentObject) (SeenObject, bool) {
				return o.SeenObject, o.LabelSelector+o.FieldSelector == ""
			}),
		})
	}
	slices.SortFunc(out.Kinds, func(a, b notedPosition) int {
		if a.RolledBack != b.RolledBack { // it is not read any more, and matters most
			if a.RolledBack {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Seen, a.Seen), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Version, b.Version))
	})
	out.Kinds = out.Kinds[:min(len(out.Kinds), notedKinds)]
	return json.Marshal(out)
}

// newestObjects returns the newest ones of those that are short enough for a note, at most so many.
func newestObjects[T any](all map[string]T, most int, object func(T) (o SeenObject, ok bool)) []notedObject {
	var out []notedObject
	for watched, one := range all {
		o, ok := object(one)
		if !ok || o.ResourceVersion == "" || len(o.ResourceVersion) > notedVersion || len(watched)+len(o.Key.Namespace)+len(o.Key.Name) > notedName {
			continue
		}
		out = append(out, notedObject{Watched: watched, Namespace: o.Key.Namespace, Name: o.Key.Name, Version: o.ResourceVersion})
	}
	slices.SortFunc(out, func(a, b notedObject) int {
		order, _ := resourceversion.CompareResourceVersion(b.Version, a.Version)
		return cmp.Or(order, cmp.Compare(a.Watched, b.Watched))
	})
	return out[:min(len(out), most)]
}

// Recall decodes a note of an earlier start of the program. Call it before the first Watch and the first Confirm. Then a
// restore since that note is noticed, and one that was not confirmed then still waits. An empty note says nothing.
func (p *Positions) Recall(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	var in note
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("decode positions: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, digest := range in.Confirmations {
		p.confirmLocked(digest)
	}
	for _, k := range in.Kinds {
		at := p.kindLocked(schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind})
		at.Highest, at.seen, at.RolledBack = k.Highest, time.Unix(k.Seen, 0), k.RolledBack
		if at.seen.After(p.noted) {
			p.noted = at.seen
		}
		if k.Confirmed {
			at.confirmations = len(p.confirmed)
		}
		for _, o := range k.LastSeen {
			at.sawLocked(o.Watched, o.object())
		}
		for _, o := range k.LastAbsent {
			at.missedLocked(o.Watched, AbsentObject{SeenObject: o.object()})
		}
	}
	p.news = false
	return nil
}

func (o notedObject) object() SeenObject {
	return SeenObject{types.NamespacedName{Namespace: o.Namespace, Name: o.Name}, o.Version}
}
