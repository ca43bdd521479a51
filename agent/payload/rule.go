// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package payload

import (
	"encoding/json"
	"fmt"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/skew"
)

// Rule is a ResourceSyncRule without its local parts. If it has fields that this agent does not know, the spec is a stub.
type Rule struct {
	Meta
	Spec v1alpha1.ResourceSyncRuleSpec
	// NotUnderstood names the fields that this agent does not know; "" if it knows all.
	NotUnderstood string
}

// publishedRule is the payload of a rule. Agents of schema 6 and earlier read Spec alone, and ignore all fields that they do
// not know. So a rule that they would misunderstand is in Whole, and Spec is its stub (decision 038).
type publishedRule struct {
	Labels      map[string]string              `json:"labels,omitempty"`
	Annotations map[string]string              `json:"annotations,omitempty"`
	Spec        v1alpha1.ResourceSyncRuleSpec  `json:"spec"`
	Whole       *v1alpha1.ResourceSyncRuleSpec `json:"rule,omitempty"`
}

// EncodeRule returns the payload of a rule.
func EncodeRule(r *v1alpha1.ResourceSyncRule) ([]byte, error) {
	meta := published(r)
	p := publishedRule{Labels: meta.Labels, Annotations: meta.Annotations, Spec: r.Spec}
	if skew.Needs(&r.Spec) > 0 {
		p.Spec, p.Whole = skew.Stub(r.Spec.GVK), &r.Spec
	}
	return json.Marshal(p)
}

// DecodeRule decodes the payload of a rule of origin.
func DecodeRule(origin, name string, payload []byte) (*Rule, error) {
	var p publishedRule
	var content map[string]any
	err := utiljson.Unmarshal(payload, &content)
	var unknown []string
	if err == nil {
		unknown, err = skew.Unknown(content, &p)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: rule %s of %s: not JSON of a ResourceSyncRule", ErrPayload, name, origin)
	}
	if msgs := validation.IsDNS1123Subdomain(name); len(msgs) > 0 {
		return nil, fmt.Errorf("%w: a rule of %s: its name is not a valid object name", ErrPayload, origin)
	}
	out := &Rule{Meta: Meta{Labels: p.Labels, Annotations: p.Annotations}.accepted(), Spec: p.Spec}
	if p.Whole != nil {
		out.Spec = *p.Whole
	}
	if len(unknown) > 0 {
		for i, path := range unknown {
			if inside, ok := strings.CutPrefix(path, "rule."); ok {
				unknown[i] = "spec." + inside // as users know it
			}
		}
		out.Spec, out.NotUnderstood = skew.Stub(out.Spec.GVK), skew.Note(unknown)
	}
	return out, nil
}

// Fill makes o a copy of the rule of owner.
func (r *Rule) Fill(o *v1alpha1.ResourceSyncRule, owner string) {
	delete(o.Annotations, v1alpha1.AnnotationNotUnderstood)
	MarkCopy(o, r.Meta, owner)
	o.Spec = r.Spec
	if r.NotUnderstood != "" {
		o.Annotations[v1alpha1.AnnotationNotUnderstood] = r.NotUnderstood
	}
}
