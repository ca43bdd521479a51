// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube"
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
)

// peerNote is one peer's part of the record: a note of history.Positions.
type peerNote struct {
	ClusterID string          `json:"clusterID"`
	Note      json.RawMessage `json:"note"`
}

// recordPositions records the positions of the peers, where there is news, and sees to it that this is done again.
func (s *session) recordPositions(ctx context.Context) error {
	if s.peers.news() {
		if err := s.private.recordPositions(ctx, s.peers.notes(), s.log); err != nil {
			s.peers.tellNews()
			return err
		}
	}
	s.chores.addAfter(chorePositions, positionsPause)
	return nil
}

// positions are those of a peer that is read from, as far as an earlier agent has recorded them at first.
func (p *peers) positions(id string) *history.Positions {
	p.mu.Lock()
	defer p.mu.Unlock()
	peer := p.peer(id)
	if peer.positions == nil {
		peer.positions = history.NewPositions()
		if err := peer.positions.Recall(p.past[id]); err != nil {
			p.session.log.Warn("a restore of a cluster before the start of this agent may not be noticed: the record of how far its API server was cannot be read, and will be replaced", "cluster", id, "error", err)
		}
		delete(p.past, id)
	}
	return peer.positions
}

// news says, once, whether there is something to record. Notes of clusters that are not known any more, as after this one
// has left its group, are let go of.
func (p *peers) news() bool {
	p.mu.Lock()
	unread := slices.Collect(maps.Keys(p.past))
	p.mu.Unlock()
	for _, id := range unread {
		if p.session.forgotten(id) {
			p.forget(id)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	news := p.unrecorded
	p.unrecorded = false
	for _, peer := range p.known {
		if peer.positions != nil && peer.positions.News() {
			news = true
		}
	}
	return news
}

// tellNews says that there is, still.
func (p *peers) tellNews() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unrecorded = true
}

// forget lets go of where a cluster was.
func (p *peers) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	peer := p.peer(id)
	if p.past[id] != nil || peer.positions != nil {
		p.unrecorded, peer.positions = true, nil
		delete(p.past, id)
	}
}

// notes are the positions of the peers, and those of clusters that were not read from yet.
func (p *peers) notes() map[string][]byte {
	p.mu.Lock()
	out := make(map[string][]byte, len(p.known))
	maps.Copy(out, p.past)
	now := make(map[string]*history.Positions, len(p.known))
	for id, peer := range p.known {
		if peer.positions != nil {
			now[id] = peer.positions
		}
	}
	p.mu.Unlock()
	for id, positions := range now {
		note, err := positions.Note()
		if err != nil {
			p.session.log.Error("how far a cluster's API server is cannot be noted", "cluster", id, "error", err)
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

// recordPositions keeps the notes, by clusterID, that positions reads. Where they are too many the largest are left
// out: one peer has no say in how much others have room for.
func (p *private) recordPositions(ctx context.Context, notes map[string][]byte, log *slog.Logger) error {
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
		err = p.record(ctx, &kube.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: positionsName(parts), Namespace: p.namespace, Labels: managedLabels()},
			Data:       map[string][]byte{positionsKey: packed},
		})
		if err != nil {
			return err
		}
	}
	for ; parts < maxParts; parts++ { // what an earlier record needed and this one does not
		if err := p.client.Secrets(p.namespace).Delete(ctx, positionsName(parts), nil); apierrors.IsNotFound(err) {
			break
		} else if err != nil {
			return fmt.Errorf("delete Secret %s/%s: %w", p.namespace, positionsName(parts), err)
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

// positions reads what recordPositions has written. What cannot be read tells of no restore, and no agent need wait
// for that.
func (p *private) positions(ctx context.Context, log *slog.Logger) (map[string][]byte, error) {
	out := map[string][]byte{}
	for part := range maxParts {
		name := positionsName(part)
		secret, err := p.client.Secrets(p.namespace).Read(ctx, name)
		if apierrors.IsNotFound(err) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read Secret %s/%s: %w", p.namespace, name, err)
		}
		if err := unpackPositions(secret.Data[positionsKey], out); err != nil {
			log.Warn("restores of clusters before the start of this agent may not be noticed: the record of how far their API servers were cannot be read, and will be replaced",
				"secret", p.namespace+"/"+name, "error", err)
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
