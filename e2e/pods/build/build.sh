#!/bin/sh
# Copyright The Roster Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Builds what a node of e2e/pods runs beside the testbed's binaries into e2e/pods/bin. GO names the go command
# (default: go).
set -eu
cd "$(dirname "$0")"
. ../../build-once.sh

GO=${GO:-go}
KUBERNETES=v1.37.2 # as in kubernetes/go.mod
BIN=$(dirname "$PWD")/bin

# The build must not depend on the settings of the machine that it runs on.
export GOFLAGS= GOWORK=off GOOS= GOARCH= CGO_CFLAGS= CGO_LDFLAGS=

STAMPS="-X k8s.io/component-base/version.gitVersion=$KUBERNETES -X k8s.io/client-go/pkg/version.gitVersion=$KUBERNETES"
CONTAINERD="-X github.com/containerd/containerd/v2/version.Version=$(awk '/containerd\/containerd\/v2 v/ {print $2}' containerd/go.mod)"

# name, its module here, its package, cgo, build tags. Without seccomp runc refuses pods that ask for a profile;
# grpcnotrace is as in ../../testbed, with whose programs most of Kubernetes is compiled once.
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
kubelet                 kubernetes k8s.io/kubernetes/cmd/kubelet                                   0 grpcnotrace
kube-proxy              kubernetes k8s.io/kubernetes/cmd/kube-proxy                                0 grpcnotrace
kube-scheduler          kubernetes k8s.io/kubernetes/cmd/kube-scheduler                            0 grpcnotrace
'
names=$(echo "$targets" | awk '{print $1}')
field() { echo "$targets" | awk -v n="$1" -v f="$2" '$1 == n {print $f}'; }

key() { # key NAME
	module=$(field "$1" 2)
	{
		cat "$module"/go.* "$module"/*.go 2>/dev/null || :
		field "$1" 0
		echo "$STAMPS $CONTAINERD"
		"$GO" env GOVERSION GOOS GOARCH
	} | sha256sum | cut -d' ' -f1
}

build() { # build NAME FILE
	export CGO_ENABLED="$(field "$1" 4)"
	exec "$GO" -C "$(field "$1" 2)" build -trimpath -buildvcs=false -tags "$(field "$1" 5)" \
		-ldflags "-s -w $STAMPS $CONTAINERD" -o "$2" "$(field "$1" 3)"
}

# shellcheck disable=SC2086 # Several names in one word list.
build_once pods "$BIN" "Kubernetes $KUBERNETES" "about 8 minutes from nothing on two cores" $names
