// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/roster-mesh/roster/e2e/harness"
)

// mass changes many objects at once in the source, and waits until watches of all targets have shown all of them.
type mass struct {
	b         *bed
	source    *conn
	targets   []*conn
	eyes      []*eye
	objects   int
	took      map[verb]map[way][]time.Duration
	cost      map[verb][]float64  // agents' CPU seconds per 1,000 copies
	share     map[verb][]float64  // agents' CPU over that of the targets' API servers
	requests  map[verb][]requests // of each round, at the first target
	atSource  map[verb][]requests // of each round, at the source, without what we wrote there
	peak, own int
}

// bulk compares the agents with bare writers, which write the same objects to as many targets at the same time as
// the source, through one connection and with as many workers for each target as an agent has.
func bulk(ctx context.Context, b *bed) error {
	for i, objects := range b.s.bulk {
		rounds := b.s.rounds
		if i > 0 {
			if b.n != b.s.middle() {
				continue
			}
			rounds = max(2, rounds/2)
		}
		if err := bulkOf(ctx, b, objects, rounds); err != nil {
			return fmt.Errorf("%d objects: %w", objects, err)
		}
	}
	return nil
}

func bulkOf(ctx context.Context, b *bed, objects, rounds int) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m, err := newMass(ctx, b, objects)
	if err != nil {
		return err
	}
	h, err := startHand(ctx, b.source(), b.targets())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	for _, c := range b.targets() {
		if err := harness.ResetPeakMemory(c.AgentPID()); err != nil {
			return err
		}
	}
	ways := []way{wayRoster, wayBare, wayHand}
	for round := range rounds {
		for _, v := range verbs() {
			for j := range ways {
				w := ways[(round+j)%len(ways)]
				if w == wayHand && round%handEvery > 0 {
					continue
				}
				if err := m.round(ctx, w, v); err != nil {
					return err
				}
			}
		}
		b.log("%d clusters: bulk: %d objects, round %d of %d", b.n, objects, round+1, rounds)
	}
	return m.report()
}

// handEvery is in which rounds objects go by hand, too, for comparison: every third.
const handEvery = 3

func newMass(ctx context.Context, b *bed, objects int) (*mass, error) {
	m := &mass{
		b: b, objects: objects, took: map[verb]map[way][]time.Duration{}, cost: map[verb][]float64{}, share: map[verb][]float64{},
		requests: map[verb][]requests{}, atSource: map[verb][]requests{},
	}
	for _, v := range verbs() {
		m.took[v] = map[way][]time.Duration{}
	}
	var err error
	if m.source, err = dial(b.source()); err != nil {
		return nil, err
	}
	for _, c := range b.targets() {
		to, err := dialAsAgent(c)
		if err != nil {
			return nil, err
		}
		m.targets = append(m.targets, to)
	}
	m.eyes, err = openEyes(ctx, b.targets())
	return m, err
}

