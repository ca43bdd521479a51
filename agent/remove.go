// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules"
)

// What a removal ends, and in which order:
//
//	merged ──► pin, connections (mesh)            at once, in the merging goroutine
//	       ──► source of copies, orphans (engine) at once
//	       ──► recorded ──► accounts of its readers, our credential for it, its Cluster objects, the bootstrap
//	           credential ──► recorded as ended
//
// Whatever fails is tried again; a restart goes on where it was.

const (
	tellTimeout = 5 * time.Second
	tellAgain   = 2 * time.Second
	// recordStrange is how long the record of removals waits that are about nothing here.
	recordStrange = time.Hour
)

// removed is called by the replica for every removal that is merged, our own included. One that is about nothing that
// this cluster knows is kept against introductions, and costs no request but for its record, which can wait: a
// member may make up as many as it likes.
func (s *session) removed(r replica.Removal, pinned, first bool) {
	waiting := s.toConfirm(r)
	now := removal{Removal: r, ordered: s.orderedHere(r), waiting: waiting}
	if author, ok := s.trust.Key(r.By); !r.Left() && (!ok || !author.Equal(r.ByKey)) {
		now.hearsay = true
	}
	now.strange = !pinned && !s.concerns(r)
	now.ended = now.strange
	s.removals.take(now)
	if now.strange {
		s.log.Debug("the key of an unknown cluster was removed from the group", "clusterID", r.ClusterID, "byClusterID", r.By)
		s.chores.addAfter(choreRemovals, recordStrange)
		return
	}
	if first {
		s.log.Warn("a cluster's key was removed from the group", "cluster", r.Name, "clusterID", r.ClusterID, "by", r.ByName, "byClusterID", r.By, "left", r.Left())
	}
	s.chores.add(choreRemovals)
	if r.ClusterID == s.clusterID && r.PublicKey.Equal(s.key.Public()) {
		s.chores.add(choreDepart)
		s.statuses.add(s.clusterID)
		return
	}
	if s.gone(r.ClusterID) {
		s.leaveBehind(r.ClusterID)
	}
	for _, id := range waiting {
		s.tells.add(id)
	}
	if s.removals.awaits(r.ClusterID) {
		s.tells.add(r.ClusterID) // it confirms nothing any more
	}
}

// concerns says that a removal whose key is pinned for nobody is about something here: this cluster itself, or a
// Cluster object.
func (s *session) concerns(r replica.Removal) bool {
	return s.orderedHere(r) || r.ClusterID == s.clusterID && r.PublicKey.Equal(s.key.Public()) || slices.ContainsFunc(s.registry.byID(r.ClusterID), func(c *v1alpha1.Cluster) bool {
		return r.PublicKey.Equal(asKey(recordedKey(c)))
	})
}

// orderedHere says that a removal of another cluster is signed by this one. Its name alone says nothing: a member may
// vouch for what anybody signed.
func (s *session) orderedHere(r replica.Removal) bool {
	return r.By == s.clusterID && r.ByKey.Equal(s.key.Public()) && !r.Left()
}

// toConfirm are the members that are to confirm a removal: all others, of one that is ordered here.
func (s *session) toConfirm(r replica.Removal) (ids []string) {
	if !s.orderedHere(r) {
		return nil
	}
	for _, pin := range s.trust.Pins() {
		if pin.ClusterID != r.ClusterID {
			ids = append(ids, pin.ClusterID)
		}
	}
	return ids
}

// leaveBehind ends at once what needs no request: the watches of a cluster that is gone, and the upkeep of its copies.
func (s *session) leaveBehind(id string) {
	s.peers.set(id, func(p *peer) { p.issued, p.heard = false, false })
	s.peers.changed(id)
	s.offers.add(id)
	s.statuses.add(id)
	s.statuses.add(s.clusterID)
	s.recheck(id)
}

// farewell is told to the owner of a removed key.
func (s *session) farewell(key ed25519.PublicKey) []byte {
	if r, ok := s.removals.ofKey(key); ok {
		return r.Message()
	}
	return nil
}

