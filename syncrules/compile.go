// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/fanout"
	"github.com/roster-mesh/roster/syncrules/how"
	"github.com/roster-mesh/roster/syncrules/where"
)

// The limits of a rule. The CRD has most of them, too, but a rule of a peer did not go through admission here.
const (
	maxClauses    = 32
	maxEntries    = 256
	maxNamespaces = 256 // of one entry, and of a rule: each is a watch at each source
	maxSelectors  = 8   // of labels and of annotations, of one entry
	maxContents   = 32  // content selectors of one entry
	maxFeatures   = 32
	maxContentKey = 1024    // the gjson path of a content selector
	maxValues     = 1 << 20 // the values of all overrides
)

// Compile validates a rule and prepares it for use. The error, if any, names every invalid field by its path.
func Compile(rule *v1alpha1.ResourceSyncRule) (*Rule, error) {
	c := compiler{}
	spec, path := &rule.Spec, field.NewPath("spec")
	r := &Rule{
		name: rule.Name, generation: rule.Generation, gvk: spec.GVK.Schema(), paused: spec.Paused,
		createNamespace: spec.CreateNamespace,
		deletion:        c.policy(path.Child("deletionPolicy"), spec.SourceDeletion()),
		ruleDeletion:    c.policy(path.Child("ruleDeletionPolicy"), spec.RuleDeletion()),
	}
	c.kind(path.Child("groupVersionKind"), spec.GVK)
	if len(spec.Rules) > maxClauses || len(spec.ClusterFeatureMatches) > maxFeatures {
		c.atMost(path.Child("rules"), len(spec.Rules), maxClauses)
		c.atMost(path.Child("clusterFeatureMatch"), len(spec.ClusterFeatureMatches), maxFeatures)
		return nil, c.errs.ToAggregate()
	}
	for i := range spec.ClusterFeatureMatches {
		r.features = append(r.features, c.feature(path.Child("clusterFeatureMatch").Index(i), &spec.ClusterFeatureMatches[i]))
	}
	for i := range spec.Rules {
		r.clauses = append(r.clauses, c.clause(path.Child("rules").Index(i), &spec.Rules[i]))
	}
	if c.values > maxValues {
		c.invalid(path.Child("rules"), fmt.Errorf("the values of all overrides must have at most %d characters together", maxValues))
	}
	var errs field.ErrorList
	r.targets, errs = where.Compile(path.Child("targets"), spec.Targets)
	c.add(errs...)
	r.manner, errs = how.Compile(path, spec)
	c.add(errs...)
	r.fanOut, errs = fanout.Compile(path, spec)
	c.add(errs...)
	if r.fanOut != nil && slices.ContainsFunc(r.clauses, func(c clause) bool { return c.movesNamespace() }) {
		c.add(field.Forbidden(path.Child("rules"), "override /metadata/namespace, and targetNamespaces says in which namespaces copies are"))
	}
	if len(c.errs) == 0 { // a selector with an error has no scope
		if scopes := r.Scopes(); len(scopes) > maxNamespaces {
			c.invalid(path.Child("rules"), fmt.Errorf("name %d namespaces together, and each is watched on its own; the most is %d", len(scopes), maxNamespaces))
		}
	}
	if len(c.errs) > 0 {
		return nil, c.errs.ToAggregate()
	}
	r.moves = r.fanOut != nil || slices.ContainsFunc(r.clauses, func(c clause) bool { return c.moves(r.gvk) })
	r.selection = selectionOf(spec, r.Moves())
	return r, nil
}

type compiler struct {
	errs field.ErrorList

	known   map[string]function // those of templates; nil until the first template
	refused map[string]string
	names   map[string]any

	values, yaml int // bytes of all values so far, and of those that were parsed as YAML
}

func (c *compiler) add(errs ...*field.Error) { c.errs = append(c.errs, errs...) }

func (c *compiler) invalid(path *field.Path, err error) {
	c.add(field.Invalid(path, field.OmitValueType{}, err.Error()))
}

func (c *compiler) atMost(path *field.Path, n, most int) {
	if n > most {
		c.add(field.TooMany(path, n, most))
	}
}

