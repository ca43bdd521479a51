// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package consent

import (
	"errors"
	"strings"
	"testing"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

func annotated(value string) *v1alpha1.Cluster {
	c := &v1alpha1.Cluster{}
	if value != "-" {
		c.Annotations = map[string]string{v1alpha1.AnnotationAccept: value}
	}
	return c
}

func TestTerms(t *testing.T) {
	for name, c := range map[string]struct {
		byDefault      Accept
		objects        []*v1alpha1.Cluster
		rules, copying bool
		why            string
	}{
		"by default":        {AcceptAll, nil, true, true, ""},
		"no annotation":     {AcceptObjects, []*v1alpha1.Cluster{annotated("-")}, false, true, "the chart value trust.accept is objects"},
		"the chart":         {AcceptNone, nil, false, false, "the chart value trust.accept is none"},
		"annotation closes": {AcceptAll, []*v1alpha1.Cluster{annotated("none")}, false, false, v1alpha1.AnnotationAccept + "=none"},
		"annotation opens":  {AcceptNone, []*v1alpha1.Cluster{annotated("all")}, true, true, ""},
		"strictest":         {AcceptAll, []*v1alpha1.Cluster{annotated("all"), annotated("objects"), annotated("-")}, false, true, "=objects"},
		"a slip":            {AcceptAll, []*v1alpha1.Cluster{annotated("object")}, false, false, `"object" is not all, objects or none`},
	} {
		t.Run(name, func(t *testing.T) {
			terms := TermsOf(c.byDefault, c.objects...)
			rules, copying := terms.RefuseRules("paris"), terms.RefuseObjects("paris")
			if (rules == nil) != c.rules || (copying == nil) != c.copying {
				t.Errorf("rules: %v, objects: %v", rules, copying)
			}
			for _, err := range []error{rules, copying} {
				if err != nil && (!errors.Is(err, ErrNeeded) || !strings.Contains(err.Error(), c.why) || !strings.Contains(err.Error(), "cluster paris")) {
					t.Errorf("%v lacks %q", err, c.why)
				}
			}
		})
	}
	var two []*v1alpha1.Cluster
	for _, name := range []string{"b", "a", "c"} {
		c := annotated("none")
		c.Name = name
		two = append(two, c)
	}
	if got := TermsOf(AcceptAll, two...).RefuseRules("b").Error(); !strings.Contains(got, "agentctl accept a ") {
		t.Errorf("of several objects that say the same, not always the first is named: %s", got)
	}
	for text, want := range map[string]Accept{"": AcceptAll, "all": AcceptAll, "objects": AcceptObjects, "none": AcceptNone} {
		if got, err := ParseAccept(text); got != want || err != nil {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if _, err := ParseAccept("ALL"); err == nil {
		t.Error("ALL is a value")
	}
}

// TestTermsOfAnEdge: its rules are not in force, whatever is accepted of it; its objects are copied as before.
func TestTermsOfAnEdge(t *testing.T) {
	for value, copying := range map[string]bool{"-": true, "all": true, "objects": true, "none": false} {
		c := annotated(value)
		if err := TermsSeen(c).RefuseRules("paris"); (err == nil) != (value == "-" || value == "all") {
			t.Errorf("%s: a full member: %v", value, err)
		}
		c.Status.Role = v1alpha1.RoleEdge
		rules, objects := TermsSeen(c).RefuseRules("paris"), TermsSeen(c).RefuseObjects("paris")
		if !errors.Is(rules, ErrNeeded) || !strings.Contains(rules.Error(), "its role in the group is edge") || (objects == nil) != copying {
			t.Errorf("%s: rules: %v, objects: %v", value, rules, objects)
		}
	}
}
