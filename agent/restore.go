// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules"
)

// A local API server that was restored from a backup says that what was made since then does not exist, and means
// nothing by it. There are two signs: a history without what was read before (history.Positions), and, after a restart,
// members that hold entries of an epoch which this cluster has no record of. A CRD that was deleted with all its objects
// is no word of anybody's on them either (definitions.go). On each of these, nothing is published and
// no rule is taken for deleted or edited until a person confirms that this is how things are now.
//
// The freeze begins before the registry takes in anything of the new history. So whoever reads the registry and asks
// after that whether there is a freeze acts on nothing that a restore has brought.

// errRestored is what the Cluster object says meanwhile.
var errRestored = errors.New("the API server of this cluster went back in time, as after a restore, the registry's CRDs were deleted, or another agent publishes as this cluster: nothing is published from here until you have brought back what is missing, stopped the other agent if there is one, and confirm that this is the state to go on from")

// older says that an API server which only goes forward could not follow was with now.
func older(now, was metav1.Object) bool {
	order, err := resourceversion.CompareResourceVersion(now.GetResourceVersion(), was.GetResourceVersion())
	return err == nil && order < 0
}

// freeze is what is recorded while this cluster waits for the confirmation of a restore.
type freeze struct {
	// Known says that the API server has been asked what the annotation is since; Token is that: another one
	// confirms.
	Known bool   `json:"known"`
	Token string `json:"token"`
}

// restore is whether this cluster waits for the confirmation of a restore. The zero value does not.
type restore struct {
	mu      sync.Mutex
	frozen  *freeze   // nil when it does not
	freezes int       // how often it began or ended
	reopens time.Time // confirmed: until then a higher epoch may be opened, once

	// telling is held from reading a rule to telling the engine of it, or what was read first might be told last; so is
	// saying from asking whether there is a freeze to having said it.
	telling, saying sync.Mutex
	// unsettled are the rules, with their owners, of which the engine was not told yet that they are gone or older.
	unsettled map[string]string
}

func (r *restore) isFrozen() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.frozen != nil
}

// going tells a time without a freeze from others.
func (r *restore) going() (freezes int, going bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.freezes, r.frozen == nil
}

// state is what to record of it.
func (r *restore) state() *freeze {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.frozen == nil {
		return nil
	}
	now := *r.frozen
	return &now
}

// hear takes in what the annotation is now, as read from the API server: the first time, what was there before
// anybody could know, and then, when it is another one, the confirmation. It says which of these it was.
func (r *restore) hear(token string) (first, ends bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.frozen == nil:
		return false, false
	case !r.frozen.Known:
		r.frozen = &freeze{Known: true, Token: token}
		return true, false
	case token == "" || token == r.frozen.Token:
		return false, false
	}
	r.frozen, r.reopens = nil, time.Now().Add(reopenTime)
	r.freezes++
	return false, true
}

// reopenTime is for how long a confirmation also speaks for an epoch that a member tells of only later.
const reopenTime = time.Hour

// mayReopen says whether a person has confirmed that an epoch which members know of and this cluster does not is to
// be followed by another one. That holds until reopened, and for reopenTime.
func (r *restore) mayReopen() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.reopens)
}

func (r *restore) reopened() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reopens = time.Time{}
}

// wentBack hears that the local API server went back. It goes by the registry's kinds and Secrets: others may be
// stored apart, as events often are, or forget where they were whenever the program that serves them starts.
func (s *session) wentBack(kind schema.GroupVersionKind) bool {
	if kind.Group != v1alpha1.GroupName && kind != s.client.Secrets("").Kind() {
		return false
	}
	s.freeze()
	return true
}

// freeze stops publishing until the annotation on the Cluster object changes. That is recorded, since to start
// again is no confirmation. It does not block: a watch of the local API server waits for it.
func (s *session) freeze() {
	s.restore.mu.Lock()
	was := s.restore.frozen != nil
	if !was {
		s.restore.frozen = &freeze{}
		s.restore.freezes++
	}
	s.restore.mu.Unlock()
	if !was {
		s.log.Error("the local API server lacks what it had: nothing is published until that is confirmed")
		s.chores.add(choreFreeze)
		s.sayFrozen()
	}
}

