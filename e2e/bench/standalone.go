// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/e2e/harness"
)

// calm is how long API servers are left alone once their agents have been killed.
const calm = 10 * time.Second

// side is one kind of control plane: Kubernetes' own, or Roster's API server for clusters without Kubernetes.
type side struct {
	name      string   // of folders, and in figures
	bin       string   // what the testbed calls this kind
	processes []string // of one control plane
	bed       *bed
}

// comparison is of two sides whose etcd waits for the disk. What is measured of them is measured in turns, or at once.
type comparison struct {
	s            settings
	n            int // clusters of each side
	bin          harness.Binaries
	dir          string
	r            *report
	log          func(string, ...any)
	theirs, ours *side
}

// compareServers measures Roster's API server for clusters without Kubernetes beside etcd, kube-apiserver and
// kube-controller-manager. No figure counts agents.
func compareServers(ctx context.Context, s settings, n int, r *report, log func(string, ...any)) (err error) {
	bin, err := harness.FindBinaries()
	if err != nil {
		return err
	}
	dir, leave, err := workFolder(log)
	if err != nil {
		return err
	}
	defer func() { err = leave(err) }()
	c := &comparison{
		s: s, n: n, bin: bin, dir: dir, r: r, log: log,
		theirs: &side{name: "Kubernetes", bin: "newest", processes: []string{"apiserver", "controller-manager", "etcd"}},
		ours:   &side{name: "standalone", bin: "standalone", processes: []string{"apiserver"}},
	}
	log("servers: ready from an empty directory")
	if err := c.ready(ctx); err != nil {
		return fmt.Errorf("ready: %w", err)
	}
	log("servers: failover of three")
	if err := c.failover(ctx); err != nil { // while nothing else runs
		return fmt.Errorf("failover: %w", err)
	}
	defer func() { err = errors.Join(err, c.close()) }()
	for _, one := range c.both() {
		if err := c.form(ctx, one); err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
	}
	log("servers: memory and idle, %s", s.servers.still)
	if err := c.rest(ctx); err != nil {
		return err
	}
	return c.load(ctx)
}

func (c *comparison) close() error {
	var errs []error
	for _, s := range c.both() {
		if s.bed != nil {
			errs = append(errs, s.bed.fleet.Close())
		}
	}
	return errors.Join(errs...)
}

// both is Kubernetes first: what is older has given more memory back.
func (c *comparison) both() []*side { return []*side{c.theirs, c.ours} }

// turns is the order in which the sides are measured in a round.
func (c *comparison) turns(round int) []*side {
	sides := c.both()
	if round%2 == 1 {
		slices.Reverse(sides)
	}
	return sides
}

func (c *comparison) add(name string, value float64, unit string, limit *budget, note string) {
	c.r.add(c.n, name, value, unit, limit, note)
}

func (c *comparison) up(ctx context.Context, s *side, o harness.Options) (*harness.Fleet, error) {
	o.Binaries, o.Fsync = c.bin, true
	o.Binaries.Kubernetes = s.bin
	return harness.Up(ctx, o)
}

// ready is how long a control plane takes from an empty directory until its API server serves. Both are ready when
// /readyz says so and the first namespaces are there; of Kubernetes that is etcd's start and then the API server's.
func (c *comparison) ready(ctx context.Context) error {
	took := map[*side][]time.Duration{}
	var etcd []time.Duration // of Kubernetes'
	for round := range c.s.servers.starts + 1 {
		if round == 1 {
			clear(took) // the first start also reads the programs from the disk
			etcd = nil
		}
		for _, s := range c.turns(round) {
			times, err := c.startOnce(ctx, s)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			took[s] = append(took[s], times["etcd"]+times["apiserver"])
			if s == c.theirs {
				etcd = append(etcd, times["etcd"])
			}
		}
	}
	ours, theirs := percentile(took[c.ours], 50), percentile(took[c.theirs], 50)
	c.r.add(1, "ready from an empty directory, over Kubernetes", ours.Seconds()/theirs.Seconds(), "×", atMost(1),
		fmt.Sprintf("medians of %d: %.2f s; Kubernetes %.2f s, of which etcd %.2f s", c.s.servers.starts, ours.Seconds(), theirs.Seconds(), percentile(etcd, 50).Seconds()))
	return nil
}

