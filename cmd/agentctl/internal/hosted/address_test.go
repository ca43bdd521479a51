// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package hosted

import (
	"cmp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/apitest"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/hosted/objects"
)

// host is a cluster with nodes.
func host(t *testing.T, nodes ...string) (*clusters.Client, *apitest.Server) {
	t.Helper()
	server := apitest.New()
	t.Cleanup(server.Close)
	for _, node := range nodes {
		server.Put(apitest.Parse(t, node))
	}
	client, err := clusters.New("host", &rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client, server
}

func node(name, ready, addresses string) string {
	return `{apiVersion: v1, kind: Node, metadata: {name: ` + name + `}, status: {conditions: [{type: Ready, status: "` + ready + `"}], addresses: [` + addresses + `]}}`
}

// The address is what the user says; else that of the load balancer, of the Service, or of a node that is ready.
func TestEndpoint(t *testing.T) {
	t.Parallel()
	inside := node("a", "True", "{type: Hostname, address: a}, {type: InternalIP, address: 10.0.0.1}")
	outside := node("b", "True", "{type: InternalIP, address: 10.0.0.2}, {type: ExternalIP, address: 192.0.2.2}")
	broken := node("0", "False", "{type: ExternalIP, address: 192.0.2.9}")
	const (
		own      = `{apiVersion: v1, kind: Service, spec: {clusterIP: 10.96.0.7}}`
		headless = `{apiVersion: v1, kind: Service, spec: {clusterIP: None}}`
		nodes    = `{apiVersion: v1, kind: Service, spec: {clusterIP: 10.96.0.7, ports: [{name: mesh, nodePort: 30946}, {name: https, nodePort: 30443}]}}`
		balanced = `{apiVersion: v1, kind: Service, status: {loadBalancer: {ingress: [{}, {ip: 2001:db8::1}]}}}`
		named    = `{apiVersion: v1, kind: Service, status: {loadBalancer: {ingress: [{hostname: lb.example.com}]}}}`
	)
	for _, c := range []struct {
		kind, advertise, service string
		nodes                    []string
		hosts                    []string
		url, missing             string
	}{
		{kind: clusterIP, service: own, url: "https://10.96.0.7"},
		{kind: clusterIP, service: headless, missing: "no address of its own"},
		{kind: clusterIP, service: own, advertise: "eu.example.com", url: "https://eu.example.com"},
		{kind: clusterIP, service: own, advertise: "[2001:db8::1]:8443", url: "https://[2001:db8::1]:8443"},
		{kind: loadBalancer, service: own, missing: "no load balancer yet"},
		{kind: loadBalancer, service: balanced, url: "https://[2001:db8::1]"},
		{kind: loadBalancer, service: named, url: "https://lb.example.com"},
		{kind: loadBalancer, service: own, advertise: "eu.example.com:6443", url: "https://eu.example.com:6443"},
		{kind: nodePort, service: nodes, nodes: []string{broken, inside}, url: "https://10.0.0.1:30443"},
		{kind: nodePort, service: nodes, nodes: []string{broken, inside, outside}, url: "https://192.0.2.2:30443"},
		{kind: nodePort, service: nodes, nodes: []string{inside, outside}, hosts: []string{"eu", "10.0.0.1"}, url: "https://10.0.0.1:30443"},
		{kind: nodePort, service: nodes, nodes: []string{broken, outside}, hosts: []string{"192.0.2.9"}, url: "https://192.0.2.2:30443"},
		{kind: nodePort, service: nodes, nodes: []string{broken}, missing: "no node is ready"},
		{kind: nodePort, service: own, nodes: []string{inside}, missing: "no node port yet"},
		{kind: nodePort, service: nodes, advertise: "eu.example.com", url: "https://eu.example.com:30443"},
		{kind: nodePort, service: nodes, advertise: "eu.example.com:443", url: "https://eu.example.com"},
	} {
		client, server := host(t, c.nodes...)
		o := &InitOptions{Place: Place{Registry: objects.Registry{Name: "eu", Namespace: "registry-eu"}}, Settings: objects.Settings{ServiceType: c.kind, Advertise: c.advertise}}
		service := apitest.Parse(t, c.service)
		service.SetName(o.Name)
		service.SetNamespace(o.Namespace)
		server.Put(service)
		service, err := o.resource(client, objects.Services()).Get(t.Context(), o.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		at, missing, err := o.address(t.Context(), client, service, c.hosts)
		url := ""
		if missing == "" {
			url = at.URL()
		}
		if mesh := map[string]int{nodePort: 30946}[c.kind]; url != "" && at.Mesh != cmp.Or(mesh, 7946) {
			t.Errorf("%s: other agents find port %d", c.kind, at.Mesh)
		}
		if err != nil || url != c.url || !strings.Contains(missing, c.missing) || (missing == "") != (c.missing == "") {
			t.Errorf("%s of %s at %q is %q, %q, %v; want %q, %q", c.kind, c.service, c.advertise, url, missing, err, c.url, c.missing)
		}
	}
}

// Why a pod does not run is said as Kubernetes does, in a line; a pod that starts is no problem.
func TestPodProblem(t *testing.T) {
	t.Parallel()
	labels := `labels: {app.kubernetes.io/name: roster-apiserver, app.kubernetes.io/instance: eu}`
	for status, want := range map[string]string{
		`{}`: "",
		`{containerStatuses: [{state: {waiting: {reason: ContainerCreating}}}]}`:                                                       "",
		`{containerStatuses: [{state: {running: {}}}]}`:                                                                                "",
		`{containerStatuses: [{state: {waiting: {reason: ImagePullBackOff, message: "no such image"}}}]}`:                              "pod eu-0: ImagePullBackOff: no such image",
		`{conditions: [{type: PodScheduled, status: "False", message: "no volume\nof that class"}]}`:                                   "pod eu-0 is not scheduled: no volume of that class",
		`{containerStatuses: [{state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {message: "--ca: it is not"}}}]}`: "pod eu-0: CrashLoopBackOff: --ca: it is not",
	} {
		client, server := host(t)
		server.Put(apitest.Parse(t, `{apiVersion: v1, kind: Pod, metadata: {name: eu-0, namespace: registry-eu, `+labels+`}, status: `+status+`}`))
		server.Put(apitest.Parse(t, `{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: registry-eu}, status: {conditions: [{type: PodScheduled, status: "False", message: another}]}}`))
		m := &making{InitOptions: &InitOptions{Place: Place{Registry: objects.Registry{Name: "eu", Namespace: "registry-eu"}}}, host: client}
		if got := m.podProblem(t.Context()); got != want {
			t.Errorf("%s: %q, want %q", status, got, want)
		}
	}
}
