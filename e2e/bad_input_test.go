// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// badNamespace is where bad input comes from and goes to: sources are in gamma, and the copies in beta are
// looked at.
const badNamespace = "bad-input"

const badSetup = `apiVersion: v1
kind: Namespace
metadata: {name: bad-input}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: bad-input
  labels: {cluster-registry.k8s.cisco.com/reader-aggregated: "true", cluster-registry.k8s.cisco.com/controller-aggregated: "true"}
rules:
- apiGroups: ["", batch, example.com]
  resources: [configmaps, secrets, services, jobs, blobs]
  verbs: [get, list, watch, create, update, delete]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: blobs.example.com}
spec:
  group: example.com
  names: {kind: Blob, plural: blobs, singular: blob}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

const badPolicy = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: bad-input}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}
  validations:
  - expression: "!object.metadata.name.startsWith('refused')"
    message: not in this house
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: bad-input}
spec:
  policyName: bad-input
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: bad-input}}}
`

// bad is one case: a rule of its own, whose objects have its name as a label.
type bad struct {
	g    *group
	rule string
	gvr  schema.GroupVersionResource
	kind string
}

func (b bad) manifest(match string) string {
	group := ""
	if b.gvr.Group != "" {
		group = "group: " + b.gvr.Group + ", "
	}
	return fmt.Sprintf("apiVersion: %s\nkind: ResourceSyncRule\nmetadata: {name: %s}\nspec:\n  groupVersionKind: {%sversion: %s, kind: %s}\n  rules:\n  - match:\n    - %s\n",
		v1alpha1.SchemeGroupVersion, b.rule, group, b.gvr.Version, b.kind, match)
}

// start makes the rule, and forgets it and its objects at the end.
func (b bad) start(t *testing.T) {
	t.Helper()
	b.startWith(t, b.manifest(fmt.Sprintf("{namespaces: [%s], labels: [{matchLabels: {case: %s}}]}", badNamespace, b.rule)))
}

func (b bad) startWith(t *testing.T, manifest string) {
	t.Helper()
	apply(t, b.g.alpha, manifest)
	t.Cleanup(func() {
		if t.Failed() {
			out, err := b.g.beta.Kubectl(lasting(t), "get", "resourcesyncrule", b.rule, "-o", "yaml")
			t.Logf("%v\n%s", err, out)
		}
		if err := remove(lasting(t), b.g.alpha, harness.Rules(), "", b.rule); err != nil {
			t.Error(err)
		}
		eventually(t, "the rule is gone", afterFault, noRule(b.g.beta, b.rule))
	})
}

// put creates an object in gamma, with the case's label.
func (b bad) put(t *testing.T, name string, content map[string]any) error {
	t.Helper()
	obj := map[string]any{
		"apiVersion": b.gvr.GroupVersion().String(), "kind": b.kind,
		"metadata": map[string]any{"name": name, "namespace": badNamespace, "labels": map[string]any{"case": b.rule}},
	}
	maps.Copy(obj, content)
	_, err := b.g.gamma.Dynamic.Resource(b.gvr).Namespace(badNamespace).Create(lasting(t), &unstructured.Unstructured{Object: obj}, metav1.CreateOptions{})
	return err
}

func (b bad) mustPut(t *testing.T, name string, content map[string]any) {
	t.Helper()
	if err := b.put(t, name, content); err != nil {
		t.Fatalf("create %s %s: %v", b.kind, name, err)
	}
}

