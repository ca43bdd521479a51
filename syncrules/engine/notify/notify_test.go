// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestSink(t *testing.T) {
	t.Parallel()
	var got []string
	s := &Sink{Notify: func(obj *unstructured.Unstructured) {
		name := "none"
		if obj != nil {
			name = obj.GetName()
		}
		got = append(got, name)
	}}
	obj := &unstructured.Unstructured{}
	obj.SetName("x")
	s.Replace(nil, "1")
	s.Replace([]*unstructured.Unstructured{obj}, "2")
	s.Upsert(obj)
	s.Health(nil)
	s.Delete("", "x", obj)
	if want := "[none x x none]"; fmt.Sprint(got) != want {
		t.Errorf("told of %v, want %s", got, want)
	}
}
