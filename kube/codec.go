// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// codec decodes objects and the events of watches as the dynamic client does, in a third of the time: that one
// goes over each event six times, to find its end, its type, its kind and its fields, and that was half of what
// an agent did for a copy. What is not plain is left to the dynamic client's own.
type codec struct {
	runtime.NegotiatedSerializer
	types []runtime.SerializerInfo
}

// newCodec wraps the serializer of dynamic.ConfigFor. For later see protobufCodec.
func newCodec(next runtime.NegotiatedSerializer, later *atomic.Bool) runtime.NegotiatedSerializer {
	info, ok := runtime.SerializerInfoForMediaType(next.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		return next
	}
	return codec{next, mediaTypes(next, info.Serializer, later)}
}

// SupportedMediaTypes implements runtime.NegotiatedSerializer. It is asked for each request.
func (c codec) SupportedMediaTypes() []runtime.SerializerInfo { return c.types }

func mediaTypes(next runtime.NegotiatedSerializer, json runtime.Serializer, later *atomic.Bool) []runtime.SerializerInfo {
	out := slices.Clone(next.SupportedMediaTypes())
	for i := range out {
		if out[i].MediaType == runtime.ContentTypeJSON {
			out[i].Serializer = objectCodec{json}
			stream := *out[i].StreamSerializer
			stream.Serializer, stream.Framer = eventCodec{stream.Serializer}, framer{stream.Framer}
			out[i].StreamSerializer = &stream
		}
	}
	return append(out, protobufInfo(later))
}

// EncoderForVersion implements runtime.NegotiatedSerializer.
func (c codec) EncoderForVersion(e runtime.Encoder, gv runtime.GroupVersioner) runtime.Encoder {
	if p, ok := e.(protobufCodec); ok {
		return p
	}
	return objectEncoder{c.NegotiatedSerializer.EncoderForVersion(e, gv)}
}

// DecoderToVersion implements runtime.NegotiatedSerializer.
func (c codec) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	if p, ok := d.(protobufCodec); ok {
		return p
	}
	return c.NegotiatedSerializer.DecoderToVersion(d, gv)
}

// objectEncoder encodes an object once; the library's own encodes it and then goes over the result again.
type objectEncoder struct{ runtime.Encoder }

// Encode implements runtime.Encoder.
func (e objectEncoder) Encode(obj runtime.Object, w io.Writer) error {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return e.Encoder.Encode(obj, w)
	}
	return json.NewEncoder(w).Encode(u.Object)
}

// objectCodec decodes one object.
type objectCodec struct{ runtime.Serializer }

// Decode implements runtime.Decoder.
func (c objectCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	out, wanted := into.(*unstructured.Unstructured)
	if into != nil && !wanted {
		return c.Serializer.Decode(data, defaults, into)
	}
	content := map[string]any{}
	if err := utiljson.Unmarshal(data, &content); err != nil {
		return nil, nil, fmt.Errorf("decode object: %w", err)
	}
	read := unstructured.Unstructured{Object: content}
	gvk := read.GroupVersionKind()
	if _, list := content["items"].([]any); gvk.Kind == "" || gvk.Version == "" || gvk.Group == "" && gvk.Kind == "Status" || list && into == nil {
		return c.Serializer.Decode(data, defaults, into)
	}
	if out == nil {
		out = &unstructured.Unstructured{}
	}
	out.Object = content
	return out, &gvk, nil
}

// eventCodec takes the envelope off an event. What it returns is valid until the next event is read; the
// watch decodes it before.
type eventCodec struct{ runtime.Serializer }

// Decode implements runtime.Decoder.
func (c eventCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	event, ok := into.(*metav1.WatchEvent)
	if !ok {
		return c.Serializer.Decode(data, defaults, into)
	}
	kind, object, ok := openEnvelope(data)
	if !ok {
		return c.Serializer.Decode(data, defaults, into)
	}
	event.Type, event.Object.Raw = kind, object
	return event, &schema.GroupVersionKind{Version: "v1", Kind: "WatchEvent"}, nil
}

