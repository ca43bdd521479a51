// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/e2e/harness"
)

var minutes = flag.Int("minutes", 0, "how long each play of TestFloods lasts; on a machine that does nothing else, 10")

// What TestFloods allows.
const (
	floodedEtcd   = 1 << 30   // the size of the database of etcd with the smallest quota that is promised
	floodedMemory = 384 << 20 // of an agent: the limit of the chart
	floodedSlower = 1.5       // an honest change, of its quiet p50
	inventions    = 4096
)

// TestFloods plays each flood for minutes, and prints what make flood is for: how large etcd and the agent of the flooded cluster become,
// and how long an honest change takes meanwhile.
func TestFloods(t *testing.T) {
	if *minutes == 0 {
		t.Skip("make flood runs it, since it takes minutes for each flood, of a machine that does nothing else")
	}
	t.Setenv("GOMEMLIMIT", fmt.Sprint(floodedMemory)) // as an agent in a pod has it
	r := newRoom(t)
	if err := r.beta.RestartAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.eventuallyWhole(t, afterFault)
	for _, label := range []string{"honest", "flood"} {
		r.rule(t, r.beta, label, "groupVersionKind: {version: v1, kind: Secret}, targets: {matchLabels: {tier: flooded}}, rules: [{"+forLabel(label)+"}]")
	}
	kubectl(t, r.beta, "label", "--overwrite", "cluster", r.beta.Name, "tier=flooded")
	t.Cleanup(func() { kubectl(t, r.beta, "label", "cluster", r.beta.Name, "tier-") })
	// What gamma does to its own API server shall take no time from those of beta and alpha, which are elsewhere.
	apart := []int{r.gamma.AgentPID()}
	pids, err := r.gamma.ServerPIDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range slices.AppendSeq(apart, maps.Values(pids)) {
		if err := harness.Yield(pid); err != nil {
			t.Fatal(err)
		}
	}
	var first latency
	play := func(name string, flood func(t *testing.T, quietly latency)) {
		t.Run(name, func(t *testing.T) {
			quietly := r.honest(t, time.Minute)
			t.Logf("quiet: %s", quietly)
			if first.n == 0 {
				first = quietly
			}
			if quietly.slower(first) {
				t.Errorf("after the floods before, an honest change takes %s, and before all of them %s", quietly.p50, first.p50)
			}
			flood(t, quietly)
		})
	}

	play("Secrets", func(t *testing.T, quietly latency) {
		var old int64
		r.play(t, quietly, func(ctx context.Context, n int) error {
			if n%10 == 9 { // its own etcd shall not be what ends the flood
				revision, err := compact(ctx, r.gamma, old)
				if err != nil {
					return err
				}
				old = revision
			}
			return r.floodOnce(ctx, n)
		})
	})
	play("Cluster", func(t *testing.T, quietly latency) {
		t.Cleanup(func() { kubectl(t, r.gamma, "annotate", "cluster", "gamma", "example.com/flood-") })
		r.play(t, quietly, func(ctx context.Context, n int) error {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"example.com/flood":%q}}}`, strings.Repeat(fmt.Sprint(n%10), 200<<10))
			_, err := r.gamma.Dynamic.Resource(harness.Clusters()).Patch(ctx, r.gamma.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		})
	})
	play("Renames", r.renames) // before Copies, after which beta has no room for more copies that rules of gamma make of its objects
	play("Copies", r.leaves)
	play("Watches", r.watches)
	key, thief := r.stolen(t)
	play("Removals", func(t *testing.T, quietly latency) { r.removals(t, quietly, key, thief) })
	play("Inventions", func(t *testing.T, quietly latency) { r.inventions(t, quietly, key, thief) })
}

// play floods until the time is over, measures meanwhile, and checks.
func (r *room) play(t *testing.T, quietly latency, once func(ctx context.Context, n int) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(lasting(t))
	defer cancel()
	var rounds, most, memory atomic.Int64
	flooded := make(chan error, 1)
	go func() {
		err := harness.YieldThread() // it is elsewhere, too
		for n := 0; err == nil && ctx.Err() == nil; n++ {
			err = once(ctx, n)
			rounds.Store(int64(n))
		}
		if ctx.Err() != nil {
			err = nil
		}
		flooded <- err
	}()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for ; ctx.Err() == nil; time.Sleep(time.Second) {
			if size, err := databaseSize(r.beta); err == nil {
				most.Store(max(most.Load(), size))
			}
			if m, err := harness.ReadMemory(r.beta.AgentPID()); err == nil { // files that it has mapped, the kernel can drop
				memory.Store(max(memory.Load(), int64(m.Anonymous)))
			}
		}
	}()
	meanwhile := r.honest(t, time.Duration(*minutes)*time.Minute)
	cancel()
	<-watched
	if err := <-flooded; err != nil {
		t.Error(err)
	}
	if rounds.Load() == 0 {
		t.Error("it was no flood: not one round has ended")
	}
	t.Logf("%d rounds in %d minutes: etcd %d MiB, agent %d MiB; honest: %s, quiet: %s", rounds.Load(), *minutes, most.Load()>>20, memory.Load()>>20, meanwhile, quietly)
	if most.Load() == 0 || most.Load() > floodedEtcd {
		t.Errorf("the database of etcd has grown to %d MiB", most.Load()>>20)
	}
	if memory.Load() > floodedMemory {
		t.Errorf("the agent has grown to %d MiB", memory.Load()>>20)
	}
	if meanwhile.slower(quietly) {
		t.Errorf("an honest change takes %s, and %s when all is quiet", meanwhile.p50, quietly.p50)
	}
}

// latency is how long changes took, and of that the write to the API server of the source, which nobody floods: it says how busy the
// machine is.
type latency struct {
	p50, most, write time.Duration
	n                int
}

// slower says that it is, by more than is allowed.
func (l latency) slower(than latency) bool { return float64(l.p50) > floodedSlower*float64(than.p50) }

func (l latency) String() string {
	return fmt.Sprintf("p50 %s (the write alone %s), most %s, of %d changes", l.p50, l.write, l.most, l.n)
}

// honest changes a Secret of alpha again and again, and measures how long it takes until beta has the change.
func (r *room) honest(t *testing.T, during time.Duration) latency {
	t.Helper()
	var took, writes []time.Duration
	var minutes []string // the p50 of each
	last, before := 0, r.spent(t)
	for start := time.Now(); time.Since(start) < during; time.Sleep(200 * time.Millisecond) {
		if now := time.Since(start); now > time.Minute*time.Duration(len(minutes)+1) {
			minutes, last = append(minutes, median(took[last:]).Round(time.Millisecond).String()), len(took)
			spent := r.spent(t)
			t.Logf("minute %d: p50 %s; %s", len(minutes), minutes[len(minutes)-1], since(before, spent, time.Minute))
			before = spent
		}
		value := fmt.Sprint(time.Now().UnixNano())
		began := time.Now()
		put(t, r.alpha, harness.Secrets(), r.object(harness.Secrets(), "honest", "honest", value))
		writes = append(writes, time.Since(began))
		there := copied(r.beta, r.alpha, harness.Secrets(), r.name, "honest", value)
		for there(t.Context()) != nil {
			if time.Since(began) > afterFault {
				t.Fatalf("after %s the change is not there: %v", time.Since(began), there(t.Context()))
			}
			time.Sleep(2 * time.Millisecond)
		}
		took = append(took, time.Since(began))
	}
	if len(minutes) > 0 {
		t.Logf("p50 minute by minute: %s", strings.Join(minutes, ", "))
	}
	return latency{p50: median(took), most: slices.Max(took), write: median(writes), n: len(took)}
}

// spent is what the flooded cluster and its honest neighbour have used so far: seconds of processors by "cluster process", and how often
// their API servers were asked, by "cluster VERB resource".
func (r *room) spent(t *testing.T) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for _, c := range []*harness.Cluster{r.alpha, r.beta} {
		pids, err := c.ServerPIDs()
		if err != nil {
			t.Fatal(err)
		}
		pids["agent"] = c.AgentPID()
		for name, pid := range pids {
			used, err := harness.CPUTime(pid)
			if err != nil {
				t.Fatal(err)
			}
			out[c.Name+" "+name] = used.Seconds()
		}
		asked, err := requests(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		for what, n := range asked {
			out[c.Name+" "+what] = n
		}
	}
	return out
}

// since tells what was spent between, most first: percents of a processor, and requests a second where that is one or more.
func since(before, after map[string]float64, took time.Duration) string {
	var processes, requests []string
	for _, what := range slices.SortedFunc(maps.Keys(after), func(a, b string) int {
		return cmp.Compare(after[b]-before[b], after[a]-before[a])
	}) {
		a := (after[what] - before[what]) / took.Seconds()
		switch {
		case len(strings.Fields(what)) == 2:
			processes = append(processes, fmt.Sprintf("%s %.0f %%", what, 100*a))
		case a >= 1:
			requests = append(requests, fmt.Sprintf("%s %.0f/s", what, a))
		}
	}
	return strings.Join(append(processes, requests...), ", ")
}

func median(of []time.Duration) time.Duration { return slices.Sorted(slices.Values(of))[len(of)/2] }

// databaseSize is that of the etcd of a cluster.
func databaseSize(c *harness.Cluster) (int64, error) {
	dir, err := etcdFlag(c, "--data-dir=")
	if err != nil {
		return 0, err
	}
	info, err := os.Stat(filepath.Join(dir, "member", "snap", "db"))
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// compact has the etcd of a cluster forget what was before a revision, if that is not 0, and returns the revision that it has now.
func compact(ctx context.Context, c *harness.Cluster, before int64) (int64, error) {
	url, err := etcdFlag(c, "--advertise-client-urls=")
	if err != nil {
		return 0, err
	}
	var now struct {
		Header struct {
			Revision int64 `json:"revision,string"`
		} `json:"header"`
	}
	ask := func(method, question string) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v3/kv/"+method, strings.NewReader(question))
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			if strings.Contains(string(body), "has been compacted") { // by the API server
				return nil
			}
			return fmt.Errorf("%s: etcd says %s: %s", method, response.Status, body)
		}
		return json.Unmarshal(body, &now)
	}
	if before > 0 {
		if err := ask("compaction", fmt.Sprintf(`{"revision": %d}`, before)); err != nil {
			return 0, err
		}
	}
	err = ask("range", `{"key": "AA=="}`)
	return now.Header.Revision, err
}

// etcdFlag is what the etcd of a cluster was started with.
func etcdFlag(c *harness.Cluster, flag string) (string, error) {
	pids, err := c.ServerPIDs()
	if err != nil {
		return "", err
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pids["etcd"]))
	if err != nil {
		return "", err
	}
	for arg := range strings.SplitSeq(string(line), "\x00") {
		if value, found := strings.CutPrefix(arg, flag); found {
			return value, nil
		}
	}
	return "", fmt.Errorf("etcd was not started with %s", flag)
}
