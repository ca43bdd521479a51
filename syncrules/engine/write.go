// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/adopt"
	"github.com/roster-mesh/roster/syncrules/engine/anew"
	"github.com/roster-mesh/roster/syncrules/engine/copies"
	"github.com/roster-mesh/roster/syncrules/engine/dropped"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

// write sends the request of a decision and takes in the answer. It is one request, but for a namespace that is
// missing and a copy that must be made anew.
func (e *Engine) write(ctx context.Context, j *job, w *weighed, out *outcome) error {
	switch out.decision.Action {
	case syncrules.Create:
		return e.create(ctx, j, w, out)
	case syncrules.Update, syncrules.UpdateStatus, syncrules.MarkOrphan:
		return e.update(ctx, j, w, out)
	case syncrules.Delete:
		err := e.remove(ctx, j, out.decision.Object)
		out.remade = err == nil && j.allowance.Recreated() != 0 // and that is over with the copy
		return err
	default:
	}
	return nil
}

func (e *Engine) create(ctx context.Context, j *job, w *weighed, out *outcome) error {
	d := out.decision
	answer, err := e.o.Target.Create(ctx, d.Object)
	if rules := j.namespaceFor(d.Owner); len(rules) > 0 && problem.IsNamespaceMissing(err) {
		if err = e.namespaces.Create(ctx, j.key.Namespace, rules, e.o.Target.Create); err == nil {
			answer, err = e.o.Target.Create(ctx, d.Object)
		}
	}
	if apierrors.IsAlreadyExists(err) {
		if err = e.readExisting(ctx, j, w, out); err == nil && out.decision.Action == syncrules.Update {
			return e.update(ctx, j, w, out)
		}
		return err
	}
	if err != nil {
		return err
	}
	if sum := j.allowance.Recreated(); sum != 0 && sum != e.hash.Of(d.Desired) {
		out.remade, out.recreated = true, 0 // what it was made anew for may come back
	}
	out.takeAnswer(answer)
	return nil
}

func (e *Engine) update(ctx context.Context, j *job, w *weighed, out *outcome) error {
	d := out.decision
	if d.Action == syncrules.Update && anew.TurnsHeadless(w.Local, d.Desired) {
		if adopt.Marked(d.Object) || e.wasRecreated(j, d.Desired) {
			return problem.ErrImmutable
		}
		return e.recreate(ctx, j, w.Local, out)
	}
	send := e.o.Target.Update
	if d.Action == syncrules.UpdateStatus {
		send = e.o.Target.UpdateStatus
	}
	answer, err := send(ctx, d.Object)
	switch {
	case apierrors.IsNotFound(err):
		if j.local != nil {
			e.forgetCopy(j.key, j.local.Version)
		}
		return errRace
	case apierrors.IsConflict(err):
		return e.lostRace(ctx, j, d.Object)
	case d.Action == syncrules.Update && anew.Kind(j.key.GroupKind) && !adopt.Marked(d.Object) && problem.Immutable(err) == problem.Wholly && !e.wasRecreated(j, d.Desired):
		return e.recreate(ctx, j, w.Local, out)
	case problem.Immutable(err) != problem.Mutable:
		return fmt.Errorf("%w: %w", problem.ErrImmutable, err)
	case err != nil:
		return err
	}
	if j.local == nil {
		e.o.Log.Info("an object of this cluster is a copy now", "object", j.key.String(), "cluster", d.Owner)
	}
	out.takeAnswer(answer)
	return nil
}