// startOnce starts one control plane in a new directory, and returns how long each component took.
func (c *comparison) startOnce(ctx context.Context, s *side) (_ map[string]time.Duration, err error) {
	dir := filepath.Join(c.dir, "start")
	var mu sync.Mutex
	var printed []string
	fleet, err := c.up(ctx, s, harness.Options{Dir: dir, Names: []string{"c1"}, ServersOnly: true, Log: func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		printed = append(printed, fmt.Sprintf(format, args...))
	}})
	if err != nil {
		return nil, err
	}
	if err := fleet.Close(); err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	times, err := startTimes(printed)
	if err == nil && times["apiserver"] == 0 {
		err = fmt.Errorf("the testbed does not tell when the API server was ready: %q", printed)
	}
	return times, errors.Join(err, os.RemoveAll(dir))
}

// startTimes reads what the testbed prints of each component that it has waited for.
func startTimes(lines []string) (map[string]time.Duration, error) {
	times := map[string]time.Duration{}
	pattern := regexp.MustCompile(`: ([a-z-]+) ready after ([0-9.]+) s$`)
	for _, line := range lines {
		found := pattern.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		seconds, err := strconv.ParseFloat(found[2], 64)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		times[found[1]] = time.Duration(seconds * float64(time.Second))
	}
	return times, nil
}

// form makes a group of one kind of cluster and does the quickstart in it.
func (c *comparison) form(ctx context.Context, s *side) error {
	c.log("servers: %s: %d clusters, quickstart", s.name, c.n)
	names := make([]string, c.n)
	for i := range names {
		names[i] = fmt.Sprintf("c%d", i+1)
	}
	fleet, err := c.up(ctx, s, harness.Options{Dir: filepath.Join(c.dir, s.name), Names: names})
	if err != nil {
		return err
	}
	s.bed = &bed{s: c.s, n: c.n, fleet: fleet, log: c.log, r: c.r, suffix: " (" + s.name + ")"}
	if s == c.theirs {
		if err := s.bed.describe("etcd with fsync"); err != nil {
			return err
		}
	}
	if err := s.bed.form(ctx); err != nil {
		return err
	}
	return s.bed.quickstart(ctx)
}

// quickstart applies the rule of the quickstart in the first cluster and its Secret in the source, and returns when all
// have the Secret and no agent writes any more.
func (b *bed) quickstart(ctx context.Context) error {
	if _, err := b.first().Apply(ctx, harness.QuickstartRule); err != nil {
		return err
	}
	if _, err := b.source().Apply(ctx, harness.QuickstartSecret, "-n", harness.Namespace); err != nil {
		return err
	}
	for _, c := range b.targets() {
		_, err := harness.Wait(ctx, "the Secret of the quickstart in "+c.Name, within, func(ctx context.Context) error {
			_, err := c.Kube.CoreV1().Secrets(harness.Namespace).Get(ctx, "test-secret", metav1.GetOptions{})
			return err
		})
		if err != nil {
			return err
		}
	}
	return b.settled(ctx)
}

// rest measures memory after the quickstart, with agents there, and what servers do without them while nothing changes:
// both sides in the same minutes.
func (c *comparison) rest(ctx context.Context) error {
	if err := pause(ctx, untilTold); err != nil {
		return err
	}
	held, err := c.readServers(ctx)
	if err != nil {
		return err
	}
	for _, s := range c.both() {
		for _, cluster := range s.bed.fleet.Clusters {
			if err := cluster.KillAgent(); err != nil {
				return err
			}
		}
	}
	if err := pause(ctx, calm); err != nil {
		return err
	}
	before, err := c.readServers(ctx)
	if err != nil {
		return err
	}
	if err := pause(ctx, c.s.servers.still); err != nil {
		return err
	}
	after, err := c.readServers(ctx)
	if err != nil {
		return err
	}
	ours, theirs := held[c.ours], held[c.theirs]
	c.add("memory after the quickstart, over Kubernetes", float64(ours.total())/float64(theirs.total()), "×", atMost(0.65),
		fmt.Sprintf("resident, of a cluster: %s; Kubernetes %s", ours.mib(c.n), theirs.mib(c.n)))
	c.addIdle(before, after)
	return nil
}

