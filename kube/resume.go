// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// noName is the name of no object, for a list that has a version and nothing else.
	noName = "roster-position"
	// cutMargin is how much before its time a watch may end without that being a sign of anything.
	cutMargin = 2 * time.Second
)

// witness is the newest object that a watch was told of, whether it was wanted or not, and the
// version that it had: in the history of the same server it is there for as long as etcd keeps that.
type witness struct {
	key     types.NamespacedName
	version string
}

// saw makes an object the witness when it is newer.
func (w *witness) saw(obj *unstructured.Unstructured) {
	if version := obj.GetResourceVersion(); w.version == "" || before(w.version, version) {
		*w = witness{types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}, version}
	}
}

// compareBeforeResume asks the API server, before a watch that was cut is resumed, whether it is the
// one that it was, and as far. One that was restored from a backup since would take the position for
// one to come and send nothing until it is reached again, or, when it has been, would not tell what
// is different. An error is for the reflector.
func (l *listWatch) compareBeforeResume(ctx context.Context) error {
	if !l.cut && !time.Now().Before(l.until) {
		return nil
	}
	at := l.feed.positions.now(l.options.GVK)
	if at.back || at.era != l.feed.era {
		return &fault{class: ErrRelisting}
	}
	same, err := l.compareHistory(ctx, at)
	switch {
	case err != nil && (ctx.Err() != nil || kindGone(err)):
		return err
	case err != nil: // it does not answer
		l.cut = true
		l.feed.unhealthy(err)
		return resumable(err)
	case !same:
		return &fault{class: ErrRelisting}
	}
	return nil
}

// compareBeforeList asks the same before a list that follows another one: the version of a list does
// not tell of a restore when the server has been written to since.
func (l *listWatch) compareBeforeList(ctx context.Context) error {
	at, compared := l.feed.positions.now(l.options.GVK), l.compared
	if l.compared = false; !compared && !at.back && at.era == l.feed.era && at.highest != "" {
		if _, err := l.compareHistory(ctx, at); err != nil {
			return err
		}
	}
	if refused, _ := l.feed.positions.refuses(l.options.GVK); refused {
		return &fault{class: ErrRestored}
	}
	return nil
}

// compareHistory looks whether the server is as far as it was, and whether its history has the newest
// object that it told of. The order matters: what a server that is behind does not know yet is no
// proof, and it may catch up in between.
func (l *listWatch) compareHistory(ctx context.Context, at position) (same bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	name, w := fields.Set{"metadata.name": noName}, l.feed.witness
	if w.version != "" {
		name["metadata.name"] = w.key.Name
		if w.key.Namespace != "" {
			name["metadata.namespace"] = w.key.Namespace
		}
	}
	one := metav1.ListOptions{FieldSelector: name.AsSelector().String(), Limit: 1}
	list, err := l.objects.List(ctx, one)
	if err != nil {
		return false, err
	}
	same = !before(list.GetResourceVersion(), at.highest)
	if same && w.version != "" {
		one.ResourceVersion, one.ResourceVersionMatch = w.version, metav1.ResourceVersionMatchExact
		if same, err = w.isIn(l.objects.List(ctx, one)); err != nil {
			return false, err
		}
	}
	if !same {
		l.feed.positions.wentBack(l.options.GVK, at.era)
	}
	return same, nil
}

// isIn judges what the server says of its state when the object was the newest. It says yes, too,
// where that is not known: the history is not there any more, or the server keeps none.
func (w witness) isIn(then *unstructured.UnstructuredList, err error) (bool, error) {
	switch {
	case err == nil && then.GetResourceVersion() != w.version: // it is not on etcd
		return true, nil
	case err == nil:
		return len(then.Items) == 1 && then.Items[0].GetResourceVersion() == w.version, nil
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err), apierrors.IsInternalError(err), apierrors.IsBadRequest(err),
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge):
		return true, nil
	}
	return false, err
}
