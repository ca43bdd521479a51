// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package consent

import (
	"cmp"
	"fmt"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Accept says what of another cluster takes effect here.
type Accept string

const (
	// AcceptAll means that its rules are in force here, and its objects are copied. It is the default.
	AcceptAll Accept = "all"
	// AcceptObjects means that rules of others copy its objects, and its own rules are not in force.
	AcceptObjects Accept = "objects"
	// AcceptNone means that it is listed, and nothing is copied from it.
	AcceptNone Accept = "none"
)

// ParseAccept reads a value that a person wrote. Nothing means all.
func ParseAccept(text string) (Accept, error) {
	switch a := Accept(text); a {
	case "":
		return AcceptAll, nil
	case AcceptAll, AcceptObjects, AcceptNone:
		return a, nil
	}
	return AcceptNone, fmt.Errorf("%q is not all, objects or none", text)
}

// accepts is how much is let in. A value that says nothing lets in nothing.
func (a Accept) accepts() int {
	switch a {
	case AcceptAll:
		return 2
	case AcceptObjects:
		return 1
	case AcceptNone:
	}
	return 0
}

// Terms are what of one cluster takes effect here, and why.
type Terms struct {
	Accept Accept
	why    string
	object string // the Cluster object that says so; "" for the chart
	edge   bool   // whatever Accept is, its rules are not in force
	none   bool   // nor are those of a cluster that is no member
}

// TermsOf returns what of a cluster takes effect here: what the annotation v1alpha1.AnnotationAccept on its Cluster object
// says, else byDefault. If it has several Cluster objects here, the one that lets in least decides. A value that cannot be
// read lets in nothing.
func TermsOf(byDefault Accept, objects ...*v1alpha1.Cluster) Terms {
	out, found := Terms{Accept: byDefault, why: fmt.Sprintf("the chart value trust.accept is %s here", byDefault)}, false
	for _, c := range objects {
		text, annotated := c.Annotations[v1alpha1.AnnotationAccept]
		if !annotated {
			continue
		}
		why := fmt.Sprintf("its Cluster object here has the annotation %s=%s", v1alpha1.AnnotationAccept, text)
		a, err := ParseAccept(text)
		if err != nil {
			why = fmt.Sprintf("the annotation %s of its Cluster object here: %s", v1alpha1.AnnotationAccept, err)
		}
		stricter := out.Accept.accepts() - a.accepts()
		if !found || stricter > 0 || stricter == 0 && c.Name < out.object {
			out, found = Terms{Accept: a, why: why, object: c.Name}, true
		}
	}
	return out
}

// OfEdge are the terms of a cluster that is an edge: its rules are in force nowhere but there.
func (t Terms) OfEdge() Terms {
	t.edge = true
	return t
}

// OfNoMember are the terms of a cluster that is no member, or no more: none of its rules is in force.
func (t Terms) OfNoMember() Terms {
	t.none = true
	return t
}

// TermsSeen are the terms that the Cluster object of a cluster shows; the chart value is not known.
func TermsSeen(c *v1alpha1.Cluster) Terms {
	terms := TermsOf(AcceptAll, c)
	if c.Status.Role == v1alpha1.RoleEdge {
		return terms.OfEdge()
	}
	return terms
}

// RefuseRules returns an error if the rules of the cluster of that name are not in force here.
func (t Terms) RefuseRules(cluster string) error {
	if t.none {
		return fmt.Errorf("%w: rules of cluster %s are not in force here, since it is no member of the group of this cluster; what they copied stays as it is", ErrNeeded, cluster)
	}
	if t.edge {
		return fmt.Errorf("%w: rules of cluster %s are not in force here, since its role in the group is %s; its objects are copied by rules of full members; to make it one: kubectl annotate cluster %s %s=%s, in a full member",
			ErrNeeded, cluster, v1alpha1.RoleEdge, cluster, v1alpha1.AnnotationRole, v1alpha1.RoleFull)
	}
	if t.Accept.accepts() == AcceptAll.accepts() {
		return nil
	}
	return fmt.Errorf("%w: rules of cluster %s are not in force here, and what they copied stays as it is, because %s; to accept them: %s",
		ErrNeeded, cluster, t.why, command(cmp.Or(t.object, cluster), AcceptAll))
}

// RefuseObjects returns an error if nothing is copied from the cluster of that name.
func (t Terms) RefuseObjects(cluster string) error {
	if t.Accept.accepts() > AcceptNone.accepts() {
		return nil
	}
	return fmt.Errorf("%w: nothing is copied from cluster %s, and its copies stay as they are, because %s; to copy its objects, without its rules: %s",
		ErrNeeded, cluster, t.why, command(cmp.Or(t.object, cluster), AcceptObjects))
}

// command is what a person runs to accept more of a cluster.
func command(cluster string, a Accept) string {
	return fmt.Sprintf("agentctl accept %s %s", cluster, a)
}
