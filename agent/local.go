// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"path/filepath"

	"github.com/roster-mesh/roster/agent/embedded"
	"github.com/roster-mesh/roster/agent/install"
)

// Local is how the API server of a cluster without Kubernetes is run.
type Local struct {
	Listen              string    // host:port
	LogFormat, LogLevel string    // as those of the agent
	Stderr              io.Writer // where it logs
}

// startLocal starts the API server of a cluster without Kubernetes, and makes the agent use it.
func (a *Agent) startLocal(ctx context.Context) (stop func(), err error) {
	if a.options.Local == nil {
		return func() {}, nil
	}
	local := a.options.Local
	o := embedded.Options{
		DataDir: filepath.Join(a.options.DataDir, "apiserver"), ClusterName: a.options.ClusterName, Listen: local.Listen,
		LogFormat: local.LogFormat, LogLevel: local.LogLevel, Stderr: local.Stderr, Log: a.log,
	}
	if u, err := url.Parse(a.options.APIServerEndpoint); err == nil {
		o.Advertise = u.Hostname()
	}
	if o.Path, err = embedded.Beside(); err != nil {
		return nil, fmt.Errorf("--local embedded: %w", err)
	}
	server, err := embedded.Start(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("--local embedded: %w", err)
	}
	a.options.Kubeconfig = server.Kubeconfig()
	return server.Stop, nil
}

// checkLocal checks what has to go with a cluster without Kubernetes.
func (o *Options) checkLocal(bad func(flag, format string, args ...any)) {
	if o.Local == nil {
		return
	}
	install.CheckLocal(o.Local.Listen, o.Kubeconfig, o.DataDir, bad)
	if o.Namespace != embedded.Namespace {
		bad("namespace", "with --local embedded it is %s", embedded.Namespace)
	}
}
