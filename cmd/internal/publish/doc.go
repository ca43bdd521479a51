// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Publish pushes what `make release` wrote to a registry: the images under REGISTRY/NAME:VERSION, the chart under
// REGISTRY/charts/agent:VERSION, and beside each of them, as artifacts that refer to it, its provenance and its SBOM. The credentials
// are those that `docker login`, `helm registry login` or `podman login` wrote.
//
// It makes nothing new: an image is pushed as it is in its tar, so that its digest is the one that anybody gets who builds the same
// commit. A version that is there already with another digest is left alone.
package main
