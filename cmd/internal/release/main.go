// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
)

// errUsage marks what is wrong with the command line.
var errUsage = errors.New("usage")

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "release: %s\n", err)
		os.Exit(1)
	}
}

// release is one version of everything, and where its parts come from and go to.
type release struct {
	version   string
	commit    string
	date      time.Time
	images    []image
	platforms []platform // of the images
	limit     int64      // of what a node downloads of an image, in bytes
	chart     string
	host      string // an agentctl that runs on this machine, for its completion scripts
	license   string
	modules   string // Go's module cache, where the licences of others are
	goroot    string // and its own
	out       string
	// compression is the level of gzip for the archive of the demo.
	compression int

	binary  func(name string, p platform) (*binary, error)
	written []string // names in out
}

func run(args []string, stdout io.Writer) error {
	r, what, err := parse(args)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	if what == verbDemo {
		return r.writeDemo(stdout)
	}
	for _, i := range r.images {
		if what != verbAll && what != i.verb {
			continue
		}
		if err := r.writeImage(stdout, i); err != nil {
			return err
		}
	}
	if what != verbAll {
		return nil
	}
	for _, step := range []func() error{r.writeArchives, r.writeKrew, r.writeChart, r.writeSums} {
		if err := step(); err != nil {
			return err
		}
	}
	for _, path := range r.written {
		fmt.Fprintln(stdout, filepath.Join(r.out, path))
	}
	return nil
}

const (
	verbAll  = "all"  // writes everything that people install
	verbDemo = "demo" // writes the archive of the demo, for one platform
)

func parse(args []string) (*release, string, error) {
	r := &release{limit: maxImage, images: images()}
	var date, binaries, platforms string
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&r.version, "version", "", "`VERSION` of everything, and tag of the images")
	flags.StringVar(&r.commit, "commit", "unknown", "`COMMIT` that it was built from")
	flags.StringVar(&date, "date", "", "`TIME` of the commit, which all files get")
	for i := range r.images {
		flags.StringVar(&r.images[i].repository, r.images[i].verb, r.images[i].repository, "`NAME` of the image with "+r.images[i].programs[0]+", without a tag")
	}
	flags.StringVar(&platforms, "platforms", "linux/amd64 linux/arm64", "`LIST` of the platforms of an image, for who needs one only")
	flags.StringVar(&binaries, "binaries", "bin/release", "`DIR` that has one OS_ARCH for each platform, with its binaries")
	flags.StringVar(&r.chart, "chart", "charts/agent", "`DIR` of the chart")
	flags.StringVar(&r.host, "agentctl", "bin/agentctl", "`FILE` of an agentctl that runs here")
	flags.StringVar(&r.license, "license", "LICENSE", "`FILE` of the licence")
	flags.StringVar(&r.modules, "modules", "", "`DIR` of Go's module cache (go env GOMODCACHE)")
	flags.StringVar(&r.goroot, "goroot", "", "`DIR` of Go (go env GOROOT)")
	flags.IntVar(&r.compression, "demo-compression", gzip.BestCompression, "`LEVEL` of gzip for the demo's archive, 1 for who only tries it")
	flags.StringVar(&r.out, "out", "dist", "`DIR` to write to")
	if err := flags.Parse(args); err != nil {
		return nil, "", fmt.Errorf("%w: %w", errUsage, err)
	}
	what := flags.Arg(0)
	if flags.NArg() != 1 || what != verbAll && what != verbDemo && !slices.ContainsFunc(r.images, func(i image) bool { return i.verb == what }) {
		return nil, "", fmt.Errorf("%w: say what to write, image, demo, image-apiserver or all", errUsage)
	}
	// A tag has no place for build metadata, and Helm wants a whole version.
	if v, err := semver.StrictNewVersion(r.version); err != nil || v.Metadata() != "" {
		return nil, "", fmt.Errorf("%w: -version: %q is not a version such as 1.2.3 or 1.2.3-rc.1", errUsage, r.version)
	}
	if err := checkNames(r.images); err != nil {
		return nil, "", err
	}
	for p := range strings.FieldsSeq(platforms) {
		at := slices.IndexFunc(imagePlatforms(), func(known platform) bool { return known.String() == p })
		if at < 0 {
			return nil, "", fmt.Errorf("%w: -platforms: %q is none of %s", errUsage, p, imagePlatforms())
		}
		r.platforms = append(r.platforms, imagePlatforms()[at])
	}
	var err error
	if r.date, err = time.Parse(time.RFC3339, date); err != nil {
		return nil, "", fmt.Errorf("%w: -date: %q is not a time such as 2026-01-02T03:04:05Z", errUsage, date)
	}
	r.date = r.date.UTC()
	r.binary = func(name string, p platform) (*binary, error) { return readBinary(binaries, name, p) }
	return r, what, nil
}

func checkNames(images []image) error {
	name := regexp.MustCompile(`^[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+$`)
	for _, i := range images {
		if !name.MatchString(i.repository) || !strings.ContainsAny(strings.Split(i.repository, "/")[0], ".:") {
			return fmt.Errorf("%w: -%s: %q is not a name such as registry.example/team/agent: host first, no tag", errUsage, i.verb, i.repository)
		}
	}
	return nil
}

// create writes a file below out, whole or not at all.
func (r *release) create(name string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(r.out, "."+name+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // it is gone when all went well
	if err := errors.Join(write(f), f.Chmod(0o644), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.Rename(f.Name(), filepath.Join(r.out, name)); err != nil {
		return err
	}
	r.written = append(r.written, name)
	return nil
}