// sayFrozen says what to do about a freeze, once it is known what the annotation was, and is to be called again then: what
// somebody has it say before that would be taken for what was there. Without a freeze it says no more.
func (s *session) sayFrozen() {
	s.restore.saying.Lock()
	defer s.restore.saying.Unlock()
	var problem error
	switch state := s.restore.state(); {
	case state == nil:
	case !state.Known:
		problem = errRestored
		s.publish.add(clusterKey(s.clusterID)) // which looks that up
	default:
		problem = fmt.Errorf(`%w: kubectl annotate --overwrite cluster %s %s="$(date -u +%%FT%%TZ)"`,
			errRestored, s.ownName(), v1alpha1.AnnotationConfirmRestore)
		s.publish.add(clusterKey(s.clusterID)) // it may be another one by now
	}
	_ = s.problems.set(problemRestored, problem)
}

// confirmed ends the freeze when the person in charge has said so, and tells whether it did. It asks the API
// server itself: what was read before the restore is no word of anybody's on it.
func (s *session) confirmed(ctx context.Context) (bool, error) {
	if !s.restore.isFrozen() {
		return false, nil
	}
	own, err := s.client.Clusters().Read(ctx, s.ownName())
	if err != nil {
		return false, fmt.Errorf("read whether the restore is confirmed: %w", err)
	}
	token := own.Annotations[v1alpha1.AnnotationConfirmRestore]
	first, ends := s.restore.hear(token)
	if ends {
		s.definitions.forget() // before what is there now is recorded
	}
	if first || ends {
		s.chores.add(choreFreeze)
		s.sayFrozen()
	}
	if !ends {
		return false, nil
	}
	s.log.Warn("the restore of the local API server was confirmed: going on from what it has", "confirmation", token)
	for _, name := range s.restore.names() {
		s.settleRule(name, true)
	}
	s.engine.Ready() // where the agent was started meanwhile, it was not
	return true, nil
}

// unsettle takes in that the local API server has no rule of that name any more, or an older one than last was
// there. The engine goes on by what it was told, until settleRule.
func (s *session) unsettle(last *v1alpha1.ResourceSyncRule) {
	s.restore.mu.Lock()
	defer s.restore.mu.Unlock()
	if s.restore.unsettled == nil {
		s.restore.unsettled = map[string]string{}
	}
	s.restore.unsettled[last.Name] = syncrules.Owner(last)
}

// settled ends that.
func (s *session) settled(name string) {
	s.restore.mu.Lock()
	defer s.restore.mu.Unlock()
	delete(s.restore.unsettled, name)
}

func (r *restore) names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for name := range r.unsettled {
		names = append(names, name)
	}
	return names
}

// settleRule tells the engine that a rule is gone, or what it is, once that is certain. Of a rule of this cluster's
// own the API server says so, unless that went back in time: the publisher, which finds that out, asks about them.
// A copy is on its way back while a member publishes the rule: the importer asks about those.
func (s *session) settleRule(name string, own bool) {
	s.restore.telling.Lock()
	defer s.restore.telling.Unlock()
	current, err := s.registry.rules.Get(name)
	s.restore.mu.Lock()
	owner, unsettled := s.restore.unsettled[name]
	frozen := s.restore.frozen != nil
	s.restore.mu.Unlock()
	if !unsettled || own != (owner == "") || own && frozen {
		return
	}
	key := replica.Key{Kind: replica.KindRule, Name: name}
	if err == nil {
		if e, ok := s.replica.Lookup(key, owner); ok && !own {
			if p, err := decodeRule(owner, name, e.Payload); err == nil && !equality.Semantic.DeepEqual(p.Spec, current.Spec) {
				return // it is being repaired
			}
		}
		s.settled(name)
		s.engine.SetRule(inForce(current))
		return
	}
	if slices.ContainsFunc(s.replica.Find(key), func(e replica.Entry) bool { return e.Origin != s.clusterID && e.Status == replica.Live }) {
		return // the importer puts it back
	}
	s.settled(name)
	s.engine.DeleteRule(name)
}

// publishAgain puts up everything that this cluster has and had, after a freeze.
func (s *session) publishAgain() error {
	for _, kind := range [...]replica.Kind{replica.KindRule, replica.KindFeature} {
		for _, e := range s.replica.EntriesOf(s.clusterID, kind) {
			s.publish.add(e.Key)
		}
	}
	rules, err := s.registry.rules.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, r := range rules {
		s.publish.add(replica.Key{Kind: replica.KindRule, Name: r.Name})
	}
	features, err := s.registry.features.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, f := range features {
		s.publish.add(replica.Key{Kind: replica.KindFeature, Name: f.Name})
	}
	s.chores.add(choreAnnounce) // in a new epoch, if members know of a later one
	return nil
}
