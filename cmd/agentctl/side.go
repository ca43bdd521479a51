// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// requestTimeout bounds one request, so that an address that swallows packets is an error and not a hang.
const requestTimeout = 15 * time.Second

// side is one cluster as agentctl reaches it. Objects are kept unstructured: an agentctl that is older
// than the CRDs must not drop the fields that it does not know.
type side struct {
	Context   string // as the user calls it, for messages
	namespace string // of the context, "" where it names none
	inside    bool   // the cluster of the pod that agentctl runs in, which has no context
	client    dynamic.Interface
	config    *rest.Config
}

func clusterResource() schema.GroupVersionResource {
	return v1alpha1.SchemeGroupVersion.WithResource("clusters")
}

func coreResource(name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: name}
}

// openSide finds a context in the kubeconfig files ("" for either means kubectl's default).
func openSide(kubeconfig, contextName string) (*side, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	if contextName == "" && kubeconfig == "" && len(config.Contexts) == 0 {
		if access, err := rest.InClusterConfig(); err == nil {
			s, err := newSide("in-cluster", access)
			if err == nil {
				s.inside = true
			}
			return s, err
		}
	}
	if contextName == "" {
		contextName = config.CurrentContext
	}
	if _, found := config.Contexts[contextName]; !found {
		return nil, unknownContext(contextName, kubeconfig, keys(config.Contexts))
	}
	access, err := clientcmd.NewNonInteractiveClientConfig(*config, contextName, nil, rules).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("context %s: %w", contextName, err)
	}
	s, err := newSide(contextName, access)
	if err != nil {
		return nil, err
	}
	s.namespace = config.Contexts[contextName].Namespace
	return s, nil
}

func newSide(name string, config *rest.Config) (*side, error) {
	config.Timeout = requestTimeout
	config.QPS = -1 // the API server's own fairness decides
	config.UserAgent = "agentctl"
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("context %s: %w", name, err)
	}
	return &side{Context: name, client: client, config: config}, nil
}

func unknownContext(name, kubeconfig string, known []string) error {
	where := "the kubeconfig"
	if kubeconfig != "" {
		where = kubeconfig
	}
	if len(known) == 0 {
		return fmt.Errorf("%s has no contexts; set KUBECONFIG or give --kubeconfig", where)
	}
	list := strings.Join(known, ", ")
	if name == "" {
		return usagef("%s has no current context; give --context, one of: %s", where, list)
	}
	return usagef("no context %q in %s; it has: %s", name, where, list)
}

func keys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// errorf puts the context's name before an error, so that of two clusters the reader knows which.
func (s *side) errorf(format string, args ...any) error {
	return fmt.Errorf("context %s: "+format, append([]any{s.Context}, args...)...)
}

// clusterID is the UID of the namespace kube-system, as it is for every agent.
func (s *side) clusterID(ctx context.Context) (string, error) {
	ns, err := s.client.Resource(coreResource("namespaces")).Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", s.errorf("read the cluster's identity: %w", err)
	}
	return string(ns.GetUID()), nil
}

// clusters lists the Cluster objects, in name order.
func (s *side) clusters(ctx context.Context) ([]unstructured.Unstructured, error) {
	list, err := s.client.Resource(clusterResource()).List(ctx, metav1.ListOptions{})
	if err != nil {
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			return nil, s.errorf("the Cluster CRD is not installed; install the chart (charts/agent) there first")
		}
		return nil, s.errorf("list clusters: %w", err)
	}
	sort.Slice(list.Items, func(i, j int) bool { return list.Items[i].GetName() < list.Items[j].GetName() })
	return list.Items, nil
}

// typed reads an object into the API type that this agentctl was built with.
func typed(u *unstructured.Unstructured) (*v1alpha1.Cluster, error) {
	var c v1alpha1.Cluster
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &c); err != nil {
		return nil, fmt.Errorf("read cluster %s: %w", u.GetName(), err)
	}
	return &c, nil
}

// local finds the Cluster object that stands for the cluster itself.
func (s *side) local(ctx context.Context) (*unstructured.Unstructured, error) {
	id, err := s.clusterID(ctx)
	if err != nil {
		return nil, err
	}
	all, err := s.clusters(ctx)
	if err != nil {
		return nil, err
	}
	var found []*unstructured.Unstructured
	for i := range all {
		if clusterIDOf(&all[i]) == id {
			found = append(found, &all[i])
		}
	}
	switch len(found) {
	case 0:
		return nil, s.errorf("no Cluster object of this cluster itself: the agent is not installed there, or has not started yet")
	case 1:
		return found[0], nil
	default:
		return nil, s.errorf("the Cluster objects %s and %s both claim to be this cluster (%s); delete the wrong one",
			found[0].GetName(), found[1].GetName(), id)
	}
}

func clusterIDOf(u *unstructured.Unstructured) string {
	id, _, _ := unstructured.NestedString(u.Object, "spec", "clusterID")
	return id
}
func (s *side) typedClusters(ctx context.Context) ([]*v1alpha1.Cluster, error) {
	all, err := s.clusters(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]*v1alpha1.Cluster, 0, len(all))
	for i := range all {
		cluster, err := typed(&all[i])
		if err != nil {
			return nil, s.errorf("%w", err)
		}
		out = append(out, cluster)
	}
	return out, nil
}

func first(lines []string) string { return cli.First(lines) }
