// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rights tells which Clusters a caller of the registry API may read and write. Everybody who may ask the API server
// in front of it gets as far as here, so what is decided here is all that protects them.
//
// A caller may do with a Cluster what the API server behind lets him do with the stored Cluster, of group
// clusterregistry.k8s.cisco.com; or, by a right to clustergroups.clusterregistry.k8s.io, what `get` or `update` of the
// group that the Cluster is in allows. There are no objects of kind clustergroups; only rights name them.
package rights

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	registry "github.com/roster-mesh/roster/kube/api/registry/v1alpha1"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// GroupLabel names the group that a Cluster is in. A Cluster without it is in none.
const GroupLabel = registry.GroupName + "/cluster-group"

const (
	resourceClusters = "clusters"
	resourceGroups   = "clustergroups"
	verbGet          = "get"
	verbUpdate       = "update"
	// reviewsAtOnce bounds the questions that one list asks at a time.
	reviewsAtOnce = 16
	// askedLate is how long after a change the caller of a watch is asked about once more. By then an API server that is behind
	// knows, and what it said before is not remembered.
	askedLate = 45 * time.Second
	// toldWithin is how much later than their roles a change may be told.
	toldWithin = time.Second
)

// Options of New. All but Settle are required.
type Options struct {
	Authorizer authorizer.Authorizer
	Roles      Roles
	// Settle is for how long after a change of roles Authorizer may answer as before it.
	Settle time.Duration
}

// Roles are what RBAC grants. They propose names and groups; the authorizer confirms each, so what they grant too much or
// late shows nothing.
type Roles interface {
	// RulesFor returns the rules that apply to a caller in the whole cluster, or an error where they are not known.
	RulesFor(context.Context, user.Info) ([]rbacv1.PolicyRule, error)
	// Version returns the resourceVersion of the last change of a role or a binding that can change what anybody sees, or a
	// later one; empty where it is not known.
	Version() string
}

// Rights answers for all callers.
type Rights struct {
	o Options

	mu      sync.Mutex
	changed time.Time // when roles changed last in what anybody sees
}

// New returns Rights.
func New(o Options) *Rights { return &Rights{o: o} }

// RolesChanged tells that a role or a binding has changed, and whether somebody may see something else by that.
func (r *Rights) RolesChanged(sight bool) {
	if !sight {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed = time.Now()
}

// Since says whether what callers see has been the same since a resourceVersion, and answers are settled.
func (r *Rights) Since(version string) bool {
	return !r.Before(version) && time.Now().After(r.lastChange().Add(r.o.Settle))
}

// Before says whether a resourceVersion is of before the last change of roles. Theirs and those of Clusters are of one etcd.
func (r *Rights) Before(version string) bool {
	order, err := resourceversion.CompareResourceVersion(version, r.o.Roles.Version())
	return err != nil || order < 0
}

// Ask says whether a scope has to be asked for anew: its caller is proposed something else than when it was, the authorizer may
// have answered as before that, or, where it is behind for longer than it should be, it is time to ask once more.
func (r *Rights) Ask(ctx context.Context, s *Scope) bool {
	if changed := r.lastChange(); changed.After(s.looked) {
		rules, err := r.o.Roles.RulesFor(ctx, s.caller)
		p := propose(rules)
		if err != nil || !p.equal(&s.proposed) || changed.Before(s.asked.Add(toldWithin)) {
			s.proposed, s.changed = p, changed
		}
		s.looked = changed
	}
	late := s.changed.Add(askedLate)
	return !s.asked.After(s.changed.Add(r.o.Settle)) || s.asked.Before(late) && !time.Now().Before(late)
}

func (r *Rights) lastChange() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// Target is what a write is about.
type Target struct {
	Name        string // empty where the API server behind chooses it
	Group       string // the value of GroupLabel
	Subresource string // empty or status
}

// MayStored says whether a caller may do that with the stored Cluster, so with all that is in it.
func (r *Rights) MayStored(ctx context.Context, caller user.Info, verb string, t Target) (bool, error) {
	all, err := r.review(ctx, caller, verb, v1alpha1.GroupName, resourceClusters, t.Subresource, "")
	if all || err != nil || t.Name == "" {
		return all, err
	}
	return r.review(ctx, caller, verb, v1alpha1.GroupName, resourceClusters, t.Subresource, t.Name)
}

// May says whether a caller may do that with a Cluster as the registry API shows it.
func (r *Rights) May(ctx context.Context, caller user.Info, verb string, t Target) (bool, error) {
	may, err := r.MayStored(ctx, caller, verb, t)
	if may || err != nil || t.Group == "" {
		return may, err
	}
	if verb != verbGet {
		verb = verbUpdate
	}
	return r.review(ctx, caller, verb, registry.GroupName, resourceGroups, "", t.Group)
}

// review asks the authorizer one question. Only a yes is a yes; and only a no without an error is one, since an authorizer that
// refuses because it could not find out says nothing about the caller.
func (r *Rights) review(ctx context.Context, caller user.Info, verb, group, resource, subresource, name string) (bool, error) {
	decision, _, err := r.o.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: caller, Verb: verb, APIGroup: group, APIVersion: registry.SchemeGroupVersion.Version,
		Resource: resource, Subresource: subresource, Name: name, ResourceRequest: true,
	})
	if decision == authorizer.DecisionAllow {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask what the caller may do with %s.%s: %w", resource, group, err)
	}
	return false, nil
}

