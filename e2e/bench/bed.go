// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/e2e/harness"
)

// within is how long any one thing may take before the run is given up.
const within = time.Minute

// bed is one group of clusters, with what the measurements share.
type bed struct {
	s     settings
	n     int
	fleet *harness.Fleet
	log   func(string, ...any)
	r     *report
	// alone is how many watches were open at the first cluster's API server before the others joined.
	alone float64
	// suffix says under what circumstances figures are taken once more.
	suffix string
}

// The source is the cluster that objects are born in. Rules are written in the first cluster.
func (b *bed) source() *harness.Cluster    { return b.fleet.Clusters[b.n-1] }
func (b *bed) first() *harness.Cluster     { return b.fleet.Clusters[0] }
func (b *bed) targets() []*harness.Cluster { return b.fleet.Clusters[:b.n-1] }

func (b *bed) add(name string, value float64, unit string, limit *budget, note string) {
	b.r.add(b.n, name+b.suffix, value, unit, limit, note)
}

// measureGroup starts control planes and agents, and takes all measurements of this count of clusters.
func measureGroup(ctx context.Context, s settings, n int, r *report, log func(string, ...any)) (err error) {
	bin, err := harness.FindBinaries()
	if err != nil {
		return err
	}
	dir, leave, err := workFolder(log)
	if err != nil {
		return err
	}
	defer func() { err = leave(err) }()
	if s.profile != "" {
		if err := os.Setenv(envProfiles, "true"); err != nil {
			return err
		}
	}
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("c%d", i+1)
	}
	log("%d clusters: control planes", n)
	fleet, err := harness.Up(ctx, harness.Options{Binaries: bin, Dir: filepath.Join(dir, "fleet"), Names: names})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fleet.Close()) }()
	b := &bed{s: s, n: n, fleet: fleet, log: log, r: r}
	if err := b.describe("etcd without fsync"); err != nil {
		return err
	}
	log("%d clusters: install, agents, swap", n)
	if err := b.form(ctx); err != nil {
		return err
	}
	for _, p := range parts() {
		if !s.takes(p, n) {
			continue
		}
		log("%d clusters: %s", n, p.name)
		if err := b.profiled(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// workFolder makes a folder for logs and data. leave is called at the end with what came out: the folder stays when
// that is an error.
func workFolder(log func(string, ...any)) (dir string, leave func(error) error, err error) {
	dir, err = os.MkdirTemp("", "roster-bench-")
	return dir, func(err error) error {
		if err == nil {
			return os.RemoveAll(dir)
		}
		log("logs and data stay in %s", dir)
		return err
	}, err
}

// describe says what the figures were taken on.
func (b *bed) describe(storage string) error {
	version, err := b.first().Kube.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err
	}
	b.r.Machine = fmt.Sprintf("Kubernetes %s, %s, %d processors, Linux %s, %s, everything on one machine",
		version.GitVersion, runtime.Version(), runtime.NumCPU(), unix.ByteSliceToString(u.Release[:]), storage)
	if n := os.Getenv(harness.EnvProcessors); n != "" {
		b.r.Machine += ", agents on " + n + " processors"
	}
	return nil
}

// form installs everything, and swaps each cluster with the first one.
func (b *bed) form(ctx context.Context) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(2)
	for _, c := range b.fleet.Clusters {
		group.Go(func() error {
			if err := c.Install(groupCtx); err != nil {
				return err
			}
			return c.StartAgent(groupCtx)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := b.createRule(ctx, ruleObject(wayRoster)); err != nil {
		return err
	}
	for _, c := range b.fleet.Clusters {
		if _, err := harness.Wait(ctx, c.Name+" alone", within, func(ctx context.Context) error { return knows(ctx, c, 1) }); err != nil {
			return err
		}
	}
	if err := b.settled(ctx); err != nil {
		return err
	}
	before, err := readUsage(ctx, b.first())
	if err != nil {
		return err
	}
	b.alone = before.watches
	took, err := b.swap(ctx)
	if err != nil {
		return err
	}
	var limit *budget
	if b.n == 5 {
		limit = atMost(2)
	}
	b.add("group formed after the swap", took.Seconds(), "s", limit, "from the first paste until every cluster shows all as synced")
	return b.settled(ctx)
}

// swap pastes the Cluster object and the credential of every cluster into the first, and the other way round.
func (b *bed) swap(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	for _, c := range b.fleet.Clusters[1:] {
		if err := errors.Join(paste(ctx, c, b.first()), paste(ctx, b.first(), c)); err != nil {
			return 0, err
		}
	}
	for _, c := range b.fleet.Clusters {
		_, err := harness.Wait(ctx, c.Name+" knows all", within, func(ctx context.Context) error { return knows(ctx, c, b.n) })
		if err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

func paste(ctx context.Context, from, to *harness.Cluster) error {
	for _, what := range []struct {
		client func(c *harness.Cluster) resourceClient
	}{
		{func(c *harness.Cluster) resourceClient { return c.Dynamic.Resource(harness.Clusters()) }},
		{func(c *harness.Cluster) resourceClient {
			return c.Dynamic.Resource(harness.Secrets()).Namespace(harness.Namespace)
		}},
	} {
		object, err := what.client(from).Get(ctx, from.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read %s: %w", from.Name, err)
		}
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"} {
			unstructured.RemoveNestedField(object.Object, "metadata", field)
		}
		if _, err := what.client(to).Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("paste %s into %s: %w", from.Name, to.Name, err)
		}
	}
	return nil
}

// resourceClient is the part of a dynamic client that paste needs.
type resourceClient interface {
	Get(ctx context.Context, name string, o metav1.GetOptions, subresources ...string) (*unstructured.Unstructured, error)
	Create(ctx context.Context, object *unstructured.Unstructured, o metav1.CreateOptions, subresources ...string) (*unstructured.Unstructured, error)
}

// knows returns nil when a cluster lists n clusters, itself included, all of them synced.
func knows(ctx context.Context, c *harness.Cluster, n int) error {
	list, err := c.Dynamic.Resource(harness.Clusters()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(list.Items) != n {
		return fmt.Errorf("%s lists %d clusters, not %d", c.Name, len(list.Items), n)
	}
	for i := range list.Items {
		if err := harness.ConditionTrue(&list.Items[i], "ClustersSynced"); err != nil {
			return err
		}
	}
	return nil
}

// settled waits until no agent has written anything for a while: the statuses of rules follow their copies.
func (b *bed) settled(ctx context.Context) error {
	var before []usage
	_, err := harness.Wait(ctx, "agents at rest", 2*within, func(ctx context.Context) error {
		now, err := readUsages(ctx, b.fleet.Clusters)
		if err != nil {
			return err
		}
		last := before
		before = now
		if last == nil {
			return errors.Join(errBusy, pause(ctx, restful))
		}
		for i, c := range b.fleet.Clusters {
			if writes := now[i].requests.minus(last[i].requests).writes(); len(writes) > 0 {
				return errors.Join(fmt.Errorf("%w: %s: %s", errBusy, c.Name, writes.over(1)), pause(ctx, restful))
			}
		}
		return nil
	})
	return err
}

// restful is longer than the time between two reports of a rule.
const restful = 2500 * time.Millisecond

// errBusy is returned while an agent writes.
var errBusy = errors.New("something is written")

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
