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

// comparePosition asks the API server, before a watch that was cut is resumed, whether it is the one
// that it was, and as far. One that was restored from a backup since would take the position for one
// to come and send nothing until it is reached again, or, when it has been, would not tell what is
// different. An error is for the reflector.
func (l *listWatch) comparePosition(ctx context.Context) error {
	if !l.cut && !time.Now().Before(l.until) {
		return nil
	}
	at := l.feed.positions.now(l.options.GVK)
	if at.back || at.era != l.feed.era {
		return &fault{class: ErrRelisting}
	}
	asking, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	same, known, err := l.hearWitness(asking)
	switch {
	case err != nil:
		return l.notCompared(ctx, err)
	case known && !same:
		l.feed.positions.wentBack(l.options.GVK, at.era)
		return &fault{class: ErrRelisting}
	case known && l.feed.witness.version == at.highest:
		return nil
	}
	list, err := l.objects.List(asking, metav1.ListOptions{
		ResourceVersion: at.highest, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		FieldSelector: fields.OneTermEqualSelector("metadata.name", noName).String(), Limit: 1,
	})
	switch {
	case err == nil && !before(list.GetResourceVersion(), at.highest):
		return nil
	case err == nil, apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge):
		return &fault{class: ErrRelisting} // the list, which is of the newest state, decides
	}
	return l.notCompared(ctx, err)
}

// hearWitness looks whether the server's history has the newest object that it told of. It is not
// known when there was none, or when that history is not there any more, or not yet.
func (l *listWatch) hearWitness(ctx context.Context) (same, known bool, err error) {
	w := l.feed.witness
	if w.version == "" {
		return false, false, nil
	}
	selector := fields.Set{"metadata.name": w.key.Name}
	if w.key.Namespace != "" {
		selector["metadata.namespace"] = w.key.Namespace
	}
	list, err := l.objects.List(ctx, metav1.ListOptions{
		ResourceVersion: w.version, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		FieldSelector: selector.AsSelector().String(), Limit: 1,
	})
	switch {
	case err == nil && list.GetResourceVersion() != w.version:
		return false, false, nil // it is not on etcd, and has no history
	case err == nil:
		return len(list.Items) == 1 && list.Items[0].GetResourceVersion() == w.version, true, nil
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err), apierrors.IsInternalError(err), apierrors.IsBadRequest(err),
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge):
		return false, false, nil
	}
	return false, false, err
}

// notCompared is for a server that does not answer.
func (l *listWatch) notCompared(ctx context.Context, err error) error {
	if ctx.Err() != nil || kindGone(err) {
		return err
	}
	l.cut = true
	l.feed.unhealthy(err)
	return resumable(err)
}