// Scope is what one caller sees.
type Scope struct {
	All       bool // every Cluster
	AllGroups bool // every Cluster that is in a group
	Names     sets.Set[string]
	Groups    sets.Set[string]
	// Unwatched says that All or AllGroups is not what RBAC grants: nobody tells when that changes.
	Unwatched bool

	caller   user.Info
	asked    time.Time
	proposed proposal  // what RBAC proposed for the caller
	changed  time.Time // when that changed last
	looked   time.Time // the last change of roles that was looked at
}

// Sees says whether a Cluster is in the scope.
func (s *Scope) Sees(name, group string) bool {
	return s.All || s.Names.Has(name) || s.SeesGroup(group)
}

// SeesGroup says whether the Clusters of a group are in the scope because of it.
func (s *Scope) SeesGroup(group string) bool {
	return group != "" && (s.AllGroups || s.Groups.Has(group))
}

// ByGroup says whether what is in the scope can change with a label.
func (s *Scope) ByGroup() bool { return !s.All && (s.AllGroups || s.Groups.Len() > 0) }

// Empty says whether nothing is in the scope, whatever there is.
func (s *Scope) Empty() bool {
	return !s.All && !s.AllGroups && s.Names.Len() == 0 && s.Groups.Len() == 0
}

// Equal says whether two scopes contain the same, whatever there is.
func (s *Scope) Equal(other *Scope) bool {
	return s.All == other.All && s.AllGroups == other.AllGroups && s.Names.Equal(other.Names) && s.Groups.Equal(other.Groups)
}

// Scope returns what a caller sees: exactly what he may get, one by one, but for names and groups that another authorizer
// than RBAC grants him, which nobody can enumerate. It asks as often as the caller has grants, not as there are Clusters.
func (r *Rights) Scope(ctx context.Context, caller user.Info) (*Scope, error) {
	changed := r.lastChange() // maybe in what he is proposed
	s := &Scope{Names: sets.New[string](), Groups: sets.New[string](), caller: caller, asked: time.Now(), changed: changed, looked: changed}
	rules, rulesErr := r.o.Roles.RulesFor(ctx, caller)
	s.proposed = propose(rules)
	var err error
	if s.All, err = r.review(ctx, caller, verbGet, v1alpha1.GroupName, resourceClusters, "", ""); err != nil {
		return nil, err
	}
	if s.All {
		s.Unwatched = !s.proposed.all
		return s, nil
	}
	if rulesErr != nil {
		return nil, fmt.Errorf("read the roles of the caller: %w", rulesErr)
	}
	if s.Names, err = r.confirm(ctx, caller, v1alpha1.GroupName, resourceClusters, s.proposed.names); err != nil {
		return nil, err
	}
	return s, r.addGroups(ctx, s)
}

// Groups returns the part of Scope that a caller sees because of groups.
func (r *Rights) Groups(ctx context.Context, caller user.Info) (*Scope, error) {
	rules, err := r.o.Roles.RulesFor(ctx, caller)
	if err != nil {
		return nil, fmt.Errorf("read the roles of the caller: %w", err)
	}
	s := &Scope{caller: caller, proposed: propose(rules)}
	return s, r.addGroups(ctx, s)
}

func (r *Rights) addGroups(ctx context.Context, s *Scope) (err error) {
	if s.AllGroups, err = r.review(ctx, s.caller, verbGet, registry.GroupName, resourceGroups, "", ""); err != nil {
		return err
	}
	if s.AllGroups {
		s.Unwatched = !s.proposed.allGroups
		return nil
	}
	s.Groups, err = r.confirm(ctx, s.caller, registry.GroupName, resourceGroups, s.proposed.groups)
	return err
}

// confirm returns the names that the authorizer lets the caller get.
func (r *Rights) confirm(ctx context.Context, caller user.Info, group, resource string, names []string) (sets.Set[string], error) {
	may := make([]bool, len(names))
	questions, ctx := errgroup.WithContext(ctx)
	questions.SetLimit(reviewsAtOnce)
	for i, name := range names {
		questions.Go(func() (err error) {
			may[i], err = r.review(ctx, caller, verbGet, group, resource, "", name)
			return err
		})
	}
	if err := questions.Wait(); err != nil {
		return nil, err
	}
	out := sets.New[string]()
	for i, name := range names {
		if may[i] {
			out.Insert(name)
		}
	}
	return out, nil
}

// proposal is what rules grant `get` of: names that there can be, each once, and everything.
type proposal struct {
	names, groups  []string
	all, allGroups bool
}

func propose(rules []rbacv1.PolicyRule) (p proposal) {
	p.names, p.all = granted(rules, v1alpha1.GroupName, resourceClusters)
	p.names = slices.DeleteFunc(p.names, func(name string) bool { return len(apivalidation.NameIsDNSSubdomain(name, false)) > 0 })
	p.groups, p.allGroups = granted(rules, registry.GroupName, resourceGroups)
	p.groups = slices.DeleteFunc(p.groups, func(group string) bool { return len(content.IsLabelValue(group)) > 0 })
	return p
}

func (p *proposal) equal(other *proposal) bool {
	return p.all == other.all && p.allGroups == other.allGroups && slices.Equal(p.names, other.names) && slices.Equal(p.groups, other.groups)
}

// granted returns the names that rules grant `get` of, each once, and whether they grant it of all.
func granted(rules []rbacv1.PolicyRule, group, resource string) (names []string, all bool) {
	for i := range rules {
		rule := &rules[i]
		if matches(rule.Verbs, verbGet) && matches(rule.APIGroups, group) && matches(rule.Resources, resource) {
			names = append(names, rule.ResourceNames...)
			all = all || len(rule.ResourceNames) == 0
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" }), all
}

// matches says whether a list of a rule contains a value, or everything.
func matches(list []string, value string) bool {
	return slices.Contains(list, rbacv1.ResourceAll) || slices.Contains(list, value)
}
