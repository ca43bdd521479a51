// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// fanout is how many neighbours an agent of the mesh has.
func fanout(n int) int { return min(n-1, int(math.Ceil(math.Log(float64(n))))+3) }

// bound is how long a share of n agents takes in a tree in which each tells that many others.
func bound(n int, share float64) time.Duration {
	reached, level, hops := 1, 1, 0
	for float64(reached) < share*float64(n) {
		level *= fanout(n)
		reached += level
		hops++
	}
	return time.Duration(hops) * latency
}

// report is docs/scale.md.
func report(results []result) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `# Scale: how changes spread in large groups

Written by `+"`make sim-scale`"+`, which runs the real mesh and replica code in virtual time; do not edit. Every link takes
%v one way and loses nothing. A change is one rule of %d bytes; %d changes were made, each at another agent, and the
table has the middle of these runs. Bytes are all that is handed to the network in the %v after a change, less what is
sent in as much time before it, divided by the number of agents.

- **roster** is the mesh over its real TLS connections; every handshake is counted.
- **queue** is hashicorp/memberlist's own broadcast queue with its stock retransmit factor (4) and WAN profile (every
  500 ms to 4 members), over bare packets without encryption.
- **quick** is the same with the gossip interval of memberlist's LAN profile, 200 ms.
  The queue sends each message a fixed number of times to members chosen at random, so now and then one is missed, and
  hears of it in a later full exchange; such a run counts as the whole pause of %v.
- **bound** is the latency times the depth of a full tree with as many branches as the mesh has neighbours.

Time to reach a share of all agents, in milliseconds:

| agents | system | 50 %% | 99 %% | all | slowest run | runs that missed somebody |
|---|---|---|---|---|---|---|
`, latency, ruleSize, results[0].Changes, pause, pause)
	last := 0
	for _, r := range results {
		if r.Agents != last {
			last = r.Agents
			fmt.Fprintf(&b, "| %d | bound | %d | %d | %d | | |\n", last,
				bound(last, 0.5).Milliseconds(), bound(last, 0.99).Milliseconds(), bound(last, 1).Milliseconds())
		}
		fmt.Fprintf(&b, "| %d | %s | %d | %d | %d | %d | %d |\n", r.Agents, r.System,
			r.Half.Milliseconds(), r.Most.Milliseconds(), r.All.Milliseconds(), r.Worst.Milliseconds(), r.Missed)
	}
	fmt.Fprint(&b, `
![time until all agents know of a change](scale.png)

What it costs. Join is one more agent in a group at rest: until everybody sees it alive and holds what it holds, and
what all agents together send for it, less what they send at rest (0 where that varies by more). Memory is Go's heap and stacks, simulated network and TLS buffers included.

| agents | system | bytes per agent per change | bytes per agent per idle minute | join, s | join, KiB | memory per agent, KiB |
|---|---|---|---|---|---|---|
`)
	for _, r := range results {
		fmt.Fprintf(&b, "| %d | %s | %d | %d | %.2f | %d | %d |\n",
			r.Agents, r.System, r.Change, r.Idle, r.Join.Seconds(), max(0, r.JoinBytes>>10), r.Memory>>10)
	}
	b.WriteString(verdict(results))
	return b.Bytes()
}

// verdict sets the largest group beside the budget.
func verdict(results []result) string {
	n := slices.MaxFunc(results, func(a, b result) int { return a.Agents - b.Agents }).Agents
	ours := results[slices.IndexFunc(results, func(r result) bool { return r.Agents == n && r.System == "roster" })]
	text := fmt.Sprintf("\nWith %d agents, over memberlist's own queue (budget: 0.10 of its time at 1.50 of its bytes):\n\n", n)
	for _, r := range results {
		if r.Agents == n && r.System != "roster" {
			text += fmt.Sprintf("- %s: %.2f of its time, %.2f of its bytes\n", r.System,
				float64(ours.All)/float64(r.All), float64(ours.Change)/float64(r.Change))
		}
	}
	return text + fmt.Sprintf(`
At rest an agent sends %d bytes a minute for each member, and nothing that depends on the number of objects. What
memberlist sends at rest is less because it has no connections to set up: the mesh proves both keys in a handshake with
every member that it probes.
`, ours.Idle/n)
}

// draw is docs/scale.png.
func draw(results []result, path string) error {
	p := plot.New()
	p.Title.Text = "Until all agents know of a change, 40 ms one way"
	p.X.Label.Text, p.Y.Label.Text = "agents", "milliseconds"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker = agentTicks(results)
	p.Y.Tick.Marker = plot.ConstantTicks{
		{Value: 40, Label: "40"},
		{Value: 100, Label: "100"},
		{Value: 200, Label: "200"},
		{Value: 500, Label: "500"},
		{Value: 1000, Label: "1000"},
		{Value: 2000, Label: "2000"},
		{Value: 4000, Label: "4000"},
	}
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	var lines []any
	for _, name := range systems() {
		var points, bounds plotter.XYs
		for _, r := range results {
			if r.System == name {
				points = append(points, plotter.XY{X: float64(r.Agents), Y: float64(r.All.Milliseconds())})
				bounds = append(bounds, plotter.XY{X: float64(r.Agents), Y: float64(bound(r.Agents, 1).Milliseconds())})
			}
		}
		lines = append(lines, name, points)
		if name == systems()[len(systems())-1] {
			lines = append(lines, "bound", bounds)
		}
	}
	if err := plotutil.AddLinePoints(p, lines...); err != nil {
		return err
	}
	return p.Save(18*vg.Centimeter, 11*vg.Centimeter, path)
}

func agentTicks(results []result) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for _, r := range results {
		ticks = append(ticks, plot.Tick{Value: float64(r.Agents), Label: fmt.Sprint(r.Agents)})
	}
	return ticks
}
