// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/ui/view"
	"github.com/roster-mesh/roster/syncrules"
)

// whyTimeout bounds one answer: it may have to ask every cluster.
const whyTimeout = time.Minute

// Question is why an object is, or is not, where it should be.
type Question struct {
	clusters.Access

	Kind, Namespace, Name string
	PeerContexts          map[string]string // by the name of the cluster: contexts of the caller's own
	AgentNamespace        string
}

// question is what the form holds.
type question struct{ Kind, Object, Cluster string }

// place is the object that is asked about.
func (q question) place() (namespace, name string, err error) {
	namespace, name, found := strings.Cut(q.Object, "/")
	if !found {
		namespace, name = "", q.Object
	}
	if q.Kind == "" || name == "" || strings.Contains(name, "/") || strings.ContainsAny(q.Kind, "/ ") {
		return "", "", fmt.Errorf("give a kind, such as secret, and an object as NAMESPACE/NAME")
	}
	return namespace, name, nil
}

// whyReport is what the page shows of the document that rules explain prints.
type whyReport struct {
	Rules []struct {
		Name, Error string
		Ready       *clusters.Readiness
		Targets     []struct{ Cluster, Verdict, Reason string }
		Objects     []struct {
			Cluster     string
			Explanation syncrules.Explanation
		}
	}
	Object struct {
		Where []struct{ Cluster, Is, Text string }
	}
	Copies []struct {
		Cluster, State, Action, Reason, DiffNote string
		Rules                                    []string
	}
	Unknown []struct{ Cluster, Reason string }
	Notes   []string
}

// verdict is the answer for one cluster.
type verdict struct {
	Cluster string
	Mark    view.Mark
	Text    string
	Reasons []string
}

// verdicts are the answers for all clusters, in the report's order.
func (r *whyReport) verdicts() (out []verdict) {
	for _, at := range r.Object.Where {
		v := verdict{Cluster: named(at.Cluster), Mark: view.None, Text: at.Text}
		switch at.Is {
		case "source":
			v.Mark = view.Good
		case "unknown":
			v.Mark = view.Unknown
		}
		copies := false
		for _, c := range r.Copies {
			if c.Cluster == v.Cluster {
				v.add(c.State, c.Action, c.Reason, c.Rules)
				copies = true
			}
		}
		if at.Is == "absent" && !copies {
			v.Mark, v.Text, v.Reasons = view.None, "not there, and nothing is copied there", r.whyNot(v.Cluster)
		}
		out = append(out, v)
	}
	return out
}

// named is the name of a cluster as the report calls it.
func named(title string) string { return strings.TrimSuffix(title, " (this cluster)") }

// add takes in how one copy stands.
func (v *verdict) add(state, action, reason string, rules []string) {
	m, text := view.Unknown, state
	switch state {
	case "inSync":
		m, text = view.Good, "in sync"
	case "offered":
		m, text = view.Good, "offered"
	case "blocked":
		m = view.Bad
	case "none":
		m, text = view.None, "no copy"
	case "gone":
		text = "its source is gone"
	case "pending":
		text = strings.ToLower(action) + " is due"
	}
	if v.Mark == view.None || m.Rank() < v.Mark.Rank() {
		v.Mark = m
	}
	if len(rules) > 0 {
		text += ", by rule " + strings.Join(rules, ", ")
	}
	if reason != "" {
		text += ": " + reason
	}
	v.Reasons = append(v.Reasons, text)
}

// whyNot says for each rule what keeps it from copying the object to a cluster.
func (r *whyReport) whyNot(cluster string) (out []string) {
	for _, rule := range r.Rules {
		if rule.Error != "" {
			out = append(out, "rule "+rule.Name+" cannot be used: "+rule.Error)
		}
		selected := false
		for _, o := range rule.Objects {
			selected = selected || o.Explanation.Matched
			for _, text := range unmatched(o.Explanation) {
				out = append(out, fmt.Sprintf("rule %s does not select it in %s: %s", rule.Name, named(o.Cluster), text))
			}
		}
		for _, t := range rule.Targets {
			if selected && named(t.Cluster) == cluster && t.Verdict != "yes" {
				out = append(out, fmt.Sprintf("rule %s does not copy it there (%s): %s", rule.Name, t.Verdict, t.Reason))
			}
		}
	}
	return out
}

// unmatched are the fields that say no; none where the rule selects the object.
func unmatched(e syncrules.Explanation) (out []string) {
	if e.Matched {
		return nil
	}
	if len(e.Clauses) == 0 {
		return []string{"spec.rules is empty"}
	}
	for _, c := range e.Clauses {
		for _, entry := range c.Entries {
			for _, f := range entry.Fields {
				if !f.Matched {
					out = append(out, f.String())
				}
			}
		}
	}
	return out
}

// whyData is what the template of the answer takes.
type whyData struct {
	Model    *view.Model
	Question question
	Command  string
	Error    string
	Verdicts []verdict
	Report   whyReport
	Form     bool // that has the way out
}

// ask is the form with what it holds, and the clusters that can be chosen.
type ask struct {
	question

	Clusters []string
}

const mostChoices = 1000

func askAbout(m *view.Model, q question) ask {
	out := ask{question: q}
	for _, r := range m.Matrix.Rows[:min(len(m.Matrix.Rows), mostChoices)] {
		out.Clusters = append(out.Clusters, r.Name)
	}
	return out
}

// Ask is the form, filled.
func (d whyData) Ask() ask { return askAbout(d.Model, d.Question) }

// why answers why an object is, or is not, in a cluster, by the code of rules explain.
func (s *site) why(w http.ResponseWriter, r *http.Request) {
	m, _ := s.board.now()
	values := r.URL.Query()
	data := whyData{
		Model: m, Form: cameByForm(r),
		Question: question{strings.TrimSpace(values.Get("kind")), strings.TrimSpace(values.Get("object")), values.Get("cluster")},
	}
	code := http.StatusOK
	if err := s.explain(r.Context(), &data); err != nil {
		data.Error = view.Brief(err.Error())
		if apierrors.IsForbidden(err) {
			code = http.StatusForbidden
		}
	}
	s.press.answer(w, code, "why", data)
}

func (s *site) explain(ctx context.Context, data *whyData) error {
	q, err := s.questionOf(ctx)
	if err != nil {
		return err
	}
	if q.Namespace, q.Name, err = data.Question.place(); err != nil {
		return err
	}
	q.Kind, q.PeerContexts = data.Question.Kind, s.board.peerContexts()
	words := []string{"agentctl", "rules", "explain", q.Kind, q.Name}
	if q.Namespace != "" {
		words = append(words, "--namespace", q.Namespace)
	}
	data.Command = view.CommandFor(s.board.points[0].client, words...)
	ctx, cancel := context.WithTimeout(ctx, whyTimeout)
	defer cancel()
	select { // few at a time: it asks many
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	document, err := s.uses.Explain(ctx, q)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(document, &data.Report); err != nil {
		return fmt.Errorf("read the explanation: %w", err)
	}
	for _, v := range data.Report.verdicts() {
		if data.Question.Cluster == "" || v.Cluster == data.Question.Cluster {
			data.Verdicts = append(data.Verdicts, v)
		}
	}
	return nil
}
