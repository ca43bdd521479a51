// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/urfave/cli/v2"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/kube/apiserver/aggregated"
	"github.com/roster-mesh/roster/kube/apiserver/standalone"
)

func aggregatedCommand(usage cli.OnUsageErrorFunc, stdout, stderr io.Writer) *cli.Command {
	text := func(flag, value, usage string) cli.Flag {
		return &cli.StringFlag{Name: flag, Value: value, Usage: usage, EnvVars: env(flag)}
	}
	return &cli.Command{
		Name:  "aggregated",
		Usage: "serve the registry API (clusterregistry.k8s.io) behind a Kubernetes API server",
		Flags: []cli.Flag{
			text("kubeconfig", "", "`FILE` for the Kubernetes API server; without one, the pod's own account"),
			text("listen", ":8443", "`HOST:PORT` that the server listens on"),
			text("namespace", v1alpha1.DefaultNamespace, "`NAMESPACE` of --service"),
			text("service", "cluster-registry-api", "`NAME` of the Service that the APIService names; the certificate is for it"),
			text("secret-namespace", v1alpha1.PrivateNamespace(v1alpha1.DefaultNamespace), "`NAMESPACE` of the Secret with the CA that signs the certificate; it is named like --service"),
			text("tls-cert-file", "", "`FILE` with a certificate of your own; then there is no such Secret, and the caBundle of the APIService is yours to set"),
			text("tls-private-key-file", "", "`FILE` with the key of --tls-cert-file"),
			text("log-format", "text", "json or text"),
			text("log-level", "info", "debug, info, warn or error"),
		},
		OnUsageError: usage,
		Action:       func(c *cli.Context) error { return runAggregated(c, stdout, stderr) },
	}
}

func runAggregated(c *cli.Context, stdout, stderr io.Writer) error {
	if c.Args().Present() {
		return fmt.Errorf("%w: aggregated takes flags only, and %q is none", errUsage, c.Args().First())
	}
	if _, _, err := net.SplitHostPort(c.String("listen")); err != nil {
		return fmt.Errorf("%w: --listen: %q is not HOST:PORT", errUsage, c.String("listen"))
	}
	if (c.String("tls-cert-file") == "") != (c.String("tls-private-key-file") == "") {
		return fmt.Errorf("%w: --tls-cert-file and --tls-private-key-file go together", errUsage)
	}
	log, serving, err := newLogger(stderr, c.String("log-format"), c.String("log-level"), fatal(stderr))
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.String("kubeconfig"))
	if err != nil {
		if c.String("kubeconfig") == "" {
			return errors.New("--kubeconfig is required outside of a pod: name a file for the Kubernetes API server")
		}
		return fmt.Errorf("--kubeconfig %s: %w", c.String("kubeconfig"), err)
	}
	config.UserAgent = name
	ctx := c.Context
	certificate, checks, err := servingCertificate(ctx, c, config, aggregated.CertificateOptions{
		Namespace: c.String("secret-namespace"), Secret: c.String("service"), APIService: aggregated.APIServiceName(), Log: log,
		Service: types.NamespacedName{Namespace: c.String("namespace"), Name: c.String("service")},
	})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.String("listen"))
	if err != nil {
		return fmt.Errorf("--listen %s: %w; choose another port or stop what uses it", c.String("listen"), err)
	}
	defer listener.Close()
	return aggregated.Run(ctx, aggregated.Options{
		Config: config, Kubeconfig: c.String("kubeconfig"), Listener: listener, Serving: certificate, Checks: checks, Log: log,
		Ready: func() {
			serving(true)
			context.AfterFunc(ctx, func() { serving(false) })
			log.Info("serving", "address", listener.Addr().String(), "behind", config.Host, "version", standalone.KubernetesVersion())
			fmt.Fprintln(stdout, "ready")
		},
	})
}

// servingCertificate returns that of the flags, or one that the server keeps itself, with what is then to be checked.
func servingCertificate(ctx context.Context, c *cli.Context, config *rest.Config, o aggregated.CertificateOptions) (dynamiccertificates.CertKeyContentProvider, []healthz.HealthChecker, error) {
	if file := c.String("tls-cert-file"); file != "" {
		own, err := dynamiccertificates.NewDynamicServingContentFromFiles("serving", file, c.String("tls-private-key-file"))
		if err != nil {
			return nil, nil, fmt.Errorf("--tls-cert-file %s or --tls-private-key-file %s: %w", file, c.String("tls-private-key-file"), err)
		}
		return own, nil, nil
	}
	var err error
	if o.Kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, nil, err
	}
	if o.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, nil, err
	}
	made, err := aggregated.NewCertificate(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	go made.Keep(ctx)
	return made, []healthz.HealthChecker{made.Ready()}, nil
}
