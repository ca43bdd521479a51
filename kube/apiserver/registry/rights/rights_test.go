// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	rbacauthorizer "k8s.io/kubernetes/pkg/apis/rbac/v1"

	registry "github.com/roster-mesh/roster/kube/api/registry/v1alpha1"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// grants are the rules of one caller, and an authorizer that goes by them and counts.
type grants struct {
	mu    sync.Mutex
	rules []rbacv1.PolicyRule
	asked int
	err   error
	no    authorizer.Decision // where no rule grants; the zero value is Deny

	version string
}

func (g *grants) RulesFor(context.Context, user.Info) ([]rbacv1.PolicyRule, error) {
	return g.rules, nil
}

func (g *grants) Version() string { return g.version }

func (g *grants) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked++
	resource := a.GetResource()
	if a.GetSubresource() != "" {
		resource += "/" + a.GetSubresource()
	}
	for i := range g.rules {
		r := &g.rules[i]
		if rbacauthorizer.VerbMatches(r, a.GetVerb()) && rbacauthorizer.APIGroupMatches(r, a.GetAPIGroup()) &&
			rbacauthorizer.ResourceMatches(r, resource, a.GetSubresource()) && rbacauthorizer.ResourceNameMatches(r, a.GetName()) {
			return authorizer.DecisionAllow, "", nil
		}
	}
	return g.no, "", g.err
}

func clustersRule(verb string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{v1alpha1.GroupName}, Resources: []string{resourceClusters}, ResourceNames: names}
}

func groupsRule(verb string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{registry.GroupName}, Resources: []string{resourceGroups}, ResourceNames: names}
}

// A list is exactly what get would answer, whatever the grants are.
func TestScopeIsWhatGetAnswers(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(of string, n int) (out []string) {
		for range random.IntN(n) {
			out = append(out, fmt.Sprintf("%s%d", of, random.IntN(12)))
		}
		return out
	}
	caller := &user.DefaultInfo{Name: "somebody"}
	for step := range 3000 {
		g := &grants{}
		for range random.IntN(4) {
			verb := []string{"get", "list", "update", "*"}[random.IntN(4)]
			rule := clustersRule(verb, pick("c", 4)...)
			if random.IntN(2) == 0 {
				rule = groupsRule(verb, pick("g", 3)...)
			}
			if random.IntN(10) == 0 {
				rule.APIGroups = []string{"*"}
			}
			if random.IntN(10) == 0 {
				rule.Resources = []string{"*"}
			}
			if len(rule.ResourceNames) == 0 && random.IntN(3) > 0 {
				continue // most callers have names
			}
			g.rules = append(g.rules, rule)
		}
		r := New(Options{Authorizer: authorizer.AuthorizerFunc(g.Authorize), Roles: g})
		scope, err := r.Scope(t.Context(), caller)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 12 {
			for k := range 13 {
				name, group := fmt.Sprintf("c%d", n), fmt.Sprintf("g%d", k)
				if k == 12 {
					group = ""
				}
				may, err := r.May(t.Context(), caller, "get", Target{Name: name, Group: group})
				if err != nil {
					t.Fatal(err)
				}
				if may != scope.Sees(name, group) {
					t.Fatalf("step %d, rules %v: get of %s in group %q answers %v, and a list %v", step, g.rules, name, group, may, !may)
				}
			}
		}
	}
}

// The number of reviews grows with the grants of the caller.
func TestReviewsOfTwoNames(t *testing.T) {
	t.Parallel()
	g := &grants{rules: []rbacv1.PolicyRule{clustersRule("get", "alpha", "beta")}}
	scope, err := New(Options{Authorizer: authorizer.AuthorizerFunc(g.Authorize), Roles: g}).Scope(t.Context(), &user.DefaultInfo{Name: "somebody"})
	if err != nil {
		t.Fatal(err)
	}
	if !scope.Sees("alpha", "") || !scope.Sees("beta", "") || scope.Sees("gamma", "") {
		t.Errorf("the scope is %+v", scope)
	}
	if g.asked > 5 {
		t.Errorf("%d reviews, of at most 5", g.asked)
	}
}

// What cannot be asked is not taken for a no, and not for a yes.
func TestAuthorizerFails(t *testing.T) {
	t.Parallel()
	for _, no := range []authorizer.Decision{authorizer.DecisionNoOpinion, authorizer.DecisionDeny} {
		g := &grants{err: errors.New("down"), no: no}
		r := New(Options{Authorizer: authorizer.AuthorizerFunc(g.Authorize), Roles: g})
		if _, err := r.Scope(t.Context(), &user.DefaultInfo{}); err == nil {
			t.Error("a scope was made without an answer")
		}
		if may, err := r.May(t.Context(), &user.DefaultInfo{}, "get", Target{Name: "alpha"}); may || err == nil {
			t.Errorf("may %v, error %v", may, err)
		}
	}
}

