// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package packed

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Object is an encoded object. Two Objects are equal if and only if what they encode is.
type Object string

// The first bytes of CBOR's values: the type is in the upper three bits, and in the rest a number below 24, or how
// many bytes follow with it.
const (
	cborUint, cborNegative, cborText, cborArray, cborMap = 0 << 5, 1 << 5, 3 << 5, 4 << 5, 5 << 5

	cborFalse, cborTrue, cborNull, cborFloat64 = 0xf4, 0xf5, 0xf6, 0xfb

	cborNumber                  = 1<<5 - 1
	cborByte, cborWord, cborEnd = 24, 27, 28
)

// maxScratch and maxScratchKeys are how large buffers are kept for the next object.
const (
	maxScratch     = 64 << 10
	maxScratchKeys = 256
)

var packers = sync.Pool{New: func() any { return &packer{} }} //nolint:gochecknoglobals // a pool is shared by its nature

// Pack encodes an object, and takes its managedFields away. It returns an error for a value that JSON cannot have.
func Pack(obj *unstructured.Unstructured) (Object, error) {
	obj.SetManagedFields(nil)
	p, _ := packers.Get().(*packer)
	p.out, p.keys = p.out[:0], p.keys[:0]
	err := p.value(obj.Object)
	out := Object(p.out)
	if cap(p.out) <= maxScratch && cap(p.keys) <= maxScratchKeys {
		clear(p.keys[:cap(p.keys)]) // or they would keep objects in memory
		packers.Put(p)
	}
	if err != nil {
		return "", fmt.Errorf("encode object: %w", err)
	}
	return out, nil
}

// packer encodes. keys are those of the maps that it is in.
type packer struct {
	out  []byte
	keys []string
}

func (p *packer) head(kind byte, n uint64) {
	switch {
	case n < cborByte:
		p.out = append(p.out, kind|byte(n))
	case n <= math.MaxUint8:
		p.out = append(p.out, kind|cborByte, byte(n))
	case n <= math.MaxUint16:
		p.out = binary.BigEndian.AppendUint16(append(p.out, kind|(cborByte+1)), uint16(n))
	case n <= math.MaxUint32:
		p.out = binary.BigEndian.AppendUint32(append(p.out, kind|(cborByte+2)), uint32(n))
	default:
		p.out = binary.BigEndian.AppendUint64(append(p.out, kind|cborWord), n)
	}
}

func (p *packer) text(s string) {
	p.head(cborText, uint64(len(s)))
	p.out = append(p.out, s...)
}

func (p *packer) value(v any) error {
	switch v := v.(type) {
	case nil:
		p.out = append(p.out, cborNull)
	case bool:
		if v {
			p.out = append(p.out, cborTrue)
		} else {
			p.out = append(p.out, cborFalse)
		}
	case int64:
		if v < 0 {
			p.head(cborNegative, uint64(^v)) //nolint:gosec // Not negative any more.
		} else {
			p.head(cborUint, uint64(v))
		}
	case float64:
		p.out = binary.BigEndian.AppendUint64(append(p.out, cborFloat64), math.Float64bits(v))
	case string:
		p.text(v)
	case []any:
		p.head(cborArray, uint64(len(v)))
		for _, item := range v {
			if err := p.value(item); err != nil {
				return err
			}
		}
	case map[string]any:
		return p.fields(v)
	default:
		return fmt.Errorf("a %T is no value of JSON", v)
	}
	return nil
}

func (p *packer) fields(m map[string]any) error {
	p.head(cborMap, uint64(len(m)))
	start := len(p.keys)
	for k := range m {
		p.keys = append(p.keys, k)
	}
	keys := p.keys[start:]
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	for _, k := range keys {
		p.text(k)
		if err := p.value(m[k]); err != nil {
			return err
		}
	}
	p.keys = p.keys[:start]
	return nil
}

// Unpack decodes a fresh copy, which the caller owns. Its strings are parts of the Object and keep all of it in memory.
func (p Object) Unpack() (*unstructured.Unstructured, error) {
	u := unpacker{p}
	v, err := u.value()
	if err != nil {
		return nil, fmt.Errorf("decode object: %w", err)
	}
	content, ok := v.(map[string]any)
	if !ok || u.rest != "" {
		return nil, fmt.Errorf("decode object: %w", errPacked)
	}
	return &unstructured.Unstructured{Object: content}, nil
}

// errPacked is returned for what no packer has made.
var errPacked = errors.New("not an object as it is kept in memory")

// maxAhead is for how many values room is made before they are read.
const maxAhead = 64

// unpacker decodes what a packer made.
type unpacker struct{ rest Object }

// take cuts off n bytes.
func (u *unpacker) take(n uint64) (string, error) {
	if n > uint64(len(u.rest)) {
		return "", errPacked
	}
	out := u.rest[:n]
	u.rest = u.rest[n:]
	return string(out), nil
}

// head is the first byte of a value without its number, and that number.
func (u *unpacker) head() (kind byte, n uint64, err error) {
	first, err := u.take(1)
	if err != nil {
		return 0, 0, err
	}
	kind, n = first[0]&^cborNumber, uint64(first[0]&cborNumber)
	switch {
	case n < cborByte:
		return kind, n, nil
	case n >= cborEnd:
		return 0, 0, errPacked
	}
	bytes, err := u.take(1 << (n - cborByte))
	n = 0
	for i := range len(bytes) {
		n = n<<8 | uint64(bytes[i])
	}
	return kind, n, err
}

func (u *unpacker) text() (string, error) {
	kind, n, err := u.head()
	if err != nil || kind != cborText {
		return "", errPacked
	}
	return u.take(n)
}

func (u *unpacker) value() (any, error) {
	if u.rest == "" {
		return nil, errPacked
	}
	switch u.rest[0] {
	case cborNull, cborFalse, cborTrue:
		first, _ := u.take(1)
		if first[0] == cborNull {
			return nil, nil
		}
		return first[0] == cborTrue, nil
	case cborFloat64:
		_, n, err := u.head()
		return math.Float64frombits(n), err
	}
	kind, n, err := u.head()
	if err != nil {
		return nil, err
	}
	switch kind {
	case cborUint:
		return int64(n), nil //nolint:gosec // It was one.
	case cborNegative:
		return ^int64(n), nil //nolint:gosec // The same.
	case cborText:
		return u.take(n)
	case cborArray:
		return u.items(n)
	case cborMap:
		return u.fields(n)
	}
	return nil, errPacked
}

func (u *unpacker) items(n uint64) (any, error) {
	if n > uint64(len(u.rest)) {
		return nil, errPacked
	}
	out := make([]any, 0, min(n, maxAhead))
	for range n {
		v, err := u.value()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func (u *unpacker) fields(n uint64) (any, error) {
	if n > uint64(len(u.rest)) {
		return nil, errPacked
	}
	out := make(map[string]any, min(n, maxAhead))
	for range n {
		k, err := u.text()
		if err != nil {
			return nil, err
		}
		if out[k], err = u.value(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// SizeOf is about how many bytes a value of JSON takes, as CBOR or as JSON; an estimate is much cheaper than Pack.
func SizeOf(v any) int64 {
	switch v := v.(type) {
	case string:
		return int64(len(v)) + 2
	case map[string]any:
		n := int64(2)
		for k, c := range v {
			n += int64(len(k)) + 4 + SizeOf(c)
		}
		return n
	case []any:
		n := int64(2)
		for _, c := range v {
			n += 1 + SizeOf(c)
		}
		return n
	}
	return 8
}
