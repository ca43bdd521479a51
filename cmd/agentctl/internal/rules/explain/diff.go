// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/answer"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/stand"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/redact"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/trial"
	"github.com/roster-mesh/roster/syncrules"
)

// How a difference was found.
const (
	byServer = "server" // a dry run of the write
	byRender = "render" // the rendered copy alone: defaults and admission are not in it
)

// compare shows what a write would change: by a dry run where the user may do that, else by the rendered copy.
func (q *inquiry) compare(ctx context.Context, out *answer.Copy, local *unstructured.Unstructured, d syncrules.Decision, to *reached, hide *redact.Redaction, ask bool) {
	wanted := d.Object
	out.DiffBy = byRender
	switch {
	case !ask:
		out.DiffNote = "no dry run was asked for"
	case !to.mayWrite:
		out.DiffNote = "no dry run: give --peer-context " + to.name + "=CONTEXT to have its API server say what it would make of it"
	default:
		answer, err := trial.Run(ctx, to.api, d)
		switch {
		case err == nil:
			wanted, out.DiffBy = answer, byServer
		case trial.NamespaceMissing(err) && q.createsNamespace(out.Rules):
			out.DiffNote = "no dry run: namespace " + d.Object.GetNamespace() + " does not exist and would be created first"
		case trial.NamespaceMissing(err):
			out.State, out.Reason = stand.Blocked, "namespace "+d.Object.GetNamespace()+" does not exist; create it, or set createNamespace in the rule"
		case apierrors.IsForbidden(err) && !redact.IsRefusal(err):
			out.DiffNote = "no dry run: you may not write it: " + hide.Error(err)
		default:
			out.State, out.Reason = stand.Blocked, "the API server would refuse it: "+hide.Error(err)
		}
	}
	text, err := hide.Diff(local, wanted)
	if err != nil {
		out.DiffNote = "cannot be shown: " + err.Error()
		return
	}
	if out.Diff = text; text == "" && out.State == stand.Pending && out.DiffBy == byServer {
		// The server makes of it what is there already: an agent finds that out with one write, and writes no more.
		out.State, out.Reason = stand.InSync, "the API server would not change it"
	}
}

func (q *inquiry) createsNamespace(rules []string) bool {
	return slices.ContainsFunc(rules, func(name string) bool {
		r := q.rule(name)
		return r != nil && r.compiled != nil && r.compiled.CreatesNamespace()
	})
}

// redaction is that of a place: it knows what is there, what would be, and the sources.
func (q *inquiry) redaction(facts syncrules.Facts, d syncrules.Decision, offers []*offer) *redact.Redaction {
	r := redact.New()
	r.Look(facts.Local)
	r.Look(d.Object)
	if facts.Local != nil && syncrules.IsCopy(facts.Local) && clusters.IsSecret(syncrules.Source(facts.Local).GroupVersionKind) {
		r.Secret()
	}
	for _, o := range offers {
		r.Look(o.obj)
		kind, _, _ := unstructured.NestedString(o.obj.Object, "type")
		r.Allow(map[string]string{"type": kind})
		r.Allow(o.obj.GetLabels())
		r.Allow(o.obj.GetAnnotations())
		for _, name := range o.names {
			for _, rule := range q.rule(name).api.Spec.Rules {
				if m := rule.Mutations.Labels; m != nil {
					r.Allow(m.Add)
				}
				if m := rule.Mutations.Annotations; m != nil {
					r.Allow(m.Add)
				}
			}
		}
	}
	return r
}
