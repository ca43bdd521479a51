// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

type stringMap = map[string]string

func node(providerID string, labels, annotations stringMap, info corev1.NodeSystemInfo) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations},
		Spec:       corev1.NodeSpec{ProviderID: providerID},
		Status:     corev1.NodeStatus{NodeInfo: info},
	}
}

func asUnstructured(t *testing.T, n *corev1.Node) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(n)
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{Object: content}
	obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	return obj
}

// The nodes have what the distributions really set, as far as it distinguishes them.
func TestDescribeClusterTellsDistributions(t *testing.T) {
	kubeadm := stringMap{"kubeadm.alpha.kubernetes.io/cri-socket": "unix:///run/containerd/containerd.sock"}
	pool := stringMap{"nodepool.banzaicloud.io/name": "pool1"}
	kubelet := func(v string) corev1.NodeSystemInfo { return corev1.NodeSystemInfo{KubeletVersion: v} }
	none := corev1.NodeSystemInfo{}
	for name, test := range map[string]struct {
		node   *corev1.Node
		server string
		want   string
	}{
		"EKS":             {node("aws:///eu-central-1a/i-088b4f07708408cc0", stringMap{"nodepool.banzaicloud.io/name": "pool1"}, nil, kubelet("v1.17.11-eks-cfdc40")), "", "amazon/EKS"},
		"EKS, node group": {node("aws:///eu-west-1a/i-1", stringMap{"eks.amazonaws.com/nodegroup": "ng"}, kubeadm, none), "", "amazon/EKS"},
		"EKS, no nodes":   {nil, "v1.33.1-eks-595af52", "/EKS"},
		"PKE on amazon":   {node("aws:///eu-west-1a/i-1", pool, kubeadm, none), "", "amazon/PKE"},
		"PKE on azure":    {node("azure:///subscriptions/x", pool, kubeadm, none), "", "azure/PKE"},
		"PKE on vsphere":  {node("vsphere://4232e3c7", pool, kubeadm, none), "", "vsphere/PKE"},
		"GKE":             {node("gce://p/europe-north1-a/n", stringMap{"cloud.google.com/gke-nodepool": "pool1", "nodepool.banzaicloud.io/name": "pool1"}, nil, none), "", "google/GKE"},
		"standalone":      {nil, "v1.37.2+roster", "/STANDALONE"},
		"GKE, no nodes":   {nil, "v1.32.4-gke.1415000", "/GKE"},
		"AKS":             {node("azure:///subscriptions/x", stringMap{"agentpool": "pool1"}, nil, none), "", "azure/AKS"},
		"AKS, new label":  {node("azure:///subscriptions/x", stringMap{"kubernetes.azure.com/cluster": "MC_x"}, nil, none), "", "azure/AKS"},
		"KIND":            {node("kind://docker/kind/kind-control-plane", nil, kubeadm, none), "", "kind/KIND"},
		"IKS":             {node("vsphere://421856ac", stringMap{"iks.intersight.cisco.com/version": "6062"}, kubeadm, none), "", "cisco/IKS"},
		"OPENSHIFT":       {node("aws:///us-east-1a/i-0", stringMap{"node.openshift.io/os_id": "rhcos"}, nil, none), "", "amazon/OPENSHIFT"},
		"RKE":             {node("", nil, stringMap{"rke.cattle.io/internal-ip": "1.2.3.4"}, none), "", "/RKE"},
		"RKE2":            {node("rke2://ip-8-8-24-81", nil, stringMap{"rke2.io/node-args": "[]"}, kubelet("v1.23.13+rke2r1")), "", "/RKE2"},
		"RKE2 on amazon":  {node("aws:///us-east-2a/i-0", nil, stringMap{"rke2.io/node-args": "[]"}, none), "", "amazon/RKE2"},
		"K3S":             {node("k3s://ip-1.2.3.4", nil, stringMap{"k3s.io/node-args": "[]"}, kubelet("v1.24.14+k3s1")), "", "/K3S"},
		"K3S, version":    {node("", nil, nil, kubelet("v1.24.14+k3s1")), "", "/K3S"},
		"K3D":             {node("k3s://k3d-dev-server-0", nil, stringMap{"k3s.io/node-args": "[]"}, kubelet("v1.31.5+k3s1")), "", "/K3D"},
		"MICROK8S":        {node("", stringMap{"microk8s.io/cluster": "true"}, nil, none), "", "/MICROK8S"},
		"TALOS":           {node("", nil, nil, corev1.NodeSystemInfo{OSImage: "Talos (v1.11.0)"}), "", "/TALOS"},
		"TALOS on amazon": {node("aws:///us-east-2a/i-0", nil, stringMap{"talos.dev/owned-labels": "[]"}, none), "", "amazon/TALOS"},
		"KUBEADM":         {node("", nil, kubeadm, none), "", "/KUBEADM"},
		"vsphere":         {node("vsphere://4232e3c7", nil, nil, none), "", "vsphere/"},
		"unknown":         {node("other://x", nil, nil, none), "v1.36.3", "/"},
	} {
		t.Run(name, func(t *testing.T) {
			var nodes []*Node
			if test.node != nil {
				nodes = append(nodes, nodeOf(asUnstructured(t, test.node)))
			}
			m := DescribeCluster(nodes, test.server)
			if got := m.Provider + "/" + m.Distribution; got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if test.node == nil {
				return
			}
			trimmed := asUnstructured(t, test.node)
			trimNode(trimmed)
			if diff := cmp.Diff(m, DescribeCluster([]*Node{nodeOf(trimmed)}, test.server)); diff != "" {
				t.Errorf("a trimmed node has other metadata (-whole +trimmed):\n%s", diff)
			}
		})
	}
}

