// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// The files parity_*_test.go hold one test for each thing that the systems Roster comes from get wrong. The
// number in a test's name is that of the row in the project's list of them. Gamma owns what is copied, rules
// are made in alpha, and beta is where the copy is looked at most, unless a test says otherwise.
//
// That something does not happen is shown by a marker: another change on the same way, made later. When its
// effect has arrived, what came before it has been decided.

// room is what one test has to itself: a namespace of every cluster where agents may copy some kinds, and
// the rules whose names begin like it.
type room struct {
	*group
	name string
}

var (
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	widgets     = schema.GroupVersionResource{Group: "parity.example.com", Version: "v1", Resource: "widgets"}
	gadgets     = schema.GroupVersionResource{Group: "parity.example.com", Version: "v1", Resource: "gadgets"}
	roles       = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}
	installOnce sync.Once
)

// ownKinds are two kinds of this test's own, which agents may copy in every namespace.
const ownKinds = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.parity.example.com}
spec:
  group: parity.example.com
  scope: Namespaced
  names: {kind: %[2]s, listKind: %[2]sList, plural: %[1]s, singular: %[3]s}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: parity-%[1]s
  labels: {cluster-registry.k8s.cisco.com/controller-aggregated: "true", cluster-registry.k8s.cisco.com/reader-aggregated: "true"}