// openEnvelope takes apart an event in the one form in which API servers send it.
func openEnvelope(data []byte) (kind string, object []byte, ok bool) {
	rest, begins := bytes.CutPrefix(bytes.TrimSpace(data), []byte(`{"type":"`))
	name, rest, named := bytes.Cut(rest, []byte(`","object":`))
	object, ends := bytes.CutSuffix(rest, []byte(`}`))
	if !begins || !named || !ends || bytes.ContainsAny(name, `"\`) {
		return "", nil, false
	}
	var s scanner
	if end, done, err := s.scan(object); err != nil || !done || end != len(object) {
		return "", nil, false
	}
	return string(name), object, true
}

// framer finds where one object of a stream ends and the next begins.
type framer struct{ runtime.Framer }

// NewFrameReader implements runtime.Framer.
func (framer) NewFrameReader(r io.ReadCloser) io.ReadCloser {
	return &frameReader{Closer: r, from: bufio.NewReaderSize(r, 16<<10)}
}

// maxFrame bounds one event of a watch. The library's own framer reads any length into memory before it is asked.
const maxFrame = 16 << 20

var (
	errFrameSize = errors.New("event larger than 16 MiB")
	errFrame     = errors.New("event is not a JSON object")
)

// frameReader returns one object with each Read, or io.ErrShortBuffer with as much of it as there is room for.
type frameReader struct {
	io.Closer
	from  *bufio.Reader
	frame []byte
	left  []byte // of frame, not yet returned
}

func (r *frameReader) Read(p []byte) (int, error) {
	if len(r.left) == 0 {
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.left)
	if r.left = r.left[n:]; len(r.left) > 0 {
		return n, io.ErrShortBuffer
	}
	if cap(r.frame) > 1<<20 {
		r.frame = nil // one large object need not be remembered
	}
	return n, nil
}

// next reads one object into left.
func (r *frameReader) next() error {
	r.frame = r.frame[:0]
	var s scanner
	for {
		if _, err := r.from.Peek(1); err != nil {
			if errors.Is(err, io.EOF) && s.begun {
				return io.ErrUnexpectedEOF
			}
			return err
		}
		chunk, _ := r.from.Peek(r.from.Buffered()) // what is there already
		end, done, err := s.scan(chunk)
		if err != nil {
			return err
		}
		if len(r.frame)+end > maxFrame {
			return errFrameSize
		}
		r.frame = append(r.frame, chunk[:end]...)
		if _, err := r.from.Discard(end); err != nil {
			return err
		}
		if done {
			r.left = r.frame
			return nil
		}
	}
}

// scanner finds the end of a JSON object, which it does not otherwise check.
type scanner struct {
	depth            int
	begun            bool
	inText, inEscape bool
}

// scan goes on with the next bytes. It returns how many of them belong to the object, and whether that is its end.
func (s *scanner) scan(data []byte) (n int, done bool, err error) {
	for n < len(data) {
		if s.inText {
			n += s.text(data[n:])
			continue
		}
		c := data[n]
		n++
		switch c {
		case '{', '[':
			s.depth++
			s.begun = true
		case '}', ']':
			if s.depth--; s.depth == 0 {
				return n, true, nil
			}
		case '"':
			s.inText = true
		case ' ', '\t', '\r', '\n':
			continue
		}
		if s.depth <= 0 {
			return n, false, errFrame
		}
	}
	return n, false, nil
}

// text goes to the end of a text, or of the data.
func (s *scanner) text(data []byte) int {
	if s.inEscape {
		s.inEscape = false
		return 1
	}
	end := bytes.IndexByte(data, '"')
	within := data
	if end >= 0 {
		within = data[:end]
	}
	if escape := bytes.IndexByte(within, '\\'); escape >= 0 {
		s.inEscape = true
		return escape + 1
	}
	if end < 0 {
		return len(data)
	}
	s.inText = false
	return end + 1
}
