// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// clusterSerializer is that of Clusters.
type clusterSerializer struct{ runtime.NegotiatedSerializer }

// SupportedMediaTypes implements runtime.NegotiatedSerializer. Clusters have no form in protobuf: who prefers it and takes JSON as
// well, as for any kind of a CRD, gets JSON.
func (s clusterSerializer) SupportedMediaTypes() []runtime.SerializerInfo {
	return slices.DeleteFunc(slices.Clone(s.NegotiatedSerializer.SupportedMediaTypes()), func(info runtime.SerializerInfo) bool {
		return info.MediaType == runtime.ContentTypeProtobuf
	})
}

// DecoderToVersion implements runtime.NegotiatedSerializer. The decoder takes a namespace for an unknown field where those are
// asked about: Clusters have none, and handlers would drop it without a word.
func (s clusterSerializer) DecoderToVersion(d runtime.Decoder, v runtime.GroupVersioner) runtime.Decoder {
	out := s.NegotiatedSerializer.DecoderToVersion(d, v)
	for _, info := range s.SupportedMediaTypes() {
		if info.StrictSerializer != nil && runtime.Decoder(info.StrictSerializer) == d {
			return strictDecoder{out}
		}
	}
	return out
}

type strictDecoder struct{ runtime.Decoder }

// Decode implements runtime.Decoder.
func (d strictDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	out, kind, err := d.Decoder.Decode(data, defaults, into)
	strict, isStrict := runtime.AsStrictDecodingError(err)
	if out == nil || err != nil && !isStrict {
		return out, kind, err
	}
	object, accessErr := meta.Accessor(out)
	if accessErr != nil || object.GetNamespace() == "" {
		return out, kind, err
	}
	errs := []error{errors.New(`unknown field "metadata.namespace": Clusters have no namespace`)}
	if isStrict {
		errs = append(strict.Errors(), errs...)
	}
	return out, kind, runtime.NewStrictDecodingError(errs)
}
