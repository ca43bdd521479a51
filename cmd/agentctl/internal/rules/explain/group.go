// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/fleet"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// reached is one cluster of the group, as far as the user can see it: what its Cluster object in the local
// cluster says and, where there is a way to its API server, what is there.
type reached struct {
	name, id string
	cluster  *v1alpha1.Cluster // as templates see it: without authInfo
	local    bool
	api      *clusters.Reader // nil: why
	member   *fleet.Member    // where there is an api
	why      string           // why it cannot be asked
	// listNamespaces reads its namespaces, where there is an api, once; like syncrules.Input.Namespaced it takes no context: a
	// request is bounded in time as all others are.
	listNamespaces func() (all []*unstructured.Unstructured, whole bool, err error)
	own            bool // the credential is the user's own
	mayWrite       bool // and the user said whose cluster it leads to, so a dry run may be allowed
	disabled       bool
	// features are its ClusterFeatures; unknown when featuresWhy says why.
	features    []*v1alpha1.ClusterFeature
	featuresWhy string
	// rules are the names of the rules that are there; unknown when rulesWhy says why.
	rules    map[string]bool
	rulesWhy string
}

// title is what people call the cluster.
func (c *reached) title() string {
	if c.local {
		return c.name + " (this cluster)"
	}
	return c.name
}

// reach is a cluster from which the others are seen, and how these are reached.
type reach struct {
	member *fleet.Member
	known  map[string]*reached          // by clusterID
	rules  []*v1alpha1.ResourceSyncRule // the rule in question as the user's own cluster has it; none where it has none
}

// limit leaves sources that only the user's own rights can read out of the view of another member, but for the rule that the
// user's own cluster has too: what else is read, that member would decide.
func (r *reach) limit(all []*reached, rules []*v1alpha1.ResourceSyncRule) {
	if r.member.Local || slices.ContainsFunc(rules, func(there *v1alpha1.ResourceSyncRule) bool {
		return len(r.rules) == 1 && there.Name == r.rules[0].Name && equality.Semantic.DeepEqual(there.Spec, r.rules[0].Spec)
	}) {
		return
	}
	for _, c := range all {
		if c.own && !c.local {
			c.api, c.why = nil, "it would be read with your own rights, by a rule that your own cluster does not have so"
		}
	}
}

// reachAll opens every member of a group, by its clusterID.
func reachAll(ctx context.Context, g *fleet.Group) (own *fleet.Member, all map[string]*reached, unknown []fleet.Unknown, err error) {
	answers, err := fleet.Ask(ctx, g, func(ctx context.Context, m *fleet.Member) (*reached, error) {
		objects, err := m.Objects()
		if err != nil {
			return nil, err
		}
		c := &reached{api: clusters.NewReader(objects), member: m, local: m.Local, own: m.Own, mayWrite: m.Own && m.Certain}
		later := context.WithoutCancel(ctx)
		c.listNamespaces = func() ([]*unstructured.Unstructured, bool, error) {
			return c.api.ListOnce(later, schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, syncrules.Scope{})
		}
		c.readFeatures(ctx, m)
		c.readRules(ctx, m)
		return c, nil
	})
	all = map[string]*reached{}
	for i := range answers {
		a := &answers[i]
		if a.Err != nil {
			why := clusters.Reason(a.Err)
			a.Value = &reached{why: why, featuresWhy: why, rulesWhy: why}
		}
		if all[a.ID] = a.Value; a.Local && a.Err == nil {
			own = a.Value.member
		} else if a.Local {
			err = a.Err
		}
	}
	return own, all, fleet.Unknowns(answers), err
}

// clusters opens every cluster of the group, the local one first, then by name. Those that cannot be asked say
// why.
func (r *reach) clusters(ctx context.Context) ([]*reached, error) {
	if err := r.member.Client.Verify(ctx, r.member.ID); err != nil {
		return nil, err
	}
	all, err := fleet.List[v1alpha1.Cluster](ctx, r.member, clusters.ClusterResource())
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(c *v1alpha1.Cluster) bool { return c.Spec.ClusterID == "" })
	var out []*reached
	for _, c := range all {
		why := "it is not in the list of the cluster from where the group is asked"
		one := &reached{why: why, featuresWhy: why, rulesWhy: why}
		if known := r.known[string(c.Spec.ClusterID)]; known != nil {
			*one = *known
		}
		one.name, one.id, one.local = c.Name, string(c.Spec.ClusterID), string(c.Spec.ClusterID) == r.member.ID
		_, one.disabled = c.Annotations[v1alpha1.AnnotationClusterDisabled]
		one.cluster = c.DeepCopy()
		one.cluster.Spec.AuthInfo, one.cluster.ManagedFields = v1alpha1.AuthInfo{}, nil
		if out = append(out, one); one.local { // they are in name order
			out = slices.Insert(out[:len(out)-1], 0, one)
		}
	}
	if len(out) == 0 || !out[0].local || len(out) > 1 && out[1].local {
		return nil, r.member.Client.Errorf("its Clusters are not one of itself and others")
	}
	return out, nil
}

func (c *reached) readFeatures(ctx context.Context, m *fleet.Member) {
	features, err := fleet.List[v1alpha1.ClusterFeature](ctx, m, v1alpha1.SchemeGroupVersion.WithResource("clusterfeatures"))
	if c.features = features; err != nil {
		c.featuresWhy = "its ClusterFeatures cannot be read: " + clusters.Reason(err)
	}
}

// readRules reads which rules are there: a rule may have been withdrawn and deleted in some clusters.
func (c *reached) readRules(ctx context.Context, m *fleet.Member) {
	list, err := fleet.List[v1alpha1.ResourceSyncRule](ctx, m, clusters.RuleResource())
	if err != nil {
		c.rulesWhy = "its rules cannot be read: " + clusters.Reason(err)
	}
	c.rules = map[string]bool{}
	for _, rule := range list {
		c.rules[rule.Name] = true
	}
}