// round takes one verb one way.
func (m *mass) round(ctx context.Context, w way, v verb) error {
	if err := collectGarbage(ctx, m.b.fleet.Clusters); err != nil {
		return err
	}
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	for _, e := range m.eyes {
		e.forget()
	}
	before, err := readUsages(ctx, m.b.fleet.Clusters)
	if err != nil {
		return err
	}
	began := time.Now()
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return m.writeAll(groupCtx, m.source, v, w) })
	if w == wayBare {
		for _, to := range m.targets {
			group.Go(func() error { return m.writeAll(groupCtx, to, v, w) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	var last time.Time
	for _, e := range m.eyes {
		at, err := e.awaitCount(ctx, v, w, m.objects)
		if err != nil {
			return err
		}
		if at.After(last) {
			last = at
		}
	}
	m.took[v][w] = append(m.took[v][w], last.Sub(began))
	if w != wayRoster {
		return nil
	}
	if err := pause(ctx, time.Second); err != nil { // agents take in what they wrote
		return err
	}
	return m.account(ctx, v, before)
}

// writeAll is a bare writer.
func (m *mass) writeAll(ctx context.Context, to *conn, v verb, w way) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i := range m.objects {
		group.Go(func() error { return to.do(ctx, v, w, fmt.Sprintf("%s-many-%d", w, i), string(v)) })
	}
	return group.Wait()
}

// account notes what the copies of one round cost.
func (m *mass) account(ctx context.Context, v verb, before []usage) error {
	after, err := readUsages(ctx, m.b.fleet.Clusters)
	if err != nil {
		return err
	}
	n := len(after) - 1 // the source
	var cpu, server time.Duration
	for i := range n {
		cpu += after[i].cpu - before[i].cpu
		server += after[i].server - before[i].server
		m.peak = max(m.peak, after[i].Peak)
		m.own = max(m.own, after[i].Anonymous)
	}
	m.cost[v] = append(m.cost[v], cpu.Seconds()/float64(m.objects*n)*1000)
	m.share[v] = append(m.share[v], cpu.Seconds()/server.Seconds())
	m.requests[v] = append(m.requests[v], after[0].requests.minus(before[0].requests))
	source := after[n].requests.minus(before[n].requests)
	source[v.request()+" secrets"] -= float64(m.objects)
	m.atSource[v] = append(m.atSource[v], source)
	return nil
}

func (m *mass) report() error {
	n, copies := float64(m.objects), float64(m.objects*(m.b.n-1))
	title := fmt.Sprintf("%d objects: ", m.objects)
	for _, v := range verbs() {
		took := func(w way) float64 { return mean(m.took[v][w]).Seconds() }
		m.b.add(title+string(v)+", speed over bare", took(wayBare)/took(wayRoster), "×", atLeast(0.8),
			fmt.Sprintf("%.0f copies a second; bare %.0f, by hand %.0f (%.2f)", copies/took(wayRoster), copies/took(wayBare), copies/took(wayHand), took(wayBare)/took(wayHand)))
	}
	for _, v := range verbs() {
		m.b.add(title+string(v)+", agents' CPU per 1,000 copies", median(m.cost[v]), "s", atMost(1), "")
		m.b.add(title+string(v)+", agents' CPU over API servers'", median(m.share[v]), "×", nil, "of the targets")
	}
	for _, v := range verbs() {
		target, source := medianRound(m.requests[v]), medianRound(m.atSource[v])
		writes, reads := target.of("secrets")
		m.b.add(title+string(v)+", writes per copy", round3(writes/n), "", atMost(1), "at the target: "+target.over(n))
		m.b.add(title+string(v)+", reads per copy", round3(reads/n), "", atMost(0), "at the source: "+source.over(n))
	}
	m.b.add(title+"agent's peak memory", float64(m.peak)/(1<<20), "MiB", atMost(80), fmt.Sprintf("resident; anonymous %d MiB at the end", m.own>>20))
	return nil
}

// round3 keeps what can be told: a status that an agent wrote meanwhile is no request of a copy.
func round3(v float64) float64 { return float64(int(v*1000+0.5)) / 1000 }

// medianRound is the round with the median number of requests for Secrets. What agents do seldom, as to record each ten
// minutes how far they have read their peers, is in few rounds, and no part of what a copy costs.
func medianRound(rounds []requests) requests {
	all := func(r requests) float64 {
		writes, reads := r.of("secrets")
		return writes + reads
	}
	sorted := slices.SortedFunc(slices.Values(rounds), func(a, b requests) int { return cmp.Compare(all(a), all(b)) })
	return sorted[len(sorted)/2]
}

func median(values []float64) float64 { return slices.Sorted(slices.Values(values))[len(values)/2] }

// mean is of the rounds of one way. The machine is faster in some than in others, for any of them.
func mean(times []time.Duration) time.Duration {
	var sum time.Duration
	for _, t := range times {
		sum += t
	}
	return sum / time.Duration(max(1, len(times)))
}
