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
flux   flux   github.com/fluxcd/kustomize-controller
'
names=$(echo "$targets" | awk '{print $1}')
field() { echo "$targets" | awk -v n="$1" -v f="$2" '$1 == n {print $f}'; }

key() { # key NAME
	module=$(field "$1" 2)
	{
		find "$module" -type f | LC_ALL=C sort | xargs cat
		field "$1" 0
		"$GO" -C "$module" env GOVERSION GOOS GOARCH
	} | sha256sum | cut -d' ' -f1
}

build() { # build NAME FILE
	exec "$GO" -C "$(field "$1" 2)" build -ldflags '-s -w' -o "$2" "$(field "$1" 3)"
}

version() { "$GO" -C "$1" list -m -f '{{.Version}}' "$2"; } # version FOLDER PATH
folder() { "$GO" -C "$1" mod download -json "$2" | awk -F '"' '$2 == "Dir" {print $4}'; } # folder FOLDER PATH@VERSION

ARGOCD=$(version argocd github.com/argoproj/argo-cd/v3)
FLUX=$(version flux github.com/fluxcd/kustomize-controller)
# shellcheck disable=SC2086 # Several names in one word list.
build_once gitops "$BIN" "Argo CD $ARGOCD, kustomize-controller $FLUX" "about 15 minutes from nothing on two cores" $names

argocd=$(folder argocd "github.com/argoproj/argo-cd/v3@$ARGOCD")
cat "$argocd/manifests/core-install.yaml" >"$BIN/argocd.yaml"
cat "$argocd/hack/git-verify-wrapper.sh" >"$BIN/git-verify-wrapper.sh" # which its image has in PATH
chmod +x "$BIN/git-verify-wrapper.sh"
flux=$(folder flux "github.com/fluxcd/kustomize-controller@$FLUX")
# It is compiled with the types of its sources; their CRDs are in another module, of the same version.
sources=$(folder flux "github.com/fluxcd/source-controller@$(version flux github.com/fluxcd/source-controller/api)")
cat "$flux"/config/crd/bases/*.yaml "$sources"/config/crd/bases/*.yaml >"$BIN/flux.yaml"

for module in argocd flux; do
	"$GO" -C "$module" mod tidy -diff
done
unformatted=$("$("$GO" env GOROOT)/bin/gofmt" -l .)
[ -z "$unformatted" ] || { echo "gitops: run gofmt -w on $unformatted" >&2 && exit 1; }
"$GO" -C argocd vet .
# shellcheck disable=SC2046 # The packages of flux/standin, of which each is in a module of its own.
"$GO" -C flux vet $("$GO" -C flux list -deps -f '{{with .Module}}{{with .Replace}}{{if not .Version}}{{$.ImportPath}}{{end}}{{end}}{{end}}' tool)
