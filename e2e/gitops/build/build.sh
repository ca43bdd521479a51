#!/bin/sh
# Copyright The Roster Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Builds the programs that e2e/gitops runs into bin/gitops, and puts beside them what people apply to install them. It checks their
# modules as well, which make verify and make lint leave out. GO names the go command (default: go).
set -eu
cd "$(dirname "$0")"
. ../../build-once.sh

GO=${GO:-go}
BIN=$(cd ../../.. && pwd)/bin/gitops

# The build must not depend on the settings of the machine that it runs on. The tools need a newer Go than Roster: auto takes the
# one that go.mod names from the module proxy.
export CGO_ENABLED=0 GOFLAGS='-mod=readonly -trimpath -buildvcs=false' GOWORK=off GOOS= GOARCH= GOTOOLCHAIN=auto

# name, its module here, its package
targets='
redis  argocd .
argocd argocd github.com/argoproj/argo-cd/v3/cmd
flux   flux   .
'
names=$(echo "$targets" | awk '{print $1}')
field() { echo "$targets" | awk -v n="$1" -v f="$2" '$1 == n {print $f}'; }

key() { # key NAME
	module=$(field "$1" 2)
	{
		cat "$module"/go.* "$module"/*.go 2>/dev/null || :
		field "$1" 0
		"$GO" -C "$module" env GOVERSION GOOS GOARCH
	} | sha256sum | cut -d' ' -f1
}

build() { # build NAME FILE
	exec "$GO" -C "$(field "$1" 2)" build -ldflags '-s -w' -o "$2" "$(field "$1" 3)"
}

module() { "$GO" -C "$1" list -m -f "{{.$2}}" "$3"; } # module FOLDER FIELD PATH

ARGOCD=$(module argocd Version github.com/argoproj/argo-cd/v3)
FLUX=$(module flux Version github.com/fluxcd/kustomize-controller/api)
# shellcheck disable=SC2086 # Several names in one word list.
build_once gitops "$BIN" "Argo CD $ARGOCD, kustomize-controller $FLUX" "about 15 minutes from nothing on two cores" $names

argocd=$(module argocd Dir github.com/argoproj/argo-cd/v3)
cat "$argocd/manifests/core-install.yaml" >"$BIN/argocd.yaml"
cat "$argocd/hack/git-verify-wrapper.sh" >"$BIN/git-verify-wrapper.sh" # which its image has in PATH
chmod +x "$BIN/git-verify-wrapper.sh"
# The module with the types of Flux has no CRD.
cat "$("$GO" -C flux mod download -json "github.com/fluxcd/kustomize-controller@$FLUX" | awk -F '"' '$2 == "Dir" {print $4}')"/config/crd/bases/*.yaml >"$BIN/flux.yaml"

for module in argocd flux; do
	"$GO" -C "$module" mod tidy -diff
	"$GO" -C "$module" vet .
done
