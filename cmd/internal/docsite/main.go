// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Docsite makes a website of README.md and of all documents that it leads to: one directory of files that any web server can serve,
// and that a browser can open without one. Pages lie where their documents lie in the repository, with .html for .md, and their
// headings have the anchors that they have on GitHub, so a link can be moved from one to the other. The menu is the table in "Read
// on" of README.md. There is no script, and nothing is fetched from elsewhere.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	source := flag.String("source", "https://github.com/roster-mesh/roster/blob/main", "`URL` below which files of the repository can be read that are no documents")
	out := flag.String("out", "dist/site", "`DIR` to write to; what is there already is replaced")
	flag.Parse()
	s, err := read(os.DirFS("."), *source)
	if err == nil {
		err = s.write(*out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "docsite:", err)
		os.Exit(1)
	}
	fmt.Printf("%s/index.html: %d pages\n", *out, len(s.pages))
}
