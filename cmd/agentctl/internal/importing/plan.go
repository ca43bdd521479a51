// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package importing

import (
	"cmp"
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// target is what the cluster that gets the objects has.
type target struct {
	id        string // of the cluster itself
	namespace string // that its agent reads credentials in
	known     []unstructured.Unstructured
}

// readTarget reads it. The cluster's own credential shows the namespace, where it has one.
func readTarget(ctx context.Context, c *clusters.Client, namespace string) (*target, error) {
	id, err := c.ClusterID(ctx)
	if err != nil {
		return nil, err
	}
	known, err := c.ClusterObjects(ctx)
	if err != nil {
		return nil, err
	}
	t := &target{id: id, namespace: namespace, known: known}
	for i := range known {
		if clusters.IDOf(&known[i]) == id {
			t.namespace = cmp.Or(clusters.SecretRef(&known[i]).Namespace, t.namespace)
		}
	}
	return t, nil
}

// plan says what is to be written: of each cluster first its credential, so that an agent never sees a Cluster that points
// to nothing.
func (t *target) plan(entries []*entry) ([]*write, problems) {
	var wrong problems
	var writes []*write
	for _, e := range entries {
		if e.id() == t.id {
			writes = append(writes, &write{doc: e.cluster, object: e.cluster.Object, why: "is the cluster of this context itself"})
			continue
		}
		there, err := t.find(e)
		if err != nil {
			wrong.add(e.cluster, "", err.Error())
			continue
		}
		ref, err := t.credential(e, there)
		if err != nil {
			wrong.add(e.cluster, "", err.Error())
			continue
		}
		if ref.Name != "" {
			writes = append(writes, &write{doc: e.secret, object: clusters.CleanSecret(e.secret.Object, ref.Namespace)})
		}
		writes = append(writes, &write{doc: e.cluster, object: merge(e, there, ref)})
	}
	return writes, wrong
}

// find is the object that stands for a cluster here, or nil; an error is why the file cannot be laid over it.
func (t *target) find(e *entry) (*unstructured.Unstructured, error) {
	cluster, id := e.cluster.Object, e.id()
	var there *unstructured.Unstructured
	for i := range t.known {
		k := &t.known[i]
		if id != "" && clusters.IDOf(k) == id {
			there = k // perhaps as NAME-xxxxxxxx, after a clash of names
			break
		}
		if k.GetName() == cluster.GetName() {
			there = k
		}
	}
	if there == nil {
		return nil, nil
	}
	if clusters.IDOf(there) != id {
		return nil, fmt.Errorf("the name %s is held by another cluster here (clusterID %s, not %s)", cluster.GetName(), clusters.IDOf(there), id)
	}
	if err := clusters.CheckSameKey(there, cluster); err != nil {
		return nil, err
	}
	if syncrules.Owner(there) != "" && !clusters.SameButCredential(there, cluster) {
		return nil, fmt.Errorf("cluster %s is known here, and its own agent keeps its object up to date: it would undo this change; make it in that cluster, or leave %s out of the file", there.GetName(), cluster.GetName())
	}
	return there, nil
}

// credential is the Secret that is written for a cluster; empty where the file has none, or where it is not needed: an
// agent renews the credential that it works with by itself.
func (t *target) credential(e *entry, there *unstructured.Unstructured) (v1alpha1.NamespacedName, error) {
	if e.secret == nil || there != nil && works(there) {
		return v1alpha1.NamespacedName{}, nil
	}
	ref := v1alpha1.NamespacedName{Name: e.secret.Object.GetName(), Namespace: t.namespace}
	for i := range t.known {
		if other := &t.known[i]; clusters.IDOf(other) != e.id() && clusters.SecretRef(other) == ref {
			return ref, fmt.Errorf("it would overwrite Secret %s/%s, the credential of cluster %s here", ref.Namespace, ref.Name, other.GetName())
		}
	}
	return ref, nil
}

// works tells whether the agent here reads from the cluster.
func works(there *unstructured.Unstructured) bool {
	c, err := clusters.DecodeCluster(there)
	if err != nil {
		return false
	}
	cond := clusters.Condition(c, v1alpha1.ConditionReady)
	return cond != nil && cond.Status == metav1.ConditionTrue && cond.ObservedGeneration >= c.Generation
}

// merge is what is written of a cluster. authInfo is this cluster's own business.
func merge(e *entry, there *unstructured.Unstructured, ref v1alpha1.NamespacedName) *unstructured.Unstructured {
	out := clusters.CleanCluster(e.cluster.Object, ref)
	if there == nil {
		return out
	}
	out.SetName(there.GetName())
	if syncrules.Owner(there) != "" { // its labels come from its own agent
		out.SetLabels(nil)
		out.SetAnnotations(nil)
	}
	if auth, found, err := unstructured.NestedMap(there.Object, "spec", "authInfo"); ref.Name == "" && found && err == nil {
		spec, _ := out.Object["spec"].(map[string]any) // CleanCluster has made it
		spec["authInfo"] = auth
	}
	return out
}
