// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/roster-mesh/roster/e2e/harness"
)

// firstCopy is how long a rule that is created in the first cluster takes to bring an object of the last one to
// all others. The object and the group are there already, the watch of its kind is not.
func firstCopy(ctx context.Context, b *bed) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	const w, name = way("rule"), "rule-first"
	source, err := dial(b.source())
	if err != nil {
		return err
	}
	var times []time.Duration
	for range 5 {
		took, err := firstCopyOnce(ctx, b, source, w, name)
		if err != nil {
			return err
		}
		times = append(times, took)
	}
	var limit *budget
	if b.n == 5 {
		limit = atMost(0.2)
	}
	b.add("rule created to first copy everywhere", percentile(times, 50).Seconds(), "s", limit, fmt.Sprintf("median of %d, slowest %.2f s", len(times), percentile(times, 99).Seconds()))
	return nil
}

func firstCopyOnce(ctx context.Context, b *bed, source *conn, w way, name string) (time.Duration, error) {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := source.do(ctx, create, w, name, "first"); err != nil {
		return 0, err
	}
	eyes, err := openEyes(watching, b.targets())
	if err != nil {
		return 0, err
	}
	if err := pause(ctx, time.Second); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := b.createRule(ctx, ruleObject(w)); err != nil {
		return 0, err
	}
	var took time.Duration
	for _, e := range eyes {
		at, err := e.await(ctx, sight{create.event(), name, "first"}, began)
		if err != nil {
			return 0, err
		}
		took = max(took, at.Sub(began))
	}
	if err := source.do(ctx, remove, w, name, ""); err != nil {
		return 0, err
	}
	for _, e := range eyes {
		if _, err := e.await(ctx, sight{kind: remove.event(), name: name}, began); err != nil {
			return 0, err
		}
	}
	return took, b.deleteRule(ctx, w)
}

// untilTold is a little more than agents take to sum up in events what happened.
const untilTold = 35 * time.Second

// idle watches agents while nothing changes. 100 copies are in every cluster but the source.
func idle(ctx context.Context, b *bed) error {
	names, drop, err := b.populate(ctx, 100)
	if err != nil {
		return err
	}
	if err := b.settled(ctx); err != nil {
		return err
	}
	if err := pause(ctx, untilTold); err != nil {
		return err
	}
	before, err := readUsages(ctx, b.fleet.Clusters)
	if err != nil {
		return err
	}
	if err := pause(ctx, b.s.idle); err != nil {
		return err
	}
	after, err := readUsages(ctx, b.fleet.Clusters)
	if err != nil {
		return err
	}
	minutes := b.s.idle.Minutes()
	var cpu time.Duration
	var resident, anonymous int
	var writes, reads float64
	note := ""
	for i := range after {
		cpu = max(cpu, after[i].cpu-before[i].cpu)
		resident, anonymous = max(resident, after[i].Resident), max(anonymous, after[i].Anonymous)
		grown := after[i].requests.minus(before[i].requests)
		writes = max(writes, grown.writes().total()/minutes)
		reads = max(reads, grown.reads().total()/minutes)
		if len(grown) > 0 {
			note = fmt.Sprintf("in %s: %s", b.fleet.Clusters[i].Name, grown.over(minutes))
		}
	}
	b.add("idle: agent's CPU per minute", cpu.Seconds()/minutes, "s", atMost(0.1), "of the agent with the most")
	b.add("idle: agent's memory", float64(resident)/(1<<20), "MiB", atMost(45), "resident; the rest is the program's file")
	b.add("idle: agent's anonymous memory", float64(anonymous)/(1<<20), "MiB", nil, "")
	b.add("idle: writes per minute at an API server", writes, "", atMost(0), note)
	b.add("idle: reads per minute at an API server", reads, "", atMost(0), "without ends of watches")
	peers := float64(b.n - 1)
	b.add("open watches at an API server, for each peer", (after[0].watches-b.alone)/peers, "", atMost(3+1), fmt.Sprintf("one rule; %.0f in all, %.0f before there were peers", after[0].watches, b.alone))
	return drop(ctx, names)
}

// populate puts objects into the source that the agents copy, and returns what takes them away again.
func (b *bed) populate(ctx context.Context, n int) (names []string, drop func(context.Context, []string) error, err error) {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	l, err := newLap(watching, b)
	if err != nil {
		return nil, nil, err
	}
	began := time.Now()
	for i := range n {
		names = append(names, fmt.Sprintf("kept-%d", i))
		if err := l.source.do(ctx, create, wayRoster, names[i], "kept"); err != nil {
			return nil, nil, err
		}
	}
	for _, name := range names {
		if _, err := l.atTarget.await(ctx, sight{create.event(), name, "kept"}, began); err != nil {
			return nil, nil, err
		}
	}
	return names, func(ctx context.Context, names []string) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		l, err := newLap(ctx, b)
		if err != nil {
			return err
		}
		return l.sweep(ctx, names)
	}, nil
}

// noise puts objects into the source that a rule has to look at and does not select, because it selects by an
// annotation, which no API server can do; and measures the agents again.
func noise(ctx context.Context, b *bed) error {
	target := b.first()
	if err := b.createRule(ctx, noisyRule()); err != nil {
		return err
	}
	quiet, err := b.fresh(ctx, target)
	if err != nil {
		return err
	}
	source, err := dial(b.source())
	if err != nil {
		return err
	}
	m := &mass{b: b, objects: b.s.nonMatching}
	b.log("%d clusters: noise: %d objects that do not match", b.n, m.objects)
	if err := m.writeAll(ctx, source, create, wayNoise); err != nil {
		return err
	}
	live, err := readUsage(ctx, target)
	if err != nil {
		return err
	}
	noisy, err := b.fresh(ctx, target)
	if err != nil {
		return err
	}
	title := fmt.Sprintf("%d objects that do not match: ", b.s.nonMatching)
	mib := func(now int) float64 { return float64(now-quiet.Anonymous) / (1 << 20) }
	const allowed = 10 // MiB: garbage of decoding them one by one; as JSON they are 40, decoded several hundred
	b.add(title+"agent's memory grew by", mib(noisy.Anonymous), "MiB", atMost(allowed), "anonymous, of an agent started when they are there; from "+
		fmt.Sprintf("%d MiB; one that saw them come: %.1f MiB more", quiet.Anonymous>>20, mib(live.Anonymous)))
	b.add(title+"agent's peak memory at its start", float64(noisy.Peak)/(1<<20), "MiB", atMost(80), fmt.Sprintf("resident; %d MiB without them", quiet.Peak>>20))
	s := b.s
	s.bulk, s.rounds = s.bulk[:1], max(1, s.rounds/2)
	again := *b
	again.s, again.suffix = s, " (with noise)"
	if err := bulk(ctx, &again); err != nil {
		return err
	}
	return b.deleteRule(ctx, wayNoise)
}

// fresh restarts an agent, and returns what it uses when it has settled.
func (b *bed) fresh(ctx context.Context, c *harness.Cluster) (usage, error) {
	if err := c.RestartAgent(ctx); err != nil {
		return usage{}, err
	}
	if err := b.settled(ctx); err != nil {
		return usage{}, err
	}
	return readUsage(ctx, c)
}