// again replaces an object in gamma by another of the same name while the rule is paused, so that the copy does
// not go with the first one and the rule meets it again.
func (b bad) again(t *testing.T, name string, content map[string]any) {
	t.Helper()
	kubectl(t, b.g.alpha, "patch", "resourcesyncrule", b.rule, "--type=merge", "-p", `{"spec":{"paused":true}}`)
	b.says(t, "Paused")
	defer kubectl(t, b.g.alpha, "patch", "resourcesyncrule", b.rule, "--type=merge", "-p", `{"spec":{"paused":false}}`)
	background := metav1.DeletePropagationBackground
	err := b.g.gamma.Dynamic.Resource(b.gvr).Namespace(badNamespace).Delete(lasting(t), name, metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it can be made again", within, func(context.Context) error { return b.put(t, name, content) })
}

func (b bad) copied(t *testing.T, name string) {
	t.Helper()
	eventually(t, b.kind+" "+name+" is copied", afterFault, present(b.g.beta, b.gvr, badNamespace, name))
}

// says waits until the rule in beta gives a reason, with words.
func (b bad) says(t *testing.T, reason string, words ...string) {
	t.Helper()
	eventually(t, "the rule says "+reason, afterFault, func(ctx context.Context) error {
		u, err := get(ctx, b.g.beta, harness.Rules(), "", b.rule)
		if err != nil {
			return err
		}
		c := harness.Condition(u, "Ready")
		if c == nil || c["reason"] != reason {
			return fmt.Errorf("Ready is %v", c)
		}
		for _, word := range words {
			if message, _ := c["message"].(string); !strings.Contains(message, word) {
				return fmt.Errorf("the message %q does not say %q", message, word)
			}
		}
		return nil
	})
}

func (b bad) uid(t *testing.T, name string) types.UID {
	t.Helper()
	u, err := get(lasting(t), b.g.beta, b.gvr, badNamespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return u.GetUID()
}

// TestBadInput: what is wrong with one rule or one object is one condition with its reason, and all else goes on.
func TestBadInput(t *testing.T) {
	g := joined(t)
	for _, c := range []*harness.Cluster{g.alpha, g.beta, g.gamma} {
		apply(t, c, badSetup)
		t.Cleanup(func() {
			kubectl(t, c, "delete", "--ignore-not-found", "--wait=false", "clusterrole/bad-input", "namespace/bad-input", "crd/blobs.example.com")
		})
	}
	core := func(resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Version: "v1", Resource: resource}
	}
	configMaps := func(rule string) bad { return bad{g, rule, core("configmaps"), "ConfigMap"} }
	t.Run("kind that does not exist", func(t *testing.T) {
		b := bad{g, "bad-kind", schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "nothings"}, "Nothing"}
		b.start(t)
		b.says(t, "KindUnknown", "CRD")
	})
	t.Run("operator that does not exist", func(t *testing.T) { badOperator(t, configMaps("bad-operator")) })
	t.Run("value of 1 MiB", func(t *testing.T) { badValue(t, configMaps("bad-value")) })
	t.Run("refused by a policy", func(t *testing.T) { badPolicyCase(t, configMaps("bad-policy")) })
	t.Run("refused by a webhook, or held up", func(t *testing.T) {
		badWebhook(t, configMaps("bad-webhook"), bad{g, "bad-webhook-other", core("secrets"), "Secret"})
	})
	t.Run("source in deletion", func(t *testing.T) { badFinalizer(t, configMaps("bad-finalizer")) })
	t.Run("object at the limit", func(t *testing.T) {
		badSize(t, bad{g, "bad-size", schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "blobs"}, "Blob"})
	})
	t.Run("immutable Secret", func(t *testing.T) { badSecret(t, bad{g, "bad-secret", core("secrets"), "Secret"}) })
	t.Run("clusterIP of a Service", func(t *testing.T) { badService(t, bad{g, "bad-service", core("services"), "Service"}) })
	t.Run("template of a Job", func(t *testing.T) {
		badJob(t, bad{g, "bad-job", schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, "Job"})
	})
	t.Run("right that is missing", func(t *testing.T) {
		b := bad{g, "bad-right", schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}, "Lease"}
		b.start(t)
		b.says(t, "MissingPermission", "may not get, list, watch", "leases.coordination.k8s.io", v1alpha1.LabelControllerAggregated)
		b.grant(t)
		eventually(t, "what the condition says to paste here helps", afterFault, func(ctx context.Context) error {
			if u, err := get(ctx, g.beta, harness.Rules(), "", b.rule); err != nil || harness.Condition(u, "Ready")["reason"] == "MissingPermission" {
				return fmt.Errorf("status %v: %w", u, err)
			}
			return nil
		})
	})
	t.Run("namespace that is missing", func(t *testing.T) { badMissingNamespace(t, configMaps("bad-namespace")) })
	t.Run("status", func(t *testing.T) {
		badStatus(t, bad{g, "bad-status", schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, "Job"})
	})
}

// grant does in beta what the rule's condition says, word by word.
func (b bad) grant(t *testing.T) {
	t.Helper()
	var manifest string
	eventually(t, "the condition has something to paste", afterFault, func(ctx context.Context) error {
		u, err := get(ctx, b.g.beta, harness.Rules(), "", b.rule)
		if err != nil {
			return err
		}
		message, _ := harness.Condition(u, "Ready")["message"].(string)
		_, rest, found := strings.Cut(message, "kubectl apply -f - <<< '")
		if manifest, _, _ = strings.Cut(rest, "'"); !found {
			return fmt.Errorf("it says %q", message)
		}
		return nil
	})
	t.Log(manifest)
	apply(t, b.g.beta, manifest)
	t.Cleanup(func() {
		_, name, _ := strings.Cut(manifest, "name: ")
		name, _, _ = strings.Cut(name, ",")
		kubectl(t, b.g.beta, "delete", "clusterrole", name)
	})
}
