// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet asks every member of a group a question, all of them at once.
//
// The caller's own cluster says who the members are. Each of them is reached by a context of the caller's kubeconfig, where
// one leads there, else with the credential that the own cluster holds for it: its Secret is read by the name that the
// Cluster object has, with the caller's own rights, and its token goes to a proven server only (clusters.PeerConfig). Nothing
// is listed in the namespace of those Secrets.
//
// Members are not trusted. At most maxMembers are asked at a time, an answer is cut off after MaxAnswer, what it holds is
// decoded by few at a time, and all of it ends with Group.Timeout. A member that cannot be asked is an Answer with Err, which
// is unknown: it is never absent.
package fleet
