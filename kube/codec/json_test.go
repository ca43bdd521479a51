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
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	restwatch "k8s.io/client-go/rest/watch"
)

// serializers are the dynamic client's own and ours.
func serializers(t testing.TB) (theirs, ours runtime.SerializerInfo) {
	t.Helper()
	next := dynamic.ConfigFor(&rest.Config{}).NegotiatedSerializer
	var ok [2]bool
	theirs, ok[0] = runtime.SerializerInfoForMediaType(next.SupportedMediaTypes(), runtime.ContentTypeJSON)
	ours, ok[1] = runtime.SerializerInfoForMediaType(New(next).SupportedMediaTypes(), runtime.ContentTypeJSON)
	if ok != [2]bool{true, true} {
		t.Fatal("no serializer for JSON")
	}
	return theirs, ours
}

const (
	oneSecret = `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a","labels":{"x":"\"}{\\"},"generation":3},"data":{"v":"eA=="},"f":1.5,"n":null,"l":[1,"]",{}]}`
	oneStatus = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"Expired","code":410}`
	oneList   = `{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[` + oneSecret + `]}`
)

// An object in JSON is decoded to the same as by the dynamic client.
func TestJSONDecodesAsTheDynamicClient(t *testing.T) {
	t.Parallel()
	theirs, ours := serializers(t)
	for _, data := range []string{oneSecret, oneStatus, oneList, `{"kind":"Secret"}`, `{}`, `[]`, `{"kind":1,"apiVersion":"v1"}`, `null`, `{"a":`, ``} {
		for _, into := range []func() runtime.Object{
			func() runtime.Object { return nil },
			func() runtime.Object { return &unstructured.Unstructured{} },
			func() runtime.Object { return &unstructured.UnstructuredList{} },
			func() runtime.Object { return &metav1.Status{} },
		} {
			want, wantKind, wantErr := theirs.Serializer.Decode([]byte(data), nil, into())
			got, gotKind, gotErr := ours.Serializer.Decode([]byte(data), nil, into())
			if (wantErr == nil) != (gotErr == nil) {
				t.Fatalf("%s into %T: %v, want %v", data, into(), gotErr, wantErr)
			}
			if wantErr != nil {
				continue
			}
			if diff := cmp.Diff(want, got) + cmp.Diff(wantKind, gotKind); diff != "" {
				t.Errorf("%s into %T: %s", data, into(), diff)
			}
		}
	}
}

// Objects are encoded to the same bytes as by the dynamic client.
func TestJSONEncodesAsTheDynamicClient(t *testing.T) {
	t.Parallel()
	next := dynamic.ConfigFor(&rest.Config{}).NegotiatedSerializer
	theirs, ours := serializers(t)
	for _, data := range []string{oneSecret, oneStatus} {
		obj, _, err := theirs.Serializer.Decode([]byte(data), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		want, wantErr := runtime.Encode(next.EncoderForVersion(theirs.Serializer, nil), obj)
		got, gotErr := runtime.Encode(New(next).EncoderForVersion(ours.Serializer, nil), obj)
		if wantErr != nil || gotErr != nil {
			t.Fatal(wantErr, gotErr)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Error(diff)
		}
	}
}

// events reads a stream to its end.
func events(info runtime.SerializerInfo, r io.Reader) (out []string, err error) {
	frames := info.StreamSerializer.NewFrameReader(io.NopCloser(r))
	d := restwatch.NewDecoder(streaming.NewDecoder(frames, info.StreamSerializer.Serializer), info.Serializer)
	for {
		kind, object, err := d.Decode()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		data, err := json.Marshal(object)
		if err != nil {
			return out, err
		}
		out = append(out, fmt.Sprintf("%s %T %s", kind, object, data))
	}
}

func TestJSONReadsStreams(t *testing.T) {
	t.Parallel()
	theirs, ours := serializers(t)
	large := strings.Replace(oneSecret, "eA==", strings.Repeat("x", 1<<20), 1)
	for name, stream := range map[string]string{
		"lines":         `{"type":"ADDED","object":` + oneSecret + "}\n" + `{"type":"ERROR","object":` + oneStatus + "}\n",
		"one line":      `{"type":"ADDED","object":` + oneSecret + `}{"type":"DELETED","object":` + oneSecret + `}`,
		"indented":      "\n {\n \"type\" : \"MODIFIED\",\r\n\t\"object\" : " + oneSecret + " }\n\n",
		"other order":   `{"object":` + oneSecret + `,"type":"ADDED"}`,
		"more fields":   `{"type":"ADDED","object":` + oneSecret + `,"more":{}}`,
		"large":         `{"type":"ADDED","object":` + large + "}\n" + `{"type":"ADDED","object":` + oneSecret + "}\n",
		"nothing":       "",
		"whitespace":    "\n\n",
		"unknown type":  `{"type":"OTHER","object":` + oneSecret + `}`,
		"escaped type":  `{"type":"ADD\u0045D","object":` + oneSecret + `}`,
		"cut":           `{"type":"ADDED","object":{"kind`,
		"no object":     `{"type":"ADDED"}`,
		"not an object": `{"type":"ADDED","object":7}`,
		"text":          `hello`,
	} {
		want, wantErr := events(theirs, strings.NewReader(stream))
		for _, r := range []io.Reader{strings.NewReader(stream), iotest.OneByteReader(strings.NewReader(stream))} {
			if name == "large" {
				r = strings.NewReader(stream)
			}
			got, gotErr := events(ours, r)
			if (wantErr == nil) != (gotErr == nil) {
				t.Errorf("%s: %v, want %v", name, gotErr, wantErr)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}

// An event without end is an error when it is larger than maxFrame.
func TestFrameIsBounded(t *testing.T) {
	t.Parallel()
	_, ours := serializers(t)
	endless := io.MultiReader(strings.NewReader(`{"type":"`), repeated('x'))
	if _, err := events(ours, endless); !errors.Is(err, errEventTooLarge) {
		t.Error(err)
	}
}

// repeated is an endless stream of one byte.
type repeated byte

func (r repeated) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r)
	}
	return len(p), nil
}

// Whatever is sent, the codec decodes the same events as the dynamic client, and returns an error only where that one does.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{"type":"ADDED","object":` + oneSecret + "}\n", `{"type":"ERROR","object":` + oneStatus + `}`, `{"a":"\`, `[]{}`, `{"type":"","object":{}}`,
	} {
		f.Add([]byte(seed))
	}
	theirs, ours := serializers(f)
	f.Fuzz(func(t *testing.T, stream []byte) {
		want, wantErr := events(theirs, bytes.NewReader(stream))
		got, gotErr := events(ours, bytes.NewReader(stream))
		if gotErr == nil && wantErr == nil && !cmp.Equal(want, got) {
			t.Errorf("%s", cmp.Diff(want, got))
		}
		if wantErr == nil && gotErr != nil {
			t.Errorf("refused: %v", gotErr)
		}
	})
}

func BenchmarkJSONEvents(b *testing.B) {
	theirs, ours := serializers(b)
	event := `{"type":"ADDED","object":{"kind":"Secret","apiVersion":"v1","metadata":{"name":"roster-many-1","namespace":"cluster-registry",` +
		`"uid":"0b4e9d0e-5b5c-4a3c-8d9a-3a7f0d6f4a11","resourceVersion":"1234","creationTimestamp":"2026-11-21T07:00:00Z","labels":{"bench":"roster"},` +
		`"managedFields":[{"manager":"bench","operation":"Update","apiVersion":"v1","time":"2026-11-21T07:00:00Z","fieldsType":"FieldsV1",` +
		`"fieldsV1":{"f:data":{".":{},"f:v":{}},"f:metadata":{"f:labels":{".":{},"f:bench":{}}},"f:type":{}}}]},` +
		`"data":{"v":"` + strings.Repeat("eHh4", 341) + `"},"type":"Opaque"}}` + "\n"
	for name, info := range map[string]runtime.SerializerInfo{"dynamic": theirs, "ours": ours} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			stream := strings.Repeat(event, 100)
			for b.Loop() {
				frames := info.StreamSerializer.NewFrameReader(io.NopCloser(strings.NewReader(stream)))
				d := restwatch.NewDecoder(streaming.NewDecoder(frames, info.StreamSerializer.Serializer), info.Serializer)
				for range 100 {
					if _, _, err := d.Decode(); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/100, "µs/event")
		})
	}
}
