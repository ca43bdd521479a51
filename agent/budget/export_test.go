// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

const (
	RegistryWrites          = registryWrites
	RegistryWritesPerSecond = registryWritesPerSecond
)
