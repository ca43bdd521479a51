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

	"github.com/roster-mesh/roster/kube/history"
)

const (
	// noName is the name of no object, for a list that has a resourceVersion and no objects.
	noName = "roster-position"
	// cutMargin is how much earlier than its timeout a watch may end without being compared.
	cutMargin = 2 * time.Second
	// maxServerLag is for how long an API server may be behind another one of the same cluster.
	maxServerLag = 3 * time.Second
)

// compareBeforeResume compares the API server's history before a watch that was cut is resumed. A server
// that was restored from a backup meanwhile would send nothing until it reaches the resourceVersion
// again, or, when it has passed that, would not send what is different. The error is for the reflector.
func (l *listWatch) compareBeforeResume(ctx context.Context) error {
	if !l.cut && !time.Now().Before(l.until) {
		return nil
	}
	at := l.feed.positions.At(l.options.GVK)
	if at.RolledBack || at.Incarnation != l.feed.incarnation || at.Highest == "" {
		return &fault{class: ErrRelisting}
	}
	same, err := l.compareHistory(ctx, at)
	switch {
	case err != nil && (ctx.Err() != nil || isKindNotServed(err)):
		return err
	case err != nil: // no answer
		l.cut = true
		l.feed.setUnhealthy(err)
		return resumable(err)
	case !same:
		return &fault{class: ErrRelisting}
	}
	return nil
}

// compareBeforeList compares the history before a list, where there was one before, by this watch or
// another one: the resourceVersion of the list does not show a restore when the server was written to
// since.
func (l *listWatch) compareBeforeList(ctx context.Context) error {
	at, compared := l.feed.positions.At(l.options.GVK), l.compared
	seen, absent := l.lastSeen()
	if l.compared = false; !compared && !at.RolledBack && at.Highest != "" && seen.ResourceVersion+absent.ResourceVersion != "" {
		if _, err := l.compareHistory(ctx, at); err != nil {
			return err
		}
	}
	if l.feed.positions.Refuses(l.options.GVK) {
		return &fault{class: ErrRestored}
	}
	return nil
}

// lastSeen returns the objects that the server is asked about: none where the kind was namespaced when
// they were read and is not now, or the other way around.
func (l *listWatch) lastSeen() (seen history.SeenObject, absent history.AbsentObject) {
	seen, absent = l.feed.positions.LastSeen(l.options.GVK, l.options.Namespace)
	namespaced := l.feed.resource.namespaced
	if namespaced != (seen.Key.Namespace != "") {
		seen = history.SeenObject{}
	}
	if namespaced != (absent.Key.Namespace != "") {
		absent = history.AbsentObject{}
	}
	return seen, absent
}

// compareHistory looks whether the server is as far as it was, whether its history has the newest object
// that was read, and whether what was absent is still absent. The order matters: what a server that is
// behind does not know yet proves nothing, and it may catch up in between.
func (l *listWatch) compareHistory(ctx context.Context, at history.Position) (same bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	seen, absent := l.lastSeen()
	now, err := l.read(ctx, history.AbsentObject{SeenObject: seen})
	if err == nil && history.Before(now.version, at.Highest) {
		pause(ctx, maxServerLag)
		now, err = l.read(ctx, history.AbsentObject{SeenObject: seen})
	}
	if err == nil && !history.Before(now.version, at.Highest) && !at.TooFarAhead(now.version) {
		if same, err = l.hasSeen(ctx, seen, now); same && err == nil {
			same, err = l.isAbsent(ctx, absent)
		}
	}
	switch {
	case err != nil && unanswerable(err):
		return true, nil
	case err != nil:
		return false, err
	case !same:
		l.feed.positions.RollBack(l.options.GVK, at.Incarnation)
	}
	return same, nil
}

// hasSeen looks whether the server's history has an object that was read; now is what the server has under its name. It
// returns true, too, where that is not known.
func (l *listWatch) hasSeen(ctx context.Context, seen history.SeenObject, now answered) (bool, error) {
	switch {
	case seen.ResourceVersion == "", now.object == seen:
		return true, nil
	case now.object.ResourceVersion != "" && history.Before(now.object.ResourceVersion, seen.ResourceVersion):
		return false, nil // no object gets a lower resourceVersion than it had
	case now.getOnly:
		return true, nil
	}
	return l.hadSeen(ctx, seen)
}

