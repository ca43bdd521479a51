// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"fmt"
	"strings"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh/trust"
)

// maxNotAdmitted is how many bytes a message lists of newcomers: a condition may have 32 KiB.
const maxNotAdmitted = 24 << 10

// waits is called by the trust table for each cluster that was removed and is introduced under another key, by somebody
// who does not decide that. An authority may have admitted it, which only that authority can say.
func (m *Membership) waits(n trust.Newcomer) {
	m.o.Log.Warn("a cluster that was removed from the group waits to be admitted again", "clusterID", n.ClusterID, "key", trust.Fingerprint(n.PublicKey), "introducer", n.Introducer)
	if m.replica == nil {
		return // an earlier run recorded it: not everything is there yet
	}
	if own := m.o.Own(); own != nil {
		text := "was removed from the group, and waits to be admitted again: " + v1alpha1.NewcomerLine(m.describe(n))
		m.o.Events.Event(m.o.Client.Clusters().Kind(), own, kube.EventWarning, "ClusterPending", text)
	}
	for _, id := range m.Members() {
		if m.trust.IsAuthority(id) {
			m.work.pulls.Add(id)
		}
	}
	m.Hooks.Changed(m.o.ClusterID)
	m.Hooks.Changed(n.ClusterID)
}

// describe names a newcomer as the cluster that was removed: it has taken no name yet.
func (m *Membership) describe(n trust.Newcomer) v1alpha1.Newcomer {
	return v1alpha1.Newcomer{
		Name: m.ledger.Name(n.ClusterID), ClusterID: n.ClusterID, Fingerprint: trust.Fingerprint(n.PublicKey), Introducer: m.o.Registry.Name(n.Introducer),
	}
}

// pull fetches what a member has, in case it introduces a newcomer that waits. If it is not reached, MemberAlive or the
// next comparison of digests tries again.
func (m *Membership) pull(ctx context.Context, id string) error {
	if m.IsPinned(id) {
		if err := m.mesh.Pull(ctx, id); err != nil {
			m.o.Log.Debug("a member that may introduce a newcomer is not reached", "clusterID", id, "error", err)
		}
	}
	return nil
}

// checkApprovals admits the newcomers that an annotation on the own Cluster object names.
func (m *Membership) checkApprovals(own *v1alpha1.Cluster) {
	var names []trust.Name
	for _, text := range v1alpha1.Approvals(own.Annotations[v1alpha1.AnnotationApprove]) {
		name, err := trust.ParseName(text)
		if err == nil && name.Fingerprint == "" {
			err = fmt.Errorf("%q names no key", text)
		}
		if err != nil {
			m.refuse(own, "ApprovalRefused", "the annotation "+v1alpha1.AnnotationApprove+" must list CLUSTERID/FINGERPRINT, separated by commas: "+err.Error())
			continue
		}
		names = append(names, name)
	}
	for _, n := range m.trust.Newcomers() {
		for _, name := range names {
			if name.Means(n.ClusterID, n.PublicKey) {
				m.work.pulls.Add(n.Introducer)
			}
		}
	}
	m.trust.Approve(names)
}

// notAdmitted says which clusters wait to be admitted here, and what to do; "" for none.
func (m *Membership) notAdmitted() (reason, message string) {
	var parts, lines []string
	newcomers, size := m.trust.Newcomers(), 0
	for _, n := range newcomers {
		line := v1alpha1.NewcomerLine(m.describe(n))
		if size += len(line); size > maxNotAdmitted {
			break
		}
		lines = append(lines, line)
	}
	if len(lines) > 0 {
		reason = v1alpha1.AdmittedPending
		first := m.describe(newcomers[0])
		parts = append(parts, "removed from the group, and back under another key: "+strings.Join(lines, "; ")+
			". Compare the key with that in the cluster itself; if it is the same: agentctl approve "+first.Name+" --key "+first.Fingerprint)
	}
	if strangers := m.trust.Strangers(); len(strangers) > 0 {
		if reason == "" {
			reason = v1alpha1.AdmittedUnknownAuthority
		}
		for _, name := range strangers[:min(len(strangers), maxListed)] {
			parts = append(parts, "trust.authorities names "+name.String()+", and no member has that clusterID and key, or it is an edge, or no person here swapped with it (then name its key, too): it admits nobody")
		}
	}
	return reason, strings.Join(parts, ". ")
}

// Pending says that a cluster waits to be admitted here, and what to do; "" if it does not.
func (m *Membership) Pending(clusterID string) string {
	if m.IsPinned(clusterID) || !m.trust.Reserved(clusterID) {
		return ""
	}
	for _, n := range m.trust.Newcomers() {
		if n.ClusterID == clusterID {
			first := m.describe(n)
			return "it was removed from the group, and waits to be admitted under another key: agentctl approve " + first.Name + " --key " + first.Fingerprint
		}
	}
	return "it was removed from the group under another key; swap again with the object of the cluster itself, or: agentctl approve"
}
