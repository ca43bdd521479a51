// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Metadata describes a cluster, for the status of its Cluster object.
type Metadata struct {
	Provider, Distribution, Version    string
	KubeletVersions, KubeProxyVersions []string
	Locality                           *v1alpha1.Locality
}

// Bounds of the lists in a Cluster's status.
const (
	maxVersions = 64
	maxRegions  = 64
	maxZones    = 256
)

// Labels and annotations that DescribeCluster reads.
const (
	labelRegion    = "topology.kubernetes.io/region"
	labelZone      = "topology.kubernetes.io/zone"
	labelRegionOld = "failure-domain.beta.kubernetes.io/region"
	labelZoneOld   = "failure-domain.beta.kubernetes.io/zone"
	labelPKE       = "nodepool.banzaicloud.io/name"
	labelIKS       = "iks.intersight.cisco.com/version"
	labelOpenShift = "node.openshift.io/os_id"
	labelGKE       = "cloud.google.com/gke-nodepool"
	labelAKS       = "agentpool"
	labelAKSNew    = "kubernetes.azure.com/cluster"
	labelEKS       = "eks.amazonaws.com/nodegroup"
	labelMicroK8s  = "microk8s.io/cluster"
	prefixRKE      = "rke.cattle.io/"
	prefixRKE2     = "rke2.io/"
	prefixK3S      = "k3s.io/"
	prefixTalos    = "talos.dev/"
	keyKubeadm     = "kubeadm.alpha.kubernetes.io/cri-socket"
	osTalos        = "Talos ("
)

// providerOf returns the provider, from the scheme of a node's providerID.
func providerOf(n *Node) string {
	scheme, _, _ := strings.Cut(n.ProviderID, "://")
	switch scheme {
	case "aws":
		return "amazon"
	case "azure":
		return "azure"
	case "gce":
		return "google"
	case "kind":
		return "kind"
	case "vsphere":
		if n.Labels[labelIKS] != "" {
			return "cisco"
		}
		return "vsphere"
	}
	return ""
}

// distribution is a rule that recognizes one distribution.
type distribution struct {
	name string
	is   func(n *Node, provider string) bool
}

// distributions returns the rules; the first that matches a node wins. A distribution that marks its
// nodes comes before one that is concluded from the provider. kubeadm comes last, since others are built
// with it.
func distributions() []distribution {
	return []distribution{
		{"OPENSHIFT", func(n *Node, _ string) bool { return n.Labels[labelOpenShift] != "" }},
		{"IKS", func(_ *Node, p string) bool { return p == "cisco" }},
		{"RKE2", func(n *Node, _ string) bool {
			return anyPrefix(n.Annotations, prefixRKE2) || strings.Contains(n.KubeletVersion, "+rke2r")
		}},
		{"RKE", func(n *Node, _ string) bool { return anyPrefix(n.Annotations, prefixRKE) }},
		{"K3D", func(n *Node, _ string) bool { return strings.HasPrefix(n.ProviderID, "k3s://k3d-") }},
		{"K3S", func(n *Node, _ string) bool {
			return anyPrefix(n.Annotations, prefixK3S) || strings.Contains(n.KubeletVersion, "+k3s")
		}},
		{"MICROK8S", func(n *Node, _ string) bool { return n.Labels[labelMicroK8s] != "" }},
		{"TALOS", func(n *Node, _ string) bool {
			return strings.HasPrefix(n.OSImage, osTalos) || anyPrefix(n.Annotations, prefixTalos)
		}},
		{"PKE", func(n *Node, _ string) bool {
			return n.Labels[labelPKE] != "" && n.Annotations[keyKubeadm] != ""
		}},
		{"KIND", func(_ *Node, p string) bool { return p == "kind" }},
		{"GKE", func(n *Node, p string) bool { return p == "google" && n.Labels[labelGKE] != "" }},
		{"AKS", func(n *Node, p string) bool {
			return p == "azure" && (n.Labels[labelAKS] != "" || n.Labels[labelAKSNew] != "")
		}},
		{"EKS", func(n *Node, p string) bool {
			_, kubeadm := n.Annotations[keyKubeadm]
			return p == "amazon" && (n.Labels[labelEKS] != "" || !kubeadm)
		}},
		{"KUBEADM", func(n *Node, _ string) bool { return n.Annotations[keyKubeadm] != "" }},
	}
}

// distributionOfVersion tells a distribution from the API server's version alone, for a cluster without
// nodes, or with nodes that say nothing.
func distributionOfVersion(version string) string {
	for _, mark := range [][2]string{{"-eks-", "EKS"}, {"-gke.", "GKE"}, {"+rke2r", "RKE2"}, {"+k3s", "K3S"}, {"+roster", "STANDALONE"}} {
		if strings.Contains(version, mark[0]) {
			return mark[1]
		}
	}
	return ""
}

