// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package where

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Answer says whether copies are wanted in a cluster.
type Answer uint8

const (
	// Unknown means that the cluster does not say what the selector asks for.
	Unknown Answer = iota
	// No means that copies are not wanted there.
	No
	// Yes means that copies are wanted there.
	Yes
)

// Bounds of a selector.
const (
	maxNames   = 256 // names, and so on
	maxVersion = 128 // bytes of version
	maxText    = 512 // bytes of what it says for people
	// maxRegions is how many regions a cluster tells: what is not among so many may be one that it left out.
	maxRegions = 64
)

// Selector is a compiled spec.targets. It is immutable. The nil Selector wants copies everywhere.
type Selector struct {
	labels                    labels.Selector
	names, regions, providers []string
	version                   *semver.Constraints // nil for any
	text                      string              // what it asks for, for people
}

// Compile compiles spec.targets; nil stays nil. path is for errors.
func Compile(path *field.Path, s *v1alpha1.ClusterSelector) (*Selector, field.ErrorList) {
	if s == nil {
		return nil, nil
	}
	var errs field.ErrorList
	invalid := func(path *field.Path, err error) {
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, err.Error()))
	}
	out := &Selector{names: s.Names, regions: s.Regions, providers: s.Providers}
	var err error
	if out.labels, err = metav1.LabelSelectorAsSelector(&s.LabelSelector); err != nil {
		invalid(path, err)
	}
	for name, list := range map[string][]string{"names": s.Names, "regions": s.Regions, "providers": s.Providers} {
		if len(list) > maxNames {
			errs = append(errs, field.TooMany(path.Child(name), len(list), maxNames))
		} else if slices.Contains(list, "") {
			errs = append(errs, field.Required(path.Child(name), "must not have an empty entry"))
		}
	}
	switch {
	case len(s.Version) > maxVersion:
		errs = append(errs, field.TooLong(path.Child("version"), "", maxVersion))
	case s.Version != "":
		if out.version, err = semver.NewConstraint(s.Version); err != nil {
			invalid(path.Child("version"), fmt.Errorf(`must be comparisons such as ">=1.34, <1.36": %w`, err))
		}
	}
	if len(errs) == 0 {
		out.text = describe(s, out.labels)
	}
	slices.SortFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return out, errs
}

// Wants says whether copies are wanted in the cluster with this Cluster object; nil is one that is not known yet.
func (s *Selector) Wants(c *v1alpha1.Cluster) Answer {
	answer, _ := s.weigh(c)
	return answer
}

// Explain is Wants, with what the selector asks for and what the cluster is instead, for people.
func (s *Selector) Explain(c *v1alpha1.Cluster) (Answer, string) {
	answer, has := s.weigh(c)
	switch {
	case answer == Yes:
		return Yes, s.String()
	case c == nil:
		return Unknown, s.text + ": the Cluster object of this cluster is not known yet"
	}
	return answer, s.text + ": its Cluster object has " + strings.Join(has, ", ")
}

// weigh is the answer of all parts, and what the cluster has instead of what those ask for that do not say yes.
func (s *Selector) weigh(c *v1alpha1.Cluster) (answer Answer, has []string) {
	switch {
	case s == nil:
		return Yes, nil
	case c == nil:
		return Unknown, nil
	}
	answer = Yes
	for _, part := range s.parts(c) {
		switch part.answer {
		case No:
			answer, has = No, append(has, part.has)
		case Unknown:
			if answer == Yes {
				answer = Unknown
			}
			has = append(has, part.has)
		case Yes:
		}
	}
	return answer, has
}

// part is what one field of the selector says. has is what the cluster has instead.
type part struct {
	answer Answer
	has    string
}

func (s *Selector) parts(c *v1alpha1.Cluster) []part {
	var regions []string
	if l := c.Status.Locality; l != nil {
		regions = l.Regions
	}
	return []part{
		s.labelled(c.Labels),
		among(s.names, "name", c.Name),
		among(s.regions, "region", regions...),
		s.runs(c.Status.Version),
		among(s.providers, "provider", c.Status.Provider),
	}
}

func (s *Selector) labelled(set map[string]string) part {
	if s.labels.Matches(labels.Set(set)) {
		return part{answer: Yes}
	}
	var unmet []string
	requirements, _ := s.labels.Requirements()
	for i := range requirements {
		key := requirements[i].Key()
		switch value, ok := set[key]; {
		case requirements[i].Matches(labels.Set(set)):
		case ok:
			unmet = append(unmet, key+"="+value)
		default:
			unmet = append(unmet, "no label "+key)
		}
	}
	return part{No, strings.Join(unmet, ", ")}
}

// among says whether one of the values is wanted. An empty list wants any.
func among(wanted []string, what string, values ...string) part {
	values = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == "" })
	switch {
	case len(wanted) == 0, slices.ContainsFunc(values, func(v string) bool { return slices.Contains(wanted, v) }):
		return part{answer: Yes}
	case len(values) == 0:
		return part{Unknown, "no " + what + " yet"}
	}
	if len(values) >= maxRegions {
		return part{Unknown, "more than it tells of what its " + what + " is"}
	}
	return part{No, what + " " + strings.Join(values, " and ")}
}

// runs says whether the version of Kubernetes is wanted. Vendors add to it (v1.35.2-eks-1a2b3c, v1.35.2+k3s1): that does not
// make it an earlier one.
func (s *Selector) runs(version string) part {
	if s.version == nil {
		return part{answer: Yes}
	}
	v, err := semver.NewVersion(version)
	if err != nil {
		return part{Unknown, "no version yet"}
	}
	if s.version.Check(semver.New(v.Major(), v.Minor(), v.Patch(), "", "")) {
		return part{answer: Yes}
	}
	return part{No, "version " + version}
}

// String says what the selector asks for.
func (s *Selector) String() string {
	if s == nil {
		return "every cluster"
	}
	return s.text
}

// describe says it once: rules are weighed for each copy.
func describe(s *v1alpha1.ClusterSelector, selector labels.Selector) string {
	var out []string
	if text := selector.String(); text != "" {
		out = append(out, text)
	}
	for _, list := range []struct {
		what   string
		wanted []string
	}{{"name", s.Names}, {"region", s.Regions}, {"provider", s.Providers}} {
		if len(list.wanted) > 0 {
			out = append(out, list.what+" in ("+strings.Join(list.wanted, ",")+")")
		}
	}
	if s.Version != "" {
		out = append(out, "version "+s.Version)
	}
	text := strings.Join(out, ", ")
	switch {
	case text == "":
		return "every cluster"
	case len(text) > maxText:
		return strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}

// Same says that no selector tells two Cluster objects apart; nil is one that is not known.
func Same(a, b *v1alpha1.Cluster) bool {
	if a == nil || b == nil {
		return a == b
	}
	var regions [2][]string
	for i, c := range []*v1alpha1.Cluster{a, b} {
		if l := c.Status.Locality; l != nil {
			regions[i] = l.Regions
		}
	}
	return a.Name == b.Name && a.Status.Version == b.Status.Version && a.Status.Provider == b.Status.Provider &&
		maps.Equal(a.Labels, b.Labels) && slices.Equal(regions[0], regions[1])
}
