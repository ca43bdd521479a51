// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	restwatch "k8s.io/client-go/rest/watch"
)

func fullMetadata() metav1.ObjectMeta {
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	yes, grace := true, int64(30)
	return metav1.ObjectMeta{
		Name: "a", GenerateName: "a-", Namespace: "n", UID: "u", ResourceVersion: "18446744073709551615", Generation: 1 << 40,
		CreationTimestamp: at, DeletionTimestamp: &at, DeletionGracePeriodSeconds: &grace,
		Labels: map[string]string{"l": "1", "empty": ""}, Annotations: map[string]string{"ä": "\"\n\u2028"},
		Finalizers:      []string{"x/y"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "q", Controller: &yes}},
	}
}

func testObjects() []runtime.Object {
	yes, no := true, false
	return []runtime.Object{
		&corev1.Secret{ObjectMeta: fullMetadata(), Type: "Opaque", Immutable: &yes, Data: map[string][]byte{"v": []byte("x\x00\xff"), "e": {}}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Type: "kubernetes.io/tls", Immutable: &no},
		&corev1.ConfigMap{ObjectMeta: fullMetadata(), Immutable: &yes, Data: map[string]string{"v": "ä\n", "e": ""}, BinaryData: map[string][]byte{"b": {0, 1}}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}},
	}
}

// encodeAsKubernetes encodes with Kubernetes' own serializer.
func encodeAsKubernetes(t testing.TB, obj runtime.Object, mediaType string) []byte {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
	if !ok {
		t.Fatal("no serializer for", mediaType)
	}
	data, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), obj)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// fromJSON is the object as the dynamic client decodes it from JSON.
func fromJSON(t testing.TB, obj runtime.Object) *unstructured.Unstructured {
	t.Helper()
	out, _, err := unstructured.UnstructuredJSONScheme.Decode(encodeAsKubernetes(t, obj, runtime.ContentTypeJSON), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	u, ok := out.(*unstructured.Unstructured)
	if !ok {
		t.Fatalf("%T", out)
	}
	return u
}

// An object in protobuf is decoded to the same as in JSON.
func TestProtobufDecodesAsJSON(t *testing.T) {
	t.Parallel()
	for _, obj := range testObjects() {
		want := fromJSON(t, obj)
		for _, into := range []runtime.Object{nil, &unstructured.Unstructured{}} {
			got, gvk, err := protobufSerializer{}.Decode(encodeAsKubernetes(t, obj, runtime.ContentTypeProtobuf), nil, into)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" || *gvk != want.GroupVersionKind() {
				t.Errorf("%s: %s", gvk, diff)
			}
		}
	}
}

// managedFields are dropped: an agent does not use them, and an update without them does not change them.
func TestProtobufDropsManagedFields(t *testing.T) {
	t.Parallel()
	obj := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}}
	got, _, err := protobufSerializer{}.Decode(encodeAsKubernetes(t, obj, runtime.ContentTypeProtobuf), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	obj.ManagedFields = nil
	if diff := cmp.Diff(fromJSON(t, obj), got); diff != "" {
		t.Error(diff)
	}
}

