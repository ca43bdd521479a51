// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registryapi

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/e2e/harness"
	view "github.com/roster-mesh/roster/kube/api/registry/v1alpha1"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

const resource = "clusters.clusterregistry.k8s.io"

// testKubectl types what the SIG's user guide does, with the full name of the resource and each kubectl that there is.
func (f *front) testKubectl(t *testing.T) {
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	// kubectl asks what there is first. The API server leaves out what it could not reach a moment ago, as while a certificate is new.
	eventually(t, "the API server says again what there is", func(ctx context.Context) error {
		_, err := f.KubectlOf(ctx, bin.Kubectl, "get", resource)
		return err
	})
	for _, path := range bin.Kubectls() {
		t.Run(filepath.Base(path), func(t *testing.T) { f.typed(t, path) })
	}
}

func (f *front) typed(t *testing.T, kubectl string) {
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	manifest := `apiVersion: clusterregistry.k8s.io/v1alpha1
kind: Cluster
metadata:
  name: typed
  labels:
    clusterregistry.k8s.io/cluster-group: prod
spec:
  kubernetesApiEndpoints:
    serverEndpoints:
    - clientCIDR: 0.0.0.0/0
      serverAddress: typed.example.com:6443
`
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	f.removed(t, "typed")
	run := func(want string, args ...string) string {
		t.Helper()
		out, err := f.KubectlOf(t.Context(), kubectl, args...)
		if err != nil {
			t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
		}
		if !strings.Contains(out, want) {
			t.Errorf("kubectl %s says %q, without %q", strings.Join(args, " "), out, want)
		}
		return out
	}
	run("typed created", "create", "-f", file)
	table := run("typed.example.com:6443", "get", resource, "typed")
	for _, column := range []string{"NAME", "OK", "SERVER", "GROUP", "AGE", "prod"} {
		if !strings.Contains(table, column) {
			t.Errorf("the table has no %s:\n%s", column, table)
		}
	}
	run("typed", "get", resource, "-l", "clusterregistry.k8s.io/cluster-group=prod", "-o", "name")
	run("typed", "get", resource, "--field-selector", "metadata.name=typed")
	run("typed", "get", resource, "-o", "wide", "--show-labels")
	run("serverAddress: typed.example.com:6443", "get", resource, "typed", "-o", "yaml")
	run("Server Address:", "describe", resource, "typed")
	run("serverEndpoints", "explain", resource+".spec.kubernetesApiEndpoints")
	run("labeled", "label", resource, "typed", "team=a")
	run("annotated", "annotate", resource, "typed", "note=b")
	run("patched", "patch", resource, "typed", "--type=merge", "-p", `{"metadata":{"labels":{"team":"c"}}}`)
	run("patched", "patch", resource, "typed", "--type=json", "-p", `[{"op":"remove","path":"/metadata/labels/team"}]`)
	run("typed configured", "apply", "-f", file) // which adds the annotation of what was applied
	run("typed unchanged", "apply", "-f", file)
	run("serverside-applied", "apply", "--server-side", "--force-conflicts", "-f", file)
	if _, err := f.KubectlOf(t.Context(), kubectl, "diff", "-f", file); err != nil {
		t.Errorf("kubectl diff of what is there: %v", err)
	}
	run("condition met", "wait", resource, "typed", "--for=jsonpath={.metadata.name}=typed", "--timeout=10s")
	run("clusterregistry.k8s.io/v1alpha1", "api-resources", "--api-group=clusterregistry.k8s.io")
	run("deleted", "delete", resource, "typed")
	// The short name goes on meaning the stored Clusters: the swap by hand is typed with it.
	if out, err := f.KubectlOf(t.Context(), kubectl, "get", "clusters", "-o", "jsonpath={.apiVersion} {.items[*].apiVersion}"); err != nil || strings.Contains(out, "clusterregistry.k8s.io/") {
		t.Errorf("kubectl get clusters: %q, %v", out, err)
	}
}