// DescribeCluster derives the metadata of a cluster from all nodes and the API server's version. Where nodes
// differ, the majority decides, and among equals the first in alphabetical order: the result does not
// depend on the order of the nodes. All lists are sorted and bounded.
func DescribeCluster(nodes []*Node, serverVersion string) Metadata {
	providers, dists := counter{}, counter{}
	regions, zones := counter{}, counter{}
	kubelets, proxies := counter{}, counter{}
	rules := distributions()
	for _, n := range nodes {
		provider := providerOf(n)
		providers.add(provider)
		for _, d := range rules {
			if d.is(n, provider) {
				dists.add(d.name)
				break
			}
		}
		regions.add(firstOf(n.Labels, labelRegion, labelRegionOld))
		zones.add(firstOf(n.Labels, labelZone, labelZoneOld))
		kubelets.add(n.KubeletVersion)
		proxies.add(n.KubeProxyVersion)
	}
	m := Metadata{
		Provider:          providers.most(),
		Distribution:      cmp.Or(dists.most(), distributionOfVersion(serverVersion)),
		Version:           serverVersion,
		KubeletVersions:   kubelets.sorted(maxVersions),
		KubeProxyVersions: proxies.sorted(maxVersions),
	}
	if len(regions)+len(zones) > 0 {
		m.Locality = &v1alpha1.Locality{
			Region:  regions.most(),
			Regions: regions.sorted(maxRegions),
			Zones:   zones.sorted(maxZones),
		}
	}
	return m
}

// Node has the fields of a node that are read, for DescribeCluster and for the address of the cluster. A
// whole node is 20 KiB and more, mostly images and heartbeats.
type Node struct {
	Name, ProviderID    string
	Labels, Annotations map[string]string
	KubeletVersion      string
	KubeProxyVersion    string // filled until Kubernetes 1.33
	OSImage             string

	Ready                    bool
	ExternalIPs, InternalIPs []string
}

func nodeOf(obj *unstructured.Unstructured) *Node {
	at := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(obj.Object, fields...)
		return value
	}
	out := &Node{
		Name: obj.GetName(), ProviderID: at("spec", "providerID"),
		KubeletVersion:   at("status", "nodeInfo", "kubeletVersion"),
		KubeProxyVersion: at("status", "nodeInfo", "kubeProxyVersion"),
		OSImage:          at("status", "nodeInfo", "osImage"),
	}
	for _, c := range listAt(obj, "status", "conditions") {
		out.Ready = out.Ready || c["type"] == "Ready" && c["status"] == "True"
	}
	for _, a := range listAt(obj, "status", "addresses") {
		address, _ := a["address"].(string)
		switch a["type"] {
		case "ExternalIP":
			out.ExternalIPs = append(out.ExternalIPs, address)
		case "InternalIP":
			out.InternalIPs = append(out.InternalIPs, address)
		}
	}
	labels := obj.GetLabels()
	for _, key := range []string{
		labelRegion, labelZone, labelRegionOld, labelZoneOld,
		labelPKE, labelIKS, labelOpenShift, labelGKE, labelAKS, labelAKSNew, labelEKS, labelMicroK8s,
	} {
		if v, ok := labels[key]; ok {
			setIn(&out.Labels, key, v)
		}
	}
	for key, v := range obj.GetAnnotations() {
		switch {
		case key == keyKubeadm:
			setIn(&out.Annotations, key, v)
		case strings.HasPrefix(key, prefixRKE), strings.HasPrefix(key, prefixRKE2),
			strings.HasPrefix(key, prefixK3S), strings.HasPrefix(key, prefixTalos):
			// Only the key is read, and some values change.
			setIn(&out.Annotations, key, "")
		}
	}
	return out
}

// listAt returns a field of obj that is a list of objects.
func listAt(obj *unstructured.Unstructured, fields ...string) []map[string]any {
	list, _, _ := unstructured.NestedFieldNoCopy(obj.Object, fields...)
	items, _ := list.([]any)
	out := make([]map[string]any, 0, len(items))
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

func setIn(m *map[string]string, key, value string) {
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = value
}

func anyPrefix(m map[string]string, prefix string) bool {
	for k := range m {
		if strings.HasPrefix(k, prefix) {
			return true
		}
	}
	return false
}

func firstOf(m map[string]string, keys ...string) string {
	for _, k := range keys {
		if m[k] != "" {
			return m[k]
		}
	}
	return ""
}

// counter counts the nodes that have a value.
type counter map[string]int

func (c counter) add(v string) {
	if v != "" {
		c[v]++
	}
}

func (c counter) most() string {
	best := ""
	for _, v := range slices.Sorted(maps.Keys(c)) {
		if best == "" || c[v] > c[best] {
			best = v
		}
	}
	return best
}

func (c counter) sorted(limit int) []string {
	all := slices.Sorted(maps.Keys(c))
	return all[:min(limit, len(all))]
}
