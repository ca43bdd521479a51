// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/e2e/harness"
)

// standalone is the first step without Kubernetes.
func (s *story) standalone(ctx context.Context) error {
	s.step(fmt.Sprintf("Start %d clusters", len(s.names)))
	s.say("Each is one command: the agent runs an API server for its cluster, which has no nodes and no pods. CRDs, RBAC")
	s.say("and namespaces, which the chart brings to a Kubernetes cluster, are there from the start.")
	began := time.Now()
	if err := s.up(ctx); err != nil {
		return err
	}
	s.command(s.setPath(), "")
	s.command(agentRun(s.first.AgentFlags()), "")
	s.say("The same for %s, with other ports and folders.", and(s.names[1:]))
	version, err := s.first.Kube.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	s.saw(time.Since(began), "%s serve the API of Kubernetes %s; all agents are ready", and(s.names), version.GitVersion)
	s.say("Each agent has made a Cluster object and a read-only credential of its own cluster. Each API server has written")
	s.say("apiserver/admin.kubeconfig below --data-dir; this file has all of them, with a context for each:")
	s.command(s.setKubeconfig(), "")
	return nil
}

func (s *story) up(ctx context.Context) error {
	fleet, err := harness.Up(ctx, harness.Options{Binaries: s.bin, Dir: s.dir, Names: s.names, Embedded: !s.kubernetes})
	if err != nil {
		return err
	}
	s.fleet = fleet
	s.first, s.second, s.third = fleet.Clusters[0], fleet.Clusters[1], fleet.Clusters[2]
	return nil
}

