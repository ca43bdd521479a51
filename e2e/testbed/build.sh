#!/bin/sh
# Copyright The Roster Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Builds the binaries that bin/testbed starts into e2e/testbed/bin. GO names the go command (default: go).
#
#	build.sh           everything, of the newest Kubernetes that is supported
#	build.sh kubectl   of that, kubectl alone
#	build.sh oldest    API server and kubectl of the oldest one, as kube-apiserver-oldest and kubectl-oldest
#	build.sh middle    kubectl of the one between them, as kubectl-middle
set -eu
cd "$(dirname "$0")"
. ../build-once.sh

GO=${GO:-go}
BIN=$PWD/bin

# The API server comes before the others of Kubernetes: it is what most of them share.
case ${1:-newest} in
newest | kubectl)
	takes="about 8 minutes from nothing on two cores"
	targets='
etcd                    go.etcd.io/etcd/server/v3
kube-apiserver          k8s.io/kubernetes/cmd/kube-apiserver
kube-controller-manager k8s.io/kubernetes/cmd/kube-controller-manager
kubectl                 k8s.io/kubernetes/cmd/kubectl
helm                    helm.sh/helm/v4/cmd/helm
'
	;;
oldest)
	takes="about 6 minutes from nothing on two cores"
	targets='
kube-apiserver-oldest   k8s.io/kubernetes/cmd/kube-apiserver
kubectl-oldest          k8s.io/kubernetes/cmd/kubectl
'
	cd oldest
	;;
middle)
	takes="about 2 minutes from nothing on two cores"
	targets='
kubectl-middle          k8s.io/kubernetes/cmd/kubectl
'
	cd middle
	;;
*)
	echo "testbed: build.sh takes newest, kubectl, oldest or middle, not $1" >&2
	exit 2
	;;
esac
names=$(echo "$targets" | awk '{print $1}')
if [ "${1:-}" = kubectl ]; then
	takes="about a minute, or as long as make apiserver beside it"
	names=kubectl
fi

KUBERNETES=$(awk '/k8s.io\/kubernetes v1/ {for (i = 1; i < NF; i++) if ($i == "k8s.io/kubernetes") print $(i + 1)}' go.mod)
LDFLAGS="-s -w \
	-X k8s.io/component-base/version.gitVersion=$KUBERNETES \
	-X k8s.io/client-go/pkg/version.gitVersion=$KUBERNETES"

# The build must not depend on the settings of the machine that it runs on.
export CGO_ENABLED=0 GOFLAGS= GOWORK=off GOOS= GOARCH=

# As in the Makefile: what several programs need is compiled once.
TAGS=grpcnotrace

hash=$({ cat go.mod go.sum; echo "$LDFLAGS $TAGS"; "$GO" env GOVERSION GOOS GOARCH; } | sha256sum | cut -d' ' -f1)
key() { echo "$hash"; }
build() { # build NAME FILE
	exec "$GO" build -trimpath -buildvcs=false -tags "$TAGS" -o "$2" -ldflags "$LDFLAGS" "$(echo "$targets" | awk -v n="$1" '$1 == n {print $2}')"
}

# shellcheck disable=SC2086 # Several names in one word list.
build_once testbed "$BIN" "Kubernetes $KUBERNETES" "$takes" $names
