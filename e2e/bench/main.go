// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errMissed):
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(exitMissed)
	default:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(exitFailed)
	}
}

const (
	exitFailed = 1
	exitMissed = 3
)

// errMissed is returned when everything was measured and a budget was not met.
var errMissed = errors.New("a budget was missed")

// settings say how much is measured.
type settings struct {
	clusters    []int
	samples     int           // of each way and verb, one by one
	bulk        []int         // objects at once; all but the first with the middle count of clusters alone
	rounds      int           // of the first of bulk; of the others half as many
	nonMatching int           // objects that no rule selects
	idle        time.Duration // how long agents are watched while nothing changes
	cases       bool
	servers     servers
	within      time.Duration // the whole run
	only        string
	profile     string
	json        string
}

// servers say how much is measured of API servers, by the part that compares them.
type servers struct {
	starts    int           // from an empty directory, of each kind
	failovers int           // how often the leader of three is killed
	still     time.Duration // how long they are watched while nothing changes
	rounds    int           // of each load
	gets      int           // in one round, as are the following
	lists     int
	creates   int
	events    int // objects that one writer creates
	watchers  int // that are told of each
}

// full takes about 55 minutes on two processors, quick less than two.
func full() settings {
	return settings{
		clusters: []int{2, 3, 5}, samples: 250, bulk: []int{1000, 5000}, rounds: 8,
		nonMatching: 20000, idle: time.Minute, cases: true, within: 75 * time.Minute,
		servers: servers{starts: 5, failovers: 10, still: 5 * time.Minute, rounds: 8, gets: 2000, lists: 250, creates: 1000, events: 200, watchers: 50},
	}
}

func quick() settings {
	return settings{
		clusters: []int{3}, samples: 60, bulk: []int{500}, rounds: 1, idle: 10 * time.Second, within: 10 * time.Minute,
		servers: servers{starts: 1, failovers: 2, still: 10 * time.Second, rounds: 2, gets: 1000, lists: 60, creates: 300, events: 50, watchers: 20},
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	short := flags.Bool("quick", false, "a subset in two minutes: 3 clusters, fewer and smaller samples")
	clusters := flags.String("clusters", "", "how many clusters, one group after the other (default 2,3,5; with --quick 3)")
	objects := flags.String("objects", "", "how many objects at once, several separated by commas (default 1000,5000; with --quick 500)")
	file := flags.String("json", "", "write the figures to this file, too")
	only := flags.String("only", "", "one part: "+strings.Join(partNames(), ", ")+"; "+standalonePart+" takes about 16 minutes and is measured only when it is named")
	profile := flags.String("profile", "", "write CPU and heap profiles of the agents into this folder")
	writes := flags.Bool("writes", false, "compare ways to write to one API server (decision 006), and nothing else")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("nothing may follow the flags, and %q does", flags.Arg(0))
	}
	if *writes {
		return compareWrites(ctx, out, progress)
	}
	s := full()
	if *short {
		s = quick()
	}
	s.json, s.only, s.profile = *file, *only, *profile
	if s.only != "" && !slices.Contains(partNames(), s.only) {
		return fmt.Errorf("--only: %q is none of %s", s.only, strings.Join(partNames(), ", "))
	}
	if s.only == standalonePart && s.profile != "" {
		return errors.New("--profile: profiles are of agents, and " + standalonePart + " measures API servers")
	}
	err := errors.Join(parseCounts("clusters", *clusters, 2, 20, &s.clusters), parseCounts("objects", *objects, 10, 100_000, &s.bulk))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.within, fmt.Errorf("not done within %s", s.within))
	defer cancel()
	return measure(ctx, s, out, progress)
}

// parseCounts reads a flag with a list of numbers; without one, the default stays.
func parseCounts(flag, list string, least, most int, to *[]int) error {
	if list == "" {
		return nil
	}
	var out []int
	for part := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < least || n > most {
			return fmt.Errorf("--%s: %q is not a number from %d to %d", flag, part, least, most)
		}
		out = append(out, n)
	}
	slices.Sort(out)
	*to = slices.Compact(out)
	return nil
}

// measure takes all figures. What was measured is printed also when something fails on the way.
func measure(ctx context.Context, s settings, out, progress io.Writer) error {
	r := &report{Began: time.Now().UTC().Truncate(time.Second)}
	log := func(format string, args ...any) {
		fmt.Fprintf(progress, "%6.1f s  %s\n", time.Since(r.Began).Seconds(), fmt.Sprintf(format, args...))
	}
	take, counts := measureGroup, s.clusters
	if s.only == standalonePart {
		take, counts = compareServers, []int{s.middle()}
	}
	var err error
	for _, n := range counts {
		if err = take(ctx, s, n, r, log); err != nil {
			err = fmt.Errorf("%d clusters: %w", n, errors.Join(err, context.Cause(ctx)))
			break
		}
	}
	r.Seconds = time.Since(r.Began).Seconds()
	err = errors.Join(err, r.print(out))
	if s.json != "" {
		err = errors.Join(err, r.write(s.json))
	}
	if missed := r.missed(); err == nil && missed > 0 {
		err = fmt.Errorf("%w: %d of %d figures", errMissed, missed, r.judged())
	}
	return err
}

// part is one measurement of a group.
type part struct {
	name string
	// where it is taken: with every count of clusters, with the middle one, or with the last.
	where place
	run   func(context.Context, *bed) error
}

type place int

const (
	everywhere place = iota
	middle
	last
)

// standalonePart compares API servers: it has groups of its own, and is taken only when it is named.
const standalonePart = "standalone"

// parts of a group are in the order in which they are taken: what needs a fresh agent comes first.
func parts() []part {
	return []part{
		{"first", last, firstCopy},
		{"idle", last, idle},
		{"latency", everywhere, latency},
		{"repair", everywhere, repair},
		{"bulk", everywhere, bulk},
		{"cases", middle, cases},
		{"noise", middle, noise},
	}
}

func partNames() []string {
	var out []string
	for _, p := range parts() {
		out = append(out, p.name)
	}
	return append(out, standalonePart)
}

func (s settings) middle() int { return s.clusters[len(s.clusters)/2] }

func (s settings) takes(p part, n int) bool {
	switch {
	case s.only != "":
		return s.only == p.name
	case p.name == "cases" && !s.cases, p.name == "noise" && s.nonMatching == 0:
		return false
	}
	return p.where == everywhere || p.where == middle && n == s.middle() || p.where == last && n == s.clusters[len(s.clusters)-1]
}
