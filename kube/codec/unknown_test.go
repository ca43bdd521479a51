// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

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
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// encodeNewer encodes an object as a newer Kubernetes does, with a field that is not known here.
func encodeNewer(t testing.TB, obj runtime.Object, within protowire.Number) []byte {
	t.Helper()
	data := encodeAsKubernetes(t, obj, runtime.ContentTypeProtobuf)
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

// The libraries have no fields that are not known here. When they are updated and get one, this fails.
func TestProtobufKnowsAllFields(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of   any
		last protowire.Number
	}{{corev1.Secret{}, secretLastField}, {corev1.ConfigMap{}, configMapLastField}, {metav1.ObjectMeta{}, metaLastField}} {
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

func TestProtobufNoticesUnknownFields(t *testing.T) {
	t.Parallel()
	for _, obj := range append(testObjects(), &corev1.SecretList{Items: []corev1.Secret{{}}}, &metav1.Status{}) {
		unknown := &atomic.Bool{}
		if _, _, err := (protobufSerializer{unknown}).Decode(encodeAsKubernetes(t, obj, runtime.ContentTypeProtobuf), nil, nil); err != nil || unknown.Load() {
			t.Errorf("%T without unknown fields: %v", obj, err)
		}
	}
	for _, obj := range testObjects() {
		for _, within := range []protowire.Number{0, fieldMetadata} {
			unknown := &atomic.Bool{}
			if _, _, err := (protobufSerializer{unknown}).Decode(encodeNewer(t, obj, within), nil, nil); !errors.Is(err, errUnknownFields) || !unknown.Load() {
				t.Errorf("%T of a watch: %v", obj, err)
			}
			unknown.Store(false)
			if _, _, err := (protobufSerializer{unknown}).Decode(encodeNewer(t, obj, within), nil, &unstructured.Unstructured{}); err != nil || !unknown.Load() {
				t.Errorf("%T: %v", obj, err)
			}
		}
	}
	unknown := &atomic.Bool{}
	if _, _, err := (protobufSerializer{unknown}).Decode(encodeNewer(t, &corev1.SecretList{Items: []corev1.Secret{{}}}, fieldItems), nil, &unstructured.UnstructuredList{}); err != nil || !unknown.Load() {
		t.Error("a list:", err)
	}
}

// newerServer returns a client of an API server whose Secrets have a field that is not known here, and that takes no
// protobuf.
func newerServer(t *testing.T) dynamic.ResourceInterface {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "7"}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"7"},"newer":"new"}`
		switch {
		case r.Method != http.MethodGet && r.Header.Get("Content-Type") == runtime.ContentTypeProtobuf:
			w.WriteHeader(http.StatusUnsupportedMediaType)
			return
		case strings.Contains(r.Header.Get("Accept"), runtime.ContentTypeProtobuf) && r.Method == http.MethodGet:
			w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
			if strings.HasSuffix(r.URL.Path, "/a") {
				_, _ = w.Write(encodeNewer(t, secret, 0))
			} else {
				_, _ = w.Write(encodeNewer(t, &corev1.SecretList{Items: []corev1.Secret{*secret}}, fieldItems))
			}
			return
		case strings.HasSuffix(r.URL.Path, "/secrets") && r.Method == http.MethodGet:
			body = `{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[` + body + `]}`
		}
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	cfg := dynamic.ConfigFor(&rest.Config{Host: server.URL})
	cfg.APIPath, cfg.GroupVersion = "/", nil
	codec := New(cfg.NegotiatedSerializer)
	cfg.NegotiatedSerializer = codec
	client := func() dynamic.ResourceInterface {
		requests, err := rest.UnversionedRESTClientForConfigAndClient(cfg, server.Client())
		if err != nil {
			t.Fatal(err)
		}
		return dynamic.New(requests).Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace("n")
	}
	inJSON := client()
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeProtobuf, AcceptProtobuf
	return codec.PreferProtobuf(client(), inJSON)
}

// A copy has all fields that a newer Kubernetes sends, also where it takes no protobuf.
func TestUnknownFieldsAreReadInJSON(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"get", "list"} {
		objects := newerServer(t)
		var got unstructured.Unstructured
		if verb == "get" {
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
		if got.Object["newer"] != "new" {
			t.Errorf("%s: %v", verb, got.Object)
		}
		if _, err := objects.Update(t.Context(), fromJSON(t, testObjects()[0]), metav1.UpdateOptions{}); err != nil {
			t.Error("update:", err)
		}
		if err := objects.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Error("delete:", err)
		}
	}
}
