#!/usr/bin/env bash
# Copyright The Roster Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Writes the OpenAPI definitions of the registry API's types and of those that they are made of.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$(cd ../.. && pwd)
version=$(awk '$1 == "k8s.io/kube-openapi" { print $2 }' go.mod)
tool=$root/bin/openapi-gen
if ! [[ -x $tool ]] || ! go version -m "$tool" | awk -v v="$version" '$1 == "mod" && $3 == v { found = 1 } END { exit !found }'; then
	echo "installing openapi-gen $version"
	GOBIN=$root/bin GOFLAGS= go install -trimpath "k8s.io/kube-openapi/cmd/openapi-gen@$version"
fi
echo "generating kube/apiserver/registry/openapi"
types=github.com/roster-mesh/roster/kube/api/registry/v1alpha1
generate() {
	GOFLAGS="-mod=mod -trimpath" GOWORK=off "$tool" --go-header-file "$root/kube/api/boilerplate.go.txt" \
		--output-dir registry/openapi --output-pkg github.com/roster-mesh/roster/kube/apiserver/registry/openapi \
		--output-file zz_generated.openapi.go --report-filename /dev/null "$@"
}
generate --output-model-name-file zz_generated.model_name.go "$types" # the names alone; what else it writes is written anew
generate "$types" k8s.io/apimachinery/pkg/apis/meta/v1 k8s.io/apimachinery/pkg/runtime k8s.io/apimachinery/pkg/version
