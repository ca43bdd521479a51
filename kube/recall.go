// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// pastPosition is a position as another start of the program is told of it.
type pastPosition struct {
	Version        string `json:"version"`
	Witness        string `json:"witness,omitempty"` // the newest cluster-scoped object, as its name
	WitnessVersion string `json:"witnessVersion,omitempty"`
	Gone           string `json:"gone,omitempty"` // the last one that was deleted, likewise
	GoneVersion    string `json:"goneVersion,omitempty"`
}

// Note is how far the server was for kinds that are watched cluster-wide, for Recall.
func (p *Positions) Note(kinds ...schema.GroupVersionKind) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	past := map[string]pastPosition{}
	for _, kind := range kinds {
		at := p.of(kind)
		w, gone := at.witnesses[""], at.absences[""]
		if gone.labels+gone.fields != "" {
			gone = absence{}
		}
		past[kind.Kind] = pastPosition{
			Version: at.highest, Witness: w.key.Name, WitnessVersion: w.version, Gone: gone.key.Name, GoneVersion: gone.version,
		}
	}
	return json.Marshal(past)
}

// Recall tells, before the first Watch, how far the server was when an earlier start of the program made note,
// so that one that was restored meanwhile is noticed. An empty note says nothing.
func (p *Positions) Recall(note []byte, kinds ...schema.GroupVersionKind) error {
	if len(note) == 0 {
		return nil
	}
	past := map[string]pastPosition{}
	if err := json.Unmarshal(note, &past); err != nil {
		return fmt.Errorf("decode positions: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, kind := range kinds {
		was, at := past[kind.Kind], p.of(kind)
		if at.highest = was.Version; was.WitnessVersion != "" {
			at.saw("", witness{types.NamespacedName{Name: was.Witness}, was.WitnessVersion})
		}
		if was.GoneVersion != "" {
			at.missed("", absence{witness: witness{types.NamespacedName{Name: was.Gone}, was.GoneVersion}})
		}
	}
	return nil
}
