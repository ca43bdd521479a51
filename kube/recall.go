// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

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

// MaxNote is how many bytes a note has at most.
const MaxNote = 256 << 10

// What a note is made of, since an API server says it: the last confirmations; kinds, the ones seen last; of each the
// newest witnesses and absences, one for each namespace that is watched, or fewer, as MaxNote allows; and bytes of a
// version, and of a name with its namespaces.
const (
	notedConfirmations = 16
	notedKinds         = 32
	notedWitnesses     = 64
	notedVersion       = 32
	notedName          = 512
)

// noteAge is how old a note may get while the server is written to and nothing that is watched changes.
const noteAge = time.Hour

// past is what another start of the program is told.
type past struct {
	Confirmations [][]byte       `json:"confirmations,omitempty"` // digests of the last ones
	Kinds         []pastPosition `json:"kinds,omitempty"`
}

// pastPosition is the position of a kind.
type pastPosition struct {
	Group     string        `json:"group,omitempty"`
	Version   string        `json:"version"`
	Kind      string        `json:"kind"`
	Highest   string        `json:"highest"`
	Seen      int64         `json:"seen"`                // Unix time
	Back      bool          `json:"back,omitempty"`      // it waits for a confirmation
	Confirmed bool          `json:"confirmed,omitempty"` // it was seen after the last confirmation
	Newest    []pastWitness `json:"newest,omitempty"`
	Gone      []pastWitness `json:"gone,omitempty"`
}

// pastWitness is a witness, or an absence.
type pastWitness struct {
	Watched   string `json:"watched,omitempty"` // the namespace, of a watch that was of one
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Version   string `json:"version"`
}

// News says, once for each news, whether there is some that is worth a Note: of objects, or of confirmations; that the
// server was merely written to is news when the last note is old.
func (p *Positions) News() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	news := p.news
	p.news = false
	return news
}

// Note is how far the server was for these kinds, without any for all of them, for Recall: at most MaxNote bytes.
func (p *Positions) Note(kinds ...schema.GroupVersionKind) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noted = time.Now()
	for witnesses := notedWitnesses; ; witnesses /= 2 {
		if note, err := p.note(kinds, witnesses); err != nil || len(note) <= MaxNote || witnesses == 0 {
			return note, err
		}
	}
}

// note makes one with so many witnesses of each kind. mu is held.
func (p *Positions) note(kinds []schema.GroupVersionKind, witnesses int) ([]byte, error) {
	out := past{Confirmations: p.recent}
	for kind, at := range p.kinds {
		if len(kinds) > 0 && !slices.Contains(kinds, kind) || at.highest == "" || len(at.highest) > notedVersion {
			continue
		}
		out.Kinds = append(out.Kinds, pastPosition{
			Group: kind.Group, Version: kind.Version, Kind: kind.Kind,
			Highest: at.highest, Seen: at.seen.Unix(),
			// One that is trusted goes on from whatever it finds.
			Back: at.back && !p.trusting, Confirmed: at.confirmed == len(p.heard),
			Newest: noted(at.witnesses, witnesses, func(w witness) (witness, bool) { return w, true }),
			Gone: noted(at.absences, witnesses, func(a absence) (witness, bool) {
				return a.witness, a.labels+a.fields == ""
			}),
		})
	}
	slices.SortFunc(out.Kinds, func(a, b pastPosition) int {
		if a.Back != b.Back { // it is not seen any more, and matters most
			if a.Back {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Seen, a.Seen), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Version, b.Version))
	})
	out.Kinds = out.Kinds[:min(len(out.Kinds), notedKinds)]
	return json.Marshal(out)
}

// noted are the newest ones that can be told in few words, so many at most.
func noted[T any](all map[string]T, most int, of func(T) (witness, bool)) []pastWitness {
	var out []pastWitness
	for watched, one := range all {
		w, ok := of(one)
		if !ok || w.version == "" || len(w.version) > notedVersion || len(watched)+len(w.key.Namespace)+len(w.key.Name) > notedName {
			continue
		}
		out = append(out, pastWitness{Watched: watched, Namespace: w.key.Namespace, Name: w.key.Name, Version: w.version})
	}
	slices.SortFunc(out, func(a, b pastWitness) int {
		order, _ := resourceversion.CompareResourceVersion(b.Version, a.Version)
		return cmp.Or(order, cmp.Compare(a.Watched, b.Watched))
	})
	return out[:min(len(out), most)]
}

// Recall tells, before the first Watch and the first Confirm, how far the server was when an earlier start of the
// program made note, so that one that was restored meanwhile is noticed, and one that was not confirmed then is not
// taken for confirmed. An empty note says nothing.
func (p *Positions) Recall(note []byte) error {
	if len(note) == 0 {
		return nil
	}
	var was past
	if err := json.Unmarshal(note, &was); err != nil {
		return fmt.Errorf("decode positions: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, digest := range was.Confirmations {
		p.hear(digest)
	}
	for _, k := range was.Kinds {
		at := p.of(schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind})
		at.highest, at.seen, at.back = k.Highest, time.Unix(k.Seen, 0), k.Back
		if at.seen.After(p.noted) {
			p.noted = at.seen
		}
		if k.Confirmed {
			at.confirmed = len(p.heard)
		}
		for _, w := range k.Newest {
			at.saw(w.Watched, w.witness())
		}
		for _, w := range k.Gone {
			at.missed(w.Watched, absence{witness: w.witness()})
		}
	}
	p.news = false
	return nil
}

func (w pastWitness) witness() witness {
	return witness{types.NamespacedName{Namespace: w.Namespace, Name: w.Name}, w.Version}
}
