// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package others knows what others than people and agents put into clusters: the labels and annotations that tools and
// controllers set on objects, the fields that servers set, and the objects that every cluster makes for itself.
package others

import "strings"

// Controls says whether a label or annotation is state that controllers of Kubernetes keep on an object in one
// cluster. In another cluster, controllers would overwrite it again and again, or rely on it: a PersistentVolumeClaim that
// says that it was bound, and has no volume, becomes Lost.
func Controls(key string) bool {
	switch prefix, name, _ := strings.Cut(key, "/"); prefix {
	case "deployment.kubernetes.io", "pv.kubernetes.io", "control-plane.alpha.kubernetes.io":
		return true
	case "kubernetes.io":
		return name == "metadata.name" // of namespaces: the API server sets it to the name
	case "volume.kubernetes.io":
		return name == "selected-node" || name == "storage-provisioner" || name == "storage-resizer"
	case "volume.beta.kubernetes.io":
		return name == "storage-provisioner"
	case "endpoints.kubernetes.io":
		return name == "last-change-trigger-time"
	case "autoscaling.alpha.kubernetes.io":
		return name == "conditions" || name == "current-metrics" // of the older version, whose status lacks them
	}
	return key == templateGeneration
}

// templateGeneration is the annotation in which API servers store a field of older versions of DaemonSet.
const templateGeneration = "deprecated.daemonset.template.generation"

// Tracks says whether a tool recognizes its objects by the label or annotation, and would prune a copy in a cluster where
// it does not know the object, or stores there what it applied.
func Tracks(key, value string) bool {
	switch key {
	case "kubectl.kubernetes.io/last-applied-configuration", "banzaicloud.com/last-applied",
		"app.kubernetes.io/instance": // the label that Argo CD tracks by unless told otherwise
		return true
	}
	return Owns(key, value)
}

// Owns says whether a tool that puts back what it applied says by the label or annotation that the object is its own.
func Owns(key, value string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	switch {
	case prefix == "argocd.argoproj.io", prefix == "meta.helm.sh", prefix == "objectset.rio.cattle.io",
		prefix == "kapp.k14s.io", prefix == "applyset.kubernetes.io", strings.HasSuffix(prefix, ".toolkit.fluxcd.io"):
		return true
	}
	switch key {
	case "config.k8s.io/owning-inventory":
		return true
	case "app.kubernetes.io/managed-by":
		return value == "Helm"
	}
	return false
}

// Keeps says whether a tool may put the object back as it was, if somebody else changes it: also where people set the same
// label for themselves.
func Keeps(key, value string) bool {
	return key == "app.kubernetes.io/instance" || key == "cert-manager.io/certificate-name" || Owns(key, value)
}

// Native says whether every cluster creates this object itself, with its own content. Such an object is never a source:
// a rule for everything in a namespace would conflict with it in every cluster. Nor is it a copy: in a namespace that is
// new, the copy could come first, and all pods there would trust the CA in it.
func Native(group, kind, namespace, name string) bool {
	switch group + "/" + kind {
	case "/ConfigMap":
		return name == "kube-root-ca.crt"
	case "/ServiceAccount":
		return name == "default"
	case "/Service", "/Endpoints", "discovery.k8s.io/EndpointSlice":
		return name == "kubernetes" && namespace == "default"
	}
	return false
}

// Allocated lists the fields that each API server sets itself and does not allow to be removed: a copy has its own values.
func Allocated(group, kind string) [][]string {
	switch group + "/" + kind {
	case "/Service":
		return [][]string{{"spec", "clusterIP"}, {"spec", "clusterIPs"}, {"spec", "healthCheckNodePort"}}
	case "/PersistentVolumeClaim":
		return [][]string{{"spec", "volumeName"}}
	case "/Namespace":
		return [][]string{{"spec", "finalizers"}}
	}
	return nil
}
