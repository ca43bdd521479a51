// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// lasting is the test's context without its end, which comes before the clean-up: that uses it, too.
func lasting(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }

// eventually waits for a condition, and says how long it took.
func eventually(t *testing.T, what string, limit time.Duration, cond func(context.Context) error) {
	t.Helper()
	took, err := harness.Wait(lasting(t), what, limit, cond)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%7.3f s  %s", took.Seconds(), what)
}

// stays fails when a condition ends within the time.
func stays(t *testing.T, what string, whole time.Duration, cond func(context.Context) error) {
	t.Helper()
	if err := harness.Stays(t.Context(), what, whole, cond); err != nil {
		t.Fatal(err)
	}
}

// quiet is how long a test looks whether something does not happen that would happen within milliseconds.
const quiet = 1500 * time.Millisecond

func kubectl(t *testing.T, c *harness.Cluster, args ...string) string {
	t.Helper()
	out, err := c.Kubectl(lasting(t), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func apply(t *testing.T, c *harness.Cluster, manifest string, flags ...string) {
	t.Helper()
	if _, err := c.Apply(lasting(t), manifest, flags...); err != nil {
		t.Fatal(err)
	}
}

func get(ctx context.Context, c *harness.Cluster, gvr schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	u, err := c.Dynamic.Resource(gvr).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("in %s: %w", c.Name, err)
	}
	return u, nil
}

// present and absent are conditions for eventually and stays.
func present(c *harness.Cluster, gvr schema.GroupVersionResource, namespace, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := get(ctx, c, gvr, namespace, name)
		return err
	}
}

func absent(c *harness.Cluster, gvr schema.GroupVersionResource, namespace, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := get(ctx, c, gvr, namespace, name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("in %s: %s %s is there", c.Name, gvr.Resource, name)
		}
		return err
	}
}

func noSecret(c *harness.Cluster, name string) func(context.Context) error {
	return absent(c, harness.Secrets(), harness.Namespace, name)
}

func hasCluster(c *harness.Cluster, name string) func(context.Context) error {
	return present(c, harness.Clusters(), "", name)
}

func hasRule(c *harness.Cluster, name string) func(context.Context) error {
	return present(c, harness.Rules(), "", name)
}

func noRule(c *harness.Cluster, name string) func(context.Context) error {
	return absent(c, harness.Rules(), "", name)
}

// hasCopy: the Secret is there, is marked as a copy of owner's, is maintained, and has this value under the
// key "v" ("" for no such key).
func hasCopy(c, owner *harness.Cluster, name, value string) func(context.Context) error {
	return func(ctx context.Context) error {
		u, err := get(ctx, c, harness.Secrets(), harness.Namespace, name)
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
		return hasValue(c, u, value)
	}
}

func hasValue(c *harness.Cluster, u *unstructured.Unstructured, value string) error {
	encoded, _, _ := unstructured.NestedString(u.Object, "data", "v")
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return err
	}
	if string(data) != value {
		return fmt.Errorf("in %s: %s has the value %q, not %q", c.Name, u.GetName(), data, value)
	}
	return nil
}

// putSecret creates or changes a Secret in the agents' namespace, with the value under the key "v".
func putSecret(t *testing.T, c *harness.Cluster, name, value string) {
	t.Helper()
	secrets := c.Kube.CoreV1().Secrets(harness.Namespace)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"v": []byte(value)}}
	_, err := secrets.Create(lasting(t), secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		patch := fmt.Sprintf(`{"data":{"v":%q}}`, base64.StdEncoding.EncodeToString([]byte(value)))
		_, err = secrets.Patch(lasting(t), name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
	}
	if err != nil {
		t.Fatalf("put Secret %s in %s: %v", name, c.Name, err)
	}
}

func deleteSecret(t *testing.T, c *harness.Cluster, name string) {
	t.Helper()
	if err := remove(lasting(t), c, harness.Secrets(), harness.Namespace, name); err != nil {
		t.Fatalf("delete Secret %s in %s: %v", name, c.Name, err)
	}
}

func remove(ctx context.Context, c *harness.Cluster, gvr schema.GroupVersionResource, namespace, name string) error {
	err := c.Dynamic.Resource(gvr).Namespace(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// rule is a rule that copies one Secret of the agents' namespace.
func rule(name, secret string) string {
	return fmt.Sprintf(`apiVersion: clusterregistry.k8s.cisco.com/v1alpha1
kind: ResourceSyncRule
metadata:
  name: %s
spec:
  groupVersionKind:
    kind: Secret
    version: v1
  rules:
  - match:
    - objectKey:
        name: %s
        namespace: %s
`, name, secret, harness.Namespace)
}

// cleanUp deletes a rule and a Secret of these names everywhere, sources first.
func (g *group) cleanUp(t *testing.T, name string) {
	t.Helper()
	t.Cleanup(func() {
		ctx := lasting(t)
		if t.Failed() {
			g.dump(t, name)
		}
		var errs []error
		for range 2 { // the second round takes copies that were restored before their source was gone
			for _, c := range []*harness.Cluster{g.gamma, g.beta, g.alpha} {
				errs = append(errs,
					remove(ctx, c, harness.Secrets(), harness.Namespace, name),
					remove(ctx, c, harness.Rules(), "", name),
					remove(ctx, c, harness.Features(), "", name))
			}
		}
		_, err := harness.Wait(ctx, "clean up after "+t.Name(), afterFault, func(ctx context.Context) error {
			for _, c := range g.Clusters[:3] {
				for _, cond := range []func(context.Context) error{noSecret(c, name), noRule(c, name)} {
					if err := cond(ctx); err != nil {
						return errors.Join(err, remove(ctx, c, harness.Secrets(), harness.Namespace, name))
					}
				}
			}
			return nil
		})
		if err := errors.Join(append(errs, err)...); err != nil {
			t.Error(err)
		}
	})
}

// dump shows what a failed test was about.
func (g *group) dump(t *testing.T, name string) {
	t.Helper()
	for _, c := range g.Clusters[:3] {
		for _, args := range [][]string{{"secret", name, "-n", harness.Namespace}, {"resourcesyncrule", name}} {
			out, err := c.Kubectl(lasting(t), append([]string{"get", "-o", "yaml", "--ignore-not-found"}, args...)...)
			t.Logf("%s in %s: %v\n%s", args[0], c.Name, err, out)
		}
	}
}
