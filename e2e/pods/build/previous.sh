#!/bin/sh
# Copyright The Roster Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Builds the agent as it was before the last change of what is installed, and takes its chart, for the test that
# upgrades from it. Without a history, as in a shallow clone, there is nothing to build, and the test says so.
set -eu
cd "$(dirname "$0")"
GO=${GO:-go}
to=$(dirname "$PWD")/bin/previous

changed=$(cd ../../.. && git rev-list --max-count=1 HEAD -- agent charts/agent/crds charts/agent/templates cmd/agent kube mesh replica syncrules)
if ! commit=$(git rev-parse --verify --quiet "$changed^"); then
	echo "pods: there is no previous commit to upgrade from"
	rm -rf "$to"
	exit 0
fi
if [ "$(cat "$to/commit" 2>/dev/null)" = "$commit" ]; then
	exit 0
fi
echo "pods: building the agent of an earlier commit, $commit"
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
trap 'exit 130' INT TERM
git -C "$(git rev-parse --show-toplevel)" archive "$commit" | tar -x -C "$tree"
rm -rf "$to"
mkdir -p "$to"
CGO_ENABLED=0 GOFLAGS=-mod=readonly GOWORK=off "$GO" -C "$tree" build -trimpath -buildvcs=false \
	-tags grpcnotrace,urfave_cli_no_docs -ldflags "-s -w -X main.version=previous" -o "$to/" ./cmd/agent
mkdir "$to/charts"
cp -R "$tree/charts/agent" "$to/charts/"
find "$to/charts" -name '*.go' -delete # or they would be a package of this module
echo "$commit" >"$to/commit"
