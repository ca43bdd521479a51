// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

func equal(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }

func object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	out := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(data, &out.Object); err != nil { // integers, as from an API server
		t.Fatal(err)
	}
	return out
}

func ruleFor(t testing.TB, group, version, kind string) *Rule {
	t.Helper()
	r := &v1alpha1.ResourceSyncRule{}
	r.Name = "r"
	r.Spec.GVK = v1alpha1.GroupVersionKind{Group: group, Version: version, Kind: kind}
	r.Spec.Rules = []v1alpha1.SyncRule{{}}
	out, err := Compile(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func rendered(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	source := object(t, text)
	gvk := source.GroupVersionKind()
	out, err := Render([]*Rule{ruleFor(t, gvk.Group, gvk.Version, gvk.Kind)}, source, Input{Owner: origin})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const service = `{apiVersion: v1, kind: Service, metadata: {name: s, namespace: shop, labels: {app: web}}, spec: {ports: [{port: 80, protocol: TCP}], selector: {app: web}}}`

// fill is what an API server and its controllers add to a Service.
func fill(t testing.TB, obj *unstructured.Unstructured) *unstructured.Unstructured {
	out := obj.DeepCopy()
	set(t, out, "10.0.0.9", "spec", "clusterIP")
	set(t, out, "None", "spec", "sessionAffinity")
	ports, _, _ := unstructured.NestedSlice(out.Object, "spec", "ports")
	ports[0].(map[string]any)["nodePort"] = int64(30000)
	set(t, out, ports, "spec", "ports")
	set(t, out, map[string]any{"loadBalancer": map[string]any{}}, "status")
	set(t, out, "uid-1", "metadata", "uid")
	set(t, out, "7", "metadata", "resourceVersion")
	set(t, out, "1", "metadata", "annotations", "endpoints.kubernetes.io/x")
	return out
}

func set(t testing.TB, obj *unstructured.Unstructured, v any, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(obj.Object, v, path...); err != nil {
		t.Fatal(err)
	}
}

func TestCompare(t *testing.T) {
	secret := `{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: shop}, type: Opaque, data: {a: YQ==}}`
	pod := `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop}, spec: {volumes: [{name: v, emptyDir: {}}], x: null, tolerations: []}}`
	for name, c := range map[string]struct {
		source string
		change func(local *unstructured.Unstructured)
		want   Difference
	}{
		"untouched":  {service, func(*unstructured.Unstructured) {}, Same},
		"value":      {service, func(o *unstructured.Unstructured) { set(t, o, "db", "spec", "selector", "app") }, Changed},
		"value gone": {service, func(o *unstructured.Unstructured) { unstructured.RemoveNestedField(o.Object, "spec", "selector") }, Changed},
		"list longer": {service, func(o *unstructured.Unstructured) {
			set(t, o, []any{map[string]any{"port": int64(80), "protocol": "TCP"}, map[string]any{}}, "spec", "ports")
		}, Changed},
		"number of another encoding": {service, func(o *unstructured.Unstructured) {
			set(t, o, []any{map[string]any{"port": float64(80), "protocol": "TCP"}}, "spec", "ports")
		}, Same},
		"label of a user":          {service, func(o *unstructured.Unstructured) { set(t, o, "y", "metadata", "labels", "x") }, Extra},
		"label app.kubernetes.io":  {service, func(o *unstructured.Unstructured) { set(t, o, "y", "metadata", "labels", "app.kubernetes.io/name") }, Extra},
		"annotation of a user":     {service, func(o *unstructured.Unstructured) { set(t, o, "y", "metadata", "annotations", "x.example.com/y") }, Extra},
		"annotation of Kubernetes": {service, func(o *unstructured.Unstructured) { set(t, o, "y", "metadata", "annotations", "x.k8s.io/y") }, Same},
		"local annotation": {service, func(o *unstructured.Unstructured) {
			set(t, o, "y", "metadata", "annotations", v1alpha1.LocalPrefix+"y")
		}, Same},
		"mark of an orphan": {service, func(o *unstructured.Unstructured) {
			set(t, o, "y", "metadata", "annotations", v1alpha1.AnnotationOrphaned)
		}, Changed},
		"owner annotation gone": {service, func(o *unstructured.Unstructured) {
			unstructured.RemoveNestedField(o.Object, "metadata", "annotations", v1alpha1.AnnotationOwnerClusterID)
		}, Changed},
		"owner label edited":        {service, func(o *unstructured.Unstructured) { set(t, o, "y", "metadata", "labels", v1alpha1.LabelOwnerClusterID) }, Changed},
		"another shape was written": {service, func(o *unstructured.Unstructured) { set(t, o, "0", "metadata", "annotations", AnnotationShape) }, Changed},
		"another kind":              {service, func(o *unstructured.Unstructured) { o.SetKind("Pod") }, Changed},
		"secret untouched":          {secret, func(*unstructured.Unstructured) {}, Same},
		"secret with another key":   {secret, func(o *unstructured.Unstructured) { set(t, o, "Yg==", "data", "b") }, Changed},
		"secret without data":       {secret, func(o *unstructured.Unstructured) { unstructured.RemoveNestedField(o.Object, "data") }, Changed},
		"secret made immutable":     {secret, func(o *unstructured.Unstructured) { set(t, o, true, "immutable") }, Changed},
		"empty and null need not be kept": {pod, func(o *unstructured.Unstructured) {
			delete(o.Object["spec"].(map[string]any), "x")
			delete(o.Object["spec"].(map[string]any), "tolerations")
		}, Same},
		"an empty map is a choice": {pod, func(o *unstructured.Unstructured) {
			set(t, o, []any{map[string]any{"name": "v", "hostPath": map[string]any{}}}, "spec", "volumes")
		}, Changed},
	} {
		t.Run(name, func(t *testing.T) {
			desired := rendered(t, c.source)
			local := desired.DeepCopy()
			if desired.GetKind() == "Service" {
				local = fill(t, local)
			}
			c.change(local)
			if got := Compare(local, desired); got != c.want {
				t.Errorf("Compare = %d, want %d", got, c.want)
			}
			if got := Compare(Updated(local, desired), desired); got != Same {
				t.Errorf("after the update: %d, want Same", got)
			}
		})
	}
}

func TestFieldTakenAwayAtTheSource(t *testing.T) {
	local := fill(t, rendered(t, service))
	desired := rendered(t, `{apiVersion: v1, kind: Service, metadata: {name: s, namespace: shop}, spec: {ports: [{port: 80, protocol: TCP}]}}`)
	if Compare(local, desired) != Changed {
		t.Fatal("a field that was taken away is not noticed")
	}
	body := Updated(local, desired)
	if _, found, _ := unstructured.NestedFieldNoCopy(body.Object, "spec", "selector"); found || len(body.GetLabels()) != 1 {
		t.Errorf("the update keeps what was taken away: %v", body.Object)
	}
	if ip, _, _ := unstructured.NestedString(body.Object, "spec", "clusterIP"); ip != "10.0.0.9" {
		t.Errorf("clusterIP = %q, want the copy's own", ip)
	}
	if body.GetUID() != "uid-1" || body.GetResourceVersion() != "7" {
		t.Errorf("no precondition in %v", body.Object["metadata"])
	}
}

func TestUpdateKeepsWhatBelongsToTheTarget(t *testing.T) {
	local := fill(t, rendered(t, service))
	set(t, local, "db", "spec", "selector", "app")
	local.SetFinalizers([]string{"example.com/local"})
	body := Updated(local, rendered(t, service))
	want := fill(t, rendered(t, service))
	want.SetFinalizers([]string{"example.com/local"})
	if !equal(body.Object, want.Object) {
		t.Errorf("got %v\nwant %v", body.Object, want.Object)
	}
}

// Labels and annotations that controllers of Kubernetes set on a copy are not copied from the source, are no change, and
// are kept by every update.
func TestControllerKeysBelongToTheTarget(t *testing.T) {
	source := `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: a, annotations: {deployment.kubernetes.io/revision: "2", kept: "1"}}, spec: {replicas: 1%s}}`
	local := rendered(t, fmt.Sprintf(source, ""))
	marks := map[string]string{"deployment.kubernetes.io/revision": "1", "deprecated.daemonset.template.generation": "4"}
	annotations := local.GetAnnotations()
	maps.Copy(annotations, marks)
	local.SetAnnotations(annotations)
	if d := Compare(local, rendered(t, fmt.Sprintf(source, ""))); d != Same {
		t.Errorf("difference %d", d)
	}
	// A copy of an earlier release, with the mark of the source, and what the target has added since.
	before := rendered(t, fmt.Sprintf(source, ""))
	annotations = before.GetAnnotations()
	delete(annotations, AnnotationShape)
	delete(annotations, AnnotationSelections)
	annotations["deployment.kubernetes.io/revision"] = "2"
	before.SetAnnotations(annotations)
	annotations[AnnotationShape] = shape(before)
	before.SetAnnotations(annotations)
	set(t, before, "yes", "spec", "added")
	if added, _, _ := unstructured.NestedString(Updated(before, rendered(t, fmt.Sprintf(source, ""))).Object, "spec", "added"); added != "yes" {
		t.Error("an update of a copy of an earlier release takes away what is the target's")
	}
	for _, more := range []string{"", ", paused: true"} { // another shape
		body := Updated(local, rendered(t, fmt.Sprintf(source, more)))
		for k, v := range marks {
			if got := body.GetAnnotations()[k]; got != v {
				t.Errorf("%q: an update makes %s %q", more, k, got)
			}
		}
	}
}

func TestShapeTellsNothingAboutValues(t *testing.T) {
	first := rendered(t, `{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: a}, data: {password: YQ==}}`)
	second := rendered(t, `{apiVersion: v1, kind: Secret, metadata: {name: t, namespace: b}, data: {password: Yg==}}`)
	if a, b := first.GetAnnotations()[AnnotationShape], second.GetAnnotations()[AnnotationShape]; a != b {
		t.Errorf("shapes differ: %s, %s", a, b)
	}
}

func TestAcceptedEndsTheFight(t *testing.T) {
	desired := rendered(t, service)
	pruned := desired.DeepCopy()
	unstructured.RemoveNestedField(pruned.Object, "spec", "selector") // a server that does not know the field
	facts := Facts{Self: "here", Local: pruned, Claims: []Claim{{Origin: origin, Standing: Offered, Desired: desired}}}
	if d := Plan(facts); d.Action != Update {
		t.Fatalf("plan %s, want update", d.Action)
	}
	facts.Accepted = Accept(Decision{Action: Update, Desired: desired}, pruned)
	if d := Plan(facts); d.Action != None {
		t.Errorf("plan %s although the server accepted it so, want none", d.Action)
	}
	set(t, pruned, "tampered", "spec", "type")
	if d := Plan(facts); d.Action != Update {
		t.Errorf("plan %s after a change, want update", d.Action)
	}
}

func TestGuarded(t *testing.T) {
	for _, c := range []struct {
		absent, copies int
		want           bool
	}{
		{0, 0, false},
		{0, 100, false},
		{1, 1, false},
		{3, 3, false},
		{4, 4, true},
		{4, 5, false},
		{20, 39, false},
		{21, 41, true},
		{21, 42, false},
		{20, 20, true},
		{5000, 5000, true},
		{2501, 5000, true},
		{2500, 5000, false},
	} {
		if got := Guarded(c.absent, c.copies); got != c.want {
			t.Errorf("Guarded(%d, %d) = %t", c.absent, c.copies, got)
		}
	}
}

// The time for an object that is nested as deeply as servers accept must be linear in its size, not quadratic: it is spent
// for each decision.
func TestDeepObjectsCostTheirLength(t *testing.T) {
	leaves := map[string]any{}
	for i := range 20_000 {
		leaves[strconv.Itoa(i)] = int64(1)
	}
	var deep any = leaves
	for range 9_000 {
		deep = map[string]any{strings.Repeat("k", 60): deep}
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "g/v1", "kind": "K", "spec": deep}}
	began := processTime(t)
	shape(obj)
	if took := processTime(t) - began; took > 10*time.Second { // milliseconds, or a minute
		t.Errorf("it took %s", took)
	}
}