func (c *comparison) addIdle(before, after map[*side]serverUsage) {
	minutes := c.s.servers.still.Minutes()
	cpu := func(s *side) float64 { return (after[s].cpu - before[s].cpu).Seconds() / minutes / float64(c.n) }
	writes := func(s *side) int64 { return mostGrown(before[s].revisions, after[s].revisions) }
	c.add("idle: CPU, over Kubernetes", cpu(c.ours)/cpu(c.theirs), "×", atMost(0.7),
		fmt.Sprintf("a minute, of a cluster: %.2f s; Kubernetes %.2f s", cpu(c.ours), cpu(c.theirs)))
	c.add("idle: writes to etcd", float64(writes(c.ours)), "", atMost(1),
		fmt.Sprintf("of the cluster with the most, in %s; Kubernetes %d", c.s.servers.still, writes(c.theirs)))
}

// mostGrown is the most that any of the values has grown by.
func mostGrown(before, after []int64) int64 {
	var most int64
	for i := range after {
		most = max(most, after[i]-before[i])
	}
	return most
}

// serverUsage is what the control planes of a side hold and have used so far.
type serverUsage struct {
	resident  map[string]int // bytes by component, of all clusters
	cpu       time.Duration  // of all components of all clusters
	revisions []int64        // of each cluster's etcd, which each write makes one more
}

func (u serverUsage) total() int {
	sum := 0
	for _, bytes := range u.resident {
		sum += bytes
	}
	return sum
}

// mib says what a component holds in one of n clusters.
func (u serverUsage) mib(n int) string {
	parts := []string{}
	for _, component := range slices.Sorted(maps.Keys(u.resident)) {
		parts = append(parts, fmt.Sprintf("%s %d", component, u.resident[component]/n>>20))
	}
	return fmt.Sprintf("%d MiB (%s)", u.total()/n>>20, strings.Join(parts, ", "))
}

func (c *comparison) readServers(ctx context.Context) (map[*side]serverUsage, error) {
	out := map[*side]serverUsage{}
	for _, s := range c.both() {
		u := serverUsage{resident: map[string]int{}}
		for _, cluster := range s.bed.fleet.Clusters {
			if err := u.take(ctx, cluster, s.processes); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", s.name, cluster.Name, err)
			}
		}
		out[s] = u
	}
	return out, nil
}

// take adds one cluster, whose control plane is these processes.
func (u *serverUsage) take(ctx context.Context, c *harness.Cluster, processes []string) error {
	pids, err := c.ServerPIDs()
	if err != nil {
		return err
	}
	if running := slices.Sorted(maps.Keys(pids)); !slices.Equal(running, processes) {
		return fmt.Errorf("%v run, not %v", running, processes)
	}
	for component, pid := range pids {
		memory, err := harness.ReadMemory(pid)
		if err != nil {
			return err
		}
		cpu, err := harness.CPUTime(pid)
		if err != nil {
			return err
		}
		u.resident[component] += memory.Resident
		u.cpu += cpu
	}
	revision, err := etcdRevision(ctx, c)
	u.revisions = append(u.revisions, revision)
	return err
}

// etcdRevision asks the API server, which can be asked in the same way wherever its etcd is: a list that names no version
// is at least as new as etcd's revision at that moment, and says so.
func etcdRevision(ctx context.Context, c *harness.Cluster) (int64, error) {
	list, err := c.Kube.CoreV1().Secrets(harness.Namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(list.ResourceVersion, 10, 64)
}
