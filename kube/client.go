// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/roster-mesh/roster/kube/client/versioned"
)

// requestTimeout bounds one request that is not a watch.
const requestTimeout = 30 * time.Second

// Client speaks to one API server, the local one or a peer's. All its parts share one pool of
// connections. It is safe for concurrent use.
type Client struct {
	Config   *rest.Config
	Kube     kubernetes.Interface
	Registry versioned.Interface
	Dynamic  dynamic.Interface

	kinds *kinds
	pool  *http.Transport
}

// NewClient makes a client; it sends nothing yet. Close it when it is no longer used. A positive
// QPS, with Burst, limits all its requests together.
func NewClient(cfg *rest.Config) (*Client, error) {
	cfg = rest.CopyConfig(cfg)
	if cfg.UserAgent == "" {
		cfg = withDefaults(cfg)
	}
	if cfg.QPS > 0 && cfg.RateLimiter == nil {
		// One limit for all parts; each would make its own.
		cfg.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(cfg.QPS, max(cfg.Burst, 1))
	}
	client, pool, err := newHTTPClient(cfg)
	if err != nil {
		return nil, err
	}
	c := &Client{Config: cfg, pool: pool}
	if c.Kube, err = kubernetes.NewForConfigAndClient(cfg, client); err != nil {
		return nil, fmt.Errorf("API server address: %w", err)
	}
	if c.Registry, err = versioned.NewForConfigAndClient(cfg, client); err != nil {
		return nil, fmt.Errorf("API server address: %w", err)
	}
	if c.Dynamic, err = dynamic.NewForConfigAndClient(cfg, client); err != nil {
		return nil, fmt.Errorf("API server address: %w", err)
	}
	c.kinds = newKinds(c.Kube.Discovery().RESTClient())
	return c, nil
}

// Close drops idle connections. End the watches first; a request in flight keeps its connection.
func (c *Client) Close() { c.pool.CloseIdleConnections() }

// ClusterID returns what identifies the cluster behind the API server: the UID of kube-system.
func (c *Client) ClusterID(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	ns, err := c.Kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", classify(err)
	}
	return string(ns.UID), nil
}

// ServerVersion returns the git version of the API server, such as v1.36.3.
func (c *Client) ServerVersion(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	raw, err := c.Kube.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return "", classify(err)
	}
	var info version.Info
	if err := json.Unmarshal(raw, &info); err != nil {
		return "", fmt.Errorf("read /version: %s", oneLine(err.Error()))
	}
	return oneLine(info.GitVersion), nil
}
