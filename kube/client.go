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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/roster-mesh/roster/kube/codec"
	"github.com/roster-mesh/roster/kube/history"
)

// requestTimeout bounds one request that is not a watch.
const requestTimeout = 30 * time.Second

// Client speaks to one API server, the local one or a peer's. All its parts share one pool of
// connections. It is safe for concurrent use.
//
// It is built on client-go's dynamic client: the generated clients link every kind of Kubernetes
// into the program, which is half of an idle agent's memory.
type Client struct {
	Config *rest.Config
	// Positions, when set before the first Watch, notice that the API server was restored from a backup:
	// those of history.NewPositions refuse its lists then, those of history.TrustingPositions report it.
	// A new client trusts the server and reports nothing.
	Positions *history.Positions

	requests rest.Interface
	dynamic  dynamic.Interface // in JSON
	protobuf dynamic.Interface
	codec    *codec.Codec
	kinds    *kinds
	pool     *http.Transport
}

// NewClient makes a client; it sends nothing yet. Close it when it is no longer used. A positive
// QPS, with Burst, limits all its requests together.
func NewClient(cfg *rest.Config) (*Client, error) {
	cfg = rest.CopyConfig(cfg)
	if cfg.UserAgent == "" {
		cfg = withDefaults(cfg)
	}
	client, pool, err := newHTTPClient(cfg)
	if err != nil {
		return nil, err
	}
	all := dynamic.ConfigFor(cfg)
	all.APIPath, all.GroupVersion = "/", nil // every request has its whole path
	objects := codec.New(all.NegotiatedSerializer)
	all.NegotiatedSerializer = objects
	if all.QPS > 0 && all.RateLimiter == nil {
		all.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(all.QPS, all.Burst)
	}
	requests, err := rest.UnversionedRESTClientForConfigAndClient(all, client)
	if err != nil {
		return nil, fmt.Errorf("API server address: %w", err)
	}
	all.ContentType, all.AcceptContentTypes = runtime.ContentTypeProtobuf, codec.AcceptProtobuf
	inProtobuf, err := rest.UnversionedRESTClientForConfigAndClient(all, client)
	if err != nil {
		return nil, fmt.Errorf("API server address: %w", err)
	}
	return &Client{
		Config: cfg, Positions: history.TrustingPositions(nil),
		requests: requests, dynamic: dynamic.New(requests), protobuf: dynamic.New(inProtobuf), codec: objects,
		kinds: newKinds(requests), pool: pool,
	}, nil
}

// Close drops idle connections. End the watches first; a request in flight keeps its connection.
func (c *Client) Close() { c.pool.CloseIdleConnections() }

// ClusterID returns the ID of the API server's cluster: the UID of namespace kube-system.
func (c *Client) ClusterID(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var ns metav1.PartialObjectMetadata
	if err := decodeResponse(c.requests.Get().AbsPath("/api/v1/namespaces", metav1.NamespaceSystem).Do(ctx), &ns); err != nil {
		return "", classify(err)
	}
	return string(ns.UID), nil
}

// ServerVersion returns the git version of the API server, such as v1.36.3.
func (c *Client) ServerVersion(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var info version.Info
	if err := decodeResponse(c.requests.Get().AbsPath("/version").Do(ctx), &info); err != nil {
		return "", classify(err)
	}
	return oneLine(info.GitVersion), nil
}

// post sends body to a path, and decodes the response into out.
func (c *Client) post(ctx context.Context, body, out any, path ...string) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request := c.requests.Post().AbsPath(path...).SetHeader("Content-Type", "application/json")
	return decodeResponse(request.Param("fieldManager", fieldManager).Body(data).Do(ctx), out)
}

// decodeResponse decodes the JSON of a response.
func decodeResponse(result rest.Result, out any) error {
	data, err := result.Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("decode the response of the API server: %s", oneLine(err.Error()))
	}
	return nil
}
