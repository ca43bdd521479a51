// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/agent/apiconn"
	"github.com/roster-mesh/roster/agent/directory"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

const (
	// providerName is the plugin of SIG Multicluster that reads a kubeconfig from a Secret; execExtension is where it is
	// told which one.
	providerName  = "kubeconfig-secretreader"
	execExtension = "client.authentication.k8s.io/exec"
	// maxValue is how long the value of a property may be.
	maxValue = 1024
)

// facts are what a profile is computed from beside the Cluster object.
type facts struct {
	own        bool // it is this cluster
	network    string
	clusterSet string
	route      *directory.Route // to its API server, with any credential; nil while it is not known
	now        time.Time
}

// statusOf computes the status of a cluster's profile from what it is now. It keeps what others wrote: conditions,
// properties and access providers of other names; and its own access provider while it is not known how the cluster is
// reached. It is pure, and applied to its own result it changes nothing.
func statusOf(c *v1alpha1.Cluster, f facts, have profileStatus, generation int64) profileStatus {
	want := have // no slice of have is changed
	want.Version.Kubernetes = c.Status.Version
	healthy := healthOf(c, f.own)
	healthy.ObservedGeneration, healthy.LastTransitionTime = generation, metav1.NewTime(f.now)
	want.Conditions = slices.Clone(have.Conditions)
	meta.SetStatusCondition(&want.Conditions, healthy)
	want.Properties = mergeProperties(have.Properties, propertiesOf(c, f.clusterSet))
	if f.route != nil {
		want.AccessProviders = mergeProviders(have.AccessProviders, providerOf(*f.route, f.network))
	}
	return want
}

// healthOf is the condition ControlPlaneHealthy. It is False only if the API server is not reached: a lack of credentials, a
// cluster that is disabled here, or an agent that does not answer says nothing about its control plane.
func healthOf(c *v1alpha1.Cluster, own bool) metav1.Condition {
	out := metav1.Condition{Type: conditionHealthy, Status: metav1.ConditionUnknown, Reason: "Connecting"}
	if own { // which is where this is written
		out.Status, out.Reason = metav1.ConditionTrue, "Local"
		return out
	}
	ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Reason == "" {
		return out
	}
	out.Reason, out.Message = ready.Reason, ready.Message
	if ready.Status == metav1.ConditionTrue || ready.Status == metav1.ConditionFalse && ready.Reason == string(apiconn.Unreachable) {
		out.Status = ready.Status
	}
	return out
}

// suffix opens no name of a property of the APIs, and ends those that are Roster's own, as they recommend.
const suffix = ".cluster-registry.k8s.cisco.com"

// ownProperties are the names of all properties that the agent writes, in the order in which it does.
func ownProperties() []string {
	return []string{propertyCluster, propertyClusterSet, "distribution" + suffix, "provider" + suffix, "region" + suffix, "zones" + suffix}
}

// propertiesOf are the properties of a cluster; one whose value is not known is not there.
func propertiesOf(c *v1alpha1.Cluster, clusterSet string) (out []profileProperty) {
	var at v1alpha1.Locality
	if c.Status.Locality != nil {
		at = *c.Status.Locality
	}
	values := []string{string(c.Spec.ClusterID), clusterSet, c.Status.Distribution, c.Status.Provider, at.Region, joinWithin(at.Zones, maxValue)}
	for i, name := range ownProperties() {
		if values[i] != "" && len(values[i]) <= maxValue {
			out = append(out, profileProperty{Name: name, Value: values[i]})
		}
	}
	return out
}

// joinWithin joins as many texts by commas as fit.
func joinWithin(texts []string, limit int) string {
	var b strings.Builder
	for i, text := range texts {
		if b.Len()+1+len(text) > limit {
			break
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(text)
	}
	return b.String()
}

// mergeProperties replaces the agent's own properties, each in its place, and keeps the others.
func mergeProperties(have, own []profileProperty) []profileProperty {
	var out []profileProperty
	for _, p := range have {
		i := slices.IndexFunc(own, func(o profileProperty) bool { return o.Name == p.Name })
		switch {
		case i >= 0 && own[i].Value == p.Value:
			out = append(out, p)
		case i >= 0:
			out = append(out, own[i])
		case !slices.Contains(ownProperties(), p.Name):
			out = append(out, p)
		}
	}
	for _, o := range own {
		if !slices.ContainsFunc(have, func(p profileProperty) bool { return p.Name == o.Name }) {
			out = append(out, o)
		}
	}
	return out
}

// providerOf says how a cluster is reached from this network; nil if there is no address with a CA, or if no Secret with a
// credential is named.
func providerOf(r directory.Route, network string) *accessProvider {
	secret := r.Secret
	at, err := kube.EndpointConfig(r.Endpoints, network)
	if err != nil || at.Host == "" || len(at.CAData) == 0 || secret.Name == "" || secret.Namespace == "" {
		return nil
	}
	return &accessProvider{Name: providerName, Cluster: map[string]any{
		"server":                     at.Host,
		"certificate-authority-data": base64.StdEncoding.EncodeToString(at.CAData),
		"extensions": []any{map[string]any{"name": execExtension, "extension": map[string]any{
			"name": secret.Name, "namespace": secret.Namespace, "key": v1alpha1.SecretKubeconfigKey,
		}}},
	}}
}

// mergeProviders replaces the agent's own access provider in its place, and keeps the others.
func mergeProviders(have []accessProvider, own *accessProvider) []accessProvider {
	var out []accessProvider
	placed := own == nil
	for _, p := range have {
		switch {
		case p.Name != providerName:
			out = append(out, p)
		case !placed:
			out, placed = append(out, *own), true
		}
	}
	if !placed {
		out = append(out, *own)
	}
	return out
}
