// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hosted is the commands init and delete: the one makes a registry that is an API server of its own, in a namespace
// of a Kubernetes cluster, its host; the other takes it away.
//
// All that init makes has the same labels, and delete goes by them. The CA is made here and handed to the server in a
// Secret, so that the administrator's kubeconfig can be written before the server has ever run.
package hosted
