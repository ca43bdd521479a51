// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package renewals

import (
	"bytes"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

const (
	// lasting is how long what was written has to stay for nobody to be against it.
	lasting = time.Minute
	// againFirst and againLongest are the waits before what somebody else has undone is written again.
	againFirst, againLongest = time.Second, 10 * time.Minute
	// tellAfter is how often it is undone before an event says so.
	tellAfter = 3
)

// writes remembers the last write into each Secret, so that a writer of other content does not make the agent write without
// end. It is safe for concurrent use.
type writes struct {
	now func() time.Time

	mu   sync.Mutex
	last map[types.UID]*write
}

// write is the last one into a Secret.
type write struct {
	from     string       // the resourceVersion that it replaced
	to       *kube.Secret // what was written
	at       time.Time
	patience loop.Patience
	undone   int       // how often one after the other
	due      time.Time // when it may be written again; zero if it was not undone
}

// wait is how long have has to stay as it is before now is written. tell is whether it is time to say that somebody else writes it.
func (w *writes) wait(have, now *kube.Secret) (d time.Duration, tell bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, clock := w.last[have.UID], w.now()
	switch {
	case last == nil || last.from == have.ResourceVersion: // the watch has not delivered what was written
		return 0, false
	case !last.due.IsZero():
		return last.due.Sub(clock), false
	case clock.Sub(last.at) >= lasting || !last.undoneIn(have, now):
		return 0, false
	}
	d = last.patience.Next()
	last.due = clock.Add(d)
	last.undone++
	return d, last.undone == tellAfter
}

// undoneIn reports whether something that was written is not in have, and would be written again.
func (l *write) undoneIn(have, now *kube.Secret) bool {
	for name, value := range now.Data {
		if !bytes.Equal(have.Data[name], value) && bytes.Equal(l.to.Data[name], value) {
			return true
		}
	}
	const id = v1alpha1.AnnotationExportedClusterID
	return have.Annotations[id] != now.Annotations[id] && l.to.Annotations[id] == now.Annotations[id]
}

// wrote remembers a write. What lasted is forgotten.
func (w *writes) wrote(have, now *kube.Secret) {
	w.mu.Lock()
	defer w.mu.Unlock()
	clock := w.now()
	maps.DeleteFunc(w.last, func(_ types.UID, l *write) bool { return clock.Sub(l.at) >= lasting && clock.Sub(l.due) >= lasting })
	if w.last == nil {
		w.last = map[types.UID]*write{}
	}
	l := w.last[have.UID]
	if l == nil {
		l = &write{patience: loop.Patience{First: againFirst, Longest: againLongest}}
		w.last[have.UID] = l
	}
	l.from, l.to, l.at, l.due = have.ResourceVersion, now, clock, time.Time{}
}