// carryOut ends what the removed clusters have here. It is a chore, so that it is done once at a time and again until
// it worked.
func (s *session) carryOut(ctx context.Context) error {
	if err := s.recordRemovals(ctx); err != nil {
		return err
	}
	var errs []error
	var done []removal
	for _, r := range s.removals.all() {
		if r.ended || r.ClusterID == s.clusterID {
			continue
		}
		if err := s.carryOutOne(ctx, r); err != nil {
			errs = append(errs, err)
			continue
		}
		done = append(done, r)
	}
	if len(done) > 0 {
		if err := s.reissueBootstrap(ctx); err != nil {
			return errors.Join(append(errs, err)...)
		}
		for _, r := range done {
			s.removals.change(r.Removal, func(r *removal) { r.ended = true })
		}
		errs = append(errs, s.recordRemovals(ctx), s.recordPins(ctx))
	}
	return s.problems.set(problemRemoval, errors.Join(errs...))
}

// carryOutOne does that for one removal. Of a cluster that was admitted again under another key before, as when both
// arrive at once, the tokens end nevertheless: whoever has the old key may have them. It asks for another one.
func (s *session) carryOutOne(ctx context.Context, r removal) error {
	errs := []error{s.issuer.Revoke(ctx, readerAccount+"-"+r.ClusterID)}
	if s.gone(r.ClusterID) {
		errs = append(errs, s.private.forgetPeer(ctx, r.ClusterID))
	}
	for _, c := range s.registry.byID(r.ClusterID) {
		if key := recordedKey(c); !r.PublicKey.Equal(asKey(key)) && (len(key) > 0 || syncrules.Owner(c) != r.ClusterID) {
			continue
		}
		errs = append(errs, s.deleteCluster(ctx, c))
	}
	return errors.Join(errs...)
}

// endAccess ends the credentials of a cluster here and ours there.
func (s *session) endAccess(ctx context.Context, id string) error {
	return errors.Join(s.issuer.Revoke(ctx, readerAccount+"-"+id), s.private.forgetPeer(ctx, id))
}

func (s *session) deleteCluster(ctx context.Context, c *v1alpha1.Cluster) error {
	err := s.client.Clusters().Delete(ctx, c.Name, &metav1.Preconditions{UID: &c.UID})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // a conflict: another object has the name now
		return nil
	}
	return fmt.Errorf("delete cluster %s, which is not in the group any more: %w", c.Name, err)
}

// reissueBootstrap ends the credential that is swapped, which a removed cluster may know, and issues another one. The
// account that all members shared before each had its own ends with it.
func (s *session) reissueBootstrap(ctx context.Context) error {
	s.issuing.Lock()
	defer s.issuing.Unlock()
	if err := errors.Join(s.issuer.Revoke(ctx, bootstrapAccount), s.issuer.Revoke(ctx, readerAccount)); err != nil {
		return err
	}
	s.reissue.Store(true)
	_, err := s.ensureBootstrapLocked(ctx)
	return err
}

// orderRemoval carries out what a person asks for by annotation on a Cluster object.
func (s *session) orderRemoval(ctx context.Context, name string) error {
	c, err := s.registry.clusters.Get(name)
	if err != nil {
		return nil //nolint:nilerr // it is gone
	}
	asked, ok := c.Annotations[v1alpha1.AnnotationRemove]
	id := string(c.Spec.ClusterID)
	if !ok {
		return nil
	}
	refuse := func(text string) error {
		if !s.said.first(string(c.UID), text) {
			return nil
		}
		s.events.Event(s.client.Clusters().Kind(), c, kube.EventWarning, "RemovalRefused", text)
		s.log.Warn("a removal is refused", "cluster", name, "why", text)
		return nil
	}
	if id == s.clusterID {
		return refuse("a cluster does not remove itself: agentctl leave ends its membership, which the annotation " + v1alpha1.AnnotationLeave + " asks for")
	}
	if _, expelled := s.expelled(); expelled {
		return refuse("this cluster is not in the group any more, and so removes nobody from it")
	}
	key, pinned := s.trust.Key(id)
	switch {
	case !pinned && s.gone(id):
		return nil // done
	case !pinned:
		return refuse("no key of this cluster is trusted, so there is nothing to remove: delete the object")
	case asked != v1alpha1.RequestKey(key):
		return refuse("the annotation " + v1alpha1.AnnotationRemove + " must have the key of the cluster, spec.mesh.publicKey, as its value: " + v1alpha1.RequestKey(key))
	}
	r, err := s.replica.SignRemoval(id, key, name, s.ownName(), s.clock.now().Unix())
	if err != nil {
		return err
	}
	return s.proclaim(ctx, r)
}

