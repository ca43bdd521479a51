// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package packed

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

// randomValue is a value that JSON can have, at most so deep.
func randomValue(r *rand.Rand, depth int) any {
	switch n := r.IntN(9); {
	case n == 0:
		return nil
	case n == 1:
		return r.IntN(2) == 0
	case n == 2:
		return int64(r.Uint64() >> r.IntN(64)) //nolint:gosec // Any number will do.
	case n == 3:
		return math.Float64frombits(r.Uint64()&^(1<<62)) * 3
	case n < 6 || depth == 0:
		return randomText(r)
	case n == 6:
		list := make([]any, r.IntN(30))
		for i := range list {
			list[i] = randomValue(r, depth-1)
		}
		return list
	}
	return randomMap(r, depth-1)
}

func randomText(r *rand.Rand) string {
	lengths := []int{0, 1, 5, 23, 24, 255, 256, 1 << 16}
	n := lengths[r.IntN(len(lengths)-1)]
	if r.IntN(1000) == 0 {
		n = lengths[len(lengths)-1]
	}
	return strings.Repeat(string('a'+rune(r.IntN(26))), n)
}

func randomMap(r *rand.Rand, depth int) map[string]any {
	m := map[string]any{}
	for range r.IntN(12) {
		m[randomText(r)+string('a'+rune(r.IntN(26)))] = randomValue(r, depth)
	}
	return m
}

// TestPackedIsCBOR reads what was packed with the library, too, and packs what was read again.
func TestPackedIsCBOR(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // The same each time.
	for range 500 {
		obj := &unstructured.Unstructured{Object: randomMap(r, 3)}
		delete(obj.Object, "metadata")
		data, err := Pack(obj)
		if err != nil {
			t.Fatal(err)
		}
		read, err := data.Unpack()
		if err != nil || !reflect.DeepEqual(read, obj) {
			t.Fatalf("%v became %v (%v)", obj, read, err)
		}
		var library map[string]any
		if err := direct.Unmarshal([]byte(data), &library); err != nil || !reflect.DeepEqual(library, obj.Object) {
			t.Fatalf("%v is %v to the library (%v)", obj, library, err)
		}
		if again, err := Pack(&unstructured.Unstructured{Object: runtime.DeepCopyJSON(obj.Object)}); err != nil || again != data {
			t.Fatalf("%v is packed otherwise the second time (%v)", obj, err)
		}
	}
}

// TestPackedOrder has the keys in the order of RFC 8949, 4.2.1: that of their encoding.
func TestPackedOrder(t *testing.T) {
	data, err := Pack(&unstructured.Unstructured{Object: map[string]any{"b": nil, "aa": true, "": false, "ba": int64(-1), "a": int64(24)}})
	if want := "\xa5\x60\xf4\x61a\x18\x18\x61b\xf6\x62aa\xf5\x62ba\x20"; err != nil || string(data) != want {
		t.Errorf("%q, %v", data, err)
	}
}

func TestPackRefusesWhatIsNotJSON(t *testing.T) {
	for _, v := range []any{1, []string{"x"}, map[string]string{}, struct{}{}} {
		if _, err := Pack(&unstructured.Unstructured{Object: map[string]any{"list": []any{map[string]any{"x": v}}}}); err == nil {
			t.Errorf("a %T was packed", v)
		}
	}
}

func TestSizeOf(t *testing.T) {
	obj := sampleObject()
	o, err := Pack(obj)
	if err != nil {
		t.Fatal(err)
	}
	if size := SizeOf(obj.Object); size < int64(len(o)) || size > 2*int64(len(o)) {
		t.Errorf("%d bytes are estimated, it takes %d", size, len(o))
	}
}

// FuzzUnpack gives it what no packer has made: an error, or what packs to the same length or less.
func FuzzUnpack(f *testing.F) {
	for _, seed := range []string{"", "\xa0", "\xa1", "\xa1\x61a\xfb\x00\x00\x00\x00\x00\x00\x00\x01", "\xbb\xff\xff\xff\xff\xff\xff\xff\xff", "\xa1\x61a\x9b\xff", "\xa1\x61a\x7c"} {
		f.Add(seed)
	}
	data, err := Pack(sampleObject())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(data))
	f.Fuzz(func(t *testing.T, data string) {
		obj, err := Object(data).Unpack()
		if err != nil {
			return
		}
		p := &packer{}
		if err := p.value(obj.Object); err != nil || len(p.out) > len(data) {
			t.Fatalf("%q was read as %v, which packs to %q (%v)", data, obj, p.out, err)
		}
	})
}

func sampleObject() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x0001", "namespace": "ns1"},
		"data": map[string]any{"v": strings.Repeat("v", 900)},
	}}
}

// packedObject is a ConfigMap as an API server sends it.
func packedObject(b *testing.B) *unstructured.Unstructured {
	b.Helper()
	obj := sampleObject()
	obj.SetUID("6d1f0a3e-6a0e-4b7e-9a43-0c1f2b3d4e5f")
	obj.SetResourceVersion("123456")
	obj.SetLabels(map[string]string{"app": "web", "tier": "front", "owner": "x"})
	obj.SetAnnotations(map[string]string{"one": strings.Repeat("a", 40), "two": strings.Repeat("b", 40), "three": strings.Repeat("c", 40)})
	return obj
}

// Beside each of these is what the library takes.
func BenchmarkPack(b *testing.B) {
	obj := packedObject(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Pack(obj); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPackLibrary(b *testing.B) {
	obj := packedObject(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := direct.Marshal(obj.Object); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUnpack(b *testing.B) {
	data, err := Pack(packedObject(b))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := data.Unpack(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUnpackLibrary(b *testing.B) {
	data, err := direct.Marshal(packedObject(b).Object)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		out := map[string]any{}
		if err := direct.Unmarshal(data, &out); err != nil {
			b.Fatal(err)
		}
	}
}