func (c *compiler) policy(path *field.Path, p v1alpha1.DeletionPolicy) v1alpha1.DeletionPolicy {
	if p != v1alpha1.DeletionDelete && p != v1alpha1.DeletionOrphan {
		c.add(field.NotSupported(path, p, []v1alpha1.DeletionPolicy{v1alpha1.DeletionDelete, v1alpha1.DeletionOrphan}))
	}
	return p
}

func (c *compiler) kind(path *field.Path, gvk v1alpha1.GroupVersionKind) {
	if gvk.Version == "" {
		c.add(field.Required(path.Child("version"), "the version of the kind, such as v1"))
	}
	if gvk.Kind == "" {
		c.add(field.Required(path.Child("kind"), "the kind, such as Secret"))
	}
	if v1alpha1.IsOwnGroup(gvk.Group) {
		c.add(field.Forbidden(path.Child("group"), "clusters, rules and features spread by themselves; no rule may copy them"))
	}
}

func (c *compiler) feature(path *field.Path, m *v1alpha1.ClusterFeatureMatch) featureMatch {
	if m.FeatureName == "" && len(m.MatchLabels) == 0 && len(m.MatchExpressions) == 0 {
		c.add(field.Required(path, "must select by featureName, matchLabels or matchExpressions"))
	}
	s, err := selector(&metav1.LabelSelector{MatchLabels: m.MatchLabels, MatchExpressions: m.MatchExpressions})
	if err != nil {
		c.invalid(path, err)
	}
	return featureMatch{name: m.FeatureName, labels: s}
}

func (c *compiler) clause(path *field.Path, rule *v1alpha1.SyncRule) clause {
	out := clause{syncStatus: rule.Mutations.SyncStatus}
	c.atMost(path.Child("match"), len(rule.Matches), maxEntries)
	for i := range rule.Matches[:min(len(rule.Matches), maxEntries)] {
		out.entries = append(out.entries, c.entry(path.Child("match").Index(i), &rule.Matches[i]))
	}
	m, path := &rule.Mutations, path.Child("mutations")
	if m.Annotations != nil {
		out.annotations = c.changes(path.Child("annotations"), m.Annotations.Add, m.Annotations.Remove, apivalidation.ValidateAnnotations)
	}
	if m.Labels != nil {
		out.labels = c.changes(path.Child("labels"), m.Labels.Add, m.Labels.Remove, metavalidation.ValidateLabels)
	}
	if m.GVK != nil {
		out.kind = *m.GVK
		if v1alpha1.IsOwnGroup(m.GVK.Group) {
			c.add(field.Forbidden(path.Child("groupVersionKind", "group"), "clusters, rules and features spread by themselves; no rule may make them"))
		}
	}
	c.atMost(path.Child("overrides"), len(m.Overrides), maxOverrides)
	for i := range m.Overrides[:min(len(m.Overrides), maxOverrides)] {
		out.overrides = append(out.overrides, c.override(path.Child("overrides").Index(i), &m.Overrides[i], m.SyncStatus))
	}
	return out
}

func (c *compiler) changes(path *field.Path, add map[string]string, remove []string, check func(map[string]string, *field.Path) field.ErrorList) changes {
	c.add(check(add, path.Child("add"))...)
	for _, key := range slices.Sorted(maps.Keys(add)) {
		if isReserved(key) {
			c.add(field.Forbidden(path.Child("add").Key(key), "is managed by the agent"))
		}
	}
	for i, key := range remove {
		if isReserved(key) {
			c.add(field.Forbidden(path.Child("remove").Index(i), "is managed by the agent"))
		}
	}
	return changes{add: maps.Clone(add), remove: slices.Clone(remove)}
}

// isReserved says whether a label or annotation cannot be set by rules: only agents set it, or it is local to one cluster.
func isReserved(key string) bool {
	return strings.HasPrefix(key, v1alpha1.LocalPrefix) || isMark(key)
}

