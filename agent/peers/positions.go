// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube/history"
)

// How far the API servers of peers were is recorded in the local one. Without the record, an agent that starts between the
// restore of a peer and its confirmation would take the backup for the present state. An old record misses some restores,
// but never reports one that did not happen. So it is written seldom, and at once only after a restore.
const (
	positionsFirst = 10 * time.Second // after the start of the agent
	positionsPause = 10 * time.Minute
	// The record has maxParts Secrets, each of at most a megabyte: a Secret has maxPacked bytes and one more note
	// (history.MaxNote). For 1,000 peers with three kinds each, the first Secret is half full
	// (TestPositionsRecordIsBounded).
	maxPacked = 384 << 10
	maxParts  = 16
	// maxUnpacked bounds what is read from one Secret.
	maxUnpacked = 64 << 20
	// positionsSecret is the first of the Secrets. positionsKey is the key in each: gzip with one peerNote per line.
	positionsSecret = "roster-positions"
	positionsKey    = "positions"
)

// peerNote is the entry of one peer: a note of history.Positions.
type peerNote struct {
	ClusterID string          `json:"clusterID"`
	Note      json.RawMessage `json:"note"`
}

// recordPositions records the positions of the peers if they have changed, and schedules the next run.
func (p *Peers) recordPositions(ctx context.Context) error {
	if p.takeNews() {
		var err error
		if p.recorded.parts, err = writePositions(ctx, p.options.Store, p.notes(), p.recorded.parts, p.options.Log); err != nil {
			p.markUnrecorded()
			return err
		}
	}
	p.record.TriggerAfter(positionsPause)
	return nil
}

// positions are those of a peer. At first they are what an earlier agent recorded.
func (p *Peers) positions(id string) *history.Positions {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.trackedLocked(id)
	if t.positions == nil {
		t.positions = history.NewPositions()
		if err := t.positions.Recall(p.recorded.notes[id]); err != nil {
			p.options.Log.Warn("a restore of a cluster before the start of this agent may not be noticed: the record of positions cannot be read, and will be replaced", "cluster", id, "error", err)
		}
		delete(p.recorded.notes, id)
	}
	return t.positions
}

// takeNews reports whether there is something to record, and resets that. It drops the notes of clusters that are not
// known any more, as after this cluster has left its group.
func (p *Peers) takeNews() bool {
	p.mu.Lock()
	unread := slices.Collect(maps.Keys(p.recorded.notes))
	p.mu.Unlock()
	for _, id := range unread {
		if p.options.Directory.Forgotten(id) {
			p.ForgetPositions(id)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	changed := p.unrecorded
	p.unrecorded = false
	for _, t := range p.known {
		if t.positions != nil && t.positions.News() {
			changed = true
		}
	}
	return changed
}

// markUnrecorded makes takeNews return true again, after recording has failed.
func (p *Peers) markUnrecorded() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unrecorded = true
}

// ForgetPositions drops the positions of a cluster. If it is added again, it starts from its state at that time.
func (p *Peers) ForgetPositions(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.trackedLocked(id)
	if p.recorded.notes[id] != nil || t.positions != nil {
		p.unrecorded, t.positions = true, nil
		delete(p.recorded.notes, id)
	}
}

// notes are the positions of the peers, and the recorded ones of clusters that were not read yet.
func (p *Peers) notes() map[string][]byte {
	p.mu.Lock()
	out := make(map[string][]byte, len(p.known))
	maps.Copy(out, p.recorded.notes)
	now := make(map[string]*history.Positions, len(p.known))
	for id, t := range p.known {
		if t.positions != nil {
			now[id] = t.positions
		}
	}
	p.mu.Unlock()
	for id, positions := range now {
		note, err := positions.Note()
		if err != nil {
			p.options.Log.Error("the position of a cluster's API server cannot be recorded", "cluster", id, "error", err)
			continue
		}
		out[id] = note
	}
	return out
}

func positionsName(part int) string {
	if part == 0 {
		return positionsSecret
	}
	return fmt.Sprintf("%s-%d", positionsSecret, part+1)
}

// writePositions writes the notes, by clusterID, for ReadPositions. If there are too many, the largest are left out, so
// that one peer cannot take the room of others. had is how many Secrets the record has; it returns how many it has then,
// at most, also if it fails.
func writePositions(ctx context.Context, s *store.Store, notes map[string][]byte, had int, log *slog.Logger) (int, error) {
	left := slices.SortedFunc(maps.Keys(notes), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(notes[a]), len(notes[b])), cmp.Compare(a, b))
	})
	parts := 0
	for ; parts == 0 || len(left) > 0 && parts < maxParts; parts++ {
		packed, n, err := packPositions(left, notes)
		if err != nil {
			return max(had, parts), fmt.Errorf("encode positions: %w", err)
		}
		left = left[n:]
		if err := s.Replace(ctx, positionsName(parts), map[string][]byte{positionsKey: packed}); err != nil {
			return max(had, parts+1), err // it may have been written
		}
	}
	for ; had > parts; had-- { // from the last one, so that what is left when this fails is read, and deleted, by the next agent
		if _, err := s.Delete(ctx, positionsName(had-1)); err != nil {
			return had, err
		}
	}
	if len(left) > 0 {
		log.Warn("the record of positions has no room for some clusters: a restore of these may not be noticed when the agent is started after it", "clusters", len(left))
	}
	return parts, nil
}

// packPositions packs the first n notes, as many as fit into one Secret.
func packPositions(ids []string, notes map[string][]byte) (packed []byte, n int, err error) {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	lines := json.NewEncoder(zip)
	for n < len(ids) && out.Len() < maxPacked {
		if err := lines.Encode(peerNote{ids[n], notes[ids[n]]}); err != nil {
			return nil, 0, err
		}
		n++
	}
	err = zip.Close()
	return out.Bytes(), n, err
}

// Recorded is what an earlier agent recorded of the positions of peers.
type Recorded struct {
	notes map[string][]byte // by clusterID
	parts int               // how many Secrets the record has, at most
}

// ReadPositions reads what an earlier agent recorded. A record that cannot be decoded is logged and ignored, because the
// agent works without it. The error is that of the API server.
func ReadPositions(ctx context.Context, s *store.Store, log *slog.Logger) (Recorded, error) {
	out := Recorded{notes: map[string][]byte{}}
	for ; out.parts < maxParts; out.parts++ {
		name := positionsName(out.parts)
		secret, err := s.Read(ctx, name)
		if apierrors.IsNotFound(err) {
			break
		}
		if err != nil {
			return Recorded{}, err
		}
		if err := unpackPositions(secret.Data[positionsKey], out.notes); err != nil {
			log.Warn("restores of clusters before the start of this agent may not be noticed: the record of positions cannot be read, and will be replaced",
				"secret", s.Namespace()+"/"+name, "error", err)
		}
	}
	return out, nil
}

func unpackPositions(packed []byte, out map[string][]byte) error {
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	for lines := json.NewDecoder(io.LimitReader(zip, maxUnpacked)); ; {
		var line peerNote
		err := lines.Decode(&line)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if out[line.ClusterID] == nil { // a duplicate in a later Secret is older
			out[line.ClusterID] = line.Note
		}
	}
}
