// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package address

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roster-mesh/roster/kube"
)

func service(kind string, change ...func(*kube.Service)) *kube.Service {
	s := &kube.Service{}
	s.Spec.Type = kind
	s.Spec.Ports = []kube.ServicePort{{Name: "other", Port: 1}, {Name: "mesh", Port: 7946, NodePort: 30946}}
	for _, c := range change {
		c(s)
	}
	return s
}

func ingress(all ...kube.Ingress) func(*kube.Service) {
	return func(s *kube.Service) { s.Status.LoadBalancer.Ingress = all }
}

func TestServiceEndpoints(t *testing.T) {
	node := func(name string, ready bool, external, internal string) *kube.Node {
		n := &kube.Node{Name: name, Ready: ready, InternalIPs: []string{internal}}
		if external != "" {
			n.ExternalIPs = []string{external}
		}
		return n
	}
	for name, test := range map[string]struct {
		service *kube.Service
		nodes   []*kube.Node
		want    []string
		err     string
	}{
		"address":              {service: service("LoadBalancer", ingress(kube.Ingress{IP: "203.0.113.7"})), want: []string{"203.0.113.7:7946"}},
		"hostname":             {service: service("LoadBalancer", ingress(kube.Ingress{Hostname: "lb.example.com"})), want: []string{"lb.example.com:7946"}},
		"several, IPv6":        {service: service("LoadBalancer", ingress(kube.Ingress{IP: "203.0.113.7"}, kube.Ingress{}, kube.Ingress{IP: "2001:db8::7", Hostname: "x"})), want: []string{"203.0.113.7:7946", "[2001:db8::7]:7946"}},
		"external IP":          {service: service("ClusterIP", func(s *kube.Service) { s.Spec.ExternalIPs = []string{"198.51.100.9"} }), want: []string{"198.51.100.9:7946"}},
		"none yet":             {service: service("LoadBalancer"), err: "has no external address"},
		"one cluster only":     {service: service("ClusterIP")},
		"no Service":           {err: "does not exist"},
		"not for the mesh":     {service: service("LoadBalancer", func(s *kube.Service) { s.Spec.Ports[1].Name = "x" }), err: "has no port named mesh"},
		"only port":            {service: service("LoadBalancer", ingress(kube.Ingress{IP: "203.0.113.7"}), func(s *kube.Service) { s.Spec.Ports = s.Spec.Ports[:1] }), want: []string{"203.0.113.7:1"}},
		"a name":               {service: service("ExternalName"), err: "has type ExternalName"},
		"node port, no node":   {service: service("NodePort"), nodes: []*kube.Node{node("a", false, "203.0.113.1", "10.0.0.1")}, err: "no node is ready"},
		"node port, internal":  {service: service("NodePort"), nodes: []*kube.Node{node("b", true, "", "10.0.0.2"), node("a", true, "", "10.0.0.1")}, want: []string{"10.0.0.1:30946", "10.0.0.2:30946"}},
		"node port, external":  {service: service("NodePort"), nodes: []*kube.Node{node("a", true, "", "10.0.0.1"), node("b", true, "203.0.113.2", "10.0.0.2")}, want: []string{"203.0.113.2:30946"}},
		"node port, of thrice": {service: service("NodePort"), nodes: []*kube.Node{node("d", true, "", "4"), node("c", true, "", "3"), node("b", true, "", "2"), node("a", true, "", "1")}, want: []string{"1:30946", "2:30946", "3:30946"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := serviceEndpoints(test.service, test.nodes)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want %q", err, test.err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
