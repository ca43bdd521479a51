// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

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

// An address that is lost is still told to others: it may come back, and nothing better is known.
func TestAddressOutlivesItsService(t *testing.T) {
	var a address
	start := time.Unix(0, 0)
	set := func(s *kube.Service) func(*address) { return func(a *address) { a.asked, a.service = true, s } }
	if a.learn(start, set(service("LoadBalancer"))) {
		t.Error("nothing is known, and others are told")
	}
	if since, missing := a.lacks(); missing == nil || !since.Equal(start) {
		t.Errorf("missing %v since %v", missing, since)
	}
	found := service("LoadBalancer", ingress(kube.Ingress{IP: "203.0.113.7"}))
	if !a.learn(start.Add(time.Minute), set(found)) || a.learn(start.Add(time.Minute), set(found)) {
		t.Error("others are told of an address once")
	}
	if a.learn(start.Add(time.Hour), set(nil)) {
		t.Error("others are told that there is none")
	}
	endpoints, _ := a.found()
	since, missing := a.lacks()
	if len(endpoints) != 1 || missing == nil || !since.Equal(start.Add(time.Hour)) {
		t.Errorf("endpoints %v, missing %v since %v", endpoints, missing, since)
	}
}

// What is wrong with the address is one line, in /readyz, in the status and in the log: at once in /readyz where there
// never was an address, and everywhere when the grace is over.
func TestAddressIsJudged(t *testing.T) {
	var log strings.Builder
	s := &session{health: newHealth(http.NewServeMux(), prometheus.NewRegistry(), false), log: slog.New(slog.NewTextHandler(&log, nil)), clusterID: "c"}
	s.options.MeshService = "cluster-registry/mesh"
	s.newLoops()
	s.problems.changed = func() {}
	s.health.ready()
	set := func(now *kube.Service) { s.learnAddress(func(a *address) { a.asked, a.service = true, now }) }
	set(service("LoadBalancer"))
	began, _ := s.address.lacks()

	s.judgeAddress(began.Add(time.Second))
	if line := s.health.notReady(); !strings.HasPrefix(line, "the Service cluster-registry/mesh has no external address") || s.problems.String() != "" {
		t.Errorf("at first: not ready for %q, problem %q", line, s.problems.String())
	}
	for range 2 {
		s.judgeAddress(began.Add(addressGrace))
	}
	line := s.health.notReady()
	if !strings.Contains(line, "after two minutes the Service cluster-registry/mesh has no external address") || line != s.problems.String() {
		t.Errorf("later: not ready for %q, problem %q", line, s.problems.String())
	}
	if strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), line) {
		t.Errorf("the log has not that line alone: %s", log.String())
	}
	set(service("LoadBalancer", ingress(kube.Ingress{IP: "203.0.113.7"})))
	s.judgeAddress(began.Add(2 * addressGrace))
	if line := s.health.notReady() + s.problems.String(); line != "" {
		t.Errorf("with an address: %s", line)
	}

	set(nil)
	began, _ = s.address.lacks()
	s.judgeAddress(began.Add(time.Second))
	if line := s.health.notReady(); line != "" {
		t.Errorf("an address that was lost just now: not ready for %q", line)
	}
	s.judgeAddress(began.Add(addressGrace))
	if line := s.health.notReady(); !strings.Contains(line, "does not exist") {
		t.Errorf("an address that was lost: not ready for %q", line)
	}
}
