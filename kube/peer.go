// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// ErrWrongCluster is returned when the API server belongs to another cluster than expected.
var ErrWrongCluster = errors.New("endpoint leads to another cluster")

// PeerConfig returns the configuration for a peer's API server: the credential of its kubeconfig, and the address of its
// endpoint for this network, else of the endpoint for all clients, else of the kubeconfig. Both come from the peer and are
// treated as hostile. If nobody vouches for the endpoints, the kubeconfig alone proves the server: by its CA and, since that
// may sign names of whoever published the endpoints, by the name in it.
func PeerConfig(kubeconfig []byte, endpoints []v1alpha1.KubernetesAPIEndpoint, vouched bool, network string) (*rest.Config, error) {
	cfg, err := ParseKubeconfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	if !vouched {
		u, err := serverURL(cfg.Host)
		if err != nil {
			return nil, err
		}
		endpoints, cfg.ServerName = v1alpha1.WithoutCAs(endpoints), cmp.Or(cfg.ServerName, u.Hostname())
	}
	return cfg, useEndpoint(cfg, endpoints, network)
}

// EndpointConfig is PeerConfig without a credential: what the peer publishes is all there is. Host or CAData is empty where
// it does not publish that for this network.
func EndpointConfig(endpoints []v1alpha1.KubernetesAPIEndpoint, network string) (*rest.Config, error) {
	cfg := &rest.Config{}
	return cfg, useEndpoint(cfg, endpoints, network)
}

// useEndpoint puts the endpoint for a network over the address and CA of cfg.
func useEndpoint(cfg *rest.Config, endpoints []v1alpha1.KubernetesAPIEndpoint, network string) error {
	endpoint := chooseEndpoint(endpoints, network)
	if endpoint == nil {
		return nil
	}
	if endpoint.ServerAddress != "" {
		u, err := serverURL(endpoint.ServerAddress)
		if err != nil {
			return fmt.Errorf("spec.kubernetesApiEndpoints: serverAddress: %w", err)
		}
		cfg.Host = u.String()
	}
	if len(endpoint.CABundle) > 0 {
		if len(endpoint.CABundle) > 4*MaxKubeconfig || !isCertificates(endpoint.CABundle) {
			return errors.New("spec.kubernetesApiEndpoints: caBundle: must be PEM certificates")
		}
		cfg.CAData = endpoint.CABundle
	}
	return nil
}

// chooseEndpoint prefers, of those for all clients, one that no CIDR was given to: that is the peer's agent's own.
func chooseEndpoint(endpoints []v1alpha1.KubernetesAPIEndpoint, network string) *v1alpha1.KubernetesAPIEndpoint {
	var fallback *v1alpha1.KubernetesAPIEndpoint
	for i := range endpoints {
		switch e := &endpoints[i]; {
		case e.ClientNetwork != "" && e.ClientNetwork == network:
			return e
		case IsForAllClients(*e) && (fallback == nil || fallback.ClientCIDR != "" && e.ClientCIDR == ""):
			fallback = e
		}
	}
	return fallback
}

// IsForAllClients reports whether an address is for clients of every network and with every address.
func IsForAllClients(e v1alpha1.KubernetesAPIEndpoint) bool {
	return e.ClientNetwork == "" && (e.ClientCIDR == "" || strings.HasSuffix(e.ClientCIDR, "/0"))
}

// VerifyPeer checks that the API server is that of the expected cluster, by the UID of its namespace
// kube-system. Errors: ErrWrongCluster, ErrUnreachable, ErrUnauthorized, ErrForbidden.
func VerifyPeer(ctx context.Context, c *Client, clusterID string) error {
	id, err := c.ClusterID(ctx)
	if err != nil {
		return err
	}
	if id == "" || id != clusterID {
		return fmt.Errorf("%w: its clusterID is %s, expected %s", ErrWrongCluster, oneLine(strconv.Quote(id)), clusterID)
	}
	return nil
}

// Server says how peers reach the local API server.
type Server struct {
	Address  string // an https URL
	CABundle []byte // PEM
	Name     string // the name in its certificate, where that is not the host of Address
}

