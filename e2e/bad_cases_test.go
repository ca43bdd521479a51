// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/e2e/harness"
)

// The cases of TestBadInput that take more than a line.

// badMissingNamespace: the right to create namespaces is not among the default ones, and is named.
func badMissingNamespace(t *testing.T, b bad) {
	const late = "bad-input-late"
	kubectl(t, b.g.gamma, "create", "namespace", late)
	kubectl(t, b.g.gamma, "-n", late, "create", "configmap", "x", "--from-literal=v=1")
	t.Cleanup(func() {
		for _, c := range []*harness.Cluster{b.g.alpha, b.g.beta, b.g.gamma} {
			kubectl(t, c, "delete", "--ignore-not-found", "--wait=false", "namespace", late)
		}
	})
	manifest := b.manifest("{objectKey: {name: x, namespace: " + late + "}}")
	b.startWith(t, manifest)
	b.says(t, "NamespaceMissing", late, "create it")
	apply(t, b.g.alpha, manifest+"  createNamespace: true\n")
	b.says(t, "MissingPermission", "may not create namespaces")
	b.grant(t)
	eventually(t, "the namespace and the copy are there", afterFault, present(b.g.beta, b.gvr, late, "x"))
	kubectl(t, b.g.beta, "delete", "namespace", late)
	eventually(t, "a namespace that was deleted is made again, with the copy", afterFault, present(b.g.beta, b.gvr, late, "x"))
	b.says(t, "Synced")
}

// badStatus: the status of a Job follows; the right to write it is one of its own.
func badStatus(t *testing.T, b bad) {
	b.mustPut(t, "done", manualJob("one"))
	kubectl(t, b.g.gamma, "-n", badNamespace, "patch", "job", "done", "--subresource=status", "--type=merge", "-p", `{"status":{"active":3}}`)
	b.startWith(t, strings.Replace(b.manifest(fmt.Sprintf("{namespaces: [%s], labels: [{matchLabels: {case: %s}}]}", badNamespace, b.rule)), "  - match:", "  - mutations: {syncStatus: true}\n    match:", 1))
	b.says(t, "MissingPermission", "jobs/status")
	b.grant(t)
	eventually(t, "the status is that of the source", afterFault, func(ctx context.Context) error {
		u, err := get(ctx, b.g.beta, b.gvr, badNamespace, "done")
		if err != nil {
			return err
		}
		if n, _, _ := unstructured.NestedInt64(u.Object, "status", "active"); n != 3 {
			return fmt.Errorf("status %v", u.Object["status"])
		}
		return nil
	})
	b.says(t, "Synced")
}

func badOperator(t *testing.T, b bad) {
	manifest := b.manifest("{labels: [{matchExpressions: [{key: a, operator: Near, values: [b]}]}]}")
	if _, err := b.g.alpha.Apply(t.Context(), manifest); err != nil {
		if !strings.Contains(err.Error(), "operator") {
			t.Errorf("it is refused, but with %v", err)
		}
		return
	}
	b.startWith(t, manifest)
	b.says(t, "InvalidRule", "spec.rules[0].match[0].labels[0]", "operator")
}

func badValue(t *testing.T, b bad) {
	manifest := b.manifest("{namespaces: [bad-input]}") + fmt.Sprintf(
		"    mutations:\n      overrides:\n      - {type: replace, path: /data/v, value: %q}\n", strings.Repeat("x", 1<<20))
	_, err := b.g.alpha.Apply(t.Context(), manifest, "--server-side")
	if err == nil || !strings.Contains(err.Error(), "value: Too long") {
		t.Errorf("a rule with a value of 1 MiB: %.300v", err)
	}
	b.start(t)
	for name, size := range map[string]int{"half": 500 << 10, "whole": 1000 << 10} { // an object of that size is none of our business
		b.mustPut(t, name, map[string]any{"data": map[string]any{"v": strings.Repeat("x", size)}})
		b.copied(t, name)
	}
	b.says(t, "Synced")
}

func badPolicyCase(t *testing.T, b bad) {
	apply(t, b.g.beta, badPolicy)
	t.Cleanup(func() {
		kubectl(t, b.g.beta, "delete", "validatingadmissionpolicybinding/bad-input", "validatingadmissionpolicy/bad-input")
	})
	probe := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: refused-probe, namespace: %s}\n", badNamespace)
	eventually(t, "the policy is in force", afterFault, func(ctx context.Context) error {
		if _, err := b.g.beta.Apply(ctx, probe, "--dry-run=server"); err == nil {
			return fmt.Errorf("a ConfigMap is let in")
		}
		return nil
	})
	b.start(t)
	b.mustPut(t, "refused", map[string]any{"data": map[string]any{"v": "1"}})
	b.mustPut(t, "fine", map[string]any{"data": map[string]any{"v": "1"}})
	b.copied(t, "fine")
	b.says(t, "AdmissionRefused", "1 of 2", "not in this house", "ConfigMap bad-input/refused")
}