func (f *front) testVerbs(t *testing.T) {
	ctx, client := t.Context(), f.shown(t, "")
	made := f.make(t, cluster("verbs", ""))
	if made.UID == "" || made.ResourceVersion == "" || len(made.ManagedFields) == 0 {
		t.Errorf("made %+v", made.ObjectMeta)
	}
	behind, err := f.stored(t).Get(ctx, "verbs", metav1.GetOptions{})
	if err != nil || behind.ResourceVersion != made.ResourceVersion || behind.UID != made.UID || behind.Spec.KubernetesAPIEndpoints[0].ServerAddress != "verbs.example.com:6443" {
		t.Errorf("stored is %+v, %v", behind, err)
	}

	// A dry run changes nothing.
	if _, err := client.Create(ctx, cluster("dry", ""), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Error(err)
	}
	if _, err := client.Get(ctx, "dry", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after a dry run: %v", err)
	}
	if err := client.Delete(ctx, "verbs", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Error(err)
	}

	// An update that changes nothing is no write; one of an old version is 409; one without a version is taken.
	same, err := client.Update(ctx, made, metav1.UpdateOptions{})
	if err != nil || same.ResourceVersion != made.ResourceVersion {
		t.Errorf("an update that changes nothing made version %s of %s: %v", same.ResourceVersion, made.ResourceVersion, err)
	}
	changed := made.DeepCopy()
	changed.Labels = map[string]string{"team": "a"}
	newer, err := client.Update(ctx, changed, metav1.UpdateOptions{})
	if err != nil || newer.ResourceVersion == made.ResourceVersion || newer.Labels["team"] != "a" {
		t.Errorf("%+v, %v", newer, err)
	}
	if _, err := client.Update(ctx, changed, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("an update of an old version: %v", err)
	}
	changed.ResourceVersion, changed.Labels["team"] = "", "b"
	if _, err := client.Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}

	// PUT of a name that is free creates; create of a taken one is 409.
	f.removed(t, "put")
	if _, err := client.Update(ctx, cluster("put", ""), metav1.UpdateOptions{}); err != nil {
		t.Error("PUT of a name that is free:", err)
	}
	if _, err := client.Create(ctx, cluster("put", ""), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) || !strings.Contains(err.Error(), resource+" ") {
		t.Errorf("create of a taken name: %v", err)
	}

	// What only the stored form has, survives.
	behind, err = f.stored(t).Get(ctx, "verbs", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	behind.Spec.KubernetesAPIEndpoints[0].ClientNetwork = "lan"
	if _, err := f.stored(t).Update(ctx, behind, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Patch(ctx, "verbs", types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/kubernetesApiEndpoints/serverEndpoints/0/serverAddress","value":"new.example.com"}]`), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	behind, err = f.stored(t).Get(ctx, "verbs", metav1.GetOptions{})
	if want := []v1alpha1.KubernetesAPIEndpoint{{ClientCIDR: "0.0.0.0/0", ServerAddress: "new.example.com", ClientNetwork: "lan"}}; err != nil || !reflect.DeepEqual(behind.Spec.KubernetesAPIEndpoints, want) {
		t.Errorf("%+v, %v", behind.Spec, err)
	}

	// A delete with preconditions that do not hold.
	wrong := types.UID("another")
	if err := client.Delete(ctx, "verbs", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}}); !apierrors.IsConflict(err) {
		t.Errorf("a delete of another UID: %v", err)
	}
	if err := client.Delete(ctx, "verbs", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := client.Get(ctx, "verbs", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after the delete: %v", err)
	}
}

// testApply: each manager keeps what it applied, and what it applies no more goes.
func (f *front) testApply(t *testing.T) {
	ctx, client := t.Context(), f.shown(t, "")
	f.removed(t, "applied")
	apply := func(manager, labels string) (*view.Cluster, error) {
		return client.Patch(ctx, "applied", types.ApplyPatchType, []byte(`{"apiVersion":"clusterregistry.k8s.io/v1alpha1","kind":"Cluster","metadata":{"name":"applied","labels":`+labels+`}}`),
			metav1.PatchOptions{FieldManager: manager})
	}
	for _, step := range []struct{ manager, labels string }{{"one", `{"a":"1","b":"1"}`}, {"two", `{"c":"2"}`}, {"one", `{"a":"1"}`}} {
		if _, err := apply(step.manager, step.labels); err != nil {
			t.Fatal(err)
		}
	}
	got, err := client.Get(ctx, "applied", metav1.GetOptions{})
	if err != nil || len(got.Labels) != 2 || got.Labels["a"] != "1" || got.Labels["c"] != "2" {
		t.Errorf("labels are %v, %v", got.Labels, err)
	}
	if _, err := apply("two", `{"a":"2"}`); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `"one"`) {
		t.Errorf("another's field: %v", err)
	}
	behind, err := f.stored(t).Get(ctx, "applied", metav1.GetOptions{})
	if err != nil || behind.Annotations[v1alpha1.AnnotationRegistryManagedFields] == "" {
		t.Errorf("managedFields are not kept: %v, %v", behind.Annotations, err)
	}
	if len(got.Annotations) > 0 {
		t.Errorf("the view shows %v", got.Annotations)
	}
}

func (f *front) testStatus(t *testing.T) {
	ctx, client := t.Context(), f.shown(t, "")
	made := f.make(t, cluster("status", ""))
	made.Status.Conditions = []view.ClusterCondition{{Type: view.ClusterOK, Status: metav1.ConditionTrue, Message: "it answers"}, {Type: "Mine", Status: metav1.ConditionFalse, Reason: "Because"}}
	made.Labels = map[string]string{"not": "status"}
	got, err := client.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	if err != nil || len(got.Status.Conditions) != 2 || got.Status.Conditions[0].Reason != "NotStated" || len(got.Labels) > 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	behind, err := f.stored(t).Get(ctx, "status", metav1.GetOptions{})
	if err != nil || behind.Status.Conditions[0].Type != v1alpha1.ConditionReady {
		t.Errorf("%+v, %v", behind.Status, err)
	}
	// The main resource leaves the status alone.
	got.Status.Conditions, got.Labels = nil, map[string]string{"team": "a"}
	if got, err = client.Update(ctx, got, metav1.UpdateOptions{}); err != nil || len(got.Status.Conditions) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	table, err := f.Kubectl(ctx, "get", resource, "status", "--no-headers")
	if err != nil || !strings.Contains(table, "True") {
		t.Errorf("the table says %q, %v", table, err)
	}
}

