// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/roster-mesh/roster/e2e/harness"
)

// within is how long any one object may take before the measurement is given up.
const within = 30 * time.Second

const ruleManifest = `apiVersion: clusterregistry.k8s.cisco.com/v1alpha1
kind: ResourceSyncRule
metadata: {name: measured}
spec:
  groupVersionKind: {kind: Secret, version: v1}
  rules:
  - match:
    - namespaces: [cluster-registry]
      labels: [{matchLabels: {measured: "yes"}}]
`

// latency follows objects one by one from the last cluster to the second. The raw way takes the same
// objects in the same run: the change until a watch of the same API server shows it, and then the same
// change as one bare request at the target. No agent can be faster than those two.
func latency(ctx context.Context, out io.Writer, fleet *harness.Fleet, s settings) error {
	source, target := fleet.Clusters[len(fleet.Clusters)-1], fleet.Clusters[min(1, len(fleet.Clusters)-2)]
	if _, err := fleet.Clusters[0].Apply(ctx, ruleManifest); err != nil {
		return err
	}
	l := &lap{ctx: ctx, source: source, target: target, times: map[string][]time.Duration{}}
	var err error
	if l.atSource, err = newEye(ctx, source); err != nil {
		return err
	}
	if l.atTarget, err = newEye(ctx, target); err != nil {
		return err
	}
	for i := range s.samples + warmUp {
		if i == warmUp {
			clear(l.times)
		}
		if err := l.object(fmt.Sprintf("one-%d", i)); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "\nlatency from %s to %s, %d Secrets one after the other, in ms\n", source.Name, target.Name, s.samples)
	fmt.Fprintf(out, "  %-8s %22s   %34s   %s\n", "", "roster p50 / p99", "raw watch + raw request p50 / p99", "ratio p50 / p99")
	for _, verb := range []string{"create", "update", "delete"} {
		roster, raw := l.times[verb], l.times["raw "+verb]
		fmt.Fprintf(out, "  %-8s %13s / %6s   %25s / %6s   %8.2f / %.2f\n", verb,
			ms(percentile(roster, 50)), ms(percentile(roster, 99)), ms(percentile(raw, 50)), ms(percentile(raw, 99)),
			ratio(roster, raw, 50), ratio(roster, raw, 99))
	}
	return nil
}

// warmUp objects open connections and fill caches before anything counts.
const warmUp = 10

// lap is one object's way.
type lap struct {
	ctx                context.Context //nolint:containedctx // A lap lasts as long as one call of latency.
	source, target     *harness.Cluster
	atSource, atTarget *eye
	times              map[string][]time.Duration
}

func (l *lap) object(name string) error {
	from, to := l.source.Kube.CoreV1().Secrets(harness.Namespace), l.target.Kube.CoreV1().Secrets(harness.Namespace)
	secret := func(name, value string, labels map[string]string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, StringData: map[string]string{"v": value}}
	}
	measured := map[string]string{"measured": "yes"}
	steps := []struct {
		verb         string
		kind         watch.EventType
		change, bare func() error
	}{
		{
			"create", watch.Added,
			func() error {
				_, err := from.Create(l.ctx, secret(name, "1", measured), metav1.CreateOptions{})
				return err
			},
			func() error {
				_, err := to.Create(l.ctx, secret("raw-"+name, "1", nil), metav1.CreateOptions{})
				return err
			},
		},
		{
			"update", watch.Modified,
			func() error {
				_, err := from.Update(l.ctx, secret(name, "2", measured), metav1.UpdateOptions{})
				return err
			},
			func() error {
				_, err := to.Update(l.ctx, secret("raw-"+name, "2", nil), metav1.UpdateOptions{})
				return err
			},
		},
		{
			"delete", watch.Deleted,
			func() error { return from.Delete(l.ctx, name, metav1.DeleteOptions{}) },
			func() error { return to.Delete(l.ctx, "raw-"+name, metav1.DeleteOptions{}) },
		},
	}
	for _, step := range steps {
		if err := l.step(step.verb, step.kind, name, step.change, step.bare); err != nil {
			return fmt.Errorf("%s %s: %w", step.verb, name, err)
		}
	}
	return nil
}

func (l *lap) step(verb string, kind watch.EventType, name string, change, bare func() error) error {
	began := time.Now()
	if err := change(); err != nil {
		return err
	}
	seen, err := l.atSource.await(l.ctx, kind, name)
	if err != nil {
		return fmt.Errorf("at the source: %w", err)
	}
	copied, err := l.atTarget.await(l.ctx, kind, name)
	if err != nil {
		return fmt.Errorf("at the target: %w", err)
	}
	request := time.Now()
	if err := bare(); err != nil {
		return err
	}
	l.times[verb] = append(l.times[verb], copied.Sub(began))
	l.times["raw "+verb] = append(l.times["raw "+verb], seen.Sub(began)+time.Since(request))
	return nil
}

// eye watches the measured Secrets of one cluster.
type eye struct {
	mu      sync.Mutex
	seen    map[string]time.Time // by event and name
	changed chan struct{}
	count   map[watch.EventType]int
}

func newEye(ctx context.Context, c *harness.Cluster) (*eye, error) {
	secrets := c.Kube.CoreV1().Secrets(harness.Namespace)
	list, err := secrets.List(ctx, metav1.ListOptions{LabelSelector: "measured"})
	if err != nil {
		return nil, err
	}
	stream, err := secrets.Watch(ctx, metav1.ListOptions{LabelSelector: "measured", ResourceVersion: list.ResourceVersion})
	if err != nil {
		return nil, err
	}
	e := &eye{seen: map[string]time.Time{}, changed: make(chan struct{}, 1), count: map[watch.EventType]int{}}
	go func() {
		defer stream.Stop()
		for event := range stream.ResultChan() {
			if secret, ok := event.Object.(*corev1.Secret); ok {
				e.saw(event.Type, secret.Name)
			}
		}
	}()
	return e, nil
}

func (e *eye) saw(kind watch.EventType, name string) {
	now := time.Now()
	e.mu.Lock()
	if key := string(kind) + name; e.seen[key].IsZero() {
		e.seen[key] = now
		e.count[kind]++
	}
	e.mu.Unlock()
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

func (e *eye) await(ctx context.Context, kind watch.EventType, name string) (time.Time, error) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	for {
		e.mu.Lock()
		at := e.seen[string(kind)+name]
		e.mu.Unlock()
		if !at.IsZero() {
			return at, nil
		}
		select {
		case <-e.changed:
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		case <-timer.C:
			return time.Time{}, fmt.Errorf("not seen within %s", within)
		}
	}
}

func percentile(times []time.Duration, p int) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}

func ratio(a, b []time.Duration, p int) float64 {
	return float64(percentile(a, p)) / float64(percentile(b, p))
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/float64(time.Millisecond)) }
