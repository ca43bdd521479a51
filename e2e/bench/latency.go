// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/roster-mesh/roster/e2e/harness"
)

const (
	// warmUp objects open connections and fill caches before anything counts.
	warmUp = 8
	// gap lets all agents, and not only the one that is looked at, finish with an object.
	gap = 40 * time.Millisecond
)

// overHand bounds how much longer an agent takes than the pipeline by hand: docs/decisions/017.
const overHand = 1.15

// lap takes objects from the source to the first cluster, one by one. All ways take turns, sample by sample, so
// that what else the machine does falls on all of them alike.
type lap struct {
	b                  *bed
	source, target     *conn
	atSource, atTarget *eye
	times              map[string][]time.Duration
}

func (l *lap) note(name string, d time.Duration) { l.times[name] = append(l.times[name], d) }

// latency compares the time from a request at the source until a watch of the target shows its effect, with
// what the two API servers take without anything in between: the request at the source until a watch of the
// source shows it, plus the same request at the target until it is answered.
func latency(ctx context.Context, b *bed) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l, err := newLap(ctx, b)
	if err != nil {
		return err
	}
	h, err := startHand(ctx, b.source(), b.targets())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	ways := []way{wayRoster, wayBare, wayHand}
	for i := range b.s.samples + warmUp {
		if i == warmUp {
			clear(l.times)
		}
		for _, v := range verbs() {
			for j := range ways {
				w := ways[(i+j)%len(ways)]
				if err := l.step(ctx, w, v, fmt.Sprintf("%s-one-%d", w, i)); err != nil {
					return fmt.Errorf("%s: %w", w, err)
				}
			}
		}
	}
	for _, v := range verbs() {
		l.report(v)
	}
	return nil
}

func newLap(ctx context.Context, b *bed) (*lap, error) {
	l := &lap{b: b, times: map[string][]time.Duration{}}
	var errs [4]error
	l.source, errs[0] = dial(b.source())
	l.target, errs[1] = dialAsAgent(b.first())
	l.atSource, errs[2] = openEye(ctx, b.source())
	l.atTarget, errs[3] = openEye(ctx, b.first())
	return l, errors.Join(errs[:]...)
}

func (l *lap) step(ctx context.Context, w way, v verb, name string) error {
	s := sight{kind: v.event(), name: name}
	if v != remove {
		s.value = string(v)
	}
	if err := pause(ctx, gap); err != nil {
		return err
	}
	began := time.Now()
	if err := l.source.do(ctx, v, w, name, string(v)); err != nil {
		return err
	}
	if w != wayBare {
		at, err := l.atTarget.await(ctx, s, began)
		l.note(string(w)+" "+string(v), at.Sub(began))
		return err
	}
	at, err := l.atSource.await(ctx, s, began)
	if err != nil {
		return err
	}
	if err := pause(ctx, gap); err != nil {
		return err
	}
	request := time.Now()
	if err := l.target.do(ctx, v, w, name, string(v)); err != nil {
		return err
	}
	answered := time.Since(request)
	l.note("source "+string(v), at.Sub(began))
	l.note("target "+string(v), answered)
	l.note("bare "+string(v), at.Sub(began)+answered)
	return nil
}

func (l *lap) report(v verb) {
	roster, bare, byHand := l.times["roster "+string(v)], l.times["bare "+string(v)], l.times["hand "+string(v)]
	l.b.add(string(v)+" p50 over by hand", ratio(roster, byHand, 50), "×", atMost(overHand),
		fmt.Sprintf("over bare %.2f; by hand over bare %.2f", ratio(roster, bare, 50), ratio(byHand, bare, 50)))
	l.b.add(string(v)+" p50", ms(percentile(roster, 50)), "ms", nil, fmt.Sprintf("p99 %.1f; bare %.1f + %.1f, p99 of the sum %.1f; by hand %.1f, p99 %.1f",
		ms(percentile(roster, 99)), ms(percentile(l.times["source "+string(v)], 50)), ms(percentile(l.times["target "+string(v)], 50)),
		ms(percentile(bare, 99)), ms(percentile(byHand, 50)), ms(percentile(byHand, 99))))
}

// repair is how long a copy stays wrong that somebody changed or deleted.
func repair(ctx context.Context, b *bed) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l, err := newLap(ctx, b)
	if err != nil {
		return err
	}
	copies := []string{}
	began := time.Now()
	for i := range b.s.samples / 3 { // several, since an agent does not let itself be drawn into a quarrel over one
		copies = append(copies, fmt.Sprintf("repaired-%d", i))
		if err := l.source.do(ctx, create, wayRoster, copies[i], "right"); err != nil {
			return err
		}
		if _, err := l.atTarget.await(ctx, sight{create.event(), copies[i], "right"}, began); err != nil {
			return err
		}
	}
	for _, name := range copies {
		if err := l.damage(ctx, name); err != nil {
			return err
		}
	}
	for _, v := range []verb{update, remove} {
		times := l.times[string(v)]
		b.add("repair of a copy after "+string(v)+", p50", ms(percentile(times, 50)), "ms", nil,
			fmt.Sprintf("p99 %.1f, from the request that damages it until a watch shows it right", ms(percentile(times, 99))))
	}
	return l.sweep(ctx, copies)
}

func (l *lap) damage(ctx context.Context, name string) error {
	for _, v := range []verb{update, remove} {
		if err := pause(ctx, gap); err != nil {
			return err
		}
		right := sight{update.event(), name, "right"}
		if v == remove {
			right.kind = create.event()
		}
		began := time.Now()
		var err error
		if v == update {
			err = l.tamper(ctx, name)
		} else {
			err = l.target.do(ctx, remove, wayRoster, name, "")
		}
		if err != nil {
			return err
		}
		at, err := l.atTarget.await(ctx, right, began)
		if err != nil {
			return err
		}
		l.note(string(v), at.Sub(began))
	}
	return nil
}

// tamper changes the content of a copy, and keeps its marks.
func (l *lap) tamper(ctx context.Context, name string) error {
	patch := []byte(`{"data":{"v":"d3Jvbmc6"}}`)
	_, err := l.b.first().Kube.CoreV1().Secrets(harness.Namespace).Patch(ctx, name, mergePatch, patch, patchOptions())
	return err
}

// sweep deletes objects at the source, and returns when the copy at the first cluster has gone.
func (l *lap) sweep(ctx context.Context, names []string) error {
	began := time.Now()
	for _, name := range names {
		if err := l.source.do(ctx, remove, wayRoster, name, ""); err != nil {
			return err
		}
	}
	for _, name := range names {
		if _, err := l.atTarget.await(ctx, sight{kind: remove.event(), name: name}, began); err != nil {
			return err
		}
	}
	return nil
}

func percentile(times []time.Duration, p int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}

func ratio(a, b []time.Duration, p int) float64 {
	return float64(percentile(a, p)) / float64(percentile(b, p))
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
