#!/bin/sh
# Copyright The Roster Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Builds the binaries that bin/testbed starts into e2e/testbed/bin, each once per version: a stamp
# beside it holds the hash of what it was built from. GO names the go command (default: go).
#
#	build.sh           everything, of the newest Kubernetes that is supported
#	build.sh oldest    the API server of the oldest one, as kube-apiserver-oldest
set -eu
cd "$(dirname "$0")"

GO=${GO:-go}
BIN=$PWD/bin

# The API server comes before the others of Kubernetes: it is what most of them share.
case ${1:-newest} in
newest)
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
	takes="about 5 minutes from nothing on two cores"
	targets='
kube-apiserver-oldest   k8s.io/kubernetes/cmd/kube-apiserver
'
	cd oldest
	;;
*)
	echo "testbed: build.sh takes newest or oldest, not $1" >&2
	exit 2
	;;
esac

KUBERNETES=$(awk '/k8s.io\/kubernetes v1/ {for (i = 1; i < NF; i++) if ($i == "k8s.io/kubernetes") print $(i + 1)}' go.mod)
LDFLAGS="-s -w \
	-X k8s.io/component-base/version.gitVersion=$KUBERNETES \
	-X k8s.io/client-go/pkg/version.gitVersion=$KUBERNETES"

# The build must not depend on the settings of the machine that it runs on.
export CGO_ENABLED=0 GOFLAGS= GOWORK=off GOOS= GOARCH=

mkdir -p "$BIN/.built"
key=$({ cat go.mod go.sum; echo "$LDFLAGS"; "$GO" env GOVERSION GOOS GOARCH; } | sha256sum | cut -d' ' -f1)

missing=
for name in $(echo "$targets" | awk '{print $1}'); do
	if [ ! -x "$BIN/$name" ] || [ "$(cat "$BIN/.built/$name" 2>/dev/null)" != "$key" ]; then
		missing="$missing $name"
	fi
done
if [ -z "$missing" ]; then
	echo "testbed: binaries are up to date (Kubernetes $KUBERNETES)"
	exit 0
fi

total=$(echo $missing | wc -w)
began=$(date +%s)
done=0
echo "testbed: building$missing for Kubernetes $KUBERNETES ($takes)"
for name in $missing; do
	done=$((done + 1))
	package=$(echo "$targets" | awk -v n="$name" '$1 == n {print $2}')
	started=$(date +%s)
	echo "testbed: [$done/$total] $name: building"
	"$GO" build -trimpath -buildvcs=false -o "$BIN/$name.new" -ldflags "$LDFLAGS" "$package" &
	build=$!
	# A line every half minute, so that a long link does not look like a hang.
	trap 'kill "$build" 2>/dev/null; exit 130' INT TERM
	ticks=0
	while kill -0 "$build" 2>/dev/null; do
		sleep 1
		ticks=$((ticks + 1))
		if [ $((ticks % 30)) -eq 0 ]; then
			echo "testbed: [$done/$total] $name: still building after $(($(date +%s) - started)) s"
		fi
	done
	wait "$build"
	mv "$BIN/$name.new" "$BIN/$name"
	echo "$key" >"$BIN/.built/$name"
	echo "testbed: [$done/$total] $name: built in $(($(date +%s) - started)) s"
done
echo "testbed: done in $(($(date +%s) - began)) s"
