// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Command roster-apiserver is an API server for clusters without Kubernetes, `roster-apiserver standalone`, and serves the
// registry API behind those of Kubernetes, `roster-apiserver aggregated`.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/roster-mesh/roster/kube/apiserver/etcd"
	"github.com/roster-mesh/roster/kube/apiserver/standalone"
)

// What the linker sets: the version of Roster, its commit and the commit's date.
//
//nolint:gochecknoglobals // the linker sets nothing else
var (
	rosterVersion = "dev"
	commit        = "unknown"
	date          = "unknown"
)

// Exit codes: 0 after a signal, 1 when the server cannot go on, 2 when the command line is wrong.
const (
	exitFailed = 1
	exitUsage  = 2
)

const name = "roster-apiserver"

// errUsage marks an error in the command line.
var errUsage = errors.New("usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main without the process. An error is one line on stderr.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := newApp(stdin, stdout, stderr).RunContext(ctx, args) //nolint:contextcheck // Actions get it in their own context.
	if err == nil {
		return 0
	}
	fmt.Fprint(stderr, lastWords(err))
	if errors.Is(err, errUsage) {
		return exitUsage
	}
	return exitFailed
}

// lastWords is the line that says why the program ends.
func lastWords(err error) string {
	return name + ": " + strings.ReplaceAll(strings.TrimPrefix(err.Error(), errUsage.Error()+": "), "\n", "; ") + "\n"
}

