// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

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

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// half is what one cluster gives in a swap: its Cluster object and its credential.
type half struct {
	from    *side
	cluster *unstructured.Unstructured // as read
	secret  *unstructured.Unstructured // as read
}

// errNotYet marks what an agent does within moments of its start.
var errNotYet = errors.New("not yet")

const (
	settleTime   = 5 * time.Second
	settlePeriod = 250 * time.Millisecond
)

// readSettled is readHalf with some patience for an agent that has just been installed.
func readSettled(ctx context.Context, s *side, namespace string, patience time.Duration) (*half, error) {
	deadline := time.NewTimer(min(patience, settleTime))
	defer deadline.Stop()
	tick := time.NewTicker(settlePeriod)
	defer tick.Stop()
	for {
		h, err := readHalf(ctx, s, namespace)
		if !errors.Is(err, errNotYet) {
			return h, err
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

// readHalf reads what s has to give. Nothing is written.
func readHalf(ctx context.Context, s *side, namespace string) (*half, error) {
	cluster, err := s.local(ctx)
	if err != nil {
		return nil, err
	}
	name, ns := secretRef(cluster)
	if name == "" {
		return nil, s.errorf("cluster %s has no spec.authInfo.secretRef: peers could not read it; install the agent with localCluster.manageSecret=true or name a Secret there", cluster.GetName())
	}
	if ns == "" {
		ns = namespace
	}
	secret, err := s.client.Resource(coreResource("secrets")).Namespace(ns).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, s.errorf("%w ready: Secret %s/%s, the credential that cluster %s names, does not exist; the agent makes it when it runs", errNotYet, ns, name, cluster.GetName())
	}
	if err != nil {
		return nil, s.errorf("read the credential of cluster %s: %w", cluster.GetName(), err)
	}
	if err := checkCredential(secret); err != nil {
		return nil, s.errorf("Secret %s/%s: %w", ns, name, err)
	}
	if key, _, _ := unstructured.NestedString(cluster.Object, "spec", "mesh", "publicKey"); key == "" {
		return nil, s.errorf("%w ready: cluster %s has no spec.mesh.publicKey; the agent fills it in when it runs", errNotYet, cluster.GetName())
	}
	return &half{from: s, cluster: cluster, secret: secret}, nil
}

func (h *half) name() string { return h.cluster.GetName() }
func (h *half) id() string   { return clusterIDOf(h.cluster) }

func secretRef(cluster *unstructured.Unstructured) (name, namespace string) {
	name, _, _ = unstructured.NestedString(cluster.Object, "spec", "authInfo", "secretRef", "name")
	namespace, _, _ = unstructured.NestedString(cluster.Object, "spec", "authInfo", "secretRef", "namespace")
	return name, namespace
}

// checkCredential never quotes the content.
func checkCredential(secret *unstructured.Unstructured) error {
	kind, _, _ := unstructured.NestedString(secret.Object, "type")
	if kind != v1alpha1.SecretType {
		return fmt.Errorf("has type %q, a cluster's credential has type %q", kind, v1alpha1.SecretType)
	}
	if data, _, _ := unstructured.NestedString(secret.Object, "data", v1alpha1.SecretKubeconfigKey); data == "" {
		return fmt.Errorf("has no key %q", v1alpha1.SecretKubeconfigKey)
	}
	return nil
}

// paste is what one cluster receives: cleaned objects, ready to be created there.
type paste struct {
	to      *side
	cluster *unstructured.Unstructured
	secret  *unstructured.Unstructured
	// settled: the same has been pasted before and the agent already works with it, perhaps with a
	// credential that it has fetched itself. Writing again would only make it start over.
	settled bool
	// rewrite: to already holds this cluster, under the name of cluster.
	rewrite bool
}

// preparePaste says what h's cluster is to be in the cluster to, whose own credential lies in
// namespace: the one place where every agent may read Secrets. It reads and refuses, and writes nothing.
func preparePaste(ctx context.Context, h *half, to *side, namespace string) (*paste, error) {
	known, err := to.clusters(ctx)
	if err != nil {
		return nil, err
	}
	p := &paste{to: to, secret: cleanSecret(h.secret, namespace), cluster: cleanCluster(h.cluster, h.secret.GetName(), namespace)}
	switch there := holder(known, h); {
	case there == nil:
	case clusterIDOf(there) == h.id():
		if err := sameKey(there, h); err != nil {
			return nil, to.errorf("%w", err)
		}
		p.rewrite = true
		p.cluster.SetName(there.GetName()) // after a clash of names it may be known as NAME-xxxxxxxx
		p.settled = synced(there).ok && sameButCredential(there, p.cluster)
	default:
		return nil, to.errorf("the name %s is held by another cluster there (clusterID %s, not %s); reinstall the newcomer with another localCluster.name",
			h.name(), clusterIDOf(there), h.id())
	}
	for i := range known {
		name, ns := secretRef(&known[i])
		if clusterIDOf(&known[i]) != h.id() && name == p.secret.GetName() && ns == p.secret.GetNamespace() {
			return nil, to.errorf("Secret %s/%s is the credential of cluster %s there and would be overwritten", ns, name, known[i].GetName())
		}
	}
	return p, nil
}

// holder is the object that already stands for h's cluster, else the one that has its name, else nil.
func holder(known []unstructured.Unstructured, h *half) *unstructured.Unstructured {
	var named *unstructured.Unstructured
	for i := range known {
		if clusterIDOf(&known[i]) == h.id() {
			return &known[i]
		}
		if known[i].GetName() == h.name() {
			named = &known[i]
		}
	}
	return named
}

// sameKey refuses to replace the key that a cluster was first met with: agents would not accept it
// either (the first pin wins), but only this place can say so at once.
func sameKey(there *unstructured.Unstructured, h *half) error {
	old, _, _ := unstructured.NestedString(there.Object, "spec", "mesh", "publicKey")
	offered, _, _ := unstructured.NestedString(h.cluster.Object, "spec", "mesh", "publicKey")
	if old != "" && old != offered {
		return fmt.Errorf("cluster %s (%s) is known there with another mesh key; a group never changes the key of a member by a swap; end the old key with agentctl join --replace-key, or agentctl remove there", there.GetName(), h.id())
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
// it: what `kubectl get -o yaml` prints and must not be pasted elsewhere.
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
func (p *paste) apply(ctx context.Context, report func(verb string, obj *unstructured.Unstructured)) error {
	if p.settled {
		report("unchanged", p.cluster)
		return nil
	}
	if err := p.write(ctx, coreResource("secrets"), p.secret, checkCredential, report); err != nil {
		if apierrors.IsNotFound(err) {
			return p.to.errorf("namespace %s does not exist", p.secret.GetNamespace())
		}
		return p.to.errorf("write Secret %s/%s: %w", p.secret.GetNamespace(), p.secret.GetName(), err)
	}
	sameCluster := func(there *unstructured.Unstructured) error {
		if id := clusterIDOf(there); id != clusterIDOf(p.cluster) {
			return fmt.Errorf("is another cluster's (%s)", id)
		}
		return nil
	}
	if err := p.write(ctx, clusterResource(), p.cluster, sameCluster, report); err != nil {
		return p.to.errorf("write Cluster %s: %w", p.cluster.GetName(), err)
	}
	return nil
}

// writeAttempts bounds the rounds against an agent that updates the same object at the same time.
const writeAttempts = 5

// write creates obj, or updates what is there when mine agrees that it is an earlier paste.
func (p *paste) write(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured,
	mine func(*unstructured.Unstructured) error, report func(string, *unstructured.Unstructured),
) error {
	client := p.to.client.Resource(gvr).Namespace(obj.GetNamespace())
	var lastErr error
	for range writeAttempts {
		_, err := client.Create(ctx, obj, metav1.CreateOptions{FieldManager: "agentctl"})
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
		_, err = client.Update(ctx, there, metav1.UpdateOptions{FieldManager: "agentctl"})
		if err == nil {
			report("updated", obj)
			return nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
		lastErr = err
	}
	return errors.Join(fmt.Errorf("gave up after %d attempts", writeAttempts), lastErr)
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