// badFinalizer: a copy has no finalizers, and lasts as long as its source.
func badFinalizer(t *testing.T, b bad) {
	b.start(t)
	b.mustPut(t, "held", map[string]any{"metadata": map[string]any{
		"name": "held", "namespace": badNamespace, "labels": map[string]any{"case": b.rule}, "finalizers": []any{"example.com/hold"},
	}})
	b.copied(t, "held")
	kubectl(t, b.g.gamma, "-n", badNamespace, "delete", "--wait=false", "configmap", "held")
	stays(t, "the copy of a source in deletion stays", quiet, present(b.g.beta, b.gvr, badNamespace, "held"))
	b.mustPut(t, "other", nil)
	b.copied(t, "other")
	kubectl(t, b.g.gamma, "-n", badNamespace, "patch", "configmap", "held", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	eventually(t, "the copy is gone with its source", afterFault, absent(b.g.beta, b.gvr, badNamespace, "held"))
	b.says(t, "Synced")
}

// badSize makes the largest object that the source takes: with the marks of a copy it is too large.
func badSize(t *testing.T, b bad) {
	b.start(t)
	b.mustPut(t, "small", map[string]any{"v": "1"})
	b.copied(t, "small")
	size, err := 1572864, error(nil)
	for ; size > 1500000; size -= 100 {
		if err = b.put(t, "large", map[string]any{"v": strings.Repeat("x", size)}); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the source takes %d bytes", size)
	b.says(t, "ObjectTooLarge", "1 of 2", "Blob bad-input/large")
	kubectl(t, b.g.gamma, "-n", badNamespace, "delete", "blob", "large")
	b.says(t, "Synced")
}

func badSecret(t *testing.T, b bad) {
	b.start(t)
	immutable := func(value string) map[string]any {
		return map[string]any{"immutable": true, "stringData": map[string]any{"v": value}}
	}
	b.mustPut(t, "fixed", immutable("one"))
	b.copied(t, "fixed")
	b.again(t, "fixed", immutable("hunter2"))
	before := b.uid(t, "fixed")
	b.says(t, "ImmutableField", "Secret bad-input/fixed", "delete the copy")
	if out := kubectl(t, b.g.beta, "get", "resourcesyncrule", b.rule, "-o", "yaml"); strings.Contains(out, "hunter2") {
		t.Errorf("the rule tells the Secret: %s", out)
	}
	kubectl(t, b.g.beta, "-n", badNamespace, "delete", "secret", "fixed")
	eventually(t, "the copy is made anew", afterFault, func(ctx context.Context) error {
		u, err := get(ctx, b.g.beta, b.gvr, badNamespace, "fixed")
		if err == nil && u.GetUID() == before {
			err = fmt.Errorf("it is still the old one")
		}
		if err != nil {
			return err
		}
		return hasValue(b.g.beta, u, "hunter2")
	})
	b.says(t, "Synced")
}

func badService(t *testing.T, b bad) {
	b.start(t)
	service := func(ip any) map[string]any {
		spec := map[string]any{"ports": []any{map[string]any{"port": int64(80)}}}
		if ip != nil {
			spec["clusterIP"] = ip
		}
		return map[string]any{"spec": spec}
	}
	b.mustPut(t, "web", service(nil))
	b.copied(t, "web")
	ip := func(ctx context.Context) (string, error) {
		u, err := get(ctx, b.g.beta, b.gvr, badNamespace, "web")
		if err != nil {
			return "", err
		}
		is, _, err := unstructured.NestedString(u.Object, "spec", "clusterIP")
		return is, err
	}
	own, err := ip(lasting(t))
	if err != nil || own == "" || own == "None" {
		t.Fatalf("the copy has the address %q: %v", own, err)
	}
	kubectl(t, b.g.gamma, "-n", badNamespace, "label", "service", "web", "more=1")
	eventually(t, "the change reaches the copy", afterFault, func(ctx context.Context) error {
		u, err := get(ctx, b.g.beta, b.gvr, badNamespace, "web")
		if err == nil && u.GetLabels()["more"] != "1" {
			err = fmt.Errorf("labels %v", u.GetLabels())
		}
		return err
	})
	if now, err := ip(lasting(t)); err != nil || now != own {
		t.Errorf("the copy had the address %s, and now %s: %v", own, now, err)
	}
	b.again(t, "web", service("None"))
	eventually(t, "the copy is made anew, without an address", afterFault, func(ctx context.Context) error {
		now, err := ip(ctx) // there is none for a moment
		if err == nil && now != "None" {
			err = fmt.Errorf("it has %s", now)
		}
		return err
	})
	b.says(t, "Synced")
}

// manualJob has a selector of its own: one that the API server makes is no good elsewhere.
func manualJob(image string) map[string]any {
	return map[string]any{"spec": map[string]any{
		"manualSelector": true, "selector": map[string]any{"matchLabels": map[string]any{"job": "x"}},
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"job": "x"}},
			"spec":     map[string]any{"restartPolicy": "Never", "containers": []any{map[string]any{"name": "c", "image": image}}},
		},
	}}
}

// badJob: a Job is not made anew behind anybody's back, it would run again.
func badJob(t *testing.T, b bad) {
	b.mustPut(t, "once", manualJob("one"))
	b.mustPut(t, "other", manualJob("one"))
	b.start(t)
	b.copied(t, "once")
	b.copied(t, "other")
	b.again(t, "once", manualJob("two"))
	b.says(t, "ImmutableField", "Job bad-input/once", "delete the copy")
	kubectl(t, b.g.beta, "-n", badNamespace, "delete", "job", "once")
	b.says(t, "Synced")
	b.copied(t, "once")
	b.copied(t, "other")
}
