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
// use everything that a kubeconfig can, unlike what a peer sends (see ParseKubeconfig).
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
		return nil, fmt.Errorf("kubeconfig %s: no current-context: set one with kubectl config use-context", kubeconfig)
	}
	if file.Contexts[name] == nil {
		return nil, fmt.Errorf("kubeconfig %s: no context %q", kubeconfig, name)
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
		// The path is in the message already.
		if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
			err = pathErr.Err
		}
		return nil, fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	file, err := clientcmd.Load(data)
	if err != nil {
		// The parser quotes the input, which may be a key.
		return nil, fmt.Errorf("kubeconfig %s: not a kubeconfig file", path)
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

// withDefaults sets what all connections of an agent have in common. The API server limits an agent by
// API Priority and Fairness; a client-side limit would only add delay.
func withDefaults(cfg *rest.Config) *rest.Config {
	cfg.QPS = -1
	cfg.UserAgent = UserAgent()
	cfg.WarningHandler = rest.NoWarnings{}
	cfg.Timeout = 0 // it would end watches; each request has a timeout of its own
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

// RouteClientLogs sends the log of the Kubernetes client libraries to log, at level debug: each error
// that matters is returned to this package's callers, and would be logged twice. The libraries have
// one logger per process, so a program calls this once, before anything else.
func RouteClientLogs(log *slog.Logger) {
	klog.SetSlogLogger(slog.New(debugHandler{log.Handler()}))
}

// debugHandler logs every record at level debug, and drops those of klog's own verbosity levels, which reach slog as
// levels below info: from -v=8 on they contain whole requests and responses, and so tokens and Secrets.
type debugHandler struct{ slog.Handler }

func (d debugHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelInfo && d.Handler.Enabled(ctx, slog.LevelDebug)
}

func (d debugHandler) Handle(ctx context.Context, r slog.Record) error {
	if !d.Enabled(ctx, r.Level) {
		return nil // klog does not call Enabled
	}
	r.Level = slog.LevelDebug
	return d.Handler.Handle(ctx, r)
}

func (d debugHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return debugHandler{d.Handler.WithAttrs(attrs)}
}

func (d debugHandler) WithGroup(name string) slog.Handler {
	return debugHandler{d.Handler.WithGroup(name)}
}
