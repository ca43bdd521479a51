// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// later is an object as a later Kubernetes sends it, with a field that has no name here.
func later(t testing.TB, obj runtime.Object, within protowire.Number) []byte {
	t.Helper()
	data := asKubernetes(t, obj, runtime.ContentTypeProtobuf)
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(data[len(protobufPrefix):]); err != nil {
		t.Fatal(err)
	}
	field := protowire.AppendString(protowire.AppendTag(nil, 99, protowire.BytesType), "new")
	if within > 0 { // messages are merged: it is one more of the fields of that one
		field = protowire.AppendBytes(protowire.AppendTag(nil, within, protowire.BytesType), field)
	}
	envelope.Raw = append(envelope.Raw, field...)
	raw, err := envelope.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte(protobufPrefix), raw...)
}

// The fields that are known here are those of the libraries, or the next version of them has what is lost here.
func TestProtobufKnowsAllFields(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of   any
		last protowire.Number
	}{{corev1.Secret{}, secretLast}, {corev1.ConfigMap{}, configLast}, {metav1.ObjectMeta{}, metaLast}} {
		most := 0
		for field := range reflect.TypeOf(c.of).Fields() {
			parts := strings.Split(field.Tag.Get("protobuf"), ",")
			if len(parts) < 2 {
				continue
			}
			n, err := strconv.Atoi(parts[1])
			if err != nil {
				t.Fatal(err)
			}
			most = max(most, n)
		}
		if most != int(c.last) {
			t.Errorf("%T has fields up to %d", c.of, most)
		}
	}
}

func TestProtobufNoticesLaterFields(t *testing.T) {
	t.Parallel()
	for _, obj := range append(wireObjects(), &corev1.SecretList{Items: []corev1.Secret{{}}}, &metav1.Status{}) {
		met := &atomic.Bool{}
		if _, _, err := (protobufCodec{met}).Decode(asKubernetes(t, obj, runtime.ContentTypeProtobuf), nil, nil); err != nil || met.Load() {
			t.Errorf("%T of now: %v", obj, err)
		}
	}
	for _, obj := range wireObjects() {
		for _, within := range []protowire.Number{0, fieldMetadata} {
			met := &atomic.Bool{}
			if _, _, err := (protobufCodec{met}).Decode(later(t, obj, within), nil, nil); !errors.Is(err, errLater) || !met.Load() {
				t.Errorf("%T of a watch: %v", obj, err)
			}
			met.Store(false)
			if _, _, err := (protobufCodec{met}).Decode(later(t, obj, within), nil, &unstructured.Unstructured{}); err != nil || !met.Load() {
				t.Errorf("%T: %v", obj, err)
			}
		}
	}
	met := &atomic.Bool{}
	if _, _, err := (protobufCodec{met}).Decode(later(t, &corev1.SecretList{Items: []corev1.Secret{{}}}, fieldItems), nil, &unstructured.UnstructuredList{}); err != nil || !met.Load() {
		t.Error("a list:", err)
	}
}

// laterServer is an API server whose Secrets have a field that no protobuf here knows, and that takes no protobuf.
func laterServer(t *testing.T) *Client {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "7"}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"7"},"later":"new"}`
		switch {
		case r.URL.Path == "/api/v1":
			body = `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"secrets","kind":"Secret","namespaced":true}]}`
		case r.Method != http.MethodGet && r.Header.Get("Content-Type") == runtime.ContentTypeProtobuf:
			w.WriteHeader(http.StatusUnsupportedMediaType)
			return
		case strings.Contains(r.Header.Get("Accept"), runtime.ContentTypeProtobuf) && r.Method == http.MethodGet:
			w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
			if strings.HasSuffix(r.URL.Path, "/a") {
				_, _ = w.Write(later(t, secret, 0))
			} else {
				_, _ = w.Write(later(t, &corev1.SecretList{Items: []corev1.Secret{*secret}}, fieldItems))
			}
			return
		case strings.HasSuffix(r.URL.Path, "/secrets") && r.Method == http.MethodGet:
			body = `{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[` + body + `]}`
		}
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	client, err := NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// A copy of what a later Kubernetes sends has all of its fields, also where no protobuf is taken.
func TestLaterFieldsAreReadInJSON(t *testing.T) {
	t.Parallel()
	kind := schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	for _, how := range []string{"get", "list"} {
		objects, err := laterServer(t).objects(t.Context(), kind, "n")
		if err != nil {
			t.Fatal(err)
		}
		var got unstructured.Unstructured
		if how == "get" {
			one, err := objects.Get(t.Context(), "a", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got = *one
		} else {
			list, err := objects.List(t.Context(), metav1.ListOptions{})
			if err != nil || len(list.Items) != 1 {
				t.Fatal(list, err)
			}
			got = list.Items[0]
		}
		if got.Object["later"] != "new" {
			t.Errorf("%s: %v", how, got.Object)
		}
		if _, err := objects.Update(t.Context(), fromJSON(t, wireObjects()[0]), metav1.UpdateOptions{}); err != nil {
			t.Error("update:", err)
		}
		if err := objects.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Error("delete:", err)
		}
	}
}
