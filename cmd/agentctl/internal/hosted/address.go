// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package hosted

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
)

// The types of Services.
const (
	clusterIP    = "ClusterIP"
	nodePort     = "NodePort"
	loadBalancer = "LoadBalancer"
)

func serviceTypes() []string { return []string{clusterIP, nodePort, loadBalancer} }

// defaultPort is that of the Service, and of https.
const defaultPort = 443

// endpoint is where callers reach a registry.
type endpoint struct {
	host string
	port int // 0 where it is not known
}

var errAddress = errors.New("must be a name or an address, or one of them with :PORT")

// parseEndpoint reads HOST or HOST:PORT. An IPv6 address has brackets when a port follows.
func parseEndpoint(text string) (endpoint, error) {
	e := endpoint{host: text}
	if host, port, err := net.SplitHostPort(text); err == nil {
		number, err := strconv.Atoi(port)
		if err != nil || number < 1 || number > 65535 {
			return endpoint{}, errAddress
		}
		e = endpoint{host: host, port: number}
	}
	if net.ParseIP(e.host) == nil && len(validation.IsDNS1123Subdomain(e.host)) > 0 {
		return endpoint{}, errAddress
	}
	return e, nil
}

// url is the address in a kubeconfig.
func (e endpoint) url() string {
	host := net.JoinHostPort(e.host, strconv.Itoa(e.port))
	if e.port == defaultPort {
		host = host[:len(host)-len(":443")]
	}
	return "https://" + host
}

// endpoint is where a Service is reached, or missing says what it waits for. What the user said of it goes first.
func (o *InitOptions) endpoint(ctx context.Context, host *clusters.Client, service *unstructured.Unstructured) (e endpoint, missing string, err error) {
	if o.Advertise != "" {
		if e, err = parseEndpoint(o.Advertise); err != nil {
			return endpoint{}, "", err
		}
	}
	if o.ServiceType != nodePort {
		e.port = cmp.Or(e.port, defaultPort)
	}
	switch {
	case e.host != "" && e.port != 0:
		return e, "", nil
	case o.ServiceType == clusterIP:
		e.host, _, _ = unstructured.NestedString(service.Object, "spec", "clusterIP")
		missing = "Service " + o.Name + " has no address of its own"
	case o.ServiceType == loadBalancer:
		e.host = balancerOf(service)
		missing = "Service " + o.Name + " has no load balancer yet"
	default:
		e.port = cmp.Or(e.port, nodePortOf(service))
		if e.host == "" && e.port != 0 {
			e.host, err = nodeAddress(ctx, host)
		}
		missing = "Service " + o.Name + " has no node port yet, or no node is ready"
	}
	if err != nil || e.host == "" || e.host == "None" || e.port == 0 {
		return endpoint{}, missing, err
	}
	return e, "", nil
}

func balancerOf(service *unstructured.Unstructured) string {
	list, _, _ := unstructured.NestedSlice(service.Object, "status", "loadBalancer", "ingress")
	for _, item := range list {
		entry, _ := item.(map[string]any)
		ip, _ := entry["ip"].(string)
		name, _ := entry["hostname"].(string)
		if host := cmp.Or(ip, name); host != "" {
			return host
		}
	}
	return ""
}

func nodePortOf(service *unstructured.Unstructured) int {
	ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
	for _, item := range ports {
		entry, _ := item.(map[string]any)
		if number, ok := entry["nodePort"].(int64); ok {
			return int(number)
		}
	}
	return 0
}

// nodeAddress is an address of the first node that is ready: an external one if one of them has such.
func nodeAddress(ctx context.Context, host *clusters.Client) (string, error) {
	nodes, err := host.Dynamic.Resource(clusters.Core("nodes")).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	slices.SortFunc(nodes.Items, func(a, b unstructured.Unstructured) int { return cmp.Compare(a.GetName(), b.GetName()) })
	for _, kind := range []string{"ExternalIP", "InternalIP"} {
		for i := range nodes.Items {
			if address := addressOf(&nodes.Items[i], kind); address != "" {
				return address, nil
			}
		}
	}
	return "", nil
}

func addressOf(node *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(node.Object, "status", "conditions")
	ready := slices.ContainsFunc(conditions, func(item any) bool {
		c, _ := item.(map[string]any)
		return c["type"] == "Ready" && c["status"] == "True"
	})
	addresses, _, _ := unstructured.NestedSlice(node.Object, "status", "addresses")
	for _, item := range addresses {
		a, _ := item.(map[string]any)
		if text, _ := a["address"].(string); ready && a["type"] == kind {
			return text
		}
	}
	return ""
}
