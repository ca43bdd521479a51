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
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	watchtools "k8s.io/client-go/tools/watch"

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
	// marked says that what is written has as many marks as a copy: labels and annotations cost an API server
	// CPU (managedFields), and who compares writers has them write the same.
	marked bool
}

// dial speaks as the cluster's administrator, as people and pipelines do.
func dial(c *harness.Cluster) (*conn, error) { return connect(rest.CopyConfig(c.Config)) }

// dialAsAgent speaks with the agent's own credential: what the API server does to check a token and its rights is
// part of what a copy takes, and an administrator is spared it.
func dialAsAgent(c *harness.Cluster) (*conn, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", c.AgentKubeconfig())
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1
	to, err := connect(cfg)
	if err == nil {
		to.marked = true
	}
	return to, err
}

func connect(cfg *rest.Config) (*conn, error) {
	cfg.Dial = (&net.Dialer{}).DialContext // another dialer is another connection pool
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &conn{secrets: client.CoreV1().Secrets(harness.Namespace)}, nil
}

// do makes the one request of a verb. It depends on no version, which spares bare writers all reading.
func (c *conn) do(ctx context.Context, v verb, w way, name, value string) error {
	var err error
	switch v {
	case create:
		_, err = c.secrets.Create(ctx, c.mark(secret(w, name, value)), metav1.CreateOptions{})
	case update:
		_, err = c.secrets.Update(ctx, c.mark(secret(w, name, value)), metav1.UpdateOptions{})
	case remove:
		err = c.secrets.Delete(ctx, name, metav1.DeleteOptions{})
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", v, name, err)
	}
	return nil
}

// mark gives an object marks of the number and size of a copy's, by names that no agent knows.
func (c *conn) mark(s *corev1.Secret) *corev1.Secret {
	if !c.marked {
		return s
	}
	const (
		prefix = "cluster-registry.k8s.bench.test/"
		owner  = "0b4e9d0e-5b5c-4a3c-8d9a-3a7f0d6f4a11"
		hash   = "a1b2c3d4e5f60718"
	)
	s.Labels = map[string]string{"bench": s.Labels["bench"], prefix + "resource-owner-cluster-id": owner}
	s.Annotations = map[string]string{
		prefix + "resource-owner-cluster-id": owner, prefix + "resource-sync-rule": "bench",
		prefix + "rule-selections": hash, prefix + "copied-fields": hash,
	}
	return s
}

// watch tells of everything from now on that a selector lets through. On a busy machine an API server drops
// watchers that are slow; it is taken up again where it ended.
func (c *conn) watch(ctx context.Context, selector string) (watch.Interface, error) {
	list, err := c.secrets.List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: 1})
	if err != nil {
		return nil, err
	}
	return watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return c.secrets.Watch(ctx, o)
		},
	})
}

// secret has 1 KiB of data, which begins with value.
func secret(w way, name, value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"bench": string(w)}},
		Data:       map[string][]byte{"v": []byte(value + ":" + strings.Repeat("x", max(0, 1023-len(value))))},
	}
}
