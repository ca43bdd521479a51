// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package syncrules is what a ResourceSyncRule means: pure functions on values, without context, clock,
// lock, log or client. Package engine is its shell.
//
//	rule ── Compile ──► Rule ── Scopes ──► what to watch at a source; TargetScopes ──► and here
//	                     │
//	source object ─ Match ─┤
//	                     ├─ Target ──► the place of the copy; Source leads back from it
//	                     └─ Render ──► desired copy ─ Refuse (consent) ─┐
//	                                                                    ├─ Plan ──► Decision
//	local copy ── Owner, Rules, Disabled, Orphaned ─────────────────────┤
//	what is known of each rule and source: Evidence ─ Weigh ─► Claim ───┘
//
// Compile reports every error of a rule with the path of its field. A rule is obeyed whole or not at all, since a
// rule without its mutations is another rule.
//
// # The copy
//
// Render starts from nothing and takes over: name, namespace, labels, annotations and every field beside
// metadata and, unless a clause says syncStatus, status. So nothing that a server has set can reach another one. Marks of tools that prune
// what they do not know (Argo CD, Flux, Helm and others) are left out, and so is everything under the local
// prefix. A copy carries its owner as label and annotation, the names of the rules that made it, and the
// shape of what was written.
//
// # Where a copy is
//
// Each rule by itself decides on the place (kind, namespace and name) of the copy of a source: by the kinds that
// its clauses set, and by their overrides of /metadata/name and /metadata/namespace. Neither depends on other
// mutations or other rules. Rules whose targets are the same place make one copy together. A copy that is
// elsewhere than its source says in its marks where that is; labels hold the same, or a hash, to list by.
//
// # Overrides
//
// Paths are parsed by go-patch and mean what they mean there; put and take apply them to JSON values. Values are
// templates over the source as it was read, never over what other mutations made of it: so a copy does not
// depend on their order, and is the same each time. A rule may come from a hostile peer and meet a hostile
// object, so everything that overrides do for one copy comes out of one budget (meter): see rewriter for how
// templates are made to pay, and functions for what they can call. What a template reads (reading) decides on
// what must be kept of sources and on what makes its copies out of date.
//
// # Is a copy as it should be?
//
// Plain equality with the desired copy would write for ever: an API server fills in defaults, allocates
// fields, prunes those that its version does not know, and controllers write into objects that they serve.
// Compare therefore asks, in this order:
//
//   - Does the copy carry the shape of the desired copy? The shape (AnnotationShape) is a hash of the paths
//     of all fields that were written, not of their values: it says that a field was taken away at the
//     source, also after a restart, and tells nobody anything about a Secret.
//   - Does the copy have every field that the desired copy names, with that value? Fields that it does not
//     name belong to the target: defaults, allocated addresses, what controllers write.
//   - Secrets and ConfigMaps have no defaults: there a field or key that is not named is a change.
//   - Labels and annotations that are not named are a change too (Extra), except local ones and those of
//     Kubernetes itself.
//
// What remains are servers that do not keep what they are given. Accept remembers a pair of desired copy and
// the server's answer; while both stay the same, nothing is written again.
//
// # Whose copy
//
// Weigh makes the claim of a cluster from what is known about each rule and the source (Evidence): whether it offers the
// copy, holds it as it is, or lets go of it, and why. Agents gather evidence from their watches, and agentctl by asking;
// the conclusions and their words are the same.
//
// Plan decides about one copy from a claim of each living cluster and from what is there. Its invariants:
// an object without marks is never written or deleted; a copy stays with its owner while that lives;
// nothing is deleted unless its own owner, known to be complete and live, says that it is gone (Gone) or no
// rule asks for it any more (Released), each by its policy; what is not known (Unknown, Held) changes nothing.
package syncrules
