// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package syncrules implements what a ResourceSyncRule means: pure functions on values, without context, clock,
// lock, log or client. Package engine is its shell: it watches, calls these functions, and writes.
//
//	rule ── Compile ──► Rule ── Scopes ──► what to watch at a source; TargetScopes ──► and in this cluster
//	                     │
//	source object ─ Match ─┤
//	                     ├─ Target ──► the place of the copy; Source leads back from it
//	                     └─ Render ──► desired copy ─ Refuse (consent) ─┐
//	                                                                    ├─ Plan ──► Decision
//	local copy ── Owner, MadeBy, Disabled, Orphaned ────────────────────┤
//	what is known of each rule and source: Evidence ─ Weigh ─► Claim ───┘
//
// Compile reports every error of a rule with the path of its field. A rule is applied as a whole or not at all: without
// one of its mutations it would be a different rule.
//
// # The copy
//
// Render starts with an empty object and takes over from the source: name, namespace, labels, annotations, and every
// field except metadata and status. It takes over the status if a clause says syncStatus. So nothing that one API server
// has set reaches another one. Labels and annotations by which tools (Argo CD, Flux, Helm and others) track their objects
// are left out, because such a tool prunes objects that it does not know; those under the local prefix are left out, too.
// A copy carries the clusterID of its owner as label and annotation, the names of the rules that made it, and a hash of
// the paths of its fields (its shape).
//
// # Where a copy is
//
// Each rule by itself determines the place (kind, namespace and name) of the copy of a source: by the kinds that its
// clauses set, and by their overrides of /metadata/name and /metadata/namespace. The place does not depend on other
// mutations, or on other rules. Rules whose targets are the same place make one copy together. A copy in another place
// than its source has annotations that say where the source is, and labels with the same names, or hashes of them, for
// list requests.
//
// # Overrides
//
// Paths are parsed by go-patch, and mean the same as there; replaceAt and removeAt apply them to JSON values. Values are
// templates over the source as it was read, never over what other mutations made of it. So a copy does not depend on the
// order of mutations, and is the same each time. A rule may come from a hostile peer, and select a hostile object, so all
// overrides of one copy share one budget (meter). rewriter makes templates spend it; functions lists what they can call.
// What a template reads (reading) determines which fields of sources must be kept, and when its copies are out of date.
//
// # Is a copy as it should be?
//
// If a copy had to be equal to the desired copy, the agent would write it for ever: an API server fills in defaults,
// allocates fields, and prunes those that its version does not know, and controllers write into objects. So Compare asks,
// in this order:
//
//   - Does the copy carry the shape of the desired copy? The shape (AnnotationShape) is a hash of the paths of all
//     fields that were written, without their values. It shows that a field was removed at the source, also after a
//     restart, and reveals nothing about a Secret.
//   - Does the copy have every field of the desired copy, with the same value? All other fields belong to the target:
//     defaults, allocated addresses, what controllers write.
//   - Secrets and ConfigMaps have no defaults: there an additional field or key is a change.
//   - Additional labels and annotations are a change, too (Extra), except local ones and those of Kubernetes itself.
//
// Some servers do not store what is written: they drop or change fields. Accept remembers a desired copy and the server's
// answer; while both stay the same, nothing is written again.
//
// # Who owns a copy
//
// Weigh turns what is known about each rule and the source (Evidence) into the claim of a cluster: it offers the copy, holds
// it (the copy is frozen) or releases it, and why. Agents collect evidence from their watches, and agentctl with requests;
// the conclusions and the texts are the same. The file freeze.go lists where the reasons are that freeze a copy.
//
// Plan decides about one copy from the claims of the clusters of the group and from the object that exists. Its invariants:
//
//   - An object that is not a copy is never deleted. It is written only if its annotation lets a rule adopt it; then it is
//     never deleted, either (package adopt).
//   - A copy keeps its owner while the owner is in the group.
//   - A copy is deleted only if the source is gone at its owner, which is known from a complete list and a live watch
//     (Gone), or if no rule asks for it any more (Released), and if the policy for that says Delete.
//   - What is not known (Unknown, Held) changes nothing.
package syncrules
