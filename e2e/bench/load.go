// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/e2e/harness"
)

const (
	// loadNamespace holds what is read and listed, and nothing else.
	loadNamespace = "bench-load"
	// listed is how many objects a list has.
	listed = 1000
	// wayLoad and wayFan are the ways of objects that no rule selects.
	wayLoad = way("load")
	wayFan  = way("fan")
	// fanWriters is how many write at a time while events are counted: one alone waits for the disk most of the time.
	fanWriters = 4
)

// target is the API server of one side that is put under load.
type target struct {
	servers servers
	cluster *harness.Cluster
	secrets typedcorev1.SecretInterface // of loadNamespace
	raw     rest.Interface              // for answers that are read and not decoded, on the same connection
	fan     *conn
	eyes    []*eye // that watch what fan writes
}

// timing is what one round took: the whole, each request or event, and the processors' time of the control plane.
type timing struct {
	whole time.Duration
	each  []time.Duration
	cpu   time.Duration
}

// load is one way to keep an API server busy. A round of it has per requests or events.
type load struct {
	name, what string
	per        int
	run        func(*target, context.Context, int) (timing, error) // the last is the number of the round
	figures    figures
}

// figures are what a load is good for.
type figures int

const (
	rateAndTail figures = iota
	rateOnly
	tailOnly
)

