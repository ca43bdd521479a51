// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
)

// requestTimeout bounds one request, so that an address that swallows packets is an error and not a hang.
const requestTimeout = 15 * time.Second

// FieldManager is the name under which agentctl writes.
const FieldManager = "agentctl"

// Access names a cluster as a user does. The zero value is what kubectl would take.
type Access struct {
	Kubeconfig string // a file; "" for those of $KUBECONFIG, then ~/.kube/config
	Context    string // "" for the current one
	As         string // the user that is impersonated; "" for nobody
	Token      string // of somebody else, who is taken for the caller; "" for the caller's own credential
}

// AccessOf is what the flags --kubeconfig, --context and --as say.
func AccessOf(g *cli.Globals) Access {
	return Access{Kubeconfig: g.Kubeconfig.String(), Context: g.Context.String(), As: g.As.String()}
}

// To is another context of the same kubeconfig, as the same user.
func (a Access) To(context string) Access {
	a.Context = context
	return a
}

// Client is one cluster as agentctl reaches it.
type Client struct {
	Context   string // as the user calls it, for messages
	Namespace string // of the context; "" where it names none
	InCluster bool   // the cluster of the pod that agentctl runs in, which has no context
	Config    *rest.Config
	Dynamic   dynamic.Interface
	Requests  rest.Interface // below Dynamic; each has its whole path
	HTTP      *http.Client   // below all others; it follows no redirect
}

// Open connects to the cluster, as far as that needs no request. In a pod without a kubeconfig it is the pod's own.
func (a Access) Open() (*Client, error) {
	loader, config, err := a.load()
	if err != nil {
		return nil, err
	}
	name := a.Context
	if name == "" && a.Kubeconfig == "" && len(config.Contexts) == 0 {
		if access, err := rest.InClusterConfig(); err == nil {
			c, err := New("in-cluster", a.authenticate(access))
			if err == nil {
				c.InCluster = true
			}
			return c, err
		}
	}
	if name == "" {
		name = config.CurrentContext
	}
	if _, found := config.Contexts[name]; !found {
		return nil, a.unknownContext(name, slices.Sorted(maps.Keys(config.Contexts)))
	}
	access, err := clientcmd.NewNonInteractiveClientConfig(*config, name, nil, loader).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("context %s: %w", name, err)
	}
	c, err := New(name, a.authenticate(access))
	if err != nil {
		return nil, err
	}
	c.Namespace = config.Contexts[name].Namespace
	return c, nil
}

// authenticate leaves nothing of the caller's own credential where there is a token of somebody else.
func (a Access) authenticate(config *rest.Config) *rest.Config {
	if a.Token != "" {
		config = rest.AnonymousClientConfig(config)
		config.BearerToken = a.Token
	} else if a.As != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: a.As} // groups of the kubeconfig are another user's
	}
	return config
}

// Contexts are the names of the contexts of the kubeconfig, sorted.
func (a Access) Contexts() ([]string, error) {
	_, config, err := a.load()
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(config.Contexts)), nil
}

func (a Access) load() (*clientcmd.ClientConfigLoadingRules, *clientcmdapi.Config, error) {
	loader := clientcmd.NewDefaultClientConfigLoadingRules()
	loader.ExplicitPath = a.Kubeconfig
	config, err := loader.Load()
	if err != nil {
		return nil, nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	return loader, config, nil
}

func (a Access) unknownContext(name string, known []string) error {
	where := "the kubeconfig"
	if a.Kubeconfig != "" {
		where = a.Kubeconfig
	}
	if len(known) == 0 {
		return fmt.Errorf("%s has no contexts; set KUBECONFIG or give --kubeconfig", where)
	}
	list := strings.Join(known, ", ")
	if name == "" {
		return cli.Usagef("%s has no current context; give --context, one of: %s", where, list)
	}
	return cli.Usagef("no context %q in %s; it has: %s", name, where, list)
}

// New connects to a cluster that messages call name.
func New(name string, config *rest.Config) (*Client, error) {
	config.Timeout = requestTimeout
	config.QPS = -1 // the API server's own fairness decides
	config.UserAgent = "agentctl"
	config.WarningHandler = rest.NoWarnings{} // who looks at all kinds meets some that are deprecated, and can do nothing about it
	c := &Client{Context: name, Config: config}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, c.Errorf("%w", err)
	}
	// An API server does not redirect; following one would carry the credential elsewhere.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	all := dynamic.ConfigFor(config)
	all.APIPath, all.GroupVersion = "/", nil // every request has its whole path
	if c.Requests, err = rest.UnversionedRESTClientForConfigAndClient(all, client); err != nil {
		return nil, c.Errorf("%w", err)
	}
	c.HTTP, c.Dynamic = client, dynamic.New(c.Requests)
	return c, nil
}

// Close ends the connections that no request is on.
func (c *Client) Close() { utilnet.CloseIdleConnectionsFor(c.HTTP.Transport) }

// Errorf puts the context's name before an error, so that of two clusters the reader knows which.
func (c *Client) Errorf(format string, args ...any) error {
	return fmt.Errorf("context %s: "+format, append([]any{c.Context}, args...)...)
}

// ClusterID is the UID of the namespace kube-system, as it is for every agent.
func (c *Client) ClusterID(ctx context.Context) (string, error) {
	ns, err := c.Dynamic.Resource(Core("namespaces")).Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", c.Errorf("read the cluster's identity: %w", err)
	}
	return string(ns.GetUID()), nil
}

// Secrets are those of a namespace.
func (c *Client) Secrets(namespace string) dynamic.ResourceInterface {
	return c.Dynamic.Resource(Core("secrets")).Namespace(namespace)
}

// Core is a resource of the core group.
func Core(name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: name}
}

// get reads JSON from a path of the API server.
func (c *Client) get(ctx context.Context, path string, out any) error {
	data, err := c.Requests.Get().AbsPath(path).Do(ctx).Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(data, out)
}
