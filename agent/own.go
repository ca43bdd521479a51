// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// ErrClusterName is returned when this cluster cannot have the name that it was given.
var ErrClusterName = errors.New("cluster name")

// findOwnCluster returns this cluster's Cluster object, or nil when it may be created under the name that it
// had, or that the flag gives. Of several the one with that name counts, else the oldest; the others show
// LocalConflict.
func (s *session) findOwnCluster(ctx context.Context) (*v1alpha1.Cluster, error) {
	list, err := s.client.Clusters().List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
	name := cmp.Or(s.ownName(), s.options.ClusterName)
	var own, holder *v1alpha1.Cluster
	for _, c := range list {
		switch {
		case string(c.Spec.ClusterID) != s.clusterID:
			if c.Name == name {
				holder = c
			}
		case own == nil, c.Name == name, own.Name != name && c.CreationTimestamp.Before(&own.CreationTimestamp):
			own = c
		}
	}
	switch {
	case own != nil:
		return own, nil
	case name == "":
		return nil, fmt.Errorf("%w: --cluster-name is not given, and there is no Cluster object with spec.clusterID %s", ErrClusterName, s.clusterID)
	case holder != nil:
		return nil, fmt.Errorf("%w: --cluster-name %s: the Cluster object of that name belongs to clusterID %s; choose another name", ErrClusterName, name, holder.Spec.ClusterID)
	}
	return nil, nil
}

// ensureOwnCluster creates this cluster's Cluster object or brings the fields up to date that the agent
// answers for; everything else in it is the user's. It is also the repair of an object that was deleted: only
// leaving the group ends a Cluster, and then the same object goes on under another key.
func (s *session) ensureOwnCluster(ctx context.Context) (*v1alpha1.Cluster, error) {
	clusters := s.client.Clusters()
	var out *v1alpha1.Cluster
	err := onConflict(func() error {
		have, err := s.findOwnCluster(ctx)
		if err != nil {
			return err
		}
		if have == nil {
			fresh := s.bornCluster()
			s.fillOwn(fresh)
			out, err = clusters.Create(ctx, fresh)
			return err
		}
		want := have.DeepCopy()
		s.fillOwn(want)
		if out = have; equality.Semantic.DeepEqual(have.Spec, want.Spec) && sameMeta(have, want) {
			return nil
		}
		out, err = clusters.Change(ctx, have, want)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("write this cluster's Cluster object: %w", err)
	}
	if s.ownName() != out.Name {
		if s.options.ClusterName != "" && out.Name != s.options.ClusterName {
			s.log.Warn("this cluster has a Cluster object already; --cluster-name is not used", "cluster", out.Name, "flag", s.options.ClusterName)
		}
		s.name.Store(&out.Name)
		s.chores.add(choreBootstrap) // the Secret has the same name
	}
	return out, nil
}

// bornCluster is the object as it was last published, so that a deleted one comes back with its labels.
func (s *session) bornCluster() *v1alpha1.Cluster {
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: cmp.Or(s.ownName(), s.options.ClusterName)}}
	if e, ok := s.replica.Lookup(clusterKey(s.clusterID), s.clusterID); ok {
		if p, err := decodeCluster(e.Origin, e.Payload); err == nil {
			c.Labels, c.Annotations, c.Spec = p.Labels, p.Annotations, p.Spec
			delete(c.Annotations, v1alpha1.AnnotationConfirmRestore) // a confirmation is a person's word, once
		}
	}
	return c
}

func (s *session) fillOwn(c *v1alpha1.Cluster) {
	c.Spec.ClusterID = types.UID(s.clusterID)
	if c.Spec.Mesh == nil {
		c.Spec.Mesh = &v1alpha1.ClusterMesh{}
	}
	c.Spec.Mesh.PublicKey = s.key.Public().(ed25519.PublicKey)
	c.Spec.Mesh.Endpoints = s.meshEndpoints(c.Spec.Mesh.Endpoints)
	if asked, ok := c.Annotations[v1alpha1.AnnotationLeave]; ok && asked != v1alpha1.RequestKey(c.Spec.Mesh.PublicKey) {
		delete(c.Annotations, v1alpha1.AnnotationLeave) // it was done, or is about another key
	}
	if s.options.ManageSecret {
		c.Spec.AuthInfo.SecretRef = v1alpha1.NamespacedName{Name: c.Name, Namespace: s.options.Namespace}
	}
	endpoint := v1alpha1.KubernetesAPIEndpoint{ServerAddress: s.server.Address, CABundle: s.server.CABundle}
	for i := range c.Spec.KubernetesAPIEndpoints {
		if c.Spec.KubernetesAPIEndpoints[i].ClientNetwork == "" {
			c.Spec.KubernetesAPIEndpoints[i] = endpoint
			return
		}
	}
	c.Spec.KubernetesAPIEndpoints = append(c.Spec.KubernetesAPIEndpoints, endpoint)
}

// ensureBootstrap keeps the Secret that a person swaps: a kubeconfig with a short-lived token of an account
// of its own. It returns when it wants to be called again.
func (s *session) ensureBootstrap(ctx context.Context) (next time.Duration, err error) {
	s.issuing.Lock()
	defer s.issuing.Unlock()
	return s.ensureBootstrapLocked(ctx)
}

// ensureBootstrapLocked is called with issuing held: a token that was issued before its account was revoked must not
// be what is kept in the end.
func (s *session) ensureBootstrapLocked(ctx context.Context) (next time.Duration, err error) {
	if !s.options.ManageSecret {
		return 0, nil
	}
	name := types.NamespacedName{Namespace: s.options.Namespace, Name: s.ownName()}
	have, err := s.client.Secrets(name.Namespace).Read(ctx, name.Name)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return 0, fmt.Errorf("read Secret %s: %w", name, err)
	case have.Type != v1alpha1.SecretType:
		return 0, s.problems.set(problemCredential, fmt.Errorf("the credential of this cluster: Secret %s has type %s, not %s, and is left alone: delete it or set --manage-secret=false", name, have.Type, v1alpha1.SecretType))
	default:
		if _, err := kube.ParseKubeconfig(have.Data[v1alpha1.SecretKubeconfigKey]); err == nil {
			if left := s.clock.renewIn(have.Data[v1alpha1.SecretKubeconfigKey]); left > 0 && !s.reissue.Load() {
				s.ownExpires(have.Data[v1alpha1.SecretKubeconfigKey])
				return left, s.problems.set(problemCredential, nil)
			}
		}
	}
	credential, err := s.issuer.Issue(ctx, bootstrapAccount, bootstrapLife)
	if err != nil {
		return 0, s.problems.set(problemCredential, fmt.Errorf("issue the credential that peers are given: %w", err))
	}
	s.clock.issued(credential.Kubeconfig)
	err = applySecret(ctx, s.client, &kube.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name.Name, Namespace: name.Namespace, Labels: managedLabels()},
		Type:       v1alpha1.SecretType,
		Data:       map[string][]byte{v1alpha1.SecretKubeconfigKey: credential.Kubeconfig},
	})
	if err != nil {
		return 0, s.problems.set(problemCredential, fmt.Errorf("write Secret %s: %w", name, err))
	}
	s.reissue.Store(false)
	s.ownExpires(credential.Kubeconfig)
	return max(s.clock.renewIn(credential.Kubeconfig), 1), s.problems.set(problemCredential, nil)
}

// ownExpires remembers, for the metrics, how long the credential lives that peers are given.
func (s *session) ownExpires(kubeconfig []byte) {
	if _, until, ok := kube.KubeconfigValidity(kubeconfig); ok {
		s.ownUntil.Store(until.Unix())
	}
}
