// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime/debug"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"
)

// LoadConfig reads the configuration of the local API server: from the kubeconfig file, or, when
// the path is empty, from the pod that the program runs in. The file is the operator's own and may
// use everything a kubeconfig can, other than what a peer hands over (see ParseKubeconfig).
func LoadConfig(kubeconfig string) (*rest.Config, error) {
	return LoadContext(kubeconfig, "")
}

// LoadContext is LoadConfig for one named context of the file; "" is its current context.
func LoadContext(kubeconfig, name string) (*rest.Config, error) {
	if kubeconfig == "" {
		cfg, err := rest.InClusterConfig()
		if err != nil {
			return nil, errors.New("no --kubeconfig given and not running in a cluster: name a kubeconfig file")
		}
		return withDefaults(cfg), nil
	}
	file, err := loadFile(kubeconfig)
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = file.CurrentContext
	}
	if name == "" {
		return nil, fmt.Errorf("kubeconfig %s: has no current-context: set one with kubectl config use-context", kubeconfig)
	}
	if file.Contexts[name] == nil {
		return nil, fmt.Errorf("kubeconfig %s: has no context %q", kubeconfig, name)
	}
	cfg, err := clientcmd.NewNonInteractiveClientConfig(*file, name, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: context %q: %s", kubeconfig, name, oneLine(err.Error()))
	}
	return withDefaults(cfg), nil
}

func loadFile(path string) (*clientcmdapi.Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		// The path is said once, at the front.
		if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
			err = pathErr.Err
		}
		return nil, fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	file, err := clientcmd.Load(data)
	if err != nil {
		// The parser quotes what it stumbled on, which may be a key.
		return nil, fmt.Errorf("kubeconfig %s: is not a kubeconfig file", path)
	}
	for _, c := range file.Clusters {
		c.LocationOfOrigin = path
	}
	for _, a := range file.AuthInfos {
		a.LocationOfOrigin = path
	}
	if err := clientcmd.ResolveLocalPaths(file); err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	return file, nil
}

// withDefaults sets what every connection of an agent has in common. The API server's priority and
// fairness decides how much an agent may ask; a limit here would only make it late.
func withDefaults(cfg *rest.Config) *rest.Config {
	cfg.QPS = -1
	cfg.UserAgent = UserAgent()
	cfg.WarningHandler = rest.NoWarnings{}
	cfg.Timeout = 0 // it would end watches; requests have their own
	return cfg
}

// UserAgent names this program and its version to API servers.
func UserAgent() string {
	version := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		version = info.Main.Version
	}
	return "roster-agent/" + version
}

// RouteClientLogs sends what the Kubernetes client libraries log by themselves to log, at level
// debug: each error that matters is returned to, or reported by, this package's callers, and would
// be said twice. The libraries have one logger per process, so a program calls this once, first.
func RouteClientLogs(log *slog.Logger) {
	klog.SetSlogLogger(slog.New(demoted{log.Handler()}))
}

// demoted makes every record a debug record, and drops those of klog's own finer levels, which reach slog as
// levels below info: from the eighth on they hold whole requests and responses, and so tokens and Secrets.
type demoted struct{ slog.Handler }

func (d demoted) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelInfo && d.Handler.Enabled(ctx, slog.LevelDebug)
}

func (d demoted) Handle(ctx context.Context, r slog.Record) error {
	if !d.Enabled(ctx, r.Level) {
		return nil // klog does not ask
	}
	r.Level = slog.LevelDebug
	return d.Handler.Handle(ctx, r)
}

func (d demoted) WithAttrs(attrs []slog.Attr) slog.Handler {
	return demoted{d.Handler.WithAttrs(attrs)}
}

func (d demoted) WithGroup(name string) slog.Handler { return demoted{d.Handler.WithGroup(name)} }
