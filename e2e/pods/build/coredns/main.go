// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Command coredns is CoreDNS with the plugins that a cluster's DNS needs and no others: those of all the clouds
// make it take several minutes more to build.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	dnsserver.Directives = []string{"errors", "health", "ready", "kubernetes"}
	coremain.Run()
}
