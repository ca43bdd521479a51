// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// errUsage marks what is wrong with the command line.
var errUsage = errors.New("usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "publish: %s\n", err)
		os.Exit(1)
	}
}

// publisher is a release, and where it goes to.
type publisher struct {
	registry, version, commit, builder string

	dist    string
	sign    []string // a command to which REPOSITORY@DIGEST of everything that was pushed is given; none to sign nothing
	pushed  []string // REPOSITORY@DIGEST
	stdout  io.Writer
	options []remote.Option
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	p := &publisher{stdout: stdout, options: []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}}
	flags := flag.NewFlagSet("publish", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&p.registry, "registry", "", "`REGISTRY` with a path, such as registry.example/team")
	flags.StringVar(&p.version, "version", "", "`VERSION` of the release")
	flags.StringVar(&p.commit, "commit", "", "`COMMIT` that it was built from")
	flags.StringVar(&p.builder, "builder", source+"/blob/main/Makefile", "`URI` of who built it")
	flags.StringVar(&p.dist, "dist", "dist", "`DIR` that make release wrote")
	signWith := flags.String("sign-with", "", "`COMMAND` that signs what was pushed, such as cosign sign --yes --key cosign.key; it gets REPOSITORY@DIGEST of each as further arguments")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	switch {
	case flags.NArg() > 0 || p.registry == "" || p.version == "":
		return fmt.Errorf("%w: make publish REGISTRY=registry.example/team", errUsage)
	case len(p.commit) != 40 || strings.Trim(p.commit, "0123456789abcdef") != "":
		// Its provenance would say what nobody can look up.
		return fmt.Errorf("%w: a release is published from a commit without changes, and this is %q", errUsage, p.commit)
	}
	if p.sign = strings.Fields(*signWith); len(p.sign) > 0 {
		// What is pushed and not signed is half a release.
		if _, err := exec.LookPath(p.sign[0]); err != nil {
			return fmt.Errorf("%w: SIGN_WITH: %w", errUsage, err)
		}
	}
	return p.all(ctx)
}

// all pushes the images first: the chart asks for them.
func (p *publisher) all(ctx context.Context) error {
	for _, one := range []struct{ file, to string }{{"roster-agent", "agent"}, {"roster-apiserver", "roster-apiserver"}} {
		if err := p.image(one.file+"-"+p.version, one.to); err != nil {
			return fmt.Errorf("%s: %w", one.file, err)
		}
	}
	if err := p.chart(); err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	if err := p.signAll(ctx); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "\nhelm install cluster-registry-controller oci://%s/charts/agent --version %s --namespace cluster-registry --create-namespace \\\n"+
		"  --set localCluster.name=NAME,image.repository=%s/agent,registry.image.repository=%[1]s/roster-apiserver\n", p.registry, p.version, p.registry)
	return nil
}

// signAll has everything signed that was pushed, by digest: images, chart, and what refers to them.
func (p *publisher) signAll(ctx context.Context) error {
	if len(p.sign) == 0 {
		return nil
	}
	fmt.Fprintf(p.stdout, "\nsigning %d digests with %s\n", len(p.pushed), p.sign[0])
	command := exec.CommandContext(ctx, p.sign[0], slices.Concat(p.sign[1:], p.pushed)...) //nolint:gosec // the command that was asked for
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, p.stdout, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("everything is pushed, and not everything is signed: %s: %w; make publish again signs what is there", p.sign[0], err)
	}
	return nil
}

// image pushes an image for all its platforms, with its SBOM and its provenance.
func (p *publisher) image(file, to string) error {
	index, remove, err := readLayout(filepath.Join(p.dist, file+".tar"))
	if err != nil {
		return err
	}
	defer remove() //nolint:errcheck // it is below the directory for temporary files
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	tag, err := p.free(to, digest)
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(tag, index, p.options...); err != nil {
		return err
	}
	sbom, err := os.ReadFile(filepath.Join(p.dist, file+".spdx.json"))
	if err != nil {
		return err
	}
	subject, err := p.subject(tag, digest)
	if err != nil {
		return err
	}
	if err := p.attach(tag, subject, typeSPDX, sbom); err != nil {
		return err
	}
	return p.attachProvenance(tag, subject)
}

// free returns the tag of this version, unless something else has it.
func (p *publisher) free(to string, digest v1.Hash) (name.Tag, error) {
	tag, err := name.NewTag(p.registry+"/"+to+":"+p.version, name.StrictValidation)
	if err != nil {
		return name.Tag{}, fmt.Errorf("%w: REGISTRY: %w", errUsage, err)
	}
	there, err := remote.Head(tag, p.options...)
	switch {
	case err != nil && !isNotFound(err):
		return name.Tag{}, err
	case err == nil && there.Digest != digest:
		return name.Tag{}, fmt.Errorf("%s is there already and is another one (%s, and this is %s): a version that is published is never replaced", tag, there.Digest, digest)
	}
	fmt.Fprintf(p.stdout, "%s@%s\n", tag, digest)
	p.pushed = append(p.pushed, tag.Digest(digest.String()).String())
	return tag, nil
}

// subject describes what was pushed, for that which refers to it.
func (p *publisher) subject(tag name.Tag, digest v1.Hash) (*v1.Descriptor, error) {
	there, err := remote.Head(tag, p.options...)
	if err != nil {
		return nil, err
	}
	if there.Digest != digest {
		return nil, fmt.Errorf("%s is %s after %s was pushed: somebody else has published it at the same time", tag, there.Digest, digest)
	}
	return &v1.Descriptor{MediaType: there.MediaType, Size: there.Size, Digest: there.Digest}, nil
}