// isAbsent looks whether an object that was absent is still absent. One that was created since, or changed so that it
// matches again, is newer than that, and counts as absent.
func (l *listWatch) isAbsent(ctx context.Context, absent history.AbsentObject) (bool, error) {
	if absent.ResourceVersion == "" {
		return true, nil
	}
	now, err := l.read(ctx, absent)
	found := now.object.ResourceVersion
	return err != nil || found == "" || !history.Before(found, absent.ResourceVersion), err
}

// hadSeen looks whether an object that is not there any more is in the server's history, at the resourceVersion that was
// read. It returns true, too, where that is not known: that part of the history was compacted, or the server keeps none.
func (l *listWatch) hadSeen(ctx context.Context, seen history.SeenObject) (bool, error) {
	options := selectOne(history.AbsentObject{SeenObject: seen}, seen.ResourceVersion, metav1.ResourceVersionMatchExact)
	list, err := l.objects.List(ctx, options)
	switch {
	case err != nil && (unanswerable(err) || apierrors.IsInternalError(err)):
		return true, nil
	case err != nil:
		return false, err
	}
	return list.GetResourceVersion() != seen.ResourceVersion || len(list.Items) == 1 && history.ObjectOf(&list.Items[0]) == seen, nil
}

// answered is what a server has under a name: its own resourceVersion, and the object, if there is one.
type answered struct {
	version string
	object  history.SeenObject
	// getOnly says that the API cannot select objects by name, as some aggregated ones cannot: its history cannot be
	// asked for.
	getOnly bool
}

// read asks for what there is now under the name of an object, and matches the selectors. Where o is no object, it asks
// for the server's resourceVersion alone.
func (l *listWatch) read(ctx context.Context, o history.AbsentObject) (out answered, err error) {
	list, err := l.objects.List(ctx, selectOne(o, "", ""))
	switch {
	case apierrors.IsBadRequest(err) || err == nil && hasOthers(list.Items, o.SeenObject):
		return l.readByName(ctx, o)
	case err != nil:
		return out, err
	}
	out.version = list.GetResourceVersion()
	if len(list.Items) == 1 {
		out.object = history.ObjectOf(&list.Items[0])
	}
	return out, nil
}

// readByName asks the same of an API that does not select by name: some refuse to, others answer with any object.
func (l *listWatch) readByName(ctx context.Context, o history.AbsentObject) (answered, error) {
	out := answered{getOnly: true}
	list, err := l.objects.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return out, err
	}
	out.version = list.GetResourceVersion()
	if o.ResourceVersion == "" {
		return out, nil
	}
	obj, err := l.at(o.Key.Namespace).Get(ctx, o.Key.Name, metav1.GetOptions{})
	if err == nil {
		if matching, _ := labels.Parse(o.LabelSelector); matching == nil || matching.Matches(labels.Set(obj.GetLabels())) {
			out.object = history.ObjectOf(obj)
		}
	} else if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return out, err
	}
	return out, nil
}

// selectOne selects one object, or none where o is no object, at a resourceVersion, or now where version is "".
func selectOne(o history.AbsentObject, version string, match metav1.ResourceVersionMatch) metav1.ListOptions {
	selector := fields.OneTermEqualSelector("metadata.name", noName)
	if o.ResourceVersion != "" {
		selector = fields.OneTermEqualSelector("metadata.name", o.Key.Name)
		if o.Key.Namespace != "" {
			selector = fields.AndSelectors(selector, fields.OneTermEqualSelector("metadata.namespace", o.Key.Namespace))
		}
	}
	text := selector.String()
	if o.FieldSelector != "" {
		text += "," + o.FieldSelector
	}
	return metav1.ListOptions{LabelSelector: o.LabelSelector, FieldSelector: text, Limit: 1, ResourceVersion: version, ResourceVersionMatch: match}
}

// hasOthers says whether there are other objects in a list than the one that was selected.
func hasOthers(objs []unstructured.Unstructured, selected history.SeenObject) bool {
	return slices.ContainsFunc(objs, func(obj unstructured.Unstructured) bool {
		return selected.ResourceVersion == "" || history.ObjectOf(&obj).Key != selected.Key
	})
}

// unanswerable says whether an error means that the server cannot answer, now or later: the history was
// compacted, or it does not take such requests.
func unanswerable(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) || apierrors.IsMethodNotSupported(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}
