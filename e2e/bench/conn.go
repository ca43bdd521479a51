// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/e2e/harness"
)

// way is how an object gets from the source to the targets; the label bench of objects says it.
type way string

const (
	wayRoster way = "roster" // by the agents
	wayBare   way = "bare"   // not at all: the source and the targets are written by us
	wayHand   way = "hand"   // by hand.go
)

// verb is what happens to an object.
type verb string

const (
	create verb = "create"
	update verb = "update"
	remove verb = "delete"
)

func verbs() []verb { return []verb{create, update, remove} }

// event is what a watch tells of the verb.
func (v verb) event() watch.EventType {
	switch v {
	case create:
		return watch.Added
	case update:
		return watch.Modified
	case remove:
	}
	return watch.Deleted
}

// request is the verb in an API server's metrics.
func (v verb) request() string {
	switch v {
	case create:
		return "POST"
	case update:
		return "PUT"
	case remove:
	}
	return "DELETE"
}

// conn is one connection (HTTP/2, as an agent's) to one API server, through plain client-go without limits.
type conn struct {
	secrets typedcorev1.SecretInterface
}

func dial(c *harness.Cluster) (*conn, error) {
	cfg := rest.CopyConfig(c.Config)
	cfg.Dial = (&net.Dialer{}).DialContext // another dialer is another connection pool
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &conn{client.CoreV1().Secrets(harness.Namespace)}, nil
}

// do makes the one request of a verb. It depends on no version, which spares bare writers all reading.
func (c *conn) do(ctx context.Context, v verb, w way, name, value string) error {
	var err error
	switch v {
	case create:
		_, err = c.secrets.Create(ctx, secret(w, name, value), metav1.CreateOptions{})
	case update:
		_, err = c.secrets.Update(ctx, secret(w, name, value), metav1.UpdateOptions{})
	case remove:
		err = c.secrets.Delete(ctx, name, metav1.DeleteOptions{})
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", v, name, err)
	}
	return nil
}

// secret has 1 KiB of data, which begins with value.
func secret(w way, name, value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"bench": string(w)}},
		Data:       map[string][]byte{"v": []byte(value + ":" + strings.Repeat("x", max(0, 1023-len(value))))},
	}
}
