// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// AcceptProtobuf is the Accept header of a request that the API server may answer in protobuf.
const AcceptProtobuf = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON

// Codec is the serializer of one API server's clients, in JSON and in protobuf. It is made by New.
type Codec struct {
	next  runtime.NegotiatedSerializer
	types []runtime.SerializerInfo
	// unknown is set when the API server has sent a protobuf field that is not known here.
	unknown atomic.Bool
}

// New makes the codec of one API server. next is the serializer of dynamic.ConfigFor; it decodes what is not in the form
// that API servers send.
func New(next runtime.NegotiatedSerializer) *Codec {
	c := &Codec{next: next}
	c.types = slices.Clone(next.SupportedMediaTypes())
	for i := range c.types {
		info := &c.types[i]
		if info.MediaType != runtime.ContentTypeJSON {
			continue
		}
		info.Serializer = jsonObjectDecoder{info.Serializer}
		stream := *info.StreamSerializer
		stream.Serializer, stream.Framer = jsonEventDecoder{stream.Serializer}, framer{stream.Framer}
		info.StreamSerializer = &stream
	}
	c.types = append(c.types, protobufInfo(&c.unknown))
	return c
}

// SupportsProtobuf says whether the objects of a resource can be exchanged in protobuf.
func SupportsProtobuf(r schema.GroupVersionResource) bool {
	return r.Group == "" && r.Version == "v1" && (r.Resource == "secrets" || r.Resource == "configmaps")
}

// SupportedMediaTypes implements runtime.NegotiatedSerializer. It is asked for each request.
func (c *Codec) SupportedMediaTypes() []runtime.SerializerInfo { return c.types }

// EncoderForVersion implements runtime.NegotiatedSerializer.
func (c *Codec) EncoderForVersion(e runtime.Encoder, gv runtime.GroupVersioner) runtime.Encoder {
	if p, ok := e.(protobufSerializer); ok {
		return p
	}
	return jsonObjectEncoder{c.next.EncoderForVersion(e, gv)}
}

// DecoderToVersion implements runtime.NegotiatedSerializer.
func (c *Codec) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	if p, ok := d.(protobufSerializer); ok {
		return p
	}
	return c.next.DecoderToVersion(d, gv)
}
