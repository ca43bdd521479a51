// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregated

import (
	"context"
	"errors"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/kube/apiserver/registry/rights"
	"github.com/roster-mesh/roster/kube/apiserver/waiting"
)

const (
	// readyPoll is how often a start looks whether it is ready.
	readyPoll = 50 * time.Millisecond
	// frontWithin bounds a question that nothing waits for but a line of the log.
	frontWithin = 5 * time.Second
)

// rolesKnown is a check of readiness: without the roles, lists would be empty.
type rolesKnown struct{ roles *rights.Watched }

// Name implements healthz.HealthChecker.
func (rolesKnown) Name() string { return "roster-roles" }

// Check implements healthz.HealthChecker.
func (c rolesKnown) Check(*http.Request) error {
	if !c.roles.HasSynced() {
		return errors.New("the ClusterRoles and ClusterRoleBindings are not known yet")
	}
	return nil
}

// errFront is the error of an API server without an aggregation layer.
var errFront = errors.New("the API server does not say by which certificate it passes callers on: start it with " +
	"--requestheader-client-ca-file, --proxy-client-cert-file and --proxy-client-key-file")

// passesOn returns errFront where the API server says nothing about that certificate. What else is wrong, others tell.
func passesOn(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, frontWithin)
	defer cancel()
	said, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, "extension-apiserver-authentication", metav1.GetOptions{})
	if err == nil && said.Data["requestheader-client-ca-file"] == "" {
		return errFront
	}
	return nil
}

// frontKnown is a check of readiness: without the CA of that certificate, nobody who is passed on is believed to be who he is.
type frontKnown struct {
	front *authenticatorfactory.RequestHeaderConfig
}

// Name implements healthz.HealthChecker.
func (frontKnown) Name() string { return "roster-front" }

// Check implements healthz.HealthChecker.
func (c frontKnown) Check(*http.Request) error {
	if c.front == nil || c.front.CAContentProvider == nil {
		return errFront
	}
	if _, ok := c.front.CAContentProvider.VerifyOptions(); !ok {
		return errFront
	}
	return nil
}

// awaitReady returns when the server is ready, and false when ctx ends before.
func awaitReady(ctx context.Context, loopback *rest.Config) bool {
	client, err := kubernetes.NewForConfig(loopback)
	if err != nil {
		return false
	}
	for ctx.Err() == nil {
		if _, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err == nil {
			return true
		}
		waiting.Sleep(ctx, readyPoll)
	}
	return false
}
