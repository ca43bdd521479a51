// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// reached is one cluster of the group, as far as the user can see it: what its Cluster object in the local
// cluster says and, where there is a way to its API server, what is there.
type reached struct {
	name, id string
	cluster  *v1alpha1.Cluster // as templates see it: without authInfo
	local    bool
	api      *clusters.Reader // nil: why
	why      string           // why it cannot be asked
	mayWrite bool             // the credential is the user's own, so a dry run may be allowed
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
	local        *clusters.Client
	kubeconfig   string
	peerContexts map[string]string // by the name of the cluster
	network      string
}

// clusters opens every cluster of the group, the local one first, then by name. Those that cannot be asked say
// why.
func (r *reach) clusters(ctx context.Context) ([]*reached, error) {
	own, err := r.local.Local(ctx)
	if err != nil {
		return nil, err
	}
	all, err := r.local.Members(ctx)
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
			return nil, cli.Usagef("--peer-context names cluster %q, and context %s has no other cluster of that name", name, r.local.Context)
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
		err = s.Verify(ctx, c.id)
	}
	if err != nil {
		c.why = clusters.Reason(err)
		c.featuresWhy, c.rulesWhy = c.why, c.why
		return
	}
	c.api, c.mayWrite = clusters.NewReader(s), mayWrite
	c.readFeatures(ctx, s)
	c.readRules(ctx, s)
}

func (c *reached) readFeatures(ctx context.Context, s *clusters.Client) {
	list, err := s.Dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("clusterfeatures")).List(ctx, metav1.ListOptions{Limit: clusters.MaxListed})
	if err != nil {
		c.featuresWhy = "its ClusterFeatures cannot be read: " + clusters.Reason(err)
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
func (c *reached) readRules(ctx context.Context, s *clusters.Client) {
	list, err := s.Dynamic.Resource(clusters.RuleResource()).List(ctx, metav1.ListOptions{Limit: clusters.MaxListed})
	if err != nil {
		c.rulesWhy = "its rules cannot be read: " + clusters.Reason(err)
		return
	}
	c.rules = map[string]bool{}
	for i := range list.Items {
		c.rules[list.Items[i].GetName()] = true
	}
}

// side is the way to a cluster: the user's own context, or else the credential that the local cluster holds,
// with which nothing can be written.
func (r *reach) side(ctx context.Context, c *reached, cluster *v1alpha1.Cluster) (s *clusters.Client, mayWrite bool, err error) {
	if c.local {
		return r.local, true, nil
	}
	if name, ok := r.peerContexts[c.name]; ok {
		s, err = clusters.Access{Kubeconfig: r.kubeconfig, Context: name}.Open()
		if err != nil {
			return nil, false, err
		}
		s, err = clusters.New(name, clusters.Bounded(s.Config, clusters.MaxAnswer))
		return s, true, err
	}
	ref := cluster.Spec.AuthInfo.SecretRef
	if ref.Name == "" {
		return nil, false, errors.New("its Cluster object names no credential; give --peer-context " + c.name + "=CONTEXT")
	}
	if err := clusters.CheckRef(ref, c.id); err != nil {
		return nil, false, err
	}
	secret, err := r.local.Secrets(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, false, fmt.Errorf("its credential, Secret %s/%s here, cannot be read (%s); give --peer-context %s=CONTEXT", ref.Namespace, ref.Name, clusters.Reason(err), c.name)
	}
	kubeconfig, err := clusters.KubeconfigOf(secret)
	if err != nil {
		return nil, false, fmt.Errorf("its credential, Secret %s/%s here: %w", ref.Namespace, ref.Name, err)
	}
	config, err := clusters.PeerConfig(kubeconfig, cluster, r.network)
	if err != nil {
		return nil, false, err
	}
	s, err = clusters.New(c.name, clusters.Bounded(config, clusters.MaxAnswer))
	return s, false, err
}
