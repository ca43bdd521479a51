// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"golang.org/x/sync/errgroup"
)

var (
	agents   = flag.String("agents", "10", "numbers of agents to measure, separated by commas")
	changes  = flag.Int("changes", 3, "changes to measure, each at another agent")
	write    = flag.String("write", "", "directory for scale.md and scale.png")
	limit    = flag.Duration("limit", 20*time.Minute, "real time that one measurement may take")
	parallel = flag.Int("together", runtime.GOMAXPROCS(0), "how many measurements run at the same time")
	only     = flag.String("measure", "", "measure one system with one number of agents, and write the result to this file")
	system   = flag.String("system", "", "the system that is measured alone")
)

// systems are what is measured, in the order of the table.
func systems() []string { return []string{"roster", "queue", "quick"} }

// TestScale measures every system with every number of agents, each in a process of its own: what
// one left behind in memory is not counted for the next. Time is virtual, so that they do not disturb
// each other.
func TestScale(t *testing.T) {
	if *only != "" {
		t.Skip("TestMeasure runs alone in a process that measures")
	}
	var sizes []int
	for field := range strings.SplitSeq(*agents, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 2 {
			t.Fatalf("-agents: %q is not a number of two or more", field)
		}
		sizes = append(sizes, n)
	}
	slices.Sort(sizes)
	results := make([]result, len(sizes)*len(systems()))
	var g errgroup.Group
	g.SetLimit(*parallel)
	for i := range results {
		i = len(results) - 1 - i // what takes longest first
		n, name := sizes[i/len(systems())], systems()[i%len(systems())]
		g.Go(func() error {
			r, err := measureApart(t, name, n)
			if err != nil {
				return fmt.Errorf("%s with %d agents: %w", name, n, err)
			}
			t.Logf("%+v", r)
			results[i] = r
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	save(t, results)
}

// save writes the document and its picture.
func save(t *testing.T, results []result) {
	t.Helper()
	if *write == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(*write, "scale.md"), report(results), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := draw(results, filepath.Join(*write, "scale.png")); err != nil {
		t.Fatal(err)
	}
}

func measureApart(t *testing.T, name string, n int) (r result, err error) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		return r, err
	}
	out := filepath.Join(t.TempDir(), "result")
	ctx, cancel := context.WithTimeout(t.Context(), *limit)
	defer cancel()
	c := exec.CommandContext(ctx, program, "-test.run=^TestMeasure$", "-system="+name, "-measure="+out,
		"-agents="+strconv.Itoa(n), "-changes="+strconv.Itoa(*changes))
	said, err := c.CombinedOutput()
	if err := ctx.Err(); err != nil {
		return r, err
	}
	if err != nil {
		return r, errors.New(string(said))
	}
	b, err := os.ReadFile(out)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(b, &r)
}

func TestMeasure(t *testing.T) {
	if *only == "" {
		t.Skip("TestScale runs this in processes of its own")
	}
	n, err := strconv.Atoi(*agents)
	if err != nil {
		t.Fatal(err)
	}
	debug.SetGCPercent(400) // the machine has more memory than time
	start := time.Now()
	var r result
	switch *system {
	case "roster":
		r = measureRoster(t, n, *changes)
	case "queue":
		r = measureStock(t, n, *changes, 0)
	case "quick":
		r = measureStock(t, n, *changes, memberlist.DefaultLANConfig().GossipInterval)
	default:
		t.Fatalf("-system: %q is none of %s", *system, strings.Join(systems(), ", "))
	}
	r.System, r.Wall = *system, time.Since(start)
	b, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(*only, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestBound: the bound is the depth of a full tree.
func TestBound(t *testing.T) {
	for n, want := range map[int]int{2: 1, 6: 1, 10: 2, 50: 2, 500: 3} {
		if got := bound(n, 1); got != time.Duration(want)*latency {
			t.Errorf("%d agents: %v, want %d hops", n, got, want)
		}
	}
}
