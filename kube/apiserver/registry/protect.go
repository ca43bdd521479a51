// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// change is what somebody wants to do with a stored Cluster.
type change struct {
	verb        string // create, update or delete
	subresource string // empty or status
	before      *v1alpha1.Cluster
	after       *v1alpha1.Cluster
}

// mayWrite returns nil where the caller may make a change, and the API server behind would not see it undone.
func (s *Server) mayWrite(ctx context.Context, who user.Info, c change) error {
	name := c.name()
	for _, side := range []*v1alpha1.Cluster{c.before, c.after} {
		if side == nil {
			continue
		}
		may, err := s.o.Rights.May(ctx, who, c.verb, target(side, c.subresource))
		if err != nil {
			return unanswered(err)
		}
		if !may {
			return forbidden(name, c.lacking(side))
		}
	}
	if fields := c.protected(); len(fields) > 0 {
		may, err := s.o.Rights.MayStored(ctx, who, "update", target(c.any(), c.subresource))
		if !may && err == nil && c.verb != "update" { // who may patch it there needs no way around that through here
			may, err = s.o.Rights.MayStored(ctx, who, c.verb, target(c.any(), c.subresource))
		}
		if err != nil {
			return unanswered(err)
		}
		if !may {
			return forbidden(name, fmt.Sprintf("%s: only who may update clusters.%s may change this", strings.Join(fields, ", "), v1alpha1.GroupName))
		}
	}
	return c.copied()
}

// any is one of the sides that there are.
func (c *change) any() *v1alpha1.Cluster {
	if c.before != nil {
		return c.before
	}
	return c.after
}

func (c *change) name() string { return c.any().Name }

// lacking says which right is missing to what a Cluster is or becomes.
func (c *change) lacking(side *v1alpha1.Cluster) string {
	t := target(side, c.subresource)
	if t.Group == "" {
		return fmt.Sprintf("you may not %s clusters.%s, and it is in no group", c.verb, v1alpha1.GroupName)
	}
	return fmt.Sprintf("you may neither %s clusters.%s nor update clustergroup %q", c.verb, v1alpha1.GroupName, t.Group)
}

// copied is 409 where another cluster owns what would be changed: its agent would undo it.
func (c *change) copied() error {
	if c.before == nil || c.subresource != "" {
		return nil
	}
	owner := c.before.Annotations[v1alpha1.AnnotationOwnerClusterID]
	if owner == "" {
		return nil
	}
	same := equality.Semantic.DeepEqual
	if c.after != nil && sameSpec(c.before, c.after) && same(c.before.Labels, c.after.Labels) &&
		same(c.before.OwnerReferences, c.after.OwnerReferences) && same(c.before.Finalizers, c.after.Finalizers) { // which decide when it is deleted
		return nil
	}
	what := "spec, labels, ownerReferences and finalizers can be changed only there"
	if c.after == nil {
		what = "it can be removed only from the group (agentctl remove), or leave it"
	}
	return conflict(c.before.Name, fmt.Sprintf("it belongs to the cluster with ID %s, whose agent keeps it here as it is there: %s", owner, what))
}

// protected returns the fields that change and that mean more than the registry API says: agents act on them.
func (c *change) protected() []string {
	if c.subresource != "" || c.after == nil {
		return nil
	}
	before := c.before
	if before == nil {
		before = &v1alpha1.Cluster{}
	}
	var out []string
	add := func(differs bool, field string) {
		if differs {
			out = append(out, field)
		}
	}
	add(ownDiffers(before.Labels, c.after.Labels), "metadata.labels under k8s.cisco.com")
	add(ownDiffers(before.Annotations, c.after.Annotations), "metadata.annotations under k8s.cisco.com")
	add(!slices.Equal(ownFinalizers(before.Finalizers), ownFinalizers(c.after.Finalizers)), "metadata.finalizers under k8s.cisco.com")
	// Garbage collection deletes what is owned by something that is missing.
	add(!equality.Semantic.DeepEqual(before.OwnerReferences, c.after.OwnerReferences), "metadata.ownerReferences")
	add(!equality.Semantic.DeepEqual(before.Spec.AuthInfo, c.after.Spec.AuthInfo), "spec.authInfo")
	// Who sets the address of a Cluster with a credential is sent that credential.
	held := before.Spec.AuthInfo != (v1alpha1.AuthInfo{}) || before.Spec.ClusterID != ""
	add(held && !equality.Semantic.DeepEqual(before.Spec.KubernetesAPIEndpoints, c.after.Spec.KubernetesAPIEndpoints),
		"spec.kubernetesApiEndpoints of a Cluster with a credential")
	return out
}

// own says whether a key of a label or an annotation, or a finalizer, is the agents'. managedFields of the view are kept in
// one that everybody who writes changes.
func own(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	return ok && (domain == ownDomain || strings.HasSuffix(domain, "."+ownDomain)) && key != v1alpha1.AnnotationRegistryManagedFields
}

const ownDomain = "k8s.cisco.com"

func ownDiffers(a, b map[string]string) bool {
	for key, value := range a {
		if is, ok := b[key]; own(key) && (!ok || is != value) {
			return true
		}
	}
	for key := range b {
		if _, ok := a[key]; own(key) && !ok {
			return true
		}
	}
	return false
}

func ownFinalizers(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(f string) bool { return !own(f) })
}