// testBadInput: each says which field and why, and nothing is written.
func (f *front) testBadInput(t *testing.T) {
	ctx := context.WithoutCancel(t.Context())
	post := func(body, query string) error {
		return f.rest(t).Post().AbsPath("/apis/clusterregistry.k8s.io/v1alpha1/clusters").Param("fieldValidation", query).
			SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(ctx).Error()
	}
	one := func(metadata, spec string) string {
		return `{"apiVersion":"clusterregistry.k8s.io/v1alpha1","kind":"Cluster","metadata":{` + metadata + `},"spec":{` + spec + `}}`
	}
	endpoint := func(cidr, address string) string {
		return `"kubernetesApiEndpoints":{"serverEndpoints":[{"clientCIDR":"` + cidr + `","serverAddress":"` + address + `"}]}`
	}
	for name, tt := range map[string]struct{ body, want string }{
		"an unknown field":      {one(`"name":"bad"`, `"nope":1`), `unknown field "spec.nope"`},
		"clusterName":           {one(`"name":"bad","clusterName":"x"`, ``), `unknown field "metadata.clusterName"`},
		"a namespace":           {one(`"name":"bad","namespace":"default"`, ``), `unknown field "metadata.namespace"`},
		"a bad name":            {one(`"name":"Bad_Name"`, ``), "metadata.name"},
		"no name":               {one(``, ``), "metadata.name"},
		"a bad CIDR":            {one(`"name":"bad"`, endpoint("10.0.0.0/99", "a.example")), "spec.kubernetesApiEndpoints.serverEndpoints[0].clientCIDR"},
		"a bad address":         {one(`"name":"bad"`, endpoint("", "http://a.example")), "spec.kubernetesApiEndpoints.serverEndpoints[0].serverAddress"},
		"a resourceVersion":     {one(`"name":"bad","resourceVersion":"7"`, ``), "resourceVersion"},
		"three mebibytes":       {one(`"name":"bad","annotations":{"a":"`+strings.Repeat("x", 4<<20)+`"}`, ``), "too large"},
		"a bad group's label":   {one(`"name":"bad","labels":{"clusterregistry.k8s.io/cluster-group":"a b"}`, ``), "metadata.labels"},
		"a foreign kind":        {`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"bad"}}`, "Secret"},
		"what is not an object": {`[]`, "json"},
	} {
		if err := post(tt.body, "Strict"); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := f.shown(t, "").List(ctx, metav1.ListOptions{LabelSelector: "a=b=c"}); !apierrors.IsBadRequest(err) {
		t.Errorf("a bad selector: %v", err)
	}
	if _, err := f.shown(t, "").List(ctx, metav1.ListOptions{FieldSelector: "spec.nope=c"}); !apierrors.IsBadRequest(err) {
		t.Errorf("a bad field selector: %v", err)
	}
	if _, err := f.shown(t, "").List(ctx, metav1.ListOptions{Limit: 1, Continue: "nonsense"}); !apierrors.IsBadRequest(err) && !apierrors.IsResourceExpired(err) {
		t.Errorf("a bad continue: %v", err)
	}
	if _, err := f.shown(t, "").Watch(ctx, metav1.ListOptions{ResourceVersion: "1"}); err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("an old watch: %v", err)
	}
	if list, err := f.stored(t).List(ctx, metav1.ListOptions{}); err != nil || strings.Contains(names(list), "bad") {
		t.Errorf("something was written: %v, %v", names(list), err)
	}
}

// testCopies: what another cluster owns is changed there.
func (f *front) testCopies(t *testing.T) {
	ctx, client := t.Context(), f.shown(t, "")
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "copy", Annotations: map[string]string{v1alpha1.AnnotationOwnerClusterID: "owner-id"}}}
	c.Spec.ClusterID = "owner-id"
	c.Spec.KubernetesAPIEndpoints = []v1alpha1.KubernetesAPIEndpoint{{ServerAddress: "copy.example.com"}}
	if _, err := f.stored(t).Create(ctx, c, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.removed(t, "copy")
	for what, patch := range map[string]string{
		"spec":   `{"spec":{"kubernetesApiEndpoints":{"serverEndpoints":[{"serverAddress":"other.example.com"}]}}}`,
		"labels": `{"metadata":{"labels":{"a":"b"}}}`,
	} {
		if _, err := client.Patch(ctx, "copy", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "owner-id") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := client.Delete(ctx, "copy", metav1.DeleteOptions{}); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "owner-id") {
		t.Errorf("delete: %v", err)
	}
	if _, err := client.Patch(ctx, "copy", types.MergePatchType, []byte(`{"metadata":{"annotations":{"note":"mine"}}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("an annotation: %v", err)
	}
	if _, err := client.Patch(ctx, "copy", types.MergePatchType, []byte(`{"status":{"conditions":[{"type":"Mine","status":"True"}]}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Errorf("a condition: %v", err)
	}
}