// load compares how many requests the sides answer, and how fast. They take turns, round by round.
func (c *comparison) load(ctx context.Context) error {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	targets := map[*side]*target{}
	for _, s := range c.both() {
		var err error
		if targets[s], err = newTarget(ctx, s, c.s.servers); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	o := c.s.servers
	for _, l := range []load{
		{"get", "requests", o.gets, (*target).get, rateAndTail},
		{fmt.Sprintf("list of %d", listed), "requests", o.lists, (*target).list, rateAndTail},
		{"create", "requests", o.creates, (*target).create, rateAndTail},
	} {
		if err := c.take(ctx, l, targets); err != nil {
			return err
		}
	}
	for _, s := range c.both() { // not before: those who watch make writing slower
		if err := targets[s].openEyes(watching, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	fan := func(writers int) func(*target, context.Context, int) (timing, error) {
		return func(t *target, ctx context.Context, round int) (timing, error) { return t.fanOut(ctx, round, writers) }
	}
	name, events := fmt.Sprintf("watch by %d", o.watchers), o.events*o.watchers
	if err := c.take(ctx, load{name, "events", events, fan(fanWriters), rateOnly}, targets); err != nil {
		return err
	}
	return c.take(ctx, load{name, "events", events, fan(1), tailOnly}, targets)
}

// take takes all rounds of a load.
func (c *comparison) take(ctx context.Context, l load, targets map[*side]*target) error {
	c.log("servers: %s", l.name)
	whole, each, cpu := map[*side][]time.Duration{}, map[*side][]time.Duration{}, map[*side][]time.Duration{}
	for round := range c.s.servers.rounds + 1 {
		if round == 1 {
			clear(whole) // the first opens connections and fills caches
			clear(each)
			clear(cpu)
		}
		for _, s := range c.turns(round) {
			if err := pause(ctx, time.Second); err != nil {
				return err
			}
			t, err := l.run(targets[s], ctx, round)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", s.name, l.name, err)
			}
			whole[s], each[s], cpu[s] = append(whole[s], t.whole), append(each[s], t.each...), append(cpu[s], t.cpu)
		}
	}
	if l.figures != tailOnly {
		c.addRate(l, whole, cpu)
	}
	if l.figures != rateOnly {
		c.addTail(l, each)
	}
	return nil
}

// addRate adds how many requests are answered, and what that takes. The program that asks runs on the same processors and
// brings the first ratio nearer to 1; it has no part in the second.
func (c *comparison) addRate(l load, whole, cpu map[*side][]time.Duration) {
	rate := func(s *side) float64 { return float64(l.per) / mean(whole[s]).Seconds() }
	c.add(l.name+": "+l.what+" per second, over Kubernetes", rate(c.ours)/rate(c.theirs), "×", atLeast(0.9),
		fmt.Sprintf("%.0f; Kubernetes %.0f", rate(c.ours), rate(c.theirs)))
	each := func(s *side) float64 { return ms(mean(cpu[s])) / float64(l.per) }
	c.add(l.name+": CPU, over Kubernetes", each(c.ours)/each(c.theirs), "×", nil,
		fmt.Sprintf("of the control plane, for 1,000 %s: %.2f s; Kubernetes %.2f s", l.what, each(c.ours), each(c.theirs)))
}

func (c *comparison) addTail(l load, each map[*side][]time.Duration) {
	times := func(s *side) string {
		return fmt.Sprintf("%.1f ms, p50 %.1f", ms(percentile(each[s], 99)), ms(percentile(each[s], 50)))
	}
	c.add(l.name+": p99, over Kubernetes", ratio(each[c.ours], each[c.theirs], 99), "×", atMost(1.2),
		fmt.Sprintf("%s; Kubernetes %s", times(c.ours), times(c.theirs)))
}

// newTarget puts what is read and listed into the first cluster of a side.
func newTarget(ctx context.Context, s *side, o servers) (*target, error) {
	cfg := rest.CopyConfig(s.bed.first().Config)
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.Dial = (&net.Dialer{}).DialContext // another dialer is another connection pool
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	t := &target{servers: o, cluster: s.bed.first(), secrets: client.CoreV1().Secrets(loadNamespace), raw: client.CoreV1().RESTClient()}
	if t.fan, err = dial(s.bed.first()); err != nil {
		return nil, err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: loadNamespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	if _, err := flood(ctx, listed, func(ctx context.Context, i int) error { return t.put(ctx, keptName(i)) }); err != nil {
		return nil, err
	}
	list, err := t.secrets.List(ctx, metav1.ListOptions{})
	if err == nil && len(list.Items) != listed {
		err = fmt.Errorf("%s has %d Secrets, not %d", loadNamespace, len(list.Items), listed)
	}
	return t, err
}

func (t *target) openEyes(ctx context.Context, s *side) error {
	for range t.servers.watchers {
		e, err := openEye(ctx, s.bed.first())
		if err != nil {
			return err
		}
		t.eyes = append(t.eyes, e)
	}
	return nil
}

func keptName(i int) string { return fmt.Sprintf("kept-%d", i) }

func (t *target) put(ctx context.Context, name string) error {
	_, err := t.secrets.Create(ctx, secret(wayLoad, name, "load"), metav1.CreateOptions{})
	return err
}

func (t *target) get(ctx context.Context, _ int) (timing, error) {
	return t.flood(ctx, t.servers.gets, func(ctx context.Context, i int) error {
		_, err := t.raw.Get().Namespace(loadNamespace).Resource("secrets").Name(keptName(i % listed)).DoRaw(ctx)
		return err
	})
}

func (t *target) list(ctx context.Context, _ int) (timing, error) {
	return t.flood(ctx, t.servers.lists, func(ctx context.Context, _ int) error {
		_, err := t.raw.Get().Namespace(loadNamespace).Resource("secrets").DoRaw(ctx)
		return err
	})
}

// create takes away what it has created, when the time is over.
func (t *target) create(ctx context.Context, round int) (timing, error) {
	name := func(i int) string { return fmt.Sprintf("created-%d-%d", round, i) }
	took, err := t.flood(ctx, t.servers.creates, func(ctx context.Context, i int) error { return t.put(ctx, name(i)) })
	if err != nil {
		return took, err
	}
	_, err = flood(ctx, t.servers.creates, func(ctx context.Context, i int) error {
		return t.secrets.Delete(ctx, name(i), metav1.DeleteOptions{})
	})
	return took, err
}

// fanOut creates objects, as many at a time as there are writers, for all that watch. The whole is from the first request
// until all have seen everything; each is from the request for an object until one of them has seen it.
func (t *target) fanOut(ctx context.Context, round, writers int) (timing, error) {
	name := func(i int) string { return fmt.Sprintf("fan-%d-%d-%d", writers, round, i) }
	for _, e := range t.eyes {
		e.forget()
	}
	before, err := t.cpu()
	if err != nil {
		return timing{}, err
	}
	began := make([]time.Time, t.servers.events)
	group, creating := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range began {
		group.Go(func() error {
			began[i] = time.Now()
			return t.fan.do(creating, create, wayFan, name(i), "fan")
		})
	}
	if err := group.Wait(); err != nil {
		return timing{}, err
	}
	var took timing
	for _, e := range t.eyes {
		for i := range began {
			at, err := e.await(ctx, sight{create.event(), name(i), "fan"}, began[i])
			if err != nil {
				return timing{}, err
			}
			took.whole = max(took.whole, at.Sub(began[0]))
			took.each = append(took.each, at.Sub(began[i]))
		}
	}
	after, err := t.cpu()
	if err != nil {
		return timing{}, err
	}
	took.cpu = after - before
	_, err = flood(ctx, t.servers.events, func(ctx context.Context, i int) error { return t.fan.do(ctx, remove, wayFan, name(i), "") })
	if err != nil {
		return timing{}, err
	}
	var errs []error
	for _, e := range t.eyes {
		_, err := e.awaitCount(ctx, remove, wayFan, t.servers.events)
		errs = append(errs, err)
	}
	return took, errors.Join(errs...)
}

// cpu is what all processes of the control plane have used so far.
func (t *target) cpu() (time.Duration, error) {
	pids, err := t.cluster.ServerPIDs()
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, pid := range pids {
		used, err := harness.CPUTime(pid)
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// flood makes n requests and measures what they take of the control plane, too.
func (t *target) flood(ctx context.Context, n int, request func(ctx context.Context, i int) error) (timing, error) {
	before, err := t.cpu()
	if err != nil {
		return timing{}, err
	}
	took, err := flood(ctx, n, request)
	if err != nil {
		return took, err
	}
	after, err := t.cpu()
	took.cpu = after - before
	return took, err
}

// flood makes n requests, workers at a time.
func flood(ctx context.Context, n int, request func(ctx context.Context, i int) error) (timing, error) {
	t := timing{each: make([]time.Duration, n)}
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i := range n {
		group.Go(func() error {
			at := time.Now()
			err := request(ctx, i)
			t.each[i] = time.Since(at)
			return err
		})
	}
	err := group.Wait()
	t.whole = time.Since(began)
	return t, err
}
