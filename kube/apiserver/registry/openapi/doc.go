// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package openapi has the OpenAPI definitions of the registry API's types and of those that they are made of.
package openapi
