// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
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
	newest, gone := l.witnesses()
	if l.compared = false; !compared && !at.back && at.highest != "" && newest.version+gone.version != "" {
		if _, err := l.compareHistory(ctx, at); err != nil {
			return err
		}
	}
	if refused, _ := l.feed.positions.refuses(l.options.GVK); refused {
		return &fault{class: ErrRestored}
	}
	return nil
}

// witnesses are what the server is asked about; nothing where the kind was in namespaces before and is
// not now, or the other way around.
func (l *listWatch) witnesses() (newest witness, gone absence) {
	newest, gone = l.feed.positions.witness(l.options.GVK, l.options.Namespace)
	namespaced := l.feed.resource.namespaced
	if namespaced != (newest.key.Namespace != "") {
		newest = witness{}
	}
	if namespaced != (gone.key.Namespace != "") {
		gone = absence{}
	}
	return newest, gone
}

// compareHistory looks whether the server is as far as it was, and whether its history has the newest
// object that it told of, and not what is gone since. The order matters: what a server that
// is behind does not know yet is no proof, and it may catch up in between.
func (l *listWatch) compareHistory(ctx context.Context, at position) (same bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	newest, gone := l.witnesses()
	now, err := l.one(ctx, absence{witness: newest})
	if err == nil && before(now.version, at.highest) {
		pause(ctx, lagTime)
		now, err = l.one(ctx, absence{witness: newest})
	}
	if err == nil && !before(now.version, at.highest) && !at.leapt(now.version) {
		if same, err = l.has(ctx, newest, now); same && err == nil {
			same, err = l.isGone(ctx, gone)
		}
	}
	switch {
	case err != nil && unanswerable(err):
		return true, nil
	case err != nil:
		return false, err
	case !same:
		l.feed.positions.wentBack(l.options.GVK, at.era)
	}
	return same, nil
}

// has looks whether the server's history has the witness, of which now tells what is there. It says yes, too, where
// that is not known.
func (l *listWatch) has(ctx context.Context, w witness, now answered) (bool, error) {
	switch {
	case w.version == "", now.there == w:
		return true, nil
	case before(now.there.version, w.version) && now.there.version != "":
		return false, nil // no object goes back to what it was
	case now.unselected:
		return true, nil
	}
	return l.wasThere(ctx, w)
}

// isGone looks whether an object that was not there is back as it was before. One that was made anew since, or changed
// so that it matches again, is newer than that.
func (l *listWatch) isGone(ctx context.Context, gone absence) (bool, error) {
	if gone.version == "" {
		return true, nil
	}
	now, err := l.one(ctx, gone)
	return err != nil || now.there.version == "" || !before(now.there.version, gone.version), err
}

// wasThere looks whether the server's history has the witness, which is not there any more. It says yes,
// too, where that is not known: the history is gone, or the server keeps none.
func (l *listWatch) wasThere(ctx context.Context, w witness) (bool, error) {
	list, err := l.objects.List(ctx, absence{witness: w}.selected(w.version, metav1.ResourceVersionMatchExact))
	switch {
	case err != nil && (unanswerable(err) || apierrors.IsInternalError(err)):
		return true, nil
	case err != nil:
		return false, err
	}
	return list.GetResourceVersion() != w.version || len(list.Items) == 1 && witnessOf(&list.Items[0]) == w, nil
}

// answered is what a server says of one name: its version, and what is there, if anything.
type answered struct {
	version string
	there   witness
	// unselected says that the API cannot select by name, as some that are aggregated: its history cannot be asked.
	unselected bool
}

// one asks for what is there now under a name, and matches the selectors, or for the version alone.
func (l *listWatch) one(ctx context.Context, w absence) (out answered, err error) {
	list, err := l.objects.List(ctx, w.selected("", ""))
	switch {
	case apierrors.IsBadRequest(err) || err == nil && w.isNot(list.Items):
		return l.oneUnselected(ctx, w)
	case err != nil:
		return out, err
	}
	out.version = list.GetResourceVersion()
	if len(list.Items) == 1 {
		out.there = witnessOf(&list.Items[0])
	}
	return out, nil
}

// oneUnselected asks the same of an API that does not select by name: some refuse to, others answer with anything.
func (l *listWatch) oneUnselected(ctx context.Context, w absence) (answered, error) {
	out := answered{unselected: true}
	list, err := l.objects.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return out, err
	}
	out.version = list.GetResourceVersion()
	if w.version == "" {
		return out, nil
	}
	obj, err := l.at(w.key.Namespace).Get(ctx, w.key.Name, metav1.GetOptions{})
	if err == nil {
		if matching, _ := labels.Parse(w.labels); matching == nil || matching.Matches(labels.Set(obj.GetLabels())) {
			out.there = witnessOf(obj)
		}
	} else if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return out, err
	}
	return out, nil
}

// selected asks for the one object, or for none, as of a version, or of now.
func (w absence) selected(version string, match metav1.ResourceVersionMatch) metav1.ListOptions {
	selector := fields.OneTermEqualSelector("metadata.name", noName)
	if w.version != "" {
		selector = fields.OneTermEqualSelector("metadata.name", w.key.Name)
		if w.key.Namespace != "" {
			selector = fields.AndSelectors(selector, fields.OneTermEqualSelector("metadata.namespace", w.key.Namespace))
		}
	}
	text := selector.String()
	if w.fields != "" {
		text += "," + w.fields
	}
	return metav1.ListOptions{LabelSelector: w.labels, FieldSelector: text, Limit: 1, ResourceVersion: version, ResourceVersionMatch: match}
}

// isNot says that objects are others than the one that was asked for.
func (w witness) isNot(objs []unstructured.Unstructured) bool {
	return slices.ContainsFunc(objs, func(obj unstructured.Unstructured) bool {
		return w.version == "" || witnessOf(&obj).key != w.key
	})
}

// unanswerable tells what a server says that cannot know, and will not: the history is not there any
// more, or it does not take such questions.
func unanswerable(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) || apierrors.IsMethodNotSupported(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}
