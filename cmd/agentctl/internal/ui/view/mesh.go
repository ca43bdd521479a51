// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Mesh is the drawing of the group: few clusters on a ring, the own one on top; of many, the own one in the middle. Each pair of
// which one is watched has a line.
type Mesh struct {
	Width, Height int
	Few           bool // all have their names beside them
	Dots          []Dot
	Between       []Line // of two others than the own cluster
	Unasked       string // a path along all pairs of which nobody is watched
	Label         string // for those who do not see it
	Unhealthy     Tasks
}

// Dot is a cluster, with its line to the own one.
type Dot struct {
	ID, Name     string
	Own          bool
	X, Y, R      int
	NameX, NameY int
	Anchor       string
	Named        bool
	Line         Line
}

// Line is how two clusters see each other, as far as they are watched.
type Line struct {
	ID             string
	Mark           Mark
	X1, Y1, X2, Y2 int
	Title          string
}

const (
	fewDots = 24 // around the middle, in one circle with names
	// mostNames is how many names are written into a drawing of more; the title of each dot has it anyway.
	mostNames = 20
)

// meshOf draws the group as the clusters see each other.
func meshOf(all []Held, unhealthy []Task) *Mesh {
	var around []*v1alpha1.Cluster
	own := all[0].local()
	for _, c := range all[0].Clusters {
		if c.Spec.ClusterID != "" && c != own {
			around = append(around, c)
		}
	}
	m := &Mesh{Width: 660, Height: 420, Few: len(around) <= fewDots}
	m.Unhealthy = taskList(unhealthy, "Every member is reached.")
	places, size := m.places(len(around))
	self := Dot{ID: idOf("n", ""), X: places[0].x, Y: places[0].y, R: size + 4, Own: true, Named: true, Line: Line{Mark: Unknown}}
	if own != nil {
		h, message := clusters.MemberHealth(own)
		self.Name, self.Line.Mark, self.Line.Title = own.Name, markOf(h), titleOf(own.Name, "", message)
	}
	self.label(m.Width/2, m.Height/2+1)
	views := viewsOf(all)
	bads, ids := 0, make([]string, len(around))
	for i, c := range around {
		ids[i] = string(c.Spec.ClusterID)
		d := Dot{ID: idOf("n", ids[i]+" "+c.Name), Name: c.Name, X: places[i+1].x, Y: places[i+1].y, R: size}
		d.Line = views.pair(idOf("n", ""), ids[i])
		d.Line.X1, d.Line.Y1, d.Line.X2, d.Line.Y2 = self.X, self.Y, d.X, d.Y
		if d.Line.Mark == Bad {
			bads++
		}
		d.Named = m.Few || d.Line.Mark == Bad && bads <= mostNames
		d.label(m.Width/2, m.Height/2)
		m.Dots = append(m.Dots, d)
	}
	m.between(views, ids)
	m.Dots = append(m.Dots, self)
	m.Label = fmt.Sprintf("%s and %s; the list below has those with problems", self.Name, cli.Plural(len(around), "other cluster"))
	return m
}

// label places the name of a dot on the side that is away from the middle.
func (d *Dot) label(middleX, middleY int) {
	const away = 7
	d.Anchor, d.NameX, d.NameY = "start", d.X+d.R+away, d.Y+4
	switch dx := d.X - middleX; {
	case math.Abs(float64(dx)) < 30 && d.Y < middleY:
		d.Anchor, d.NameX, d.NameY = "middle", d.X, d.Y-d.R-away
	case math.Abs(float64(dx)) < 30:
		d.Anchor, d.NameX, d.NameY = "middle", d.X, d.Y+d.R+away+9
	case dx < 0:
		d.Anchor, d.NameX = "end", d.X-d.R-away
	}
}

// between draws the pairs of others: those of which one is watched and, where there are few, the others in one path.
func (m *Mesh) between(views views, ids []string) {
	if !m.Few && len(views) == 1 {
		return // of 500 clusters, these are 124,251 pairs
	}
	var path strings.Builder
	for i := range ids {
		for j := range i {
			a, b := m.Dots[i], m.Dots[j]
			switch {
			case views[ids[i]] != nil || views[ids[j]] != nil:
				l := views.pair(ids[i], ids[j])
				l.ID, l.X1, l.Y1, l.X2, l.Y2 = idOf("e", a.ID+b.ID), a.X, a.Y, b.X, b.Y
				m.Between = append(m.Between, l)
			case m.Few:
				fmt.Fprintf(&path, "M%d %dL%d %d", a.X, a.Y, b.X, b.Y)
			}
		}
	}
	m.Unasked = path.String()
}

type place struct{ x, y int }

// places are those of the own cluster and of n others: few on one ellipse, more on circles around the own one, for which the
// drawing grows.
func (m *Mesh) places(n int) (out []place, size int) {
	at := func(rx, ry float64, i, n int) place {
		angle := 2*math.Pi*float64(i)/float64(n) - math.Pi/2
		return place{m.Width/2 + int(math.Round(rx*math.Cos(angle))), m.Height/2 + int(math.Round(ry*math.Sin(angle)))}
	}
	if m.Few {
		for i := range n + 1 {
			out = append(out, at(215, 150, i, n+1))
		}
		return out, 9
	}
	const first, step, apart = 70.0, 22.0, 20.0
	radius, left := first, n
	var rings []int
	for ; left > 0; radius += step {
		fits := min(left, int(2*math.Pi*radius/apart))
		rings, left = append(rings, fits), left-fits
	}
	m.Height = 2*int(radius) + 20
	m.Width = m.Height + 240 // names stand outside
	out = []place{{m.Width / 2, m.Height / 2}}
	for k, fits := range rings {
		for i := range fits {
			r := first + float64(k)*step
			out = append(out, at(r, r, i, fits))
		}
	}
	return out, 5
}

// views is what each watched cluster says of each other one, by their IDs. The own cluster is there under the ID of its dot: it may not be
// known yet.
type views map[string]map[string]said

type said struct {
	by, of  string
	health  clusters.Health
	message string
}

func viewsOf(all []Held) views {
	out := views{}
	for i, held := range all {
		local := held.local()
		id := idOf("n", "")
		if i > 0 && local != nil {
			id = string(local.Spec.ClusterID)
		} else if i > 0 {
			continue // nobody knows yet which one it is
		}
		out[id] = map[string]said{}
		for _, c := range held.Clusters {
			of := string(c.Spec.ClusterID)
			if own := all[0].local(); own != nil && of == string(own.Spec.ClusterID) {
				of = idOf("n", "")
			}
			h, message := clusters.MemberHealth(c)
			if i > 0 && (held.Problem != "" || !held.Complete) {
				h, message = clusters.Unknown, "it cannot be read now"
			}
			out[id][of] = said{held.name(), c.Name, h, message}
		}
	}
	return out
}

// pair is how two clusters see each other: as the worse of the two says.
func (v views) pair(a, b string) Line {
	worst, found := clusters.Healthy, false
	var titles []string
	for _, way := range [][2]string{{a, b}, {b, a}} {
		if s, ok := v[way[0]][way[1]]; ok {
			worst, found = max(worst, s.health), true
			titles = append(titles, titleOf(s.by, s.of, s.message))
		}
	}
	if !found {
		return Line{Mark: Unknown, Title: "one of them does not list the other"}
	}
	slices.Sort(titles)
	return Line{Mark: markOf(worst), Title: strings.Join(titles, "; ")}
}

func titleOf(by, of, message string) string {
	if message == "" {
		message = "fine"
	}
	if of == "" {
		return Brief(by + ": " + message)
	}
	return Brief(by + " of " + of + ": " + message)
}