// fatal ends the program where it cannot return.
func fatal(stderr io.Writer) func(error) {
	return func(err error) {
		fmt.Fprint(stderr, lastWords(err))
		os.Exit(exitFailed)
	}
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *cli.App {
	usage := func(c *cli.Context, err error, _ bool) error {
		return fmt.Errorf("%w: %w; see %s --help", errUsage, err, cmp.Or(c.Command.HelpName, name))
	}
	return &cli.App{
		Name:            name,
		Usage:           "serves the Kubernetes API to clusters without Kubernetes",
		Version:         rosterVersion,
		Writer:          stdout,
		ErrWriter:       stderr,
		HideHelpCommand: true,
		ExitErrHandler:  func(*cli.Context, error) {}, // run prints and chooses the code
		OnUsageError:    usage,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return fmt.Errorf("%w: there is no command %q; the commands are standalone, aggregated, add, remove-member, snapshot and version", errUsage, c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
		Commands: append(dataCommands(usage, stdout, stderr), []*cli.Command{aggregatedCommand(usage, stdout, stderr), {
			Name:         "standalone",
			Usage:        "serve the kinds that need no nodes, on an etcd in the same process",
			Flags:        standaloneFlags(),
			OnUsageError: usage,
			Action:       func(c *cli.Context) error { return runStandalone(c, stdin, stdout, stderr) },
		}, {
			Name:   "check-data",
			Hidden: true, // standalone runs it on its own data
			Action: func(c *cli.Context) error { return etcd.Check(c.Args().First()) },
		}, {
			Name:         "version",
			Usage:        "print the version, that of Kubernetes, and the commit that it was built from",
			OnUsageError: usage,
			Action: func(*cli.Context) error {
				_, err := fmt.Fprintf(stdout, "roster-apiserver %s (Kubernetes %s, commit %s of %s)\n", rosterVersion, standalone.KubernetesVersion(), commit, date)
				return err
			},
		}}...),
	}
}

func standaloneFlags() []cli.Flag {
	text := func(flag, value, usage string) cli.Flag {
		return &cli.StringFlag{Name: flag, Value: value, Usage: usage, EnvVars: env(flag)}
	}
	list := func(flag, usage string) cli.Flag {
		return &cli.StringSliceFlag{Name: flag, Usage: usage, EnvVars: env(flag)}
	}
	return []cli.Flag{
		text("data-dir", "", "`DIR` where the server keeps everything: data, keys and kubeconfigs"),
		text("cluster-name", "", "`NAME` of the cluster that --data-dir belongs to"),
		text("listen", "127.0.0.1:6443", "`HOST:PORT` that the server listens on"),
		list("advertise", "`HOST`, a name or an address, at which callers reach the server, for its certificate"),
		text("ca", "", "`DIR` with a CA in tls.crt and tls.key, such as a mounted Secret, for the first start; without one, the server makes its own"),
		text("peer-listen", "", "`HOST:PORT` at which other servers of the same cluster will reach this one; it is remembered"),
		text("bundle", "", "`FILE` that roster-apiserver add has written, for the first start of another server of a cluster"),
		list("etcd-servers", "`URL` of an etcd outside of this process; without one, etcd runs in it"),
		text("etcd-cafile", "", "`FILE` with the CA of --etcd-servers"),
		text("etcd-certfile", "", "`FILE` with the certificate that --etcd-servers know this server by"),
		text("etcd-keyfile", "", "`FILE` with the key of --etcd-certfile"),
		text("encryption-provider-config", "", "`FILE` that says how Secrets are encrypted in etcd; without one, with a key in --data-dir, which protects copies of etcd/ that are made without it, and not that directory"),
		text("token-auth-file", "", "`FILE` in CSV with static tokens: token, user, uid, groups"),
		text("authentication-config", "", "`FILE` with an AuthenticationConfiguration, for OpenID Connect"),
		text("authorization-config", "", "`FILE` with an AuthorizationConfiguration, such as one with a webhook; without one, RBAC decides"),
		text("log-format", "text", "json or text"),
		text("log-level", "info", "debug, info, warn or error"),
		&cli.BoolFlag{Name: "until-stdin-closes", Usage: "end when standard input does, for a process that starts this one and must not outlive it", EnvVars: env("until-stdin-closes")},
	}
}

func env(flag string) []string {
	return []string{"ROSTER_APISERVER_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))}
}

func runStandalone(c *cli.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	if c.Args().Present() {
		return fmt.Errorf("%w: standalone takes flags only, and %q is none", errUsage, c.Args().First())
	}
	if c.String("data-dir") == "" {
		return fmt.Errorf("%w: --data-dir is required: name a directory of this cluster's own", errUsage)
	}
	if cluster := c.String("cluster-name"); cluster != "" {
		if wrong := validation.IsDNS1123Subdomain(cluster); len(wrong) > 0 {
			return fmt.Errorf("%w: --cluster-name: %q is not a valid object name: %s", errUsage, cluster, wrong[0])
		}
	}
	if _, _, err := net.SplitHostPort(c.String("listen")); err != nil {
		return fmt.Errorf("%w: --listen: %q is not HOST:PORT", errUsage, c.String("listen"))
	}
	if len(c.StringSlice("etcd-servers")) == 0 && (c.IsSet("etcd-cafile") || c.IsSet("etcd-certfile") || c.IsSet("etcd-keyfile")) {
		return fmt.Errorf("%w: --etcd-cafile, --etcd-certfile and --etcd-keyfile go with --etcd-servers", errUsage)
	}
	if err := checkPeerFlags(c); err != nil {
		return err
	}
	log, serving, err := newLogger(stderr, c.String("log-format"), c.String("log-level"), fatal(stderr))
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	ctx, stop := context.WithCancel(c.Context)
	defer stop()
	if c.Bool("until-stdin-closes") {
		go func() {
			_, _ = io.Copy(io.Discard, stdin) // it ends with the process that holds the other end, however that ends
			stop()
		}()
	}
	return standalone.Run(ctx, standalone.Options{
		DataDir:        c.String("data-dir"),
		Name:           c.String("cluster-name"),
		Listen:         c.String("listen"),
		Advertise:      c.StringSlice("advertise"),
		CA:             c.String("ca"),
		PeerListen:     c.String("peer-listen"),
		Bundle:         c.String("bundle"),
		EtcdServers:    c.StringSlice("etcd-servers"),
		EtcdCAFile:     c.String("etcd-cafile"),
		EtcdCertFile:   c.String("etcd-certfile"),
		EtcdKeyFile:    c.String("etcd-keyfile"),
		Encryption:     c.String("encryption-provider-config"),
		TokenFile:      c.String("token-auth-file"),
		Authentication: c.String("authentication-config"),
		Authorization:  c.String("authorization-config"),
		Check:          checkData,
		Ready: func() {
			serving(true)
			context.AfterFunc(ctx, func() { serving(false) })
			fmt.Fprintln(stdout, "ready")
		},
		Fatal: fatal(stderr),
		Log:   log,
	})
}

// checkData reads etcd's data in a process of its own, because a damaged page can crash the one that reads it.
func checkData(ctx context.Context, dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, "check-data", dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && ctx.Err() == nil {
		if line, ok := strings.CutPrefix(stderr.String(), name+": "); ok && exit.ExitCode() == exitFailed {
			return errors.New(strings.TrimSpace(line))
		}
		return fmt.Errorf("%s: %w", filepath.Join(dir, "member", "snap", "db"), etcd.ErrBroken) // the check crashed on it
	}
	return err
}
