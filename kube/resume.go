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
)

const (
	// noName is the name of no object, for a list that has a version and nothing else.
	noName = "roster-position"
	// cutMargin is how much before its time a watch may end without that being a sign of anything.
	cutMargin = 2 * time.Second
	// lagTime is for how long an API server may be behind another one that serves the same cluster.
	lagTime = 3 * time.Second
)

// compareBeforeResume asks the API server, before a watch that was cut is resumed, whether it is the
// one that it was, and as far. One that was restored from a backup since would take the position for
// one to come and send nothing until it is reached again, or, when it has been, would not tell what
// is different. An error is for the reflector.
func (l *listWatch) compareBeforeResume(ctx context.Context) error {
	if !l.cut && !time.Now().Before(l.until) {
		return nil
	}
	at := l.feed.positions.now(l.options.GVK)
	if at.back || at.era != l.feed.era || at.highest == "" {
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

// compareBeforeList asks the same before a list where others were read before, by this watch or
// another one: the version of a list does not tell of a restore when the server has been written to
// since.
func (l *listWatch) compareBeforeList(ctx context.Context) error {
	at, compared := l.feed.positions.now(l.options.GVK), l.compared
	if l.compared = false; !compared && !at.back && at.highest != "" && l.witness().version != "" {
		if _, err := l.compareHistory(ctx, at); err != nil {
			return err
		}
	}
	if refused, _ := l.feed.positions.refuses(l.options.GVK); refused {
		return &fault{class: ErrRestored}
	}
	return nil
}

// witness is what the server is asked about; nothing where the kind was in namespaces before and is
// not now, or the other way around.
func (l *listWatch) witness() witness {
	w := l.feed.positions.witness(l.options.GVK, l.options.Namespace)
	if l.feed.resource.namespaced != (w.key.Namespace != "") {
		return witness{}
	}
	return w
}

// compareHistory looks whether the server is as far as it was, and whether its history has the newest
// object that it told of. The order matters: what a server that is behind does not know yet is no
// proof, and it may catch up in between.
func (l *listWatch) compareHistory(ctx context.Context, at position) (same bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	w := l.witness()
	now, err := l.one(ctx, w, "", "")
	if err == nil && before(now.GetResourceVersion(), at.highest) {
		pause(ctx, lagTime)
		now, err = l.one(ctx, w, "", "")
	}
	switch {
	case err != nil && unanswerable(err):
		return true, nil
	case err != nil:
		return false, err
	case before(now.GetResourceVersion(), at.highest), at.leapt(now.GetResourceVersion()):
	case w.version == "" || w.isIn(now):
		same = true
	default:
		if same, err = l.wasThere(ctx, w); err != nil {
			return false, err
		}
	}
	if !same {
		l.feed.positions.wentBack(l.options.GVK, at.era)
	}
	return same, nil
}

// wasThere looks whether the server's history has the witness, which is not there any more. It says yes,
// too, where that is not known: the history is gone, or the server keeps none.
func (l *listWatch) wasThere(ctx context.Context, w witness) (bool, error) {
	then, err := l.one(ctx, w, w.version, metav1.ResourceVersionMatchExact)
	switch {
	case err != nil && (unanswerable(err) || apierrors.IsInternalError(err)):
		return true, nil
	case err != nil:
		return false, err
	}
	return then.GetResourceVersion() != w.version || w.isIn(then), nil
}

// one lists the witness, or nothing, as of a version, or of now.
func (l *listWatch) one(ctx context.Context, w witness, version string, match metav1.ResourceVersionMatch) (*unstructured.UnstructuredList, error) {
	name := fields.Set{"metadata.name": noName}
	if w.version != "" {
		name["metadata.name"] = w.key.Name
		if w.key.Namespace != "" {
			name["metadata.namespace"] = w.key.Namespace
		}
	}
	return l.objects.List(ctx, metav1.ListOptions{
		FieldSelector: name.AsSelector().String(), Limit: 1, ResourceVersion: version, ResourceVersionMatch: match,
	})
}

// isIn says that a list has the object as it was.
func (w witness) isIn(list *unstructured.UnstructuredList) bool {
	return len(list.Items) == 1 && witnessOf(&list.Items[0]) == w
}

// unanswerable tells what a server says that cannot know, and will not: the history is not there any
// more, or it does not take such questions.
func unanswerable(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) || apierrors.IsMethodNotSupported(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}
