// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package where

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

type selector = v1alpha1.ClusterSelector

func paris() *v1alpha1.Cluster {
	return &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: "paris", Labels: map[string]string{"tier": "edge"}},
		Status: v1alpha1.ClusterStatus{
			Provider: "amazon", Version: "v1.35.2-eks-1a2b3c",
			Locality: &v1alpha1.Locality{Region: "eu-west-3", Regions: []string{"eu-west-1", "eu-west-3"}},
		},
	}
}

// everywhere tells as many regions as a cluster can.
func everywhere() *v1alpha1.Cluster {
	c := paris()
	c.Status.Locality.Regions = nil
	for i := range maxRegions {
		c.Status.Locality.Regions = append(c.Status.Locality.Regions, fmt.Sprintf("eu-%d", i))
	}
	return c
}

func TestSelector(t *testing.T) {
	t.Parallel()
	labelled := func(key, value string) metav1.LabelSelector {
		return metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	}
	for name, c := range map[string]struct {
		selector *selector
		cluster  *v1alpha1.Cluster
		want     Answer
		text     string
	}{
		"absent":                    {nil, nil, Yes, "every cluster"},
		"empty":                     {&selector{}, paris(), Yes, "every cluster"},
		"cluster not known":         {&selector{}, nil, Unknown, "not known yet"},
		"label":                     {&selector{LabelSelector: labelled("tier", "edge")}, paris(), Yes, "tier=edge"},
		"another label":             {&selector{LabelSelector: labelled("tier", "core")}, paris(), No, "tier=core: its Cluster object has tier=edge"},
		"no label":                  {&selector{LabelSelector: labelled("team", "shop")}, paris(), No, "has no label team"},
		"name":                      {&selector{Names: []string{"tokyo", "paris"}}, paris(), Yes, "name in (tokyo,paris)"},
		"another name":              {&selector{Names: []string{"tokyo"}}, paris(), No, "has name paris"},
		"region":                    {&selector{Regions: []string{"eu-west-1"}}, paris(), Yes, ""},
		"another region":            {&selector{Regions: []string{"us-east-1"}}, paris(), No, "has region eu-west-1 and eu-west-3"},
		"no region":                 {&selector{Regions: []string{"us-east-1"}}, &v1alpha1.Cluster{}, Unknown, "has no region yet"},
		"no room for a region":      {&selector{Regions: []string{"us-east-1"}}, everywhere(), Unknown, "has more than it tells of what its region is"},
		"long":                      {&selector{Names: slices.Repeat([]string{"tokyo"}, 200)}, paris(), No, "tokyo…: its Cluster object has name paris"},
		"provider":                  {&selector{Providers: []string{"amazon"}}, paris(), Yes, ""},
		"another provider":          {&selector{Providers: []string{"google"}}, paris(), No, "has provider amazon"},
		"no provider":               {&selector{Providers: []string{"google"}}, &v1alpha1.Cluster{}, Unknown, "no provider yet"},
		"version of a vendor":       {&selector{Version: ">=1.35.2"}, paris(), Yes, ""},
		"version of a vendor, less": {&selector{Version: "<1.35.2"}, paris(), No, "has version v1.35.2-eks-1a2b3c"},
		"minor version":             {&selector{Version: "=1.35"}, paris(), Yes, ""},
		"range":                     {&selector{Version: ">=1.34, <1.36"}, paris(), Yes, ""},
		"outside the range":         {&selector{Version: ">=1.34, <1.35"}, paris(), No, ""},
		"no version":                {&selector{Version: ">=1.34"}, &v1alpha1.Cluster{}, Unknown, "no version yet"},
		"all of them":               {&selector{LabelSelector: labelled("tier", "edge"), Names: []string{"paris"}, Regions: []string{"eu-west-3"}, Version: ">1.30", Providers: []string{"amazon"}}, paris(), Yes, ""},
		"no beats unknown":          {&selector{Regions: []string{"x"}, Names: []string{"paris"}}, &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "tokyo"}}, No, "name tokyo"},
	} {
		s, errs := Compile(field.NewPath("spec", "targets"), c.selector)
		if len(errs) > 0 {
			t.Errorf("%s: %v", name, errs)
			continue
		}
		if got, text := s.Explain(c.cluster); got != c.want || !strings.Contains(text, c.text) || s.Wants(c.cluster) != got {
			t.Errorf("%s: %d, %q; want %d, %q", name, got, text, c.want, c.text)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	for path, s := range map[string]*selector{
		"spec.targets":           {LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}}},
		"spec.targets.names":     {Names: make([]string, maxNames+1)},
		"spec.targets.regions":   {Regions: []string{""}},
		"spec.targets.version":   {Version: "new"},
		"spec.targets.providers": {Providers: []string{"amazon", ""}},
	} {
		if _, errs := Compile(field.NewPath("spec", "targets"), s); len(errs) != 1 || errs[0].Field != path {
			t.Errorf("%s: %v", path, errs)
		}
	}
	if _, errs := Compile(field.NewPath("x"), &selector{Version: strings.Repeat(">1,", maxVersion)}); len(errs) != 1 {
		t.Errorf("a long version: %v", errs)
	}
}

func TestSame(t *testing.T) {
	t.Parallel()
	if !Same(nil, nil) || Same(nil, paris()) || !Same(paris(), paris()) {
		t.Error("the same is not the same")
	}
	for name, change := range map[string]func(*v1alpha1.Cluster){
		"name":     func(c *v1alpha1.Cluster) { c.Name = "x" },
		"labels":   func(c *v1alpha1.Cluster) { c.Labels = nil },
		"regions":  func(c *v1alpha1.Cluster) { c.Status.Locality = nil },
		"version":  func(c *v1alpha1.Cluster) { c.Status.Version = "x" },
		"provider": func(c *v1alpha1.Cluster) { c.Status.Provider = "x" },
	} {
		if c := paris(); func() bool { change(c); return Same(c, paris()) }() {
			t.Errorf("another %s is the same", name)
		}
	}
}