func (c *compiler) entry(path *field.Path, m *v1alpha1.SyncRuleMatch) matcher {
	if m.SelectsNothing() {
		c.add(field.Required(path, "must select by something; leave match out to select every object of the kind"))
	}
	key := m.Key()
	if m.Name != "" && m.Name != key.Name {
		c.add(field.Forbidden(path.Child("name"), "differs from objectKey.name"))
	}
	if m.Namespace != "" && m.Namespace != key.Namespace {
		c.add(field.Forbidden(path.Child("namespace"), "differs from objectKey.namespace"))
	}
	out := matcher{name: key.Name, namespace: key.Namespace, namespaces: slices.Clone(m.Namespaces)}
	if key.Name != "" && fields.EscapeValue(key.Name) != key.Name {
		c.add(field.Invalid(path.Child("objectKey", "name"), key.Name, "is not the name of an object"))
	}
	c.atMost(path.Child("namespaces"), len(m.Namespaces), maxNamespaces)
	c.atMost(path.Child("labels"), len(m.Labels), maxSelectors)
	c.atMost(path.Child("annotations"), len(m.Annotations), maxSelectors)
	c.atMost(path.Child("content"), len(m.Content), maxContents)
	if len(m.Namespaces) > maxNamespaces || max(len(m.Labels), len(m.Annotations)) > maxSelectors || len(m.Content) > maxContents {
		return out // no need for thousands of errors
	}
	for i, ns := range m.Namespaces {
		if msgs := apivalidation.ValidateNamespaceName(ns, false); len(msgs) > 0 {
			c.add(field.Invalid(path.Child("namespaces").Index(i), ns, msgs[0]))
		}
	}
	if msgs := apivalidation.ValidateNamespaceName(key.Namespace, false); key.Namespace != "" && len(msgs) > 0 {
		c.add(field.Invalid(path.Child("objectKey", "namespace"), key.Namespace, msgs[0]))
	}
	for i := range m.Labels {
		s, err := selector(&m.Labels[i])
		if err != nil {
			c.invalid(path.Child("labels").Index(i), err)
		}
		out.labels = append(out.labels, s)
	}
	for i := range m.Annotations {
		out.annotations = append(out.annotations, c.annotations(path.Child("annotations").Index(i), &m.Annotations[i]))
	}
	for i, s := range m.Content {
		if s.Key == "" || len(s.Key) > maxContentKey {
			c.add(field.Invalid(path.Child("content").Index(i).Child("key"), field.OmitValueType{}, "must have 1 to 1024 characters"))
		}
		if computesValue(s.Key) {
			c.add(field.Invalid(path.Child("content").Index(i).Child("key"), field.OmitValueType{}, "can name a place and nothing else: no part of it can begin with @, !, [ or {"))
		}
		out.content = append(out.content, s)
	}
	return out
}

// computesValue says that a gjson path does not only look up a value but also computes one: it has modifiers, literals or
// multipaths. A few of them in a row need more memory than there is ("@tostr|@tostr|..." doubles the value each time), for
// every object that is matched. It ignores quotes and escapes, so that these cannot hide one.
func computesValue(key string) bool {
	begins := true
	for _, c := range key {
		switch c {
		case '@', '!', '[', '{':
			if begins {
				return true
			}
			begins = false
		case '.', '|', '(':
			begins = true
		case ' ', '\t', '\n', '\r':
		default:
			begins = false
		}
	}
	return false
}

func (c *compiler) annotations(path *field.Path, s *v1alpha1.AnnotationSelector) annotationSelector {
	out := annotationSelector{equal: maps.Clone(s.MatchAnnotations)}
	for i, e := range s.MatchExpressions {
		at := path.Child("matchExpressions").Index(i)
		if e.Key == "" {
			c.add(field.Required(at.Child("key"), "the annotation"))
		}
		switch e.Operator {
		case metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn:
			if len(e.Values) == 0 {
				c.add(field.Required(at.Child("values"), "must be given for In and NotIn"))
			}
		case metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist:
			if len(e.Values) > 0 {
				c.add(field.Forbidden(at.Child("values"), "must not be given for Exists and DoesNotExist"))
			}
		default:
			c.add(field.NotSupported(at.Child("operator"), e.Operator, []string{"In", "NotIn", "Exists", "DoesNotExist"}))
		}
		out.expressions = append(out.expressions, *e.DeepCopy())
	}
	return out
}