// proclaim makes a removal of our own take effect. It is recorded first: a crash must not take back what others were
// told.
func (s *session) proclaim(ctx context.Context, r replica.Removal) error {
	s.removals.recording.Lock()
	defer s.removals.recording.Unlock()
	if err := s.private.recordRemovals(ctx, append(s.removals.all(), removal{Removal: r, ordered: s.orderedHere(r), waiting: s.toConfirm(r)})); err != nil {
		return err
	}
	if _, _, err := s.replica.Merge(r.Message(), ""); err != nil {
		return fmt.Errorf("remove %s: %w", r.Name, err)
	}
	s.mesh.Broadcast(r.Message())
	return nil
}

// tellMember hands a member the removals that were ordered here and that it has not confirmed.
func (s *session) tellMember(ctx context.Context, id string) error {
	_, pinned := s.trust.Key(id)
	for _, r := range s.removals.all() {
		if !slices.Contains(r.waiting, id) {
			continue
		}
		if pinned {
			if s.mesh.Member(id).State != mesh.Alive {
				return nil // memberChanged asks again
			}
			if err := s.tell(ctx, id, r.Removal); err != nil {
				s.tells.addAfter(id, tellAgain)
				return nil //nolint:nilerr // as above: it may be an older agent, or on its way out
			}
		}
		s.removals.change(r.Removal, func(r *removal) {
			r.waiting = slices.DeleteFunc(slices.Clone(r.waiting), func(w string) bool { return w == id })
		})
		s.statuses.add(s.clusterID)
		s.chores.add(choreRemovals)
	}
	return nil
}

func (s *session) tell(ctx context.Context, id string, r replica.Removal) error {
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	_, err := s.mesh.Call(ctx, id, methodTell, r.Message())
	if err != nil { // perhaps because it refuses us: then it answers a frame with the reason
		s.mesh.Send(id, r.Message())
	}
	return err
}

// orders are the lines of ConditionRemovalsConfirmed: the last removal, and the others that wait, newest first.
func (s *session) orders() (lines []string, confirmed bool) {
	all := slices.DeleteFunc(s.removals.all(), func(r removal) bool { return !r.ordered })
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b removal) int { return cmp.Compare(b.Time, a.Time) })
	confirmed = true
	for i, r := range all {
		confirmed = confirmed && len(r.waiting) == 0 && !r.unasked
		if len(lines) == maxOrders || i > 0 && len(r.waiting) == 0 {
			continue
		}
		var names []string
		for _, id := range r.waiting {
			name := s.clusterName(id)
			if state := s.mesh.Member(id).State; state != mesh.Alive {
				name += " (" + state.String() + ")"
			}
			names = append(names, name)
		}
		lines = append(lines, v1alpha1.RemovalLine(r.Name, r.ClusterID, names))
	}
	return lines, confirmed
}

// viewMembership says of this cluster whether it is in a group still, and what it has ordered.
func (s *session) viewMembership(v *view) {
	if r, expelled := s.expelled(); expelled {
		v.removed = "this cluster " + told(r) + "; " + readmission(s.ownName())
		return
	}
	v.orders, v.confirmed = s.orders()
	for _, r := range s.removals.all() {
		if r.ClusterID == s.clusterID && r.Left() {
			v.left = told(r) + "; agentctl join makes this cluster a member again"
		}
	}
}

// maxOrders is how many removals a status tells of.
const maxOrders = 8

// resume goes on with what an earlier start did not finish.
func (s *session) resume() {
	for _, id := range s.removals.mentioned() {
		if s.gone(id) {
			s.leaveBehind(id)
		}
	}
	for _, r := range s.removals.all() {
		if r.unasked {
			r.waiting = s.toConfirm(r.Removal)
			s.removals.change(r.Removal, func(held *removal) { held.waiting, held.unasked = r.waiting, false })
		}
		for _, id := range r.waiting {
			s.tells.add(id)
		}
	}
	s.chores.add(choreRemovals)
	s.chores.add(choreDepart)
}

// told says of a removal who ordered it and when, for people.
func told(r removal) string {
	when := time.Unix(r.Time, 0).UTC().Format(time.RFC3339)
	if r.Left() {
		return "left the group on " + when
	}
	by := "cluster " + r.By
	if r.ByName != "" {
		by = "cluster " + r.ByName + " (" + r.By + ")"
	}
	if r.hearsay {
		return "was removed from the group by " + by + " on " + when + ", as another member says, whose word that is"
	}
	return "was removed from the group by " + by + " on " + when
}

// readmission says how a cluster whose key was removed comes back.
func readmission(name string) string {
	return "to admit it again, give it a new key and swap: agentctl join --replace-key --context " + strings.TrimSpace(name) + " --peer-context MEMBER"
}