// A trimmed node has all fields of Node.
func TestTrimNodeKeepsAddresses(t *testing.T) {
	n := node("", nil, nil, corev1.NodeSystemInfo{})
	n.Name = "n"
	n.Status.Conditions = []corev1.NodeCondition{{Type: "DiskPressure", Status: "False"}, {Type: "Ready", Status: "True"}}
	n.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "n"},
		{Type: corev1.NodeInternalIP, Address: "10.0.0.1"},
		{Type: corev1.NodeInternalIP, Address: "fd00::1"},
		{Type: corev1.NodeExternalIP, Address: "203.0.113.1"},
	}
	want := &Node{Name: "n", Ready: true, ExternalIPs: []string{"203.0.113.1"}, InternalIPs: []string{"10.0.0.1", "fd00::1"}}
	obj := asUnstructured(t, n)
	for range 2 {
		if diff := cmp.Diff(want, nodeOf(obj)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		trimNode(obj)
	}
}

func TestDescribeClusterReadsAllNodes(t *testing.T) {
	in := func(region, zone, kubelet, providerID string) *Node {
		return &Node{
			ProviderID: providerID, Labels: stringMap{labelRegion: region, labelZone: zone},
			KubeletVersion: kubelet, KubeProxyVersion: kubelet,
		}
	}
	nodes := []*Node{
		in("", "", "", ""), in("west", "w2", "v2", "kind://a"), in("east", "e1", "v1", "kind://b"),
		in("west", "w1", "v2", "aws:///x"), in("", "", "", ""),
	}
	want := Metadata{
		Provider: "kind", Distribution: "KIND", Version: "v9",
		KubeletVersions: []string{"v1", "v2"}, KubeProxyVersions: []string{"v1", "v2"},
		Locality: &v1alpha1.Locality{Region: "west", Regions: []string{"east", "west"}, Zones: []string{"e1", "w1", "w2"}},
	}
	if diff := cmp.Diff(want, DescribeCluster(nodes, "v9")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(Metadata{Version: "v9"}, DescribeCluster(nil, "v9")); diff != "" {
		t.Errorf("no nodes, -want +got:\n%s", diff)
	}
	nodes = nil
	for i := range 400 {
		nodes = append(nodes, in("r", fmt.Sprint("z", i), fmt.Sprint("v", i), ""))
	}
	m := DescribeCluster(nodes, "")
	if len(m.Locality.Zones) != maxZones || len(m.KubeletVersions) != maxVersions {
		t.Errorf("%d zones, %d versions: more than a Cluster's status holds", len(m.Locality.Zones), len(m.KubeletVersions))
	}
}

// apiNode is a node as an API server sends it, with fields that an agent does not keep.
func apiNode(t *testing.T, name, version, heartbeat string) *unstructured.Unstructured {
	t.Helper()
	n := node("kind://"+name, stringMap{"kubernetes.io/hostname": name, labelZone: "z"}, stringMap{"k3s.io/node-args": heartbeat},
		corev1.NodeSystemInfo{KubeletVersion: version})
	n.Name = name
	n.Status.Images = []corev1.ContainerImage{{Names: []string{"image"}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Message: heartbeat}}
	return asUnstructured(t, n)
}

func TestWatchNodesIgnoresHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.put(apiNode(t, "n1", "v1", "a"))
		a.put(apiNode(t, "n2", "v1", "a"))
		calls := 0
		var last Metadata
		done := make(chan error, 1)
		go func() {
			done <- WatchNodes(t.Context(), a.client(t), func(nodes []*Node) {
				calls++
				last = DescribeCluster(nodes, "")
			})
		}()
		synctest.Wait()
		if calls != 1 || len(last.KubeletVersions) != 1 || last.Provider != "kind" || last.Distribution != "K3S" {
			t.Fatalf("after the list: %d calls, %+v", calls, last)
		}
		a.put(apiNode(t, "n1", "v1", "b"))
		synctest.Wait()
		if calls != 1 {
			t.Error("a heartbeat was passed on")
		}
		a.put(apiNode(t, "n1", "v2", "b"))
		synctest.Wait()
		if calls != 2 || len(last.KubeletVersions) != 2 {
			t.Errorf("after an upgrade: %d calls, %+v", calls, last)
		}
		a.remove(apiNode(t, "n2", "v1", "a"))
		synctest.Wait()
		if calls != 3 || len(last.KubeletVersions) != 1 {
			t.Errorf("after a removal: %d calls, %+v", calls, last)
		}
		// Nor is a new list without a change reported.
		time.Sleep(2 * time.Second)
		a.expire()
		a.net.cutConnections()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if calls != 3 {
			t.Error("a new list without a change was passed on")
		}
	})
}

func TestWatchNodesEndsWhenNodesMayNotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.deny = map[string]int{"stream": http.StatusForbidden, "list": http.StatusForbidden}
		err := WatchNodes(t.Context(), a.client(t), func([]*Node) { t.Error("called") })
		if !errors.Is(err, ErrForbidden) {
			t.Fatalf("error %v, want ErrForbidden", err)
		}
	})
}
