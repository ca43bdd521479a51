// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package servers is what API servers are to the engine: sources that it watches, and a target that it writes to.
package servers

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/syncrules/engine/place"
)

// Source is an API server to watch.
type Source interface {
	// Watch states the objects of the scope to the sink, first all, then every change, and blocks until
	// ctx ends. It bridges outages by itself. Objects that keep refuses are not handed on; one that was
	// kept and is refused now is handed on this once, so that "stopped matching" can be told from "gone".
	// keep is a pure function and may be called from any goroutine.
	Watch(ctx context.Context, scope place.Scope, keep func(*unstructured.Unstructured) bool, sink place.Sink) error
}

// Target is an API server to read from and to write to. Every method is one request.
type Target interface {
	Writer
	Read(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
}

// Writer writes to an API server. All methods but Create depend on the uid and resourceVersion of obj; otherwise
// they return a conflict.
type Writer interface {
	Create(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error)
	Update(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error)
	// UpdateStatus is Update of nothing but the status; for kinds whose status is no subresource it is Update.
	UpdateStatus(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error)
	Delete(ctx context.Context, obj *unstructured.Unstructured) error
}
