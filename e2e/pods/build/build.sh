#!/bin/sh
# Copyright The Roster Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Builds what a node of e2e/pods runs beside the testbed's binaries into e2e/pods/bin, each once per version: a
# stamp beside it holds the hash of what it was built from. GO names the go command (default: go).
set -eu
cd "$(dirname "$0")"

GO=${GO:-go}
KUBERNETES=v1.36.3 # as in kubernetes/go.mod
BIN=$(dirname "$PWD")/bin

# The build must not depend on the settings of the machine that it runs on.
export GOFLAGS= GOWORK=off GOOS= GOARCH= CGO_CFLAGS= CGO_LDFLAGS=

STAMPS="-X k8s.io/component-base/version.gitVersion=$KUBERNETES -X k8s.io/client-go/pkg/version.gitVersion=$KUBERNETES"
CONTAINERD="-X github.com/containerd/containerd/v2/version.Version=$(awk '/containerd\/containerd\/v2 v/ {print $2}' containerd/go.mod)"

# name, its module here, its package, cgo, build tags. Without seccomp runc refuses pods that ask for a profile.
targets='
containerd              containerd github.com/containerd/containerd/v2/cmd/containerd              0 no_btrfs,no_zfs,no_devmapper
containerd-shim-runc-v2 containerd github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2 0 no_grpc
ctr                     containerd github.com/containerd/containerd/v2/cmd/ctr                     0 no_btrfs,no_zfs,no_devmapper
coredns                 coredns    .                                                               0 none
pause                   pause      .                                                               0 none
runc                    kubernetes github.com/opencontainers/runc                                  1 seccomp
host-local              kubernetes github.com/containernetworking/plugins/plugins/ipam/host-local  0 none
loopback                kubernetes github.com/containernetworking/plugins/plugins/main/loopback    0 none
ptp                     kubernetes github.com/containernetworking/plugins/plugins/main/ptp         0 none
portmap                 kubernetes github.com/containernetworking/plugins/plugins/meta/portmap     0 none
kubelet                 kubernetes k8s.io/kubernetes/cmd/kubelet                                   0 none
kube-proxy              kubernetes k8s.io/kubernetes/cmd/kube-proxy                                0 none
kube-scheduler          kubernetes k8s.io/kubernetes/cmd/kube-scheduler                            0 none
'
names=$(echo "$targets" | awk '{print $1}')
field() { echo "$targets" | awk -v n="$1" -v f="$2" '$1 == n {print $f}'; }

mkdir -p "$BIN/.built"
key() { # key NAME
	module=$(field "$1" 2)
	{
		cat "$module"/go.* "$module"/*.go 2>/dev/null || :
		field "$1" 0
		echo "$STAMPS $CONTAINERD"
		"$GO" env GOVERSION GOOS GOARCH
	} | sha256sum | cut -d' ' -f1
}

missing=
for name in $names; do
	if [ ! -x "$BIN/$name" ] || [ "$(cat "$BIN/.built/$name" 2>/dev/null)" != "$(key "$name")" ]; then
		missing="$missing $name"
	fi
done
if [ -z "$missing" ]; then
	echo "pods: binaries are up to date (Kubernetes $KUBERNETES)"
	exit 0
fi

total=$(echo "$missing" | wc -w)
began=$(date +%s)
done=0
echo "pods: building$missing (about 8 minutes from nothing on two cores)"
for name in $missing; do
	done=$((done + 1))
	started=$(date +%s)
	echo "pods: [$done/$total] $name: building"
	CGO_ENABLED=$(field "$name" 4) "$GO" -C "$(field "$name" 2)" build -trimpath -buildvcs=false -tags "$(field "$name" 5)" \
		-ldflags "-s -w $STAMPS $CONTAINERD" -o "$BIN/$name.new" "$(field "$name" 3)" &
	build=$!
	# A line every half minute, so that a long link does not look like a hang.
	trap 'kill "$build" 2>/dev/null; exit 130' INT TERM
	ticks=0
	while kill -0 "$build" 2>/dev/null; do
		sleep 1
		ticks=$((ticks + 1))
		if [ $((ticks % 30)) -eq 0 ]; then
			echo "pods: [$done/$total] $name: still building after $(($(date +%s) - started)) s"
		fi
	done
	wait "$build"
	mv "$BIN/$name.new" "$BIN/$name"
	key "$name" >"$BIN/.built/$name"
	echo "pods: [$done/$total] $name: built in $(($(date +%s) - started)) s"
done
echo "pods: done in $(($(date +%s) - began)) s"
