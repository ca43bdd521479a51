// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package adopt says which objects of a cluster rules may take over: those of rules with conflictPolicy Adopt, with the
// consent of an annotation on the object, if nobody else keeps the object as it is. It is pure.
package adopt

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/others"
)

// Refuses is why an object that is no copy is not adopted by rules that would, "" if it is. All of them make the copy, so that
// all need the consent. origin is the clusterID of the cluster that the copy would be of.
//
// mutual says that the cluster that has the object offers it to others by one of the rules. Two clusters must not adopt each
// other's, after which nobody would have the source: then consent is for the cluster too, as RULE@CLUSTERID, if its
// clusterID is not the smaller one.
func Refuses(obj *unstructured.Unstructured, rules []string, origin string, mutual bool) string {
	if obj.GetDeletionTimestamp() != nil {
		return "it is being deleted"
	}
	for _, owner := range obj.GetOwnerReferences() {
		if owner.Controller != nil && *owner.Controller {
			return "it belongs to " + owner.Kind + " " + owner.Name + ", which would change it back"
		}
	}
	for _, set := range []map[string]string{obj.GetLabels(), obj.GetAnnotations()} {
		for _, key := range slices.Sorted(maps.Keys(set)) {
			if others.Keeps(key, set[key]) {
				return "another tool keeps it as it is, as " + key + " says"
			}
		}
	}
	if _, disabled := obj.GetAnnotations()[v1alpha1.AnnotationSyncDisabled]; disabled {
		return "it has the annotation " + v1alpha1.AnnotationSyncDisabled
	}
	given := Given(obj)
	consents := func(to string) bool { return slices.Contains(given, to) }
	asked := make([]string, len(rules))
	missing := false
	for i, name := range rules {
		asked[i] = name
		if consents(name) && !mutual {
			continue
		}
		if mutual {
			asked[i] = name + "@" + origin
		}
		missing = missing || !consents(name+"@"+origin)
	}
	switch {
	case !missing:
		return ""
	case mutual:
		return "it is a source of copies in other clusters itself, by the same rule; to make it a copy, annotate it here with " +
			v1alpha1.AnnotationAdopt + "=" + strings.Join(asked, ",") + ", as agentctl rules adopt --from does"
	}
	return "to consent, annotate it here with " + v1alpha1.AnnotationAdopt + "=" + strings.Join(asked, ",") + ", as agentctl rules adopt does"
}

// Given are the consents that an object has: RULE or RULE@CLUSTERID.
func Given(obj *unstructured.Unstructured) []string {
	var given []string
	for one := range strings.SplitSeq(obj.GetAnnotations()[v1alpha1.AnnotationAdopt], ",") {
		if one = strings.TrimSpace(one); one != "" {
			given = append(given, one)
		}
	}
	return given
}

// Desired is what a copy is to be that takes the place of an object: one that is marked, or will be, says nothing of a policy
// for the time when its rule is gone, so that agents which do not know the mark do not delete it either.
func Desired(marked bool, desired *unstructured.Unstructured) *unstructured.Unstructured {
	if !marked || desired == nil {
		return desired
	}
	all := desired.GetAnnotations()
	if _, deletes := all[v1alpha1.AnnotationRuleDeletionPolicy]; !deletes {
		return desired
	}
	out := desired.DeepCopy()
	delete(all, v1alpha1.AnnotationRuleDeletionPolicy)
	out.SetAnnotations(all)
	return out
}

// Mark marks an object as one that was there before it became a copy. A copy keeps the mark, which is local.
func Mark(obj *unstructured.Unstructured) {
	all := obj.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	all[v1alpha1.AnnotationAdopted] = "true"
	obj.SetAnnotations(all)
}

// Marked says that a copy was adopted. It is never deleted, since no agent has made it.
func Marked(obj *unstructured.Unstructured) bool {
	_, marked := obj.GetAnnotations()[v1alpha1.AnnotationAdopted]
	return marked
}