// PodTokenFile is where rest.InClusterConfig finds its token; a configuration with it is that of a pod.
const PodTokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token"

// FindServer finds out how peers reach the local API server. The address is that of the flag, if it is set
// (--apiserver-endpoint); else, for an agent outside the cluster, the one that it uses itself; else the
// one that the API server publishes, in EndpointSlice default/kubernetes or, where that cannot be read,
// at /api. The CA is the one that the agent itself trusts, else that of the ConfigMap kube-root-ca.crt in
// namespace default.
func FindServer(ctx context.Context, c *Client, flag string) (Server, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	address, err := c.address(ctx, flag)
	if err != nil {
		return Server{}, err
	}
	u, err := serverURL(address)
	if err != nil {
		return Server{}, fmt.Errorf("%s: %w", addressSource(flag), err)
	}
	s := Server{Address: strings.TrimSuffix(u.String(), "/"), Name: c.Config.ServerName}
	s.CABundle, err = c.caBundle(ctx)
	return s, err
}

func addressSource(flag string) string {
	if flag != "" {
		return "--apiserver-endpoint"
	}
	return "address of the local API server (set --apiserver-endpoint)"
}

func (c *Client) address(ctx context.Context, flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	if c.Config.BearerTokenFile != PodTokenFile {
		return c.Config.Host, nil
	}
	var slices endpointSlices
	err := decodeResponse(c.requests.Get().AbsPath("/apis/discovery.k8s.io/v1/namespaces", metav1.NamespaceDefault, "endpointslices").
		Param("labelSelector", "kubernetes.io/service-name=kubernetes").Do(ctx), &slices)
	switch {
	case err == nil:
		if address := slices.address(); address != "" {
			return address, nil
		}
	case !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err):
		return "", classify(err)
	}
	var versions metav1.APIVersions
	if err := decodeResponse(c.requests.Get().AbsPath("/api").Do(ctx), &versions); err != nil {
		return "", classify(err)
	}
	for _, a := range versions.ServerAddressByClientCIDRs {
		if a.ServerAddress != "" {
			return a.ServerAddress, nil
		}
	}
	return "", errors.New("the API server does not publish its address: set --apiserver-endpoint")
}

// endpointSlices has the fields of an EndpointSliceList that are read.
type endpointSlices struct {
	Items []struct {
		Endpoints []struct {
			Addresses []string `json:"addresses"`
		} `json:"endpoints"`
		Ports []struct {
			Name string `json:"name"`
			Port int    `json:"port"`
		} `json:"ports"`
	} `json:"items"`
}

// address is the first address with an https port.
func (s endpointSlices) address() string {
	for _, slice := range s.Items {
		for _, p := range slice.Ports {
			if p.Port == 0 || p.Name != "https" {
				continue
			}
			for _, e := range slice.Endpoints {
				if len(e.Addresses) > 0 {
					return net.JoinHostPort(e.Addresses[0], strconv.Itoa(p.Port))
				}
			}
		}
	}
	return ""
}

func (c *Client) caBundle(ctx context.Context) ([]byte, error) {
	cfg := rest.CopyConfig(c.Config)
	if err := rest.LoadTLSFiles(cfg); err != nil {
		return nil, fmt.Errorf("CA of the local API server: %w", err)
	}
	ca := cfg.CAData
	if len(ca) == 0 {
		var cm struct {
			Data map[string]string `json:"data"`
		}
		err := decodeResponse(c.requests.Get().AbsPath("/api/v1/namespaces", metav1.NamespaceDefault, "configmaps/kube-root-ca.crt").Do(ctx), &cm)
		if err != nil {
			return nil, fmt.Errorf("CA of the local API server: ConfigMap default/kube-root-ca.crt: %w", classify(err))
		}
		ca = []byte(cm.Data["ca.crt"])
	}
	if !isCertificates(ca) {
		return nil, errors.New("CA of the local API server: must be PEM certificates and nothing else")
	}
	return ca, nil
}
