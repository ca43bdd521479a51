// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh/trust"
)

// told are the events that were recorded.
type told []string

// Event implements Events.
func (e *told) Event(_ schema.GroupVersionKind, _ metav1.Object, _, reason, _ string) {
	*e = append(*e, reason)
}

// TestRoles: what a person writes on a Cluster object makes an edge of a newcomer, more of an edge, also where that came by another member,
// and nothing of a full member. A value that nobody knows means edge. It is recorded.
func TestRoles(t *testing.T) {
	const id = agenttest.IDB
	copied := func(c *v1alpha1.Cluster) { payload.MarkCopy(c, payload.Meta{}, id) }
	for name, c := range map[string]struct {
		pin    func(*trust.Table) error // before
		change func(*v1alpha1.Cluster)
		role   string
		edge   bool
		swap   bool // it is admitted here
		event  bool
	}{
		"a newcomer":                {swap: true},
		"full":                      {role: "full", swap: true},
		"edge":                      {role: "edge", edge: true, swap: true},
		"an unknown value":          {role: "Edge", edge: true, swap: true, event: true},
		"another swap with an edge": {pin: edgeOf("c"), edge: true, swap: true},
		"an edge that becomes full": {pin: edgeOf(""), role: "full", swap: true},
		"an edge of another member": {pin: edgeOf("c"), change: copied, edge: true},
		"that becomes full":         {pin: edgeOf("c"), change: copied, role: "full", swap: true},
		"a full member":             {pin: func(t *trust.Table) error { return t.Pin(id, agenttest.PublicKey(id)) }, role: "edge", swap: true, event: true},
		"a copy of a full member":   {pin: fullOf("c"), change: copied, role: "edge", event: true},
		"an edge whose record is lost": {change: func(c *v1alpha1.Cluster) {
			copied(c)
			c.Status.Role = "edge"
			c.Status.AdmittedBy = []string{agenttest.IDA}
		}, edge: true, swap: true},
		"a member whose record is lost":  {change: func(c *v1alpha1.Cluster) { copied(c); c.Status.AdmittedBy = []string{agenttest.IDA} }, swap: true},
		"a newcomer whose status is old": {change: func(c *v1alpha1.Cluster) { c.Status.Role = "edge" }, swap: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newFixture(t)
			var events told
			m.options.Events = &events
			m.open(t)
			if c.pin == nil {
				c.pin = func(*trust.Table) error { return nil }
			}
			if err := c.pin(m.trust); err != nil {
				t.Fatal(err)
			}
			object := agenttest.Cluster("b", id)
			if c.role != "" {
				object.Annotations = map[string]string{v1alpha1.AnnotationRole: c.role}
			}
			if c.change != nil {
				c.change(object)
			}
			func() {
				defer func() { _ = recover() }() // there is no mesh, which would be told to connect
				m.Swapped(object)
			}()
			m.restart(t)
			if m.trust.IsEdge(id) != c.edge || m.trust.Swapped(id) != c.swap || slices.Contains(events, "RoleRefused") != c.event {
				t.Errorf("edge: %t, admitted here: %t, events: %v", m.trust.IsEdge(id), m.trust.Swapped(id), events)
			}
		})
	}
}

// edgeOf pins an edge: by a swap, or on the word of a member.
func edgeOf(author string) func(*trust.Table) error {
	return func(t *trust.Table) error {
		return t.Restore(trust.Pin{ClusterID: agenttest.IDB, PublicKey: agenttest.PublicKey(agenttest.IDB), Introducer: author, Edge: true})
	}
}

func fullOf(author string) func(*trust.Table) error {
	return func(t *trust.Table) error {
		return t.Introduce(agenttest.IDB, agenttest.PublicKey(agenttest.IDB), author)
	}
}

// TestEdgeSwaps: where this cluster is an edge, a swap with a newcomer says that nobody else takes that.
func TestEdgeSwaps(t *testing.T) {
	for _, edge := range []bool{true, false} {
		m := newFixture(t)
		var events told
		m.options.Events = &events
		m.open(t)
		if err := m.trust.Pin(agenttest.IDC, agenttest.PublicKey(agenttest.IDC)); err != nil {
			t.Fatal(err)
		}
		m.trust.Admit(trust.Admission{Author: agenttest.IDC, ClusterID: agenttest.IDA, PublicKey: agenttest.PublicKey(agenttest.IDA), Edge: edge})
		func() {
			defer func() { _ = recover() }() // there is no mesh, which would be told to connect
			m.Swapped(agenttest.Cluster("b", agenttest.IDB))
		}()
		if slices.Contains(events, "NotAdmitted") != edge || !m.IsPinned(agenttest.IDB) {
			t.Errorf("an edge: %t, events: %v, pinned: %t", edge, events, m.IsPinned(agenttest.IDB))
		}
	}
}
