// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Command agent is the Roster agent of one Kubernetes cluster: `agent run`.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/roster-mesh/roster/agent"
	"github.com/roster-mesh/roster/agent/tuning"
)

// What the linker sets: the version, the commit and the commit's date.
//
//nolint:gochecknoglobals // the linker sets nothing else
var (
	version = "dev"
	commit  = "unknown"
	date    = "unknown"
)

// Exit codes: 0 after a signal, 1 when the agent cannot go on, 2 when the command line is wrong.
const (
	exitFailed = 1
	exitUsage  = 2
)

// errLogged marks an error that is in the log already.
var errLogged = errors.New("logged")

// errUsage marks an error in the command line, the environment or the configuration file.
var errUsage = errors.New("usage")

func main() {
	tuning.Start()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main without the process. An error is one line on stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := newApp(stdout, stderr).RunContext(ctx, args)
	if err == nil {
		return 0
	}
	if errors.Is(err, errLogged) {
		return exitFailed
	}
	fmt.Fprintf(stderr, "agent: %s\n", strings.ReplaceAll(strings.TrimPrefix(err.Error(), errUsage.Error()+": "), "\n", "; "))
	if errors.Is(err, errUsage) {
		return exitUsage
	}
	return exitFailed
}

func newApp(stdout, stderr io.Writer) *cli.App {
	usage := func(_ *cli.Context, err error, _ bool) error {
		return fmt.Errorf("%w: %w; see agent run --help", errUsage, err)
	}
	return &cli.App{
		Name:            "agent",
		Usage:           "keeps one list of Kubernetes clusters in all of them, and copies what sync rules name",
		Version:         version,
		Writer:          stdout,
		ErrWriter:       stderr,
		HideHelpCommand: true,
		ExitErrHandler:  func(*cli.Context, error) {}, // run prints and chooses the code
		OnUsageError:    usage,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return fmt.Errorf("%w: there is no command %q; the commands are run, crds apply, probe and version", errUsage, c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
		Commands: []*cli.Command{{
			Name:         "run",
			Usage:        "run the agent of the cluster that --kubeconfig leads to, or of the one that it runs in",
			Flags:        runFlags(),
			Before:       fromFile,
			OnUsageError: usage,
			Action:       func(c *cli.Context) error { return runAgent(c, stderr) },
		}, crdsCommand(stderr, usage), probeCommand(stdout, usage), {
			Name:         "version",
			Usage:        "print the version, and the commit that it was built from",
			OnUsageError: usage,
			Action:       printVersion,
		}},
	}
}

func printVersion(c *cli.Context) error {
	if c.Args().Present() {
		return fmt.Errorf("%w: version takes no argument, and %q is one", errUsage, c.Args().First())
	}
	_, err := fmt.Fprintf(c.App.Writer, "agent %s (commit %s of %s, %s, %s/%s)\n", version, commit, date, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

func runAgent(c *cli.Context, stderr io.Writer) error {
	if c.Args().Present() {
		return fmt.Errorf("%w: run takes flags only, and %q is none", errUsage, c.Args().First())
	}
	log, err := newLogger(stderr, c.String("log-format"), c.String("log-level"))
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	local, err := localServer(c, stderr)
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	options := agent.Options{
		Local:              local,
		Kubeconfig:         c.String("kubeconfig"),
		Namespace:          c.String("namespace"),
		ClusterName:        c.String("cluster-name"),
		ClusterLabels:      c.StringSlice("cluster-labels"),
		DataDir:            c.String("data-dir"),
		MeshListen:         c.String("mesh-listen"),
		MeshAdvertise:      c.String("mesh-advertise"),
		MeshService:        c.String("mesh-service"),
		GroupPeers:         c.StringSlice("group-peers"),
		GroupAddress:       c.String("group-address"),
		KeepTrying:         c.Bool("keep-trying"),
		HTTPListen:         c.String("http-listen"),
		APIServerEndpoint:  c.String("apiserver-endpoint"),
		NetworkName:        c.String("network-name"),
		ManageSecret:       c.Bool("manage-secret"),
		LegacyToken:        c.Bool("legacy-token"),
		CoreResourceSource: c.Bool("core-resource-source"),
		Workers:            c.Int("workers"),
		KubeAPIQPS:         c.Int("kube-api-qps"),
		Tombstones:         c.Int("tombstones"),
		ConsentKinds:       c.StringSlice("consent-kinds"),
		ConsentSecretTypes: c.StringSlice("consent-secret-types"),
		ConsentSecretsAs:   c.StringSlice("consent-secrets-as"),
		ConsentNamespaces:  c.StringSlice("consent-namespaces"),
		TrustAccept:        c.String("trust-accept"),
		TrustAuthorities:   c.StringSlice("trust-authorities"),
		GuardLive:          c.Bool("guard-live"),
		RenewNamespaces:    c.StringSlice("renew-namespaces"),
		Pprof:              c.Bool("pprof"),
		Version:            version,
		Commit:             commit,
		Log:                log,
	}
	options.Publish.ClusterProfiles = c.Bool("publish-cluster-profiles")
	options.Publish.Namespace, options.Publish.ClusterSet = c.String("publish-namespace"), c.String("publish-cluster-set")
	a, err := agent.New(options)
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	err = a.Run(c.Context)
	if err != nil && c.String("log-format") == "json" {
		log.Error("the agent ends", "error", err)
		return fmt.Errorf("%w: %w", errLogged, err)
	}
	return err
}

// localServer returns nil when the cluster has an API server.
func localServer(c *cli.Context, stderr io.Writer) (*agent.Local, error) {
	switch local := c.String("local"); local {
	case "embedded":
		return &agent.Local{Listen: c.String("local-listen"), LogFormat: c.String("log-format"), LogLevel: c.String("log-level"), Stderr: stderr}, nil
	case "":
		if c.IsSet("local-listen") {
			return nil, errors.New("--local-listen goes with --local embedded")
		}
		return nil, nil
	default:
		return nil, fmt.Errorf("--local: %q is not embedded, the only value", local)
	}
}

// runFlags are the flags of `agent run`. Each is also a variable ROSTER_… and a key of the --config file.
func runFlags() []cli.Flag {
	text := func(name, value, usage string) cli.Flag {
		return &cli.StringFlag{Name: name, Value: value, Usage: usage, EnvVars: env(name)}
	}
	truth := func(name string, usage string) cli.Flag {
		return &cli.BoolFlag{Name: name, Value: true, Usage: usage, EnvVars: env(name)}
	}
	list := func(name, usage string) cli.Flag {
		return &cli.StringSliceFlag{Name: name, Usage: usage, EnvVars: env(name)}
	}
	return []cli.Flag{
		&cli.StringFlag{Name: "config", Usage: "YAML `FILE` with a key for each flag; a flag or variable that is given wins", EnvVars: env("config")},
		text("kubeconfig", "", "`FILE` for the local cluster; without one, the in-cluster configuration"),
		text("local", "", "embedded runs a cluster without Kubernetes in --data-dir, with the program roster-apiserver beside this one"),
		text("local-listen", ":6443", "`HOST:PORT` that the API server of --local embedded listens on"),
		text("namespace", "cluster-registry", "the agent's own `NAMESPACE`"),
		text("cluster-name", "", "`NAME` of the Cluster object that is created when this cluster has none"),
		list("cluster-labels", "`KEY=VALUE` labels of this cluster's Cluster object; others that it has stay"),
		text("data-dir", "/var/lib/roster", "`DIR` where the agent keeps what it knows of all clusters, to go on from there when it starts again; empty keeps it in memory"),
		text("mesh-listen", ":7946", "`HOST:PORT` that the mesh listens on"),
		text("mesh-advertise", "", "`HOST:PORT` that members dial; without it, the listening address"),
		text("mesh-service", "", "`NAMESPACE/NAME` of the Service whose external address members dial, instead of --mesh-advertise"),
		list("group-peers", "`HOST:PORT` of the mesh port of each agent of this cluster, when there are several; one is active at a time"),
		text("group-address", "", "`HOST:PORT` where the other agents of --group-peers reach this one"),
		text("http-listen", ":8080", "`HOST:PORT` of /metrics, /healthz and /readyz; empty turns them off"),
		text("apiserver-endpoint", "", "https `URL` at which peers reach the local API server; without it, found out"),
		text("network-name", "default", "`NETWORK` of this cluster, for peers that have an endpoint per network"),
		text("log-format", "text", "json or text"),
		text("log-level", "info", "debug, info, warn or error"),
		truth("manage-secret", "keep a Secret with a credential that can be swapped"),
		&cli.BoolFlag{Name: "legacy-token", Usage: "let the swapped credential read what readers may, for clusters without mesh, such as those of the existing controller; otherwise it reads the registry alone", EnvVars: env("legacy-token")},
		truth("core-resource-source", "publish this cluster's rules and features; false only receives"),
		&cli.BoolFlag{Name: "keep-trying", Usage: "stay up, not ready, when the start fails for what a person can fix, such as missing rights", EnvVars: env("keep-trying")},
		&cli.IntFlag{Name: "workers", Value: 16, Usage: "how many copies are written at the same time", EnvVars: env("workers")},
		&cli.IntFlag{Name: "kube-api-qps", Usage: "how many requests a second are sent to one API server; 0 is no limit", EnvVars: env("kube-api-qps")},
		&cli.IntFlag{Name: "tombstones", Value: 1000, Usage: "how many deleted rules and features of this cluster are remembered before it announces the others anew", EnvVars: env("tombstones")},
		&cli.BoolFlag{Name: "guard-live", Usage: "stop a rule also when sources of most of its copies are deleted before the agent's eyes", EnvVars: env("guard-live")},
		&cli.BoolFlag{Name: "pprof", Usage: "serve Go's profiles under /debug/pprof/ of --http-listen, for those who may see this agent's memory", EnvVars: env("pprof")},
		list("consent-kinds", "`KIND.GROUP` that gives power over the cluster and that rules may write here all the same"),
		list("consent-secret-types", "`TYPE` of Secrets with credentials that rules may copy from and write here"),
		list("consent-secrets-as", "`KIND.GROUP` that rules may turn Secrets into here, such as ConfigMap"),
		list("consent-namespaces", "`NAMESPACE` that is closed to copies and that rules may write into"),
		&cli.BoolFlag{Name: "publish-cluster-profiles", Usage: "publish each cluster as a ClusterProfile of multicluster.x-k8s.io, and this one as ClusterProperties of about.k8s.io, where those kinds are served", EnvVars: env("publish-cluster-profiles")},
		text("publish-namespace", "", "`NAMESPACE` of the ClusterProfiles; without it, the agent's own"),
		text("publish-cluster-set", "", "`NAME` of the ClusterSet that the clusters of the group are; empty if they are none"),
		list("renew-namespaces", "`NAMESPACE` in which Secrets are kept up to date that ask for the credential for another cluster, as those of agentctl export --renew"),
		text("trust-accept", "all", "what of other clusters takes effect here: all; objects, but not their rules; or none. The annotation local.cluster-registry.k8s.cisco.com/accept of a Cluster wins"),
		list("trust-authorities", "`CLUSTERID` or CLUSTERID/KEY-FINGERPRINT of a member that may admit, for this cluster too, a cluster that was removed from the group"),
	}
}

func env(flag string) []string {
	return []string{"ROSTER_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))}
}

func newLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level: %q is not debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: l}
	switch format {
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	}
	return nil, fmt.Errorf("--log-format: %q is not json or text", format)
}
