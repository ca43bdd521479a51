// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
	name, ns := secretRef(cluster)
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

func secretRef(cluster *unstructured.Unstructured) (name, namespace string) {
	name, _, _ = unstructured.NestedString(cluster.Object, "spec", "authInfo", "secretRef", "name")
	namespace, _, _ = unstructured.NestedString(cluster.Object, "spec", "authInfo", "secretRef", "namespace")
	return name, namespace
}

// swapTarget is what one cluster receives: cleaned objects, ready to be created there.
type swapTarget struct {
	to      *clusters.Client
	cluster *unstructured.Unstructured
	secret  *unstructured.Unstructured
	// unchanged: the same has been written before and the agent already works with it, perhaps with a
	// credential that it has fetched itself. Writing again would only make it start over.
	unchanged bool
	// rewrite: to already holds this cluster, under the name of cluster.
	rewrite bool
}

// prepareTarget says what src's cluster is to be in the cluster to, whose own credential lies in
// namespace: the one place where every agent may read Secrets. It reads and refuses, and writes nothing.
func prepareTarget(ctx context.Context, src *swapSource, to *clusters.Client, namespace string) (*swapTarget, error) {
	known, err := to.ClusterObjects(ctx)
	if err != nil {
		return nil, err
	}
	t := &swapTarget{to: to, secret: cleanSecret(src.secret, namespace), cluster: cleanCluster(src.cluster, src.secret.GetName(), namespace)}
	switch there := holder(known, src); {
	case there == nil:
	case clusters.IDOf(there) == src.id():
		if err := sameKey(there, src); err != nil {
			return nil, to.Errorf("%w", err)
		}
		t.rewrite = true
		t.cluster.SetName(there.GetName()) // after a clash of names it may be known as NAME-xxxxxxxx
		t.unchanged = synced(there).ok && sameButCredential(there, t.cluster)
	default:
		return nil, to.Errorf("the name %s is held by another cluster there (clusterID %s, not %s); reinstall the newcomer with another localCluster.name",
			src.name(), clusters.IDOf(there), src.id())
	}
	for i := range known {
		name, ns := secretRef(&known[i])
		if clusters.IDOf(&known[i]) != src.id() && name == t.secret.GetName() && ns == t.secret.GetNamespace() {
			return nil, to.Errorf("Secret %s/%s is the credential of cluster %s there and would be overwritten", ns, name, known[i].GetName())
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

// sameKey refuses to replace the key that a cluster was first met with: agents would not accept it
// either (the first pin wins), but only this place can say so at once.
func sameKey(there *unstructured.Unstructured, src *swapSource) error {
	old, _, _ := unstructured.NestedString(there.Object, "spec", "mesh", "publicKey")
	offered, _, _ := unstructured.NestedString(src.cluster.Object, "spec", "mesh", "publicKey")
	if old != "" && old != offered {
		return fmt.Errorf("cluster %s (%s) is known there with another mesh key; a group never changes the key of a member by a swap; end the old key with agentctl join --replace-key, or agentctl remove there", there.GetName(), src.id())
	}
	return nil
}

// sameButCredential compares what the origin decides; authInfo belongs to the receiving side.
func sameButCredential(a, b *unstructured.Unstructured) bool {
	spec := func(u *unstructured.Unstructured) map[string]any {
		m, _, _ := unstructured.NestedMap(u.Object, "spec") // a deep copy
		delete(m, "authInfo")
		return m
	}
	return reflect.DeepEqual(spec(a), spec(b))
}

// cleanCluster is a Cluster object without what its own API server and its users there have put on
// it: what `kubectl get -o yaml` prints and must not be written elsewhere.
func cleanCluster(in *unstructured.Unstructured, secretName, secretNamespace string) *unstructured.Unstructured {
	out := cleanObject(in)
	spec, _, _ := unstructured.NestedMap(in.Object, "spec")
	if spec == nil {
		spec = map[string]any{}
	}
	spec["authInfo"] = map[string]any{"secretRef": map[string]any{"name": secretName, "namespace": secretNamespace}}
	out.Object["spec"] = spec
	return out
}

func cleanSecret(in *unstructured.Unstructured, namespace string) *unstructured.Unstructured {
	out := cleanObject(in)
	out.SetNamespace(namespace)
	out.Object["type"] = v1alpha1.SecretType
	if data, found, _ := unstructured.NestedMap(in.Object, "data"); found {
		out.Object["data"] = data
	}
	return out
}

func cleanObject(in *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetAPIVersion(in.GetAPIVersion())
	out.SetKind(in.GetKind())
	out.SetName(in.GetName())
	if m := cleanMarks(in.GetLabels()); len(m) > 0 {
		out.SetLabels(m)
	}
	if m := cleanMarks(in.GetAnnotations()); len(m) > 0 {
		out.SetAnnotations(m)
	}
	return out
}

// cleanMarks drops labels and annotations that have a meaning only where they were set.
func cleanMarks(in map[string]string) map[string]string {
	out := make(map[string]string, len(in))
	for k, v := range in {
		switch {
		case k == "kubectl.kubernetes.io/last-applied-configuration",
			k == v1alpha1.AnnotationClusterDisabled,
			k == v1alpha1.AnnotationSyncDisabled,
			k == v1alpha1.AnnotationOwnerClusterID,
			strings.HasPrefix(k, v1alpha1.LocalPrefix),
			strings.HasPrefix(k, "meta.helm.sh/"),
			k == "app.kubernetes.io/managed-by", k == "helm.sh/chart":
			continue
		}
		out[k] = v
	}
	return out
}

// apply writes the credential first, so that the agent never sees a Cluster that points to nothing.
func (t *swapTarget) apply(ctx context.Context, report func(verb string, obj *unstructured.Unstructured)) error {
	if t.unchanged {
		report("unchanged", t.cluster)
		return nil
	}
	if err := t.write(ctx, clusters.Core("secrets"), t.secret, clusters.CheckCredential, report); err != nil {
		if apierrors.IsNotFound(err) {
			return t.to.Errorf("namespace %s does not exist", t.secret.GetNamespace())
		}
		return t.to.Errorf("write Secret %s/%s: %w", t.secret.GetNamespace(), t.secret.GetName(), err)
	}
	sameCluster := func(there *unstructured.Unstructured) error {
		if id := clusters.IDOf(there); id != clusters.IDOf(t.cluster) {
			return fmt.Errorf("is another cluster's (%s)", id)
		}
		return nil
	}
	if err := t.write(ctx, clusters.ClusterResource(), t.cluster, sameCluster, report); err != nil {
		return t.to.Errorf("write Cluster %s: %w", t.cluster.GetName(), err)
	}
	return nil
}

// write creates obj, or updates what is there when mine agrees that it is of an earlier swap.
func (t *swapTarget) write(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured,
	mine func(*unstructured.Unstructured) error, report func(string, *unstructured.Unstructured),
) error {
	client := t.to.Dynamic.Resource(gvr).Namespace(obj.GetNamespace())
	var lastErr error
	for range clusters.WriteAttempts {
		_, err := client.Create(ctx, obj, metav1.CreateOptions{FieldManager: clusters.FieldManager})
		if err == nil {
			report("created", obj)
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		there, err := client.Get(ctx, obj.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			lastErr = err
			continue
		}
		if err != nil {
			return err
		}
		if err := mine(there); err != nil {
			return fmt.Errorf("exists and %w; it is left as it is", err)
		}
		changed := overlay(there, obj)
		if !changed {
			report("unchanged", obj)
			return nil
		}
		_, err = client.Update(ctx, there, metav1.UpdateOptions{FieldManager: clusters.FieldManager})
		if err == nil {
			report("updated", obj)
			return nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
		lastErr = err
	}
	return errors.Join(fmt.Errorf("gave up after %d attempts", clusters.WriteAttempts), lastErr)
}

// overlay puts obj's content over there's and says whether that changed anything. Labels and
// annotations of others stay.
func overlay(there, obj *unstructured.Unstructured) bool {
	before := there.DeepCopy()
	for _, field := range []string{"spec", "data", "type"} {
		if v, found := obj.Object[field]; found {
			there.Object[field] = v
		}
	}
	if m := merged(there.GetLabels(), obj.GetLabels()); len(m) > 0 {
		there.SetLabels(m)
	}
	if m := merged(there.GetAnnotations(), obj.GetAnnotations()); len(m) > 0 {
		there.SetAnnotations(m)
	}
	return !reflect.DeepEqual(before.Object, there.Object)
}

func merged(a, b map[string]string) map[string]string {
	out := make(map[string]string, len(a)+len(b))
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}