// What roles grant is told when it changes, and what another authorizer does is not.
func TestUnwatched(t *testing.T) {
	t.Parallel()
	yes := authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return authorizer.DecisionAllow, "", nil
	})
	groupsAlone := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetResource() == resourceGroups {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	})
	for _, tt := range []struct {
		name  string
		asked authorizer.Authorizer
		rules []rbacv1.PolicyRule
		want  bool
	}{
		{"all, by a role", yes, []rbacv1.PolicyRule{clustersRule("get")}, false},
		{"all, by another authorizer", yes, []rbacv1.PolicyRule{clustersRule("get", "alpha")}, true},
		{"all groups, by a role", groupsAlone, []rbacv1.PolicyRule{groupsRule("*")}, false},
		{"all groups, by another authorizer", groupsAlone, nil, true},
	} {
		scope, err := New(Options{Authorizer: tt.asked, Roles: &grants{rules: tt.rules}}).Scope(t.Context(), &user.DefaultInfo{})
		if err != nil || scope.Unwatched != tt.want {
			t.Errorf("%s: %+v, %v", tt.name, scope, err)
		}
	}
}

// A name that no Cluster can have, and a value that no label can have, is not asked about.
func TestImpossibleNames(t *testing.T) {
	t.Parallel()
	g := &grants{rules: []rbacv1.PolicyRule{clustersRule("get", "a,b", "Upper", "alpha", "*"), groupsRule("get", "a,b", "g1", "in (x)", "*")}}
	scope, err := New(Options{Authorizer: authorizer.AuthorizerFunc(g.Authorize), Roles: g}).Scope(t.Context(), &user.DefaultInfo{})
	if err != nil || !scope.Names.Equal(sets.New("alpha")) || !scope.Groups.Equal(sets.New("g1")) {
		t.Errorf("%+v, %v", scope, err)
	}
}

// A right to write a group is `update` of it, whatever the verb.
func TestWritesOfAGroup(t *testing.T) {
	t.Parallel()
	g := &grants{rules: []rbacv1.PolicyRule{groupsRule("update", "prod")}}
	r := New(Options{Authorizer: authorizer.AuthorizerFunc(g.Authorize), Roles: g})
	for _, verb := range []string{"create", "update", "delete"} {
		for group, want := range map[string]bool{"prod": true, "test": false, "": false} {
			may, err := r.May(t.Context(), &user.DefaultInfo{}, verb, Target{Name: "alpha", Group: group})
			if err != nil || may != want {
				t.Errorf("%s in group %q: %v, %v", verb, group, may, err)
			}
		}
		if may, err := r.MayStored(t.Context(), &user.DefaultInfo{}, verb, Target{Name: "alpha", Group: "prod"}); may || err != nil {
			t.Errorf("%s of the stored Cluster: %v, %v", verb, may, err)
		}
	}
	if may, err := r.May(t.Context(), &user.DefaultInfo{}, "get", Target{Name: "alpha", Group: "prod"}); may || err != nil {
		t.Errorf("update of a group lets read it: %v, %v", may, err)
	}
}

// A scope is asked for anew once its caller is proposed something else, until answers are settled, and once more later; other
// callers' changes are no reason.
func TestAsk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &grants{rules: []rbacv1.PolicyRule{clustersRule("get", "alpha")}}
		r := New(Options{Authorizer: authorizer.AuthorizerFunc(g.Authorize), Roles: g, Settle: 6 * time.Second})
		scope := func() *Scope {
			s, err := r.Scope(t.Context(), &user.DefaultInfo{Name: "somebody"})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		want := func(s *Scope, want bool, what string) {
			t.Helper()
			if r.Ask(t.Context(), s) != want {
				t.Errorf("%s: asked is %v", what, !want)
			}
		}
		s := scope()
		want(s, false, "nothing has changed")
		r.RolesChanged(false)
		want(s, false, "a right to something else")
		time.Sleep(time.Minute)
		r.RolesChanged(true)
		want(s, false, "another's change")
		time.Sleep(time.Second)
		g.rules = nil
		r.RolesChanged(true)
		want(s, true, "his change")
		time.Sleep(3 * time.Second)
		s = scope()
		want(s, true, "the authorizer may be behind")
		time.Sleep(4 * time.Second)
		s = scope()
		want(s, false, "settled")
		time.Sleep(askedLate)
		want(s, true, "the authorizer may be far behind")
		s = scope()
		want(s, false, "asked late")
		r.RolesChanged(true) // of what was proposed already
		want(s, true, "told after the roles")
	})
}

// What somebody has of a version is what he sees now, but for one from before a change, or from while answers are not settled.
func TestSince(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &grants{version: "100"}
		r := New(Options{Roles: g, Settle: 6 * time.Second})
		for version, want := range map[string]bool{"99": false, "100": true, "101": true, "1000": true, "": false, "x": false} {
			if r.Since(version) != want {
				t.Errorf("since %q: %v", version, !want)
			}
		}
		r.RolesChanged(true)
		if r.Since("1000") {
			t.Error("answers are not settled")
		}
		time.Sleep(7 * time.Second)
		if !r.Since("1000") {
			t.Error("answers are settled")
		}
		g.version = ""
		if r.Since("1000") {
			t.Error("when roles changed is not known")
		}
	})
}
