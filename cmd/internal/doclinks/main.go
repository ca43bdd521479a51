// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Doclinks checks what documents lead to. make verify runs it.
//
//   - A link of a Markdown document within the repository leads to a file or folder that is there, and its anchor to a
//     heading, under the name that GitHub gives it.
//   - So does a document below docs or charts that any other file but a test names, with or without an anchor, or its
//     address on GitHub: in a message of a program, a comment, an alert or a value of the chart.
//   - A path in backticks in docs/development.md is there, and so is a test in backticks in any document.
//
// Links to other places are not followed: no check asks the network.
package main

import (
	"fmt"
	"os"
)

func main() {
	problems, err := check(os.DirFS("."))
	for _, p := range problems {
		fmt.Fprintln(os.Stderr, "doclinks:", p)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "doclinks:", err)
	}
	if err != nil || len(problems) > 0 {
		os.Exit(1)
	}
}
