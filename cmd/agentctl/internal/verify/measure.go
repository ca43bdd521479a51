// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// measure plays the steps, one after the other. A site that is late is left out of the later ones.
type measure struct {
	*canary

	sites    []*site
	timeout  time.Duration // of each step
	progress cli.Progress
}

// run measures, and deletes everything in the end, whatever came before. An error says what is left, if anything is.
func (m *measure) run(ctx context.Context) error {
	outlasting, end := context.WithCancel(context.WithoutCancel(ctx)) // the end looks at the sites, too
	var watching sync.WaitGroup
	defer func() { end(); watching.Wait() }()
	for _, s := range m.sites {
		watching.Go(func() { follow(outlasting, s.watches.Resource(clusters.RuleResource()), m.name, s.rule.sights) })
		copies := s.watches.Resource(resourceOf(m.kind)).Namespace(m.namespace)
		watching.Go(func() { follow(outlasting, copies, m.name, s.copy.sights) })
	}
	err := m.play(ctx)
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	cleaning, cancel := context.WithTimeout(outlasting, cleanWithin)
	defer cancel()
	if left := m.clean(cleaning); len(left) > 0 {
		return errors.Join(err, fmt.Errorf("left behind: %s; agentctl verify --clean deletes it", strings.Join(left, ", ")))
	}
	if err != nil {
		return fmt.Errorf("%w; what was made is deleted again", err)
	}
	return nil
}

// step is one of the four that are measured.
type step struct {
	what, late string
	do         func(context.Context) error
	of         func(*site) *track
	wanted     func(*unstructured.Unstructured) bool
	took       func(*timing) **float64
}

func (m *measure) steps() []step {
	rule := func(s *site) *track { return s.rule }
	copied := func(s *site) *track { return s.copy }
	ready := func(u *unstructured.Unstructured) bool { return inForce(u, m.id) }
	makeRule := func(ctx context.Context) error { return m.makeRule(ctx, m.sites) }
	return []step{
		{"the rule is in force", "the rule is not in force", makeRule, rule, ready, func(t *timing) **float64 { return &t.Rule }},
		{"the copy is there", "the copy has not come", m.create, copied, m.has("1"), func(t *timing) **float64 { return &t.Create }},
		{"the copy has changed", "the copy has not changed", m.update, copied, m.has("2"), func(t *timing) **float64 { return &t.Update }},
		{"the copy is gone", "the copy is not gone", m.delete, copied, gone, func(t *timing) **float64 { return &t.Delete }},
	}
}

// has says that an object is a copy of the canary with this number.
func (m *measure) has(number string) func(*unstructured.Unstructured) bool {
	return func(u *unstructured.Unstructured) bool {
		if u == nil || u.GetAnnotations()[v1alpha1.AnnotationOwnerClusterID] != m.id {
			return false
		}
		value, _, _ := unstructured.NestedString(u.Object, "data", "number")
		return value == m.encoded(number)
	}
}

// play goes through the steps until one cannot be done.
func (m *measure) play(ctx context.Context) error {
	left := m.sites
	for _, one := range m.steps() {
		began := time.Now()
		if err := one.do(context.WithoutCancel(ctx)); err != nil { // what an interrupted request has done nobody knows
			return err
		}
		left = m.each(ctx, m.timeout, left, func(waiting context.Context, s *site) bool {
			at, ok := one.of(s).await(waiting, one.wanted)
			if !ok && ctx.Err() == nil {
				s.missed(ctx, one.of(s), one.late, m.name)
			} else if ok {
				took := at.Sub(began).Seconds()
				*one.took(&s.timing) = &took
			}
			return ok
		})
		if ctx.Err() != nil || len(left) == 0 {
			break
		}
		m.progress("%s in %s", one.what, cli.Plural(len(left), "cluster"))
	}
	return ctx.Err()
}

// each waits for sites, all at the same time, and returns those that came in time.
func (m *measure) each(ctx context.Context, timeout time.Duration, sites []*site, wait func(context.Context, *site) bool) []*site {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	came := make([]bool, len(sites))
	var group sync.WaitGroup
	for i, s := range sites {
		group.Go(func() { came[i] = wait(ctx, s) })
	}
	group.Wait()
	var out []*site
	for i, s := range sites {
		if came[i] {
			out = append(out, s)
		}
	}
	return out
}

// clean deletes object and rule, waits until the sites have neither, and returns what is left.
func (m *measure) clean(ctx context.Context) []string {
	if err := m.remove(ctx, m.objects(m.kind), m.object); err != nil {
		return []string{fmt.Sprintf("%s %s/%s and its rule in context %s (%s)", m.kind, m.namespace, m.name, m.own.Context, clusters.Reason(err))}
	}
	if err := m.remove(ctx, m.rules(), m.rule); err != nil {
		return []string{fmt.Sprintf("rule %s in context %s (%s)", m.name, m.own.Context, clusters.Reason(err))}
	}
	clean := m.each(ctx, cleanWithin, m.sites, func(ctx context.Context, s *site) bool {
		_, copied := s.copy.await(ctx, gone)
		_, rule := s.rule.await(ctx, gone)
		return copied && rule
	})
	for _, s := range m.sites {
		if !slices.Contains(clean, s) {
			m.progress("in cluster %s the copy or the rule is still there: its agent deletes it when it hears of its end", s.Cluster)
		}
	}
	return nil
}
