// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// longList are the items of a list of some pieces, whose strings look like the text around them; the last ones, which are most,
// have managedFields.
func longList() (out []v1alpha1.Cluster) {
	for i := range 300 {
		c := v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{
			Name:        fmt.Sprintf("c-%d", i),
			Annotations: map[string]string{`"items":[`: strings.Repeat(`\"]},{[`, i), "items": `]`, "managedFields": "these stay", "n": "managedFields"},
		}}
		if i >= 100 {
			c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: `"}],[{\`, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"k:{\"a\":\"]\\\"\"}":{}}}`)}}
		}
		c.Spec.KubernetesAPIEndpoints = []v1alpha1.KubernetesAPIEndpoint{{ServerAddress: "a", CABundle: make([]byte, i+1)}, {ServerAddress: "b"}}
		c.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "R"}}
		out = append(out, c)
	}
	return out
}

// A list that is decoded in pieces is the one that was sent, however its text is cut on the way and whatever comes first in it.
func TestListInPieces(t *testing.T) {
	t.Parallel()
	list := longList()
	items, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		list[i].ManagedFields = nil
	}
	want, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	if len(items) < 3*pieceLength {
		t.Fatalf("the list has only %d bytes", len(items))
	}
	for name, text := range map[string]string{
		"items first":      `{"items":` + string(items) + `,"kind":"ClusterList","metadata":{"continue":"next","resourceVersion":"7"}}`,
		"items last":       `{"kind":"items","metadata":{"continue":"next","resourceVersion":"7","unknown":{"items":[1,2]}}, "items" : ` + string(items) + ` }`,
		"a name in escape": `{"metadata":{"continue":"next","resourceVersion":"7"},"\u0069tems":` + string(items) + `}`,
	} {
		for how, from := range map[string]io.Reader{
			"whole": strings.NewReader(text), "halves": iotest.HalfReader(strings.NewReader(text)), "bytes": iotest.OneByteReader(strings.NewReader(text)),
		} {
			got, err := decodeList(from)
			if err != nil {
				t.Fatalf("%s, %s: %v", name, how, err)
			}
			have, err := json.Marshal(got.Items)
			want := want
			if name == "a name in escape" {
				want = items // it is not cut
			}
			if err != nil || !bytes.Equal(have, want) || got.ResourceVersion != "7" || got.Continue != "next" {
				t.Errorf("%s, %s: %+v with %d items, %d bytes of %d, %v", name, how, got.ListMeta, len(got.Items), len(have), len(want), err)
			}
		}
	}
	for _, text := range []string{`{"metadata":{},"items":[]}`, `{"metadata":{},"items":null}`, `{"metadata":{},"items":[ ]}`} {
		if got, err := decodeList(strings.NewReader(text)); err != nil || len(got.Items) != 0 {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}

// What is not a whole list is an error, and never a shorter list.
func TestBrokenList(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "{", `{"items":[`, `{"items":[{"metadata":{"name":"a"}}`, `{"items":[{}]`, `{"items":[{}]]`, `{"items":[}]}`, `{"items":[{},]}`, `{"items":[{}}}`,
		"]", "}}}[", `{"items":["]}`, `[{"items":[{}]}]`, `{"items":[{"metadata":{"name":"a`, `{"items":[{}]}{`,
		`{"items":[{"metadata":{"managedFields":[`, `{"items":[{"metadata":{"managedFields":[{}]`, `{"items":[{"metadata":{"managedFields":[{}]},}]}`, `{"items":[{"metadata":{"managedFields":}]}]}`,
	} {
		for _, from := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
			if got, err := decodeList(from); err == nil {
				t.Errorf("%s: %+v", text, got)
			}
		}
	}
	cut := errors.New("the connection is lost")
	if _, err := decodeList(io.MultiReader(strings.NewReader(`{"items":[{}]}`), iotest.ErrReader(cut))); !errors.Is(err, cut) {
		t.Errorf("with a connection that is lost: %v", err)
	}
}

// One Cluster is decoded as in a list; and what is not a whole one is an error.
func TestOneWithoutManagedFields(t *testing.T) {
	t.Parallel()
	for _, c := range longList() {
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		c.ManagedFields = nil
		if got, err := decode(text); err != nil || !apiequality.Semantic.DeepEqual(got, &c) {
			t.Fatalf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "{", "}", "]", "},{", "],[", `{"metadata":{"name":"a"}`, `{"metadata":{"name":"a`, `{"metadata":{"managedFields":[`, `{"metadata":{"managedFields":[{}]`,
		`{"metadata":{"name":"a"}}]`, `{"metadata":{"name":"a"}}}`, `],"items":[{"metadata":{"name":"a"}}`, `],"items":[{"metadata":{"name":"a"}}]`, `[{"metadata":{"name":"a"}}]`,
		`{"metadata":{"name":"` + strings.Repeat("a", 2*pieceLength) + `"}},{"metadata":{"name":"b"}}`,
	} {
		if got, err := decode([]byte(text)); err == nil || got != nil {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}