rules: [{apiGroups: [parity.example.com], resources: [%[1]s], verbs: ["*"]}]
---
`

// newRoom makes one in the group. Agents may copy ConfigMaps, Secrets and the kinds of this test in it.
func newRoom(t *testing.T) *room {
	t.Helper()
	g := joined(t)
	installOnce.Do(func() {
		for _, c := range g.Clusters[:3] {
			apply(t, c, fmt.Sprintf(ownKinds, "widgets", "Widget", "widget")+fmt.Sprintf(ownKinds, "gadgets", "Gadget", "gadget"))
			kubectl(t, c, "wait", "--for=condition=Established", "--timeout=60s", "crd/widgets.parity.example.com", "crd/gadgets.parity.example.com")
		}
	})
	row, _, _ := strings.Cut(strings.TrimPrefix(t.Name(), "TestParity"), "_")
	r := &room{group: g, name: fmt.Sprintf("%s-%d", strings.ToLower(row), time.Now().UnixMilli())}
	t.Cleanup(func() { r.tidy(t) })
	for _, c := range g.Clusters[:3] {
		furnish(t, c, r.name)
	}
	return r
}

// furnish makes a namespace in which the agents may copy.
func furnish(t *testing.T, c *harness.Cluster, name string) {
	t.Helper()
	_, err := c.Kube.CoreV1().Namespaces().Create(lasting(t), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	grant(t, c, name, []string{""}, []string{"configmaps", "secrets"})
}

// grant lets the agent of the cluster write kinds in a namespace, and peers read them.
func grant(t *testing.T, c *harness.Cluster, namespace string, groups, resources []string) {
	t.Helper()
	subjects := map[string]rbacv1.Subject{
		"agent":  {Kind: rbacv1.ServiceAccountKind, Namespace: harness.Namespace, Name: harness.ServiceAccount},
		"reader": {Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: v1alpha1.ReadersGroup(harness.Namespace)},
	}
	verbs := map[string][]string{"agent": {"*"}, "reader": {"get", "list", "watch"}}
	for who, subject := range subjects {
		meta := metav1.ObjectMeta{Name: who + "-" + resources[0]}
		role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: groups, Resources: resources, Verbs: verbs[who]}}}
		binding := &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: []rbacv1.Subject{subject}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}}
		_, err := c.Kube.RbacV1().Roles(namespace).Create(lasting(t), role, metav1.CreateOptions{})
		if err == nil {
			_, err = c.Kube.RbacV1().RoleBindings(namespace).Create(lasting(t), binding, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// tidy takes the rules away everywhere, and then the namespaces with what is in them.
func (r *room) tidy(t *testing.T) {
	t.Helper()
	if t.Failed() {
		for _, c := range r.Clusters[:3] {
			for _, args := range [][]string{{"resourcesyncrules"}, {"configmaps,widgets,gadgets", "-n", r.name}} {
				out, err := c.Kubectl(lasting(t), append([]string{"get", "-o", "yaml"}, args...)...)
				t.Logf("%v in %s: %v\n%.20000s", args, c.Name, err, out)
			}
		}
	}
	eventually(t, "the rules of "+r.name+" are gone", afterFault, func(ctx context.Context) error {
		var errs []error
		for _, c := range r.Clusters[:3] {
			rules, err := c.Dynamic.Resource(harness.Rules()).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for _, rule := range rules.Items {
				if strings.HasPrefix(rule.GetName(), r.name) {
					errs = append(errs, fmt.Errorf("%s is in %s", rule.GetName(), c.Name), remove(ctx, c, harness.Rules(), "", rule.GetName()))
				}
			}
		}
		return errors.Join(errs...)
	})
	for _, c := range r.Clusters[:3] {
		spaces, err := c.Kube.CoreV1().Namespaces().List(lasting(t), metav1.ListOptions{})
		if err != nil {
			t.Error(err)
			continue
		}
		for _, space := range spaces.Items {
			if strings.HasPrefix(space.Name, r.name) {
				if err := c.Kube.CoreV1().Namespaces().Delete(lasting(t), space.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
					t.Error(err)
				}
			}
		}
	}
}

// rule makes or changes the rule NAME-suffix. NS in the spec's YAML stands for the room's namespace.
func (r *room) rule(t *testing.T, c *harness.Cluster, suffix, spec string) {
	t.Helper()
	apply(t, c, fmt.Sprintf("apiVersion: %s\nkind: ResourceSyncRule\nmetadata: {name: %s-%s}\nspec: {%s}\n",
		v1alpha1.SchemeGroupVersion, r.name, suffix, strings.ReplaceAll(spec, "NS", r.name)))
}

// What rules in the tests begin with, and what selects by the label "for".
const (
	ofConfigMaps = "groupVersionKind: {version: v1, kind: ConfigMap}, "
	ofWidgets    = "groupVersionKind: {group: parity.example.com, version: v1, kind: Widget}, "
	ofGadgets    = "groupVersionKind: {group: parity.example.com, version: v1, kind: Gadget}, "
)

func forLabel(value string) string {
	return "match: [{namespaces: [NS], labels: [{matchLabels: {for: " + value + "}}]}]"
}

// object is one with the value under the key "v" and the label "for".
func (r *room) object(gvr schema.GroupVersionResource, name, label, value string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"v": value}}}
	u.SetAPIVersion(gvr.GroupVersion().String())
	u.SetKind(map[string]string{"configmaps": "ConfigMap", "secrets": "Secret", "widgets": "Widget", "gadgets": "Gadget"}[gvr.Resource])
	if gvr.Resource == "secrets" {
		u.Object["data"] = map[string]any{"v": base64.StdEncoding.EncodeToString([]byte(value))}
	}
	u.SetNamespace(r.name)
	u.SetName(name)
	u.SetLabels(map[string]string{"for": label})
	return u
}

// put creates an object, or makes it what is given and nothing else.
func put(t *testing.T, c *harness.Cluster, gvr schema.GroupVersionResource, u *unstructured.Unstructured) {
	t.Helper()
	client := c.Dynamic.Resource(gvr).Namespace(u.GetNamespace())
	_, err := client.Create(lasting(t), u, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		var have *unstructured.Unstructured
		if have, err = client.Get(lasting(t), u.GetName(), metav1.GetOptions{}); err == nil {
			u.SetResourceVersion(have.GetResourceVersion())
			_, err = client.Update(lasting(t), u, metav1.UpdateOptions{})
		}
	}
	if err != nil {
		t.Fatalf("put %s %s in %s: %v", gvr.Resource, u.GetName(), c.Name, err)
	}
}

func (r *room) patch(t *testing.T, c *harness.Cluster, gvr schema.GroupVersionResource, name, merge string) {
	t.Helper()
	if _, err := c.Dynamic.Resource(gvr).Namespace(r.name).Patch(lasting(t), name, types.MergePatchType, []byte(merge), metav1.PatchOptions{}); err != nil {
		t.Fatalf("patch %s %s in %s: %v", gvr.Resource, name, c.Name, err)
	}
}

func (r *room) drop(t *testing.T, c *harness.Cluster, gvr schema.GroupVersionResource, name string) {
	t.Helper()
	if err := remove(lasting(t), c, gvr, r.name, name); err != nil {
		t.Fatal(err)
	}
}

// copied: the object is a maintained copy of owner's with this value under "v".
func copied(c, owner *harness.Cluster, gvr schema.GroupVersionResource, namespace, name, value string) func(context.Context) error {
	return func(ctx context.Context) error {
		u, err := get(ctx, c, gvr, namespace, name)
		if err != nil {
			return err
		}
		id, err := owner.ID(ctx)
		if err != nil {
			return err
		}
		if a, l := u.GetAnnotations()[v1alpha1.AnnotationOwnerClusterID], u.GetLabels()[v1alpha1.LabelOwnerClusterID]; a != id || l != id {
			return fmt.Errorf("in %s: %s has owner %q and label %q, not %q", c.Name, name, a, l, id)
		}
		if _, found := u.GetAnnotations()[v1alpha1.AnnotationOrphaned]; found {
			return fmt.Errorf("in %s: %s is orphaned", c.Name, name)
		}
		if got := valueOf(u); got != value {
			return fmt.Errorf("in %s: %s has the value %.40q, not %.40q", c.Name, name, got, value)
		}
		return nil
	}
}

func valueOf(u *unstructured.Unstructured) string {
	value, _, _ := unstructured.NestedString(u.Object, "data", "v")
	if u.GetKind() == "Secret" {
		plain, _ := base64.StdEncoding.DecodeString(value)
		return string(plain)
	}
	return value
}

// eventuallyCopied waits for gamma's object in the clusters.
func (r *room) eventuallyCopied(t *testing.T, gvr schema.GroupVersionResource, name, value string, at ...*harness.Cluster) {
	t.Helper()
	for _, c := range at {
		eventually(t, fmt.Sprintf("%s %s of gamma is in %s with %.20q", gvr.Resource, name, c.Name, value), afterFault,
			copied(c, r.gamma, gvr, r.name, name, value))
	}
}

func (r *room) eventuallyGone(t *testing.T, gvr schema.GroupVersionResource, name string, at ...*harness.Cluster) {
	t.Helper()
	for _, c := range at {
		eventually(t, fmt.Sprintf("%s %s is gone from %s", gvr.Resource, name, c.Name), afterFault, absent(c, gvr, r.name, name))
	}
}

// eventuallyOrphan waits until an object is marked as one and still has the value.
func (r *room) eventuallyOrphan(t *testing.T, gvr schema.GroupVersionResource, name, value string, at ...*harness.Cluster) {
	t.Helper()
	for _, c := range at {
		eventually(t, fmt.Sprintf("%s %s is an orphan in %s", gvr.Resource, name, c.Name), afterFault, func(ctx context.Context) error {
			u, err := get(ctx, c, gvr, r.name, name)
			if err != nil {
				return err
			}
			if _, found := u.GetAnnotations()[v1alpha1.AnnotationOrphaned]; !found || valueOf(u) != value {
				return fmt.Errorf("in %s: %s has the value %q and the annotations %v", c.Name, name, valueOf(u), u.GetAnnotations())
			}
			return nil
		})
	}
}

// ruleSays is a condition: the rule's Ready is this in the cluster, and reason or message has the text.
func (r *room) ruleSays(c *harness.Cluster, suffix, status, text string) func(context.Context) error {
	return ruleIs(c, r.name+"-"+suffix, status, text)
}

func ruleIs(c *harness.Cluster, name, status, text string) func(context.Context) error {
	return func(ctx context.Context) error {
		u, err := get(ctx, c, harness.Rules(), "", name)
		if err != nil {
			return err
		}
		ready := harness.Condition(u, "Ready")
		if said := fmt.Sprintf("%v: %v", ready["reason"], ready["message"]); ready["status"] != status || !strings.Contains(said, text) {
			return fmt.Errorf("in %s: rule %s is Ready=%v, %s; not %s with %q", c.Name, u.GetName(), ready["status"], said, status, text)
		}
		return nil
	}
}

// asIs remembers versions of an object; the function that it returns fails when one has changed since.
func (r *room) asIs(t *testing.T, gvr schema.GroupVersionResource, name string, at ...*harness.Cluster) func(t *testing.T) {
	t.Helper()
	version := func(c *harness.Cluster) string {
		u, err := get(t.Context(), c, gvr, r.name, name)
		if err != nil {
			t.Fatal(err)
		}
		return string(u.GetUID()) + " " + u.GetResourceVersion()
	}
	before := make([]string, len(at))
	for i, c := range at {
		before[i] = version(c)
	}
	return func(t *testing.T) {
		t.Helper()
		for i, c := range at {
			if now := version(c); now != before[i] {
				u, _ := get(t.Context(), c, gvr, r.name, name)
				t.Errorf("%s %s in %s was written: %s, not %s: %v", gvr.Resource, name, c.Name, now, before[i], u)
			}
		}
	}
}

// down crashes a cluster's agent and its API server until the returned function is called, or the test ends.
func (g *group) down(t *testing.T, c *harness.Cluster) (up func()) {
	t.Helper()
	if err := errors.Join(c.KillAgent(), c.StopAPIServer(t.Context())); err != nil {
		t.Fatal(err)
	}
	back := sync.OnceFunc(func() {
		if err := c.StartAPIServer(lasting(t)); err != nil {
			t.Fatal(err)
		}
		if err := c.StartAgent(lasting(t)); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(back)
	return back
}

// without crashes a cluster's agent, acts, and starts the agent again.
func without(t *testing.T, c *harness.Cluster, act func()) {
	t.Helper()
	if err := c.KillAgent(); err != nil {
		t.Fatal(err)
	}
	act()
	if err := c.StartAgent(lasting(t)); err != nil {
		t.Fatal(err)
	}
}
