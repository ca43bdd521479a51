// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// collection is the path of the objects of a kind.
func collection(u *unstructured.Unstructured) string {
	for _, k := range kinds() {
		if k.Kind == u.GetKind() {
			path := k.path
			if k.Namespaced {
				path += "/namespaces/" + u.GetNamespace()
			}
			return path + "/" + k.Name
		}
	}
	panic("the fake API server does not serve " + u.GetKind())
}

type kind struct {
	metav1.APIResource
	path string // of the group and version
}

// kinds are those that the fake API server serves.
func kinds() []kind {
	core := func(kind, name, short string, namespaced bool) kindOf {
		return kindOf{"/api/v1", kind, name, short, namespaced}
	}
	registry := func(kind, name, short string) kindOf { return kindOf{registryPath, kind, name, short, false} }
	var out []kind
	for _, k := range []kindOf{
		core("Namespace", "namespaces", "ns", false), core("Secret", "secrets", "", true), core("ConfigMap", "configmaps", "cm", true),
		core("ServiceAccount", "serviceaccounts", "sa", true), core("Service", "services", "svc", true), core("Pod", "pods", "po", true), core("Event", "events", "ev", true),
		core("PersistentVolumeClaim", "persistentvolumeclaims", "pvc", true), core("Node", "nodes", "no", false),
		{"/apis/apps/v1", "StatefulSet", "statefulsets", "sts", true},
		{"/apis/apps/v1", "Deployment", "deployments", "deploy", true},
		{"/apis/apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", "crd", false},
		{"/apis/example.com/v1", "Widget", "widgets", "", true},
		registry("Cluster", "clusters", ""), registry("ResourceSyncRule", "resourcesyncrules", "rsr"), registry("ClusterFeature", "clusterfeatures", "cf"),
	} {
		r := metav1.APIResource{Kind: k.kind, Name: k.name, SingularName: strings.ToLower(k.kind), Namespaced: k.namespaced, Verbs: metav1.Verbs{"get", "list", "update", "delete"}}
		if k.short != "" {
			r.ShortNames = []string{k.short}
		}
		out = append(out, kind{r, k.path})
	}
	return out
}

type kindOf struct {
	path, kind, name, short string
	namespaced              bool
}

// discover answers what kinds there are; false when the path is about something else.
func discover(w http.ResponseWriter, path string) bool {
	served := map[string]bool{}
	for _, k := range kinds() {
		served[k.path] = true
	}
	switch {
	case path == "/api":
		answer(w, http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	case path == "/apis":
		list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		for _, path := range slices.Sorted(maps.Keys(served)) {
			if text, ok := strings.CutPrefix(path, "/apis/"); ok {
				group, name, _ := strings.Cut(text, "/")
				version := metav1.GroupVersionForDiscovery{GroupVersion: text, Version: name}
				list.Groups = append(list.Groups, metav1.APIGroup{Name: group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version})
			}
		}
		answer(w, http.StatusOK, list)
	case served[path]:
		list := metav1.APIResourceList{
			TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			GroupVersion: strings.TrimPrefix(strings.TrimPrefix(path, "/apis/"), "/api/"),
		}
		for _, k := range kinds() {
			if k.path == path {
				list.APIResources = append(list.APIResources, k.APIResource)
			}
		}
		answer(w, http.StatusOK, list)
	default:
		return false
	}
	return true
}
