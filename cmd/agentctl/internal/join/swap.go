// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// swapSource is what one cluster gives in a swap: its Cluster object and its credential.
type swapSource struct {
	from    *clusters.Client
	cluster *unstructured.Unstructured // as read
	secret  *unstructured.Unstructured // as read
}

// errNotYet is returned for what an agent does within moments of its start. Its text is a word of the messages.
var errNotYet = errors.New("yet")

const (
	startTime   = 5 * time.Second
	startPeriod = 250 * time.Millisecond
)

// awaitSource is readSource that waits for an agent that has just been installed.
func awaitSource(ctx context.Context, s *clusters.Client, namespace string, timeout time.Duration) (*swapSource, error) {
	deadline := time.NewTimer(min(timeout, startTime))
	defer deadline.Stop()
	tick := time.NewTicker(startPeriod)
	defer tick.Stop()
	for {
		src, err := readSource(ctx, s, namespace)
		if !errors.Is(err, errNotYet) {
			return src, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-deadline.C:
			return nil, err
		}
	}
}

// readSource reads what s has to give. Nothing is written.
func readSource(ctx context.Context, s *clusters.Client, namespace string) (*swapSource, error) {
	cluster, err := s.Local(ctx)
	if err != nil {
		return nil, err
	}
	ref := clusters.SecretRef(cluster)
	name, ns := ref.Name, ref.Namespace
	if name == "" {
		return nil, s.Errorf("cluster %s has no spec.authInfo.secretRef: peers could not read it; install the agent with localCluster.manageSecret=true or name a Secret there", cluster.GetName())
	}
	if ns == "" {
		ns = namespace
	}
	secret, err := s.Secrets(ns).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, s.Errorf("Secret %s/%s, the credential that cluster %s names, does not exist %w; the agent makes it when it runs", ns, name, cluster.GetName(), errNotYet)
	}
	if err != nil {
		return nil, s.Errorf("read the credential of cluster %s: %w", cluster.GetName(), err)
	}
	if err := clusters.CheckCredential(secret); err != nil {
		return nil, s.Errorf("Secret %s/%s: %w", ns, name, err)
	}
	if key, _, _ := unstructured.NestedString(cluster.Object, "spec", "mesh", "publicKey"); key == "" {
		return nil, s.Errorf("cluster %s has no spec.mesh.publicKey %w; the agent fills it in when it runs", cluster.GetName(), errNotYet)
	}
	return &swapSource{from: s, cluster: cluster, secret: secret}, nil
}

func (src *swapSource) name() string { return src.cluster.GetName() }
func (src *swapSource) id() string   { return clusters.IDOf(src.cluster) }

// swapTarget is what one cluster receives: cleaned objects, ready to be created there.
type swapTarget struct {
	to      *clusters.Client
	cluster *unstructured.Unstructured
	secret  *unstructured.Unstructured
	// unchanged: the same has been written before and the agent already works with it, perhaps with a
	// credential that it has fetched itself. Writing again would only make it start over.
	unchanged  bool
	generation int64 // of cluster, once it is written
	// rewrite: to already holds this cluster, under the name of cluster.
	rewrite bool
	role    string // that the cluster has there already, as the agent tells; "" for none
	grouped bool   // to has members beside the two clusters
	warning string // for a person, before it is written; "" for none
}

// prepareTarget says what src's cluster is to be in the cluster to, whose own credential lies in
// namespace: the one place where every agent may read Secrets. It reads and refuses, and writes nothing.
func prepareTarget(ctx context.Context, src *swapSource, to *clusters.Client, namespace string) (*swapTarget, error) {
	known, err := to.ClusterObjects(ctx)
	if err != nil {
		return nil, err
	}
	credential := v1alpha1.NamespacedName{Name: src.secret.GetName(), Namespace: namespace}
	t := &swapTarget{to: to, secret: clusters.CleanSecret(src.secret, namespace), cluster: clusters.CleanCluster(src.cluster, credential)}
	switch there := holder(known, src); {
	case there == nil:
	case clusters.IDOf(there) == src.id():
		if err := clusters.CheckSameKey(there, src.cluster); err != nil {
			return nil, to.Errorf("%w", err)
		}
		t.rewrite, t.role = true, clusters.RoleOf(there)
		t.cluster.SetName(there.GetName()) // after a clash of names it may be known as NAME-xxxxxxxx
		t.unchanged = synced(there, there.GetGeneration()).ok && clusters.SameButCredential(there, t.cluster)
	case clusters.IDOf(there) == "":
		return nil, to.Errorf("the name %s is held by a Cluster there that has no clusterID; if it stands for this cluster, set its spec.clusterID to %s, else delete it or reinstall the newcomer with another localCluster.name",
			src.name(), src.id())
	default:
		return nil, to.Errorf("the name %s is held by another cluster there (clusterID %s, not %s); reinstall the newcomer with another localCluster.name",
			src.name(), clusters.IDOf(there), src.id())
	}
	members := 0 // with its own cluster
	for i := range known {
		if clusters.IDOf(&known[i]) != src.id() && clusters.MeshKey(&known[i]) != "" {
			members++
		}
		t.grouped = members > 1
		if clusters.IDOf(&known[i]) != src.id() && clusters.SecretRef(&known[i]) == credential {
			return nil, to.Errorf("Secret %s/%s is the credential of cluster %s there and would be overwritten", credential.Namespace, credential.Name, known[i].GetName())
		}
	}
	return t, nil
}

// holder is the object that already stands for src's cluster, else the one that has its name, else nil.
func holder(known []unstructured.Unstructured, src *swapSource) *unstructured.Unstructured {
	var named *unstructured.Unstructured
	for i := range known {
		if clusters.IDOf(&known[i]) == src.id() {
			return &known[i]
		}
		if known[i].GetName() == src.name() {
			named = &known[i]
		}
	}
	return named
}

// apply writes the credential first, so that the agent never sees a Cluster that points to nothing.
func (t *swapTarget) apply(ctx context.Context, report func(verb string, obj *unstructured.Unstructured)) error {
	if t.unchanged {
		report("unchanged", t.cluster)
		return nil
	}
	verb, _, err := t.to.Put(ctx, clusters.Core("secrets"), t.secret, clusters.CheckCredential)
	if apierrors.IsNotFound(err) {
		return t.to.Errorf("namespace %s does not exist", t.secret.GetNamespace())
	}
	if err != nil {
		return t.to.Errorf("write Secret %s/%s: %w", t.secret.GetNamespace(), t.secret.GetName(), err)
	}
	report(verb, t.secret)
	verb, there, err := t.to.Put(ctx, clusters.ClusterResource(), t.cluster, clusters.CheckSameCluster(t.cluster))
	if err != nil {
		return t.to.Errorf("write Cluster %s: %w", t.cluster.GetName(), err)
	}
	t.generation = there.GetGeneration()
	report(verb, t.cluster)
	return nil
}