// Kubernetes decodes what is encoded here, without loss.
func TestProtobufEncodesForKubernetes(t *testing.T) {
	t.Parallel()
	for _, want := range testObjects() {
		data, err := runtime.Encode(protobufSerializer{}, fromJSON(t, want))
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(fromJSON(t, want), fromJSON(t, got)); diff != "" {
			t.Error(diff)
		}
	}
	uid := fullMetadata().UID
	want := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
	data, err := runtime.Encode(protobufSerializer{}, want)
	if err != nil {
		t.Fatal(err)
	}
	got := &metav1.DeleteOptions{}
	if err := runtime.DecodeInto(scheme.Codecs.UniversalDecoder(), data, got); err != nil {
		t.Fatal(err)
	}
	got.TypeMeta = metav1.TypeMeta{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// An object with fields or values that its kind does not have is not encoded in protobuf.
func TestProtobufRefusesUnknownFieldsAndTypes(t *testing.T) {
	t.Parallel()
	for _, data := range []string{
		`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"},"stringData":{"a":"b"}}`,
		`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"},"data":{"a":"not base64"}}`,
		`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"},"data":{"a":"aaa\naa=="}}`,
		`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"},"data":{"a":7}}`,
		`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"},"data":[]}`,
		`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"},"type":1}`,
		`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"},"immutable":"yes"}`,
		`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"},"binaryData":{}}`,
		`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a","labels":{"a":1}}}`,
		`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a","newer":"b"}}`,
		`{"kind":"Secret","apiVersion":"v1"}`,
		`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"type":"Opaque"}`,
		`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{"a":null}}`,
		`{"kind":"Secret","apiVersion":"v2","metadata":{"name":"a"}}`,
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}`,
	} {
		obj := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(data), &obj.Object); err != nil {
			t.Fatal(err)
		}
		if _, err := runtime.Encode(protobufSerializer{}, obj); !errors.Is(err, errNotInProtobuf) {
			t.Errorf("%s: %v", data, err)
		}
	}
}

func TestProtobufDecodesListsAndStatus(t *testing.T) {
	t.Parallel()
	secret, ok := testObjects()[0].(*corev1.Secret)
	if !ok {
		t.Fatal("not a Secret")
	}
	theirs := &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "c"}, Items: []corev1.Secret{*secret, {}}}
	var want, got unstructured.UnstructuredList
	if err := runtime.DecodeInto(unstructured.UnstructuredJSONScheme, encodeAsKubernetes(t, theirs, runtime.ContentTypeJSON), &want); err != nil {
		t.Fatal(err)
	}
	if _, _, err := (protobufSerializer{}).Decode(encodeAsKubernetes(t, theirs, runtime.ContentTypeProtobuf), nil, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	status := &metav1.Status{Status: "Failure", Reason: metav1.StatusReasonConflict, Code: 409, Message: "m"}
	out, _, err := protobufSerializer{}.Decode(encodeAsKubernetes(t, status, runtime.ContentTypeProtobuf), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if diff := cmp.Diff(runtime.Object(status), out); diff != "" {
		t.Error(diff)
	}
	for _, into := range []runtime.Object{&unstructured.Unstructured{}, &unstructured.UnstructuredList{}} {
		if _, _, err := (protobufSerializer{}).Decode(encodeAsKubernetes(t, status, runtime.ContentTypeProtobuf), nil, into); err == nil {
			t.Errorf("a Status was decoded into a %T", into)
		}
	}
}

// A watch in protobuf, as Kubernetes encodes it.
func TestProtobufReadsStreams(t *testing.T) {
	t.Parallel()
	var stream bytes.Buffer
	frames := protobufInfo(nil).StreamSerializer.NewFrameWriter(&stream)
	raw, ok := runtime.SerializerInfoForMediaType(serializer.NewCodecFactory(scheme.Scheme).SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok {
		t.Fatal("no serializer")
	}
	large := &corev1.Secret{Data: map[string][]byte{"v": bytes.Repeat([]byte("x"), 1<<20)}}
	objects := append(testObjects(), large, &metav1.Status{Code: 410, Reason: metav1.StatusReasonExpired})
	for i, obj := range objects {
		event := &metav1.WatchEvent{Type: string(watch.Modified), Object: runtime.RawExtension{Raw: encodeAsKubernetes(t, obj, runtime.ContentTypeProtobuf)}}
		if i == len(objects)-1 {
			event.Type = string(watch.Error)
		}
		if err := raw.StreamSerializer.Encode(event, frames); err != nil {
			t.Fatal(err)
		}
	}
	info := protobufInfo(nil)
	d := restwatch.NewDecoder(streaming.NewDecoder(info.StreamSerializer.NewFrameReader(io.NopCloser(&stream)), info.StreamSerializer.Serializer), info.Serializer)
	for _, want := range objects {
		kind, got, err := d.Decode()
		if err != nil {
			t.Fatal(err)
		}
		if status, ok := got.(*metav1.Status); ok {
			if kind != watch.Error || status.Code != 410 {
				t.Errorf("%s %v", kind, status)
			}
			continue
		}
		if diff := cmp.Diff(runtime.Object(fromJSON(t, want)), got); diff != "" || kind != watch.Modified {
			t.Error(kind, diff)
		}
	}
	if _, _, err := d.Decode(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// Of a deleted object only the metadata is decoded.
func TestProtobufReadsDeletions(t *testing.T) {
	t.Parallel()
	for _, obj := range testObjects() {
		event, err := (&metav1.WatchEvent{Type: string(watch.Deleted), Object: runtime.RawExtension{Raw: encodeAsKubernetes(t, obj, runtime.ContentTypeProtobuf)}}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		read := &metav1.WatchEvent{}
		if _, _, err := (protobufEventDecoder{}).Decode(event, nil, read); err != nil || read.Type != string(watch.Deleted) {
			t.Fatal(read.Type, err)
		}
		got, _, err := protobufSerializer{}.Decode(read.Object.Raw, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		full := fromJSON(t, obj)
		want := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": full.GetKind(), "metadata": full.Object["metadata"]}}
		if diff := cmp.Diff(runtime.Object(want), got); diff != "" {
			t.Error(diff)
		}
	}
}

func FuzzProtobuf(f *testing.F) {
	for _, obj := range testObjects() {
		f.Add(encodeAsKubernetes(f, obj, runtime.ContentTypeProtobuf))
	}
	f.Add(encodeAsKubernetes(f, &corev1.SecretList{Items: []corev1.Secret{{}}}, runtime.ContentTypeProtobuf))
	f.Fuzz(func(t *testing.T, data []byte) {
		event := &metav1.WatchEvent{}
		_, _, _ = protobufEventDecoder{}.Decode(data, nil, event) // must not panic
		if stripped, err := withoutContent(data); err == nil {
			_, _, _ = protobufSerializer{}.Decode(stripped, nil, nil) // nor this
		}
		obj, _, err := protobufSerializer{}.Decode(data, nil, nil)
		u, ok := obj.(*unstructured.Unstructured)
		if err != nil || !ok {
			return
		}
		again, err := runtime.Encode(protobufSerializer{}, u)
		if err != nil {
			return // a time or a string that no API server would send
		}
		back, _, err := protobufSerializer{}.Decode(again, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(runtime.Object(u), back); diff != "" {
			t.Error(diff)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	meta := metav1.ObjectMeta{
		Name: "many-1", Namespace: "default", UID: "0b9f0c52-8a0e-4f1c-9a3c-2f4f0f4b3c11", ResourceVersion: "12345",
		CreationTimestamp: metav1.Now(), Labels: map[string]string{"bench": "roster"},
	}
	meta.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(`{"f:data":{".":{},"f:v":{}},"f:metadata":{"f:labels":{".":{},"f:bench":{}}},"f:type":{}}`)}}
	secret := &corev1.Secret{ObjectMeta: meta, Type: "Opaque", Data: map[string][]byte{"v": bytes.Repeat([]byte("x"), 1000)}}
	next := New(dynamic.ConfigFor(&rest.Config{}).NegotiatedSerializer)
	for _, mediaType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		info, _ := runtime.SerializerInfoForMediaType(next.SupportedMediaTypes(), mediaType)
		data := encodeAsKubernetes(b, secret, mediaType)
		b.Run(strings.TrimPrefix(mediaType, "application/"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := info.Serializer.Decode(data, nil, &unstructured.Unstructured{}); err != nil {
					b.Fatal(err)
				}
			}
		})
		obj := fromJSON(b, secret)
		obj.SetManagedFields(nil)
		encoder := next.EncoderForVersion(info.Serializer, schema.GroupVersion{Version: "v1"})
		b.Run(fmt.Sprint("encode ", strings.TrimPrefix(mediaType, "application/")), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := encoder.Encode(obj, io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
