// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
	upstreamresources "k8s.io/kubernetes/pkg/controlplane"
	upstream "k8s.io/kubernetes/pkg/controlplane/apiserver"
	sample "k8s.io/kubernetes/pkg/controlplane/apiserver/samples/generic/server"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
	quotainstall "k8s.io/kubernetes/pkg/quota/v1/install"
)

// What this package says in its own words is compared with the packages that it stands for: these tests fail when an
// upgrade of Kubernetes changes them.

func TestPluginsAreUpstreams(t *testing.T) {
	t.Parallel()
	off := sample.DefaultOffAdmissionPlugins()
	want := slices.DeleteFunc(slices.Clone(kubeoptions.AllOrderedPlugins), off.Has)
	o := plugins()
	if diff := cmp.Diff(want, o.RecommendedPluginOrder); diff != "" {
		t.Errorf("plugins (-upstream +ours):\n%s", diff)
	}
	if err := errors.Join(o.Validate()...); err != nil { // each is registered
		t.Error(err)
	}
}

func TestResourcesAreUpstreams(t *testing.T) {
	t.Parallel()
	want := upstreamresources.DefaultGenericAPIResourceConfigSource().GroupVersionConfigs
	maps.DeleteFunc(want, func(_ schema.GroupVersion, enabled bool) bool { return !enabled })
	if diff := cmp.Diff(want, resources().GroupVersionConfigs); diff != "" {
		t.Errorf("versions of groups (-upstream +ours):\n%s", diff)
	}
}

func TestPrioritiesAreUpstreams(t *testing.T) {
	t.Parallel()
	all, want := upstream.DefaultGenericAPIServicePriorities(), map[schema.GroupVersion]Priority{}
	served := append(slices.Collect(maps.Keys(resources().GroupVersionConfigs)), schema.GroupVersion{Group: "apiextensions.k8s.io", Version: "v1"})
	for _, version := range served {
		want[version] = Priority(all[version])
	}
	if diff := cmp.Diff(want, Priorities()); diff != "" {
		t.Errorf("priorities (-upstream +ours):\n%s", diff)
	}
}

func TestOptionsAreUpstreams(t *testing.T) {
	t.Parallel()
	want, got := sample.NewOptions(), NewOptions()
	for _, part := range []struct {
		name      string
		want, got any
	}{
		{"address", want.SecureServing.BindAddress.String(), got.SecureServing.BindAddress.String()},
		{"port", want.SecureServing.BindPort, got.SecureServing.BindPort},
		{"media type", want.Etcd.DefaultStorageMediaType, got.Etcd.DefaultStorageMediaType},
		{"prefix", want.Etcd.StorageConfig.Prefix, got.Etcd.StorageConfig.Prefix},
		{"events kept for", want.EventTTL, eventTTL},
		{"tokens cached for", want.Authentication.TokenSuccessCacheTTL, tokenCached},
	} {
		if diff := cmp.Diff(part.want, part.got); diff != "" {
			t.Errorf("%s (-upstream +ours):\n%s", part.name, diff)
		}
	}
}

// Quotas count the same names of each kind that is served, and ignore what is not stored.
func TestQuotasAreUpstreams(t *testing.T) {
	t.Parallel()
	want, err := quotainstall.NewQuotaConfigurationForAdmission(nil, resources())
	if err != nil {
		t.Fatal(err)
	}
	names := []corev1.ResourceName{
		"configmaps", "count/configmaps", "secrets", "count/secrets", "resourcequotas", "count/resourcequotas",
		"serviceaccounts", "count/serviceaccounts", "pods", "count/roles.rbac.authorization.k8s.io",
	}
	matching := func(c quota.Configuration, kind schema.GroupResource) []corev1.ResourceName {
		for _, evaluator := range c.Evaluators() {
			if evaluator.GroupResource() == kind {
				return evaluator.MatchingResources(names)
			}
		}
		return nil // it is counted by its own name
	}
	for _, resource := range []string{"configmaps", "secrets", "resourcequotas", "serviceaccounts"} {
		kind := corev1.Resource(resource)
		if diff := cmp.Diff(matching(want, kind), matching(quotas(), kind)); diff != "" {
			t.Errorf("what a quota counts of %s (-upstream +ours):\n%s", kind, diff)
		}
	}
	ignored := want.IgnoredResources()
	delete(ignored, corev1.Resource("bindings")) // are not served
	delete(ignored, corev1.Resource("componentstatuses"))
	if diff := cmp.Diff(ignored, quotas().IgnoredResources()); diff != "" {
		t.Errorf("what quotas ignore (-upstream +ours):\n%s", diff)
	}
}
