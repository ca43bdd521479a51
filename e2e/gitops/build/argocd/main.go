// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Command redis serves what the parts of Argo CD share, from memory, at the address that is its argument.
package main

import (
	"fmt"
	"os"

	"github.com/alicebob/miniredis/v2"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: redis ADDRESS")
		os.Exit(2)
	}
	if err := miniredis.NewMiniRedis().StartAddr(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "redis:", err)
		os.Exit(1)
	}
	select {} // until a signal ends it
}
