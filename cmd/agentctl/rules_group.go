// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// reached is one cluster of the group, as far as the user can see it: what its Cluster object in the local
// cluster says and, where there is a way to its API server, what is there.
type reached struct {
	name, id string
	cluster  *v1alpha1.Cluster // as templates see it: without authInfo
	local    bool
	api      *api   // nil: why
	why      string // why it cannot be asked
	disabled bool
	// features are its ClusterFeatures; unknown when featuresWhy says why.
	features    []*v1alpha1.ClusterFeature
	featuresWhy string
	// rules are the names of the rules that are there; unknown when rulesWhy says why.
	rules    map[string]bool
	rulesWhy string
}

// title is what people call the cluster.
func (c *reached) title() string {
	if c.local {
		return c.name + " (this cluster)"
	}
	return c.name
}

// reach says how the clusters of the group are found.
type reach struct {
	local        *side
	kubeconfig   string
	peerContexts map[string]string // by the name of the cluster
	network      string
}

// peerPatience bounds each request to another cluster: one that is away must not stop the explanation.
const peerPatience = 8 * time.Second

// clusters opens every cluster of the group, the local one first, then by name. Those that cannot be asked say
// why.
func (r *reach) clusters(ctx context.Context) ([]*reached, error) {
	own, err := r.local.local(ctx)
	if err != nil {
		return nil, err
	}
	all, err := r.local.typedClusters(ctx)
	if err != nil {
		return nil, err
	}
	var out []*reached
	for _, c := range all {
		one := &reached{name: c.Name, id: string(c.Spec.ClusterID), local: c.Name == own.GetName()}
		_, one.disabled = c.Annotations[v1alpha1.AnnotationClusterDisabled]
		one.cluster = c.DeepCopy()
		one.cluster.Spec.AuthInfo, one.cluster.ManagedFields = v1alpha1.AuthInfo{}, nil
		out = append(out, one)
	}
	for name := range r.peerContexts {
		if !slices.ContainsFunc(out, func(c *reached) bool { return c.name == name && !c.local }) {
			return nil, usagef("--peer-context names cluster %q, and context %s has no other cluster of that name", name, r.local.Context)
		}
	}
	var wait sync.WaitGroup
	for i, c := range out {
		wait.Go(func() { r.open(ctx, c, all[i]) })
	}
	wait.Wait()
	slices.SortStableFunc(out, func(a, b *reached) int {
		if a.local != b.local {
			if a.local {
				return -1
			}
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
	return out, nil
}

// open finds a way into one cluster, proves that it is the one, and reads its features.
func (r *reach) open(ctx context.Context, c *reached, cluster *v1alpha1.Cluster) {
	s, mayWrite, err := r.side(ctx, c, cluster)
	if err == nil && !c.local {
		err = sameCluster(ctx, s, c.id)
	}
	if err == nil {
		c.api, err = newAPI(s, mayWrite)
	}
	if err != nil {
		c.api, c.why = nil, reasonOf(err)
		c.featuresWhy, c.rulesWhy = c.why, c.why
		return
	}
	c.readFeatures(ctx, s)
	c.readRules(ctx, s)
}

func (c *reached) readFeatures(ctx context.Context, s *side) {
	list, err := s.client.Resource(v1alpha1.SchemeGroupVersion.WithResource("clusterfeatures")).List(ctx, metav1.ListOptions{Limit: maxListed})
	if err != nil {
		c.featuresWhy = "its ClusterFeatures cannot be read: " + reasonOf(err)
		return
	}
	for i := range list.Items {
		var f v1alpha1.ClusterFeature
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &f); err == nil {
			c.features = append(c.features, &f)
		}
	}
}

// readRules reads which rules are there: a rule may have been withdrawn and deleted in some clusters.
func (c *reached) readRules(ctx context.Context, s *side) {
	list, err := s.client.Resource(ruleResource()).List(ctx, metav1.ListOptions{Limit: maxListed})
	if err != nil {
		c.rulesWhy = "its rules cannot be read: " + reasonOf(err)
		return
	}
	c.rules = map[string]bool{}
	for i := range list.Items {
		c.rules[list.Items[i].GetName()] = true
	}
}

// side is the way to a cluster: the user's own context, or else the credential that the local cluster holds,
// with which nothing can be written.
func (r *reach) side(ctx context.Context, c *reached, cluster *v1alpha1.Cluster) (s *side, mayWrite bool, err error) {
	if c.local {
		return r.local, true, nil
	}
	if name, ok := r.peerContexts[c.name]; ok {
		s, err = openSide(r.kubeconfig, name)
		if err != nil {
			return nil, false, err
		}
		s, err = newSide(name, bounded(s.config))
		return s, true, err
	}
	ref := cluster.Spec.AuthInfo.SecretRef
	if ref.Name == "" {
		return nil, false, errors.New("its Cluster object names no credential; give --peer-context " + c.name + "=CONTEXT")
	}
	secret, err := r.local.client.Resource(coreResource("secrets")).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, false, fmt.Errorf("its credential, Secret %s/%s here, cannot be read (%s); give --peer-context %s=CONTEXT", ref.Namespace, ref.Name, reasonOf(err), c.name)
	}
	kubeconfig, err := kubeconfigOf(secret)
	if err != nil {
		return nil, false, fmt.Errorf("its credential, Secret %s/%s here: %w", ref.Namespace, ref.Name, err)
	}
	config, err := kube.PeerConfig(kubeconfig, cluster.Spec.KubernetesAPIEndpoints, r.network)
	if err != nil {
		return nil, false, err
	}
	s, err = newSide(c.name, bounded(config))
	return s, false, err
}

func kubeconfigOf(secret *unstructured.Unstructured) ([]byte, error) {
	if err := clusters.CheckCredential(secret); err != nil {
		return nil, err
	}
	encoded, _, _ := unstructured.NestedString(secret.Object, "data", v1alpha1.SecretKubeconfigKey)
	return decodeBase64(encoded)
}

// sameCluster refuses to ask another cluster than the one meant.
func sameCluster(ctx context.Context, s *side, id string) error {
	have, err := s.clusterID(ctx)
	if err != nil {
		return err
	}
	if have != id {
		return fmt.Errorf("%w: its clusterID is %q, expected %q", kube.ErrWrongCluster, have, id)
	}
	return nil
}

// maxAnswer bounds one answer of another cluster: it is not trusted to be modest.
const maxAnswer = 64 << 20

// bounded is a configuration whose requests are bounded in time and size.
func bounded(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return boundedTransport{next} })
	return config
}

type boundedTransport struct{ next http.RoundTripper }

func (t boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(r.Context(), peerPatience)
	response, err := t.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	response.Body = struct {
		*maxReader
		*closer
	}{&maxReader{response.Body, maxAnswer}, &closer{response.Body, cancel}}
	return response, nil
}

// reasonOf is an error as one bounded line, without the address and the other words that the client library
// wraps around it.
func reasonOf(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Message != "" {
		err = errors.New(status.Status().Message)
	}
	text := oneLine(err.Error())
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}
