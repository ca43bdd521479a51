// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// storedText is a Cluster as an API server sends it.
func storedText(t testing.TB) string {
	t.Helper()
	now := metav1.NewTime(time.Now())
	c := v1alpha1.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ResourceVersion: "7", CreationTimestamp: now, Labels: map[string]string{"region": "eu"}},
	}
	for _, manager := range []string{"agent", "roster-apiserver"} {
		c.ManagedFields = append(c.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: c.APIVersion, Time: &now, FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{".":{},"f:region":{}}},"f:spec":{".":{},"f:kubernetesApiEndpoints":{}}}`),
		})
	}
	c.Spec.KubernetesAPIEndpoints = []v1alpha1.KubernetesAPIEndpoint{{ServerAddress: "https://a.example:6443", CABundle: make([]byte, 1200)}}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What it takes to read one Cluster from an API server that answers at once, and to convert it.
func BenchmarkGet(b *testing.B) {
	s, ctx := serve(b, &apiServer{answer: text(http.StatusOK, storedText(b))}, roles{names: []string{"*"}})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Get(ctx, "a", &metav1.GetOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	body := []byte(storedText(b))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decode(body); err != nil {
			b.Fatal(err)
		}
	}
}
