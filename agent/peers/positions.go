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

// How far the peers' API servers were is recorded at the local one, for an agent that is started between the restore
// of one and its confirmation: it would take the backup for the present. The record may be old, which makes it tell of
// fewer restores and of none that was not. So it is written seldom and when there is news, but at once of a restore.
const (
	positionsFirst = 10 * time.Second // after the start of the agent
	positionsPause = 10 * time.Minute
	// The record is in maxParts Secrets, of a megabyte at most: each has maxPacked and one more note (history.MaxNote).
	// With 1,000 peers and three kinds of each the first is half full (TestTheRecordOfPositionsIsBounded).
	maxPacked = 384 << 10
	maxParts  = 16
	// maxUnpacked bounds what is read of one.
	maxUnpacked = 64 << 20
	// positionsSecret is the first of the Secrets; positionsKey is the key in each: a peerNote in each line, gzip.
	positionsSecret = "roster-positions"
	positionsKey    = "positions"
)

// peerNote is one peer's part of the record: a note of history.Positions.
type peerNote struct {
	ClusterID string          `json:"clusterID"`
	Note      json.RawMessage `json:"note"`
}

// recordPositions records the positions of the peers, where there is news, and sees to it that this is done again.
func (p *Peers) recordPositions(ctx context.Context) error {
	if p.news() {
		if err := writePositions(ctx, p.options.Store, p.notes(), p.options.Log); err != nil {
			p.tellNews()
			return err
		}
	}
	p.record.AgainAfter(positionsPause)
	return nil
}

// positions are those of a peer that is read from, as far as an earlier agent has recorded them at first.
func (p *Peers) positions(id string) *history.Positions {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.trackedLocked(id)
	if t.positions == nil {
		t.positions = history.NewPositions()
		if err := t.positions.Recall(p.past[id]); err != nil {
			p.options.Log.Warn("a restore of a cluster before the start of this agent may not be noticed: the record of how far its API server was cannot be read, and will be replaced", "cluster", id, "error", err)
		}
		delete(p.past, id)
	}
	return t.positions
}

// news says, once, whether there is something to record. Notes of clusters that are not known any more, as after this one
// has left its group, are let go of.
func (p *Peers) news() bool {
	p.mu.Lock()
	unread := slices.Collect(maps.Keys(p.past))
	p.mu.Unlock()
	for _, id := range unread {
		if p.options.Directory.Forgotten(id) {
			p.ForgetPositions(id)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	news := p.unrecorded
	p.unrecorded = false
	for _, t := range p.known {
		if t.positions != nil && t.positions.News() {
			news = true
		}
	}
	return news
}

// tellNews says that there is, still.
func (p *Peers) tellNews() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unrecorded = true
}

// ForgetPositions lets go of how far the API server of a cluster was: who takes the cluster in again takes it as it is then.
func (p *Peers) ForgetPositions(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.trackedLocked(id)
	if p.past[id] != nil || t.positions != nil {
		p.unrecorded, t.positions = true, nil
		delete(p.past, id)
	}
}

// notes are the positions of the peers, and those of clusters that were not read from yet.
func (p *Peers) notes() map[string][]byte {
	p.mu.Lock()
	out := make(map[string][]byte, len(p.known))
	maps.Copy(out, p.past)
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
			p.options.Log.Error("how far a cluster's API server is cannot be noted", "cluster", id, "error", err)
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

// writePositions keeps the notes, by clusterID, that ReadPositions reads. Where they are too many the largest are left
// out: one peer has no say in how much others have room for.
func writePositions(ctx context.Context, s *store.Store, notes map[string][]byte, log *slog.Logger) error {
	left := slices.SortedFunc(maps.Keys(notes), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(notes[a]), len(notes[b])), cmp.Compare(a, b))
	})
	parts := 0
	for ; parts == 0 || len(left) > 0 && parts < maxParts; parts++ {
		packed, n, err := packPositions(left, notes)
		if err != nil {
			return fmt.Errorf("encode positions: %w", err)
		}
		left = left[n:]
		if err := s.Replace(ctx, positionsName(parts), map[string][]byte{positionsKey: packed}); err != nil {
			return err
		}
	}
	for ; parts < maxParts; parts++ { // what an earlier record needed and this one does not
		if found, err := s.Delete(ctx, positionsName(parts)); err != nil {
			return err
		} else if !found {
			break
		}
	}
	if len(left) > 0 {
		log.Warn("of some clusters it is not recorded how far their API servers are: a restore may not be noticed when this agent is started after it", "clusters", len(left))
	}
	return nil
}

// packPositions packs the first n notes, which have room in one Secret.
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

// ReadPositions reads what an earlier agent recorded, by clusterID. What cannot be read tells of no restore, and no agent
// need wait for that: it is logged. The error is that of the API server.
func ReadPositions(ctx context.Context, s *store.Store, log *slog.Logger) (map[string][]byte, error) {
	out := map[string][]byte{}
	for part := range maxParts {
		name := positionsName(part)
		secret, err := s.Read(ctx, name)
		if apierrors.IsNotFound(err) {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := unpackPositions(secret.Data[positionsKey], out); err != nil {
			log.Warn("restores of clusters before the start of this agent may not be noticed: the record of how far their API servers were cannot be read, and will be replaced",
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
		if out[line.ClusterID] == nil { // else it is older, in a part that was not needed any more
			out[line.ClusterID] = line.Note
		}
	}
}
