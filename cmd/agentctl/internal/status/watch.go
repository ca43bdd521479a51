// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/live"
)

// watchDebounce sums up changes that come together: an agent that starts writes several.
const watchDebounce = 100 * time.Millisecond

// watchStatus shows v and then every change of it, until ctx ends, and returns what it showed last. Every
// tick, if there is one, it shows the same again.
func watchStatus(ctx context.Context, c *clusters.Client, v groupView, show func(groupView) error, tick time.Duration) (groupView, error) {
	if err := show(v); err != nil {
		return v, err
	}
	w, err := live.Follow(ctx, c)
	if err != nil {
		return v, err
	}
	defer w.Stop()
	w.Await(ctx)
	var ticks <-chan time.Time
	if tick > 0 {
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		ticks = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return v, nil
		case <-ticks:
			if err := show(v); err != nil {
				return v, err
			}
			continue
		case <-w.Changed():
		}
		select {
		case <-ctx.Done():
			return v, nil
		case <-time.After(watchDebounce):
		}
		next, err := viewNow(w, c.Context)
		if err != nil {
			return v, err
		}
		if reflect.DeepEqual(next, v) {
			continue
		}
		if v = next; show(v) != nil {
			return v, nil
		}
	}
}

// errHealthy ends a watch.
var errHealthy = errors.New("healthy")

// waitHealthy watches until the group is healthy, and says what is worst whenever that changes. late is a TimeoutError.
func waitHealthy(ctx context.Context, c *clusters.Client, v groupView, out *cli.Output, timeout time.Duration) (last groupView, late, err error) {
	until, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	progress, said := out.Progress(), ""
	v, err = watchStatus(until, c, v, func(v groupView) error {
		last = v
		if v.Health == clusters.Healthy {
			return errHealthy
		}
		if now := cli.First(v.Problems); now != said {
			progress("%s", now)
			said = now
		}
		return nil
	}, 0)
	switch {
	case last.Health == clusters.Healthy:
		return last, nil, nil
	case err != nil:
		return v, nil, err
	case ctx.Err() != nil:
		return v, nil, errors.New("interrupted")
	}
	return v, &cli.TimeoutError{Text: fmt.Sprintf("after %s the group is not healthy:", timeout), Missing: v.Problems}, nil
}

// viewNow sums up what a watch has seen.
func viewNow(w *live.Follower, contextName string) (groupView, error) {
	now, err := w.View()
	if err != nil {
		return groupView{}, err
	}
	v := viewOf(contextName, now.Clusters, now.Rules)
	if now.Problem != "" {
		v.Health = max(v.Health, clusters.Unknown)
		v.Problems = append(v.Problems, "the API server of context "+contextName+" cannot be watched, this may be old: "+now.Problem)
	}
	return v, nil
}

// documents prints each view as one document of a stream.
func documents(w io.Writer, format string) func(groupView) error {
	return func(v groupView) error {
		if format == "json" {
			data, err := cli.JSON(v)
			if err != nil {
				return err
			}
			_, err = w.Write(data)
			return err
		}
		data, err := cli.YAML(v)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "---\n%s", data)
		return err
	}
}

// follow prints a line for everything that changed, with the time: what a log or a pipe can use.
func follow(w io.Writer) func(groupView) error {
	w = cli.Printable{To: w}
	before := map[string]string{}
	return func(v groupView) error {
		now := v.lines()
		at := time.Now().UTC().Format(time.RFC3339)
		for _, what := range slices.Sorted(maps.Keys(now)) {
			if now[what] != before[what] {
				if _, err := fmt.Fprintf(w, "%s %s: %s\n", at, what, now[what]); err != nil {
					return err
				}
			}
		}
		for _, what := range slices.Sorted(maps.Keys(before)) {
			if _, there := now[what]; !there {
				after := "gone"
				if strings.HasPrefix(what, "rule ") { // only those with problems are told
					after = "no problem any more"
				}
				if _, err := fmt.Fprintf(w, "%s %s: %s\n", at, what, after); err != nil {
					return err
				}
			}
		}
		before = now
		return nil
	}
}

// lines is a view as text for each thing in it, without what changes all the time.
func (v groupView) lines() map[string]string {
	out := map[string]string{"group": fmt.Sprintf("%s, %d clusters, %d of %d rules ready", v.Health, len(v.Members), v.Rules.Ready, v.Rules.Total)}
	for _, m := range v.Members {
		text := fmt.Sprintf("%s, synced %s", m.State, dash(m.Synced))
		if m.Message != "" {
			text += ", " + m.Message
		}
		out["cluster "+m.Name] = text
	}
	for _, r := range v.Unready {
		out["rule "+r.Name] = r.Ready.Reason + ": " + r.Ready.Message
	}
	return out
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
