// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/json"
)

// events watches the stored Clusters. client-go ends a watch at the first Cluster that it cannot read, for all who would have
// been told of it and at each attempt anew.
func (s *Server) events(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	body, err := once(s.o.Clusters.RESTClient().Get(), &o).Stream(ctx)
	if err != nil {
		return nil, err
	}
	text := &eventDecoder{body: body, next: json.NewDecoderCaseSensitivePreserveInts(body)}
	return watch.NewStreamWatcher(text, apierrors.NewClientErrorReporter(http.StatusInternalServerError, http.MethodGet, "watch")), nil
}

// eventDecoder is a watch.Decoder of Clusters and, in the event of an error, a Status.
type eventDecoder struct {
	body io.ReadCloser
	next json.Decoder
}

// Decode implements watch.Decoder. Of a Cluster that cannot be read it returns the metadata, as a list does, and nothing of one
// that has none.
func (d *eventDecoder) Decode() (watch.EventType, runtime.Object, error) {
	for {
		var e struct {
			Type   watch.EventType      `json:"type"`
			Object runtime.RawExtension `json:"object"`
		}
		if err := d.next.Decode(&e); err != nil {
			return "", nil, err
		}
		if e.Type == watch.Error {
			status := &metav1.Status{}
			return e.Type, status, json.UnmarshalCaseSensitivePreserveInts(e.Object.Raw, status)
		}
		if c, _ := decode(e.Object.Raw); c != nil {
			return e.Type, c, nil
		}
	}
}

// Close implements watch.Decoder.
func (d *eventDecoder) Close() { _ = d.body.Close() }
