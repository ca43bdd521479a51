// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// withoutNamespace is a serializer that takes a namespace for an unknown field where those are asked about: Clusters have
// none. Handlers would drop it without a word.
type withoutNamespace struct{ runtime.NegotiatedSerializer }

// DecoderToVersion implements runtime.NegotiatedSerializer.
func (s withoutNamespace) DecoderToVersion(d runtime.Decoder, v runtime.GroupVersioner) runtime.Decoder {
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
