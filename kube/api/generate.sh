#!/usr/bin/env bash
# Copyright The Roster Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Generates everything that follows from the API types: deepcopy functions, the Go client in
# kube/client, the CRDs in charts/agent/crds and the API reference docs/api.md. Running it twice
# changes nothing. It installs its tools into bin/ when they are missing or of another version.
set -euo pipefail

# The versions of the generators. They are named here and nowhere else.
CODE_GENERATOR_VERSION=v0.37.2
CONTROLLER_TOOLS_VERSION=v0.23.0

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
module=github.com/roster-mesh/roster
types=./kube/api/v1alpha1               # stored: these become the CRDs
view=./kube/api/registry/v1alpha1       # served by kube/apiserver from the former
header=kube/api/boilerplate.go.txt

# install PACKAGE VERSION builds a tool unless bin/ holds it in that version already.
install() {
	local tool=$root/bin/${1##*/}
	if [[ -x $tool ]] && go version -m "$tool" | awk -v v="$2" '$1 == "mod" && $3 == v { found = 1 } END { exit !found }'; then
		return
	fi
	echo "installing ${1##*/} $2"
	GOBIN=$root/bin GOFLAGS= go install -trimpath "$1@$2"
}

for tool in deepcopy-gen client-gen lister-gen informer-gen; do
	install "k8s.io/code-generator/cmd/$tool" "$CODE_GENERATOR_VERSION"
done
install sigs.k8s.io/controller-tools/cmd/controller-gen "$CONTROLLER_TOOLS_VERSION"

echo "generating deepcopy functions"
bin/deepcopy-gen --go-header-file "$header" --output-file zz_generated.deepcopy.go "$types" "$view"

echo "generating kube/client"
rm -rf kube/client
bin/client-gen --go-header-file "$header" --clientset-name versioned --input-base "" \
	--input "$module/${types#./}" --input "$module/${view#./}" --output-dir kube/client --output-pkg "$module/kube/client"
bin/lister-gen --go-header-file "$header" \
	--output-dir kube/client/listers --output-pkg "$module/kube/client/listers" "$types" "$view"
bin/informer-gen --go-header-file "$header" \
	--versioned-clientset-package "$module/kube/client/versioned" --listers-package "$module/kube/client/listers" \
	--output-dir kube/client/informers --output-pkg "$module/kube/client/informers" "$types" "$view"

echo "generating charts/agent/crds"
rm -rf charts/agent/crds
bin/controller-gen crd paths="$types" output:crd:dir=charts/agent/crds
go run ./kube/api/internal/crdfinish -crds charts/agent/crds -reference docs/api.md