// remove deletes the copy in the version that was decided on.
func (e *Engine) remove(ctx context.Context, j *job, obj *unstructured.Unstructured) error {
	err := e.o.Target.Delete(ctx, obj)
	if apierrors.IsConflict(err) {
		return e.lostRace(ctx, j, obj)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if apierrors.IsNotFound(err) || len(obj.GetFinalizers()) == 0 {
		e.forgetCopy(j.key, j.local.Version)
	}
	return nil
}

// wasRecreated says that the copy was deleted for this content before. It is not done again: a server that changes it
// in such a field would have it made anew for ever.
func (e *Engine) wasRecreated(j *job, desired *unstructured.Unstructured) bool {
	return j.allowance.Recreated() == e.hash.Of(desired)
}

// recreate makes a copy anew. If the agent ends between the two requests, the copy is missing, and made because
// the source still offers it.
func (e *Engine) recreate(ctx context.Context, j *job, local *unstructured.Unstructured, out *outcome) error {
	err := e.remove(ctx, j, local)
	e.metrics.Write(syncrules.Delete, err, errRace)
	if err != nil {
		return err
	}
	e.o.Log.Info("a copy is made anew: a field changed that cannot be", "copy", j.key.String(), "cluster", out.decision.Owner)
	out.remade, out.recreated = true, e.hash.Of(out.decision.Desired)
	answer, err := e.o.Target.Create(ctx, out.decision.Desired)
	if apierrors.IsAlreadyExists(err) {
		return errRace // finalizers hold it; the watch tells when it is gone
	}
	if err != nil {
		return err
	}
	out.takeAnswer(answer)
	return nil
}

// namespaceFor are the rules that want the copy which an owner offers, and its namespace created for it.
func (j *job) namespaceFor(owner string) []string {
	var names []string
	for i := range j.claims {
		if c := &j.claims[i]; c.Origin == owner {
			for _, r := range c.rules {
				if r.CreatesNamespace() {
					names = append(names, r.Name())
				}
			}
		}
	}
	return names
}

// takeAnswer reads the answer to a write.
func (o *outcome) takeAnswer(answer *unstructured.Unstructured) {
	c := copies.New(answer)
	if c == nil {
		return
	}
	c.Unseen = time.Now()
	c.Accepted = syncrules.Accept(o.decision, answer)
	desired := o.decision.Desired
	if c.Accepted != (syncrules.Accepted{}) {
		c.Dropped = strings.Clone(strings.Join(dropped.Fields(desired, answer), ", ")) // one alone is a part of the source, see package packed
		o.dropped = c.Dropped
	}
	// Its status follows by a request of its own, where the kind has that.
	o.answer, o.more = c, desired != nil && desired.Object["status"] != nil && o.decision.Action != syncrules.UpdateStatus
}

// believeLocked takes in the answer to a write, until the watch tells of it.
func (e *Engine) believeLocked(k Key, out *outcome) {
	old, c := e.local.copies.At(k), out.answer
	if old != nil && old.Version != c.Version && copies.Newer(old.Version, c.Version) {
		return // the watch was faster, and knows more
	} else if old != nil && old.Version == c.Version {
		c.Unseen = time.Time{}
	}
	e.putCopyLocked(k, c)
	if out.more || e.misplacedLocked(k, c) {
		e.queue.EnqueueLocked(k)
	}
}

// lostRace returns errRace: the event of the write that was faster puts the key up again. A copy that no watch has told of
// for a while although it has changed, as one without its label, is read again.
func (e *Engine) lostRace(ctx context.Context, j *job, obj *unstructured.Unstructured) error {
	if j.local == nil || j.local.Unseen.IsZero() || time.Since(j.local.Unseen) <= unseenFor {
		return errRace
	}
	now, err := e.o.Target.Read(ctx, obj.GroupVersionKind(), j.key.Namespace, j.key.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	var c *copies.Copy
	if err == nil {
		c = copies.New(now)
	}
	if c == nil || c.Owner == "" {
		e.forgetCopy(j.key, j.local.Version)
		return errRace
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if old := e.local.copies.At(j.key); old != nil && old.Version == j.local.Version {
		c.Unseen = time.Now()
		e.putCopyLocked(j.key, c)
		e.queue.EnqueueLocked(j.key)
	}
	return errRace
}

// forgetCopy drops a copy that is known to be gone, unless it has been replaced meanwhile.
func (e *Engine) forgetCopy(k Key, version string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.local.copies.At(k); c != nil && c.Version == version {
		e.dropCopyLocked(k)
		e.queue.EnqueueLocked(k)
	}
}