// and lists names in a sentence.
func and(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// agentRun is the command that starts an agent, in lines that fit.
func agentRun(flags []string) string {
	command, line := "", "agent run"
	for flag := range slices.Chunk(flags, 2) {
		if next := shell(line, flag); len(next) <= width {
			line = next
			continue
		}
		command += line + " \\\n"
		line = shell("   ", flag)
	}
	return command + line
}

func (s *story) controlPlanes(ctx context.Context) error {
	s.step(fmt.Sprintf("%d Kubernetes control planes", len(s.names)))
	s.say("Each is a real kube-apiserver with its own etcd and kube-controller-manager.")
	began := time.Now()
	if err := s.up(ctx); err != nil {
		return err
	}
	version, err := s.first.Kube.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	s.saw(time.Since(began), "%s serve Kubernetes %s", and(s.names), version.GitVersion)
	s.command(s.setPath(), "")
	s.command(s.setKubeconfig(), "")
	s.say("They have no nodes; in each a Node object stands in for one, at some provider.")
	for i, c := range s.fleet.Clusters {
		if err := standIn(ctx, c, i); err != nil {
			return err
		}
	}
	return nil
}

// standIn gives a cluster a node to be described by.
func standIn(ctx context.Context, c *harness.Cluster, i int) error {
	switch i % 3 {
	case 0:
		return c.AddNode(ctx, c.Name+"-1", "aws:///eu-central-1a/i-0123456789", "eu-central-1", "eu-central-1a", map[string]string{"eks.amazonaws.com/nodegroup": "one"})
	case 1:
		return c.AddNode(ctx, c.Name+"-1", "gce://roster/us-east1/one", "us-east1", "us-east1-b", map[string]string{"cloud.google.com/gke-nodepool": "one"})
	default:
		return c.AddNode(ctx, c.Name+"-1", "kind://docker/one/one", "attic", "attic-2", nil)
	}
}

func (s *story) install(ctx context.Context) error {
	s.step("Install the agent in each cluster")
	s.say("The chart brings the CRDs, RBAC and namespaces. There are no pods here, so replicas=0, and the agent")
	s.say("runs beside its control plane. Its kubeconfig has a token of the chart's ServiceAccount, and no more rights.")
	s.command("kubectl --context "+s.first.Name+" create namespace cluster-registry", "")
	s.command("helm template "+s.bin.Chart+" -n cluster-registry --include-crds \\\n    --set localCluster.name="+s.first.Name+
		",replicas=0 | kubectl --context "+s.first.Name+" apply -f -", "")
	s.command(agentRun(s.first.AgentFlags()), "")
	s.say("The same for %s, with other ports and folders.", and(s.names[1:]))
	began := time.Now()
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	for _, c := range s.fleet.Clusters {
		group.Go(func() error {
			if err := c.Install(groupCtx); err != nil {
				return err
			}
			return c.StartAgent(groupCtx)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	s.saw(time.Since(began), "all agents are ready; each has made a Cluster object and a read-only credential of its own cluster")
	return nil
}

func (s *story) join(ctx context.Context) error {
	s.step("Form a group with two clusters")
	s.say("Each gets the other's Cluster object and the Secret with its read-only credential. agentctl does that in")
	s.say("both directions; kubectl get -o yaml | kubectl apply -f - does it as well.")
	began := time.Now()
	if err := s.agentctl(ctx, "join", "--context", s.first.Name, "--peer-context", s.second.Name); err != nil {
		return err
	}
	s.saw(time.Since(began), "%s and %s are one group", s.first.Name, s.second.Name)
	return s.kubectl(ctx, s.first, "get", "clusters")
}

func (s *story) attach(ctx context.Context) error {
	rest := s.fleet.Clusters[2:]
	s.step("Attach more clusters, each with one swap")
	s.say("A newcomer swaps with any one member. The others hear of it in the mesh, and fetch a credential for it")
	s.say("from its agent.")
	for _, c := range rest {
		began := time.Now()
		if err := s.agentctl(ctx, "join", "--context", s.first.Name, "--peer-context", c.Name); err != nil {
			return err
		}
		if err := s.allKnow(ctx, c, began); err != nil {
			return err
		}
	}
	if err := s.kubectl(ctx, s.second, "get", "clusters"); err != nil {
		return err
	}
	return s.agentctl(ctx, "--context", s.second.Name, "members")
}

// allKnow waits until every cluster that has joined so far lists c as synced.
func (s *story) allKnow(ctx context.Context, c *harness.Cluster, began time.Time) error {
	for _, other := range s.fleet.Clusters[:c.Index] {
		_, err := harness.Wait(ctx, fmt.Sprintf("cluster %s on %s synced", other.Name, c.Name), within, func(ctx context.Context) error {
			return synced(ctx, other, c)
		})
		if err != nil {
			return err
		}
	}
	s.saw(time.Since(began), "%s is Synced in %s, though only %s was told", c.Name, and(s.names[:c.Index-1]), s.first.Name)
	return nil
}

// synced looks at what cluster at says of cluster of.
func synced(ctx context.Context, at, of *harness.Cluster) error {
	u, err := at.Dynamic.Resource(harness.Clusters()).Get(ctx, of.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return harness.ConditionTrue(u, "ClustersSynced")
}

func (s *story) everywhere(ctx context.Context) error {
	s.step("Sync a Secret everywhere")
	s.say("The Secret is born in %s. The rule is written in %s, and is in force everywhere.", s.third.Name, s.first.Name)
	secrets, err := s.watchAll(ctx, harness.Secrets(), harness.Namespace, "test-secret")
	if err != nil {
		return err
	}
	rules, err := s.watchAll(ctx, harness.Rules(), "", "test-secret-sink")
	if err != nil {
		return err
	}
	if err := s.apply(ctx, s.third, harness.QuickstartSecret, "-n", harness.Namespace); err != nil {
		return err
	}
	if err := s.apply(ctx, s.first, harness.QuickstartRule); err != nil {
		return err
	}
	origin, err := rules[s.first.Name].Until(ctx, "created", within, harness.Present)
	if err != nil {
		return err
	}
	for _, c := range s.fleet.Clusters {
		if c != s.first {
			seen, err := rules[c.Name].Until(ctx, "the rule", within, harness.Present)
			if err != nil {
				return err
			}
			s.saw(seen.At.Sub(origin.At), "the rule is in %s", c.Name)
		}
	}
	for _, c := range s.fleet.Clusters {
		if c != s.third {
			seen, err := secrets[c.Name].Until(ctx, "the copy", within, harness.Present)
			if err != nil {
				return err
			}
			s.saw(seen.At.Sub(origin.At), "the Secret is in %s", c.Name)
		}
	}
	return nil
}

func (s *story) kept(ctx context.Context) error {
	s.step("Copies are kept as their origin has them")
	w, err := s.second.Watch(ctx, harness.Secrets(), harness.Namespace, "test-secret")
	if err != nil {
		return err
	}
	if err := s.kubectl(ctx, s.second, "-n", harness.Namespace, "delete", "secret", "test-secret"); err != nil {
		return err
	}
	if err := s.sawAfter(ctx, w, "the deleted copy is back", harness.Absent, harness.Present); err != nil {
		return err
	}
	if err := s.kubectl(ctx, s.second, "-n", harness.Namespace, "patch", "secret", "test-secret", "-p", `{"stringData":{"colour":"wrong"}}`); err != nil {
		return err
	}
	if err := s.sawAfter(ctx, w, "the changed copy is restored", has("colour"), hasNot("colour")); err != nil {
		return err
	}
	source, err := s.third.Watch(ctx, harness.Secrets(), harness.Namespace, "test-secret")
	if err != nil {
		return err
	}
	s.say("A change at the origin reaches the copies.")
	if err := s.kubectl(ctx, s.third, "-n", harness.Namespace, "patch", "secret", "test-secret", "-p", `{"stringData":{"colour":"blue"}}`); err != nil {
		return err
	}
	changed, err := source.Until(ctx, "the change", within, has("colour"))
	if err != nil {
		return err
	}
	seen, err := w.Until(ctx, "the change", within, has("colour"))
	if err != nil {
		return err
	}
	s.saw(seen.At.Sub(changed.At), "the change is in %s", s.second.Name)
	return nil
}

func has(key string) func(*unstructured.Unstructured) bool {
	return func(u *unstructured.Unstructured) bool {
		if u == nil {
			return false
		}
		_, found, _ := unstructured.NestedString(u.Object, "data", key)
		return found
	}
}

func hasNot(key string) func(*unstructured.Unstructured) bool {
	return func(u *unstructured.Unstructured) bool { return u != nil && !has(key)(u) }
}

// sawAfter waits for a disturbance and then for its repair, and shows the time between them.
func (s *story) sawAfter(ctx context.Context, w *harness.Watch, what string, cause, effect func(*unstructured.Unstructured) bool) error {
	before, err := w.Until(ctx, "the cause of: "+what, within, cause)
	if err != nil {
		return err
	}
	after, err := w.Until(ctx, what, within, effect)
	if err != nil {
		return err
	}
	s.saw(after.At.Sub(before.At), "%s", what)
	return nil
}

func (s *story) watchAll(ctx context.Context, gvr schema.GroupVersionResource, namespace, name string) (map[string]*harness.Watch, error) {
	out := map[string]*harness.Watch{}
	for _, c := range s.fleet.Clusters {
		w, err := c.Watch(ctx, gvr, namespace, name)
		if err != nil {
			return nil, err
		}
		out[c.Name] = w
	}
	return out, nil
}
