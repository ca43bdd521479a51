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
	"github.com/roster-mesh/roster/cmd/agentctl/internal/hosted/objects"
)

// The types of Services.
const (
	clusterIP    = "ClusterIP"
	nodePort     = "NodePort"
	loadBalancer = "LoadBalancer"
)

func serviceTypes() []string { return []string{clusterIP, nodePort, loadBalancer} }

var errAddress = errors.New("must be a name or an address, or one of them with :PORT")

// parseAddress reads HOST or HOST:PORT. An IPv6 address has brackets when a port follows.
func parseAddress(text string) (objects.Address, error) {
	at := objects.Address{Host: text}
	if host, port, err := net.SplitHostPort(text); err == nil {
		number, err := strconv.Atoi(port)
		if err != nil || number < 1 || number > 65535 {
			return objects.Address{}, errAddress
		}
		at = objects.Address{Host: host, Port: number}
	}
	if net.ParseIP(at.Host) == nil && len(validation.IsDNS1123Subdomain(at.Host)) > 0 {
		return objects.Address{}, errAddress
	}
	return at, nil
}

// address is where a Service is reached, or missing says what it waits for. What the user said of it goes first. Of several
// nodes it is one of the hosts that the certificate is for.
func (o *InitOptions) address(ctx context.Context, host *clusters.Client, service *unstructured.Unstructured, hosts []string) (at objects.Address, missing string, err error) {
	if o.Advertise != "" {
		if at, err = parseAddress(o.Advertise); err != nil {
			return objects.Address{}, "", err
		}
	}
	if o.ServiceType == nodePort {
		at.Port, at.Mesh = cmp.Or(at.Port, nodePortOf(service, objects.PortName)), nodePortOf(service, objects.MeshName)
	} else {
		at.Port, at.Mesh = cmp.Or(at.Port, objects.Port), objects.MeshPort
	}
	switch {
	case at.Host != "":
		missing = "Service " + o.Name + " has no node port yet"
	case o.ServiceType == clusterIP:
		at.Host, _, _ = unstructured.NestedString(service.Object, "spec", "clusterIP")
		missing = "Service " + o.Name + " has no address of its own"
	case o.ServiceType == loadBalancer:
		at.Host = balancerOf(service)
		missing = "Service " + o.Name + " has no load balancer yet"
	default:
		at.Host, err = nodeAddress(ctx, host, hosts)
		missing = "Service " + o.Name + " has no node port yet, or no node is ready"
	}
	if err != nil || at.Host == "" || at.Host == "None" || at.Port == 0 || at.Mesh == 0 && o.Agent != "" {
		return objects.Address{}, missing, err
	}
	return at, "", nil
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

func nodePortOf(service *unstructured.Unstructured, name string) int {
	ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
	for _, item := range ports {
		entry, _ := item.(map[string]any)
		if number, ok := entry["nodePort"].(int64); ok && entry["name"] == name {
			return int(number)
		}
	}
	return 0
}

// nodeAddress is an address of a node that is ready: one of these hosts if one of them is such, else of the first node, an
// external one if one of them has such.
func nodeAddress(ctx context.Context, host *clusters.Client, hosts []string) (string, error) {
	nodes, err := host.Dynamic.Resource(clusters.Core("nodes")).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	slices.SortFunc(nodes.Items, func(a, b unstructured.Unstructured) int { return cmp.Compare(a.GetName(), b.GetName()) })
	first := ""
	for _, kind := range []string{"ExternalIP", "InternalIP"} {
		for i := range nodes.Items {
			address := addressOf(&nodes.Items[i], kind)
			if slices.Contains(hosts, address) {
				return address, nil
			}
			first = cmp.Or(first, address)
		}
	}
	return first, nil
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
