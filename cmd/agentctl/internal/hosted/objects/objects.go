// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package objects is what a registry is made of in its host: the form of each object, and the labels that they are known by. It
// asks nobody, and writes nothing.
package objects

import (
	"encoding/base64"
	"maps"
	"net"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/pki"
)

// Labels of all that init makes.
const (
	labelName      = "app.kubernetes.io/name"
	labelInstance  = "app.kubernetes.io/instance"
	labelManagedBy = "app.kubernetes.io/managed-by"
	labelPartOf    = "app.kubernetes.io/part-of"

	serverName = "roster-apiserver"
	manager    = "agentctl"
)

const (
	user       = int64(65532) // of the image
	port       = int64(6443)  // of the container
	dataMount  = "/var/lib/roster"
	dataDir    = dataMount + "/apiserver" // the volume's own top may hold what its file system puts there
	caMount    = "/etc/roster/ca"
	volumeData = "data"
	volumeCA   = "ca"
)

// Ports of the Service.
const (
	Port     = 443 // of https
	PortName = "https"
	MeshPort = 7946 // for other agents
	MeshName = "mesh"
)

// Registry is which registry it is, and where in its host.
type Registry struct {
	Name      string
	Namespace string
}

// Address is where callers reach a registry; the zero value where that is not known yet.
type Address struct {
	Host string
	Port int
	Mesh int // the port for other agents
}

// URL is the address in a kubeconfig.
func (a Address) URL() string {
	if a.Port != Port {
		return "https://" + net.JoinHostPort(a.Host, strconv.Itoa(a.Port))
	}
	if strings.Contains(a.Host, ":") {
		return "https://[" + a.Host + "]"
	}
	return "https://" + a.Host
}

// Namespaces is the resource of a registry's namespace.
func Namespaces() schema.GroupVersionResource { return clusters.Core("namespaces") }

// Secrets is the resource of its CA.
func Secrets() schema.GroupVersionResource { return clusters.Core("secrets") }

// Services is the resource of its address.
func Services() schema.GroupVersionResource { return clusters.Core("services") }

// Claims is the resource of its volume.
func Claims() schema.GroupVersionResource { return clusters.Core("persistentvolumeclaims") }

// StatefulSets is the resource of its server.
func StatefulSets() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
}

// selector are the labels that tell the pods of a registry.
func (r Registry) selector() map[string]any {
	return map[string]any{labelName: serverName, labelInstance: r.Name}
}

// labels are those of all that init makes.
func (r Registry) labels() map[string]any {
	all := map[string]any{labelManagedBy: manager, labelPartOf: "roster"}
	maps.Copy(all, r.selector())
	return all
}

// Selector lists all that init has made for a registry.
func (r Registry) Selector() string { return labelManagedBy + "=" + manager + "," + r.PodSelector() }

// PodSelector lists the pods of a registry.
func (r Registry) PodSelector() string {
	return labelName + "=" + serverName + "," + labelInstance + "=" + r.Name
}

// Mine tells whether init has made an object for this registry.
func (r Registry) Mine(u metav1.Object) bool {
	l := u.GetLabels()
	return l[labelManagedBy] == manager && l[labelName] == serverName && l[labelInstance] == r.Name
}

// ClaimName is the name of its volume, which the StatefulSet gives it.
func (r Registry) ClaimName() string { return volumeData + "-" + r.Name + "-0" }

// SecretName is the name of the Secret with the CA.
func (r Registry) SecretName() string { return r.Name + "-ca" }

// object is what all objects of a registry have in common.
func (r Registry) object(version, kind, name string) *unstructured.Unstructured {
	metadata := map[string]any{"name": name, "labels": r.labels()}
	if kind != "Namespace" {
		metadata["namespace"] = r.Namespace
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind, "metadata": metadata}}
}

// NamespaceObject is the namespace, which lets in what keeps to the restricted Pod Security Standard.
func (r Registry) NamespaceObject() *unstructured.Unstructured {
	u := r.object("v1", "Namespace", r.Namespace)
	l := u.GetLabels()
	l["pod-security.kubernetes.io/enforce"] = "restricted"
	u.SetLabels(l)
	return u
}

// Authority is the Secret with the CA; without one, its form alone.
func (r Registry) Authority(ca *pki.Pair) (*unstructured.Unstructured, error) {
	u := r.object("v1", "Secret", r.SecretName())
	data := map[string]any{"tls.crt": "", "tls.key": ""}
	if ca != nil {
		key, err := ca.KeyPEM()
		if err != nil {
			return nil, err
		}
		data["tls.crt"] = base64.StdEncoding.EncodeToString(ca.CertPEM())
		data["tls.key"] = base64.StdEncoding.EncodeToString(key)
	}
	u.Object["type"], u.Object["data"] = "kubernetes.io/tls", data
	return u, nil
}

// Service is where callers reach the registry, and other agents its agent if it has one.
func (r Registry) Service(s Settings) *unstructured.Unstructured {
	u := r.object("v1", "Service", r.Name)
	u.SetAnnotations(map[string]string{AnnotationSettings: s.encode()})
	ports := []any{map[string]any{"name": PortName, "port": int64(Port), "targetPort": PortName, "protocol": "TCP"}}
	if s.Agent != "" {
		ports = append(ports, map[string]any{"name": MeshName, "port": int64(MeshPort), "targetPort": MeshName, "protocol": "TCP"})
	}
	u.Object["spec"] = map[string]any{"type": s.ServiceType, "selector": r.selector(), "ports": ports}
	return u
}

// Server is the StatefulSet. Its certificate is for the Service's names in the host, and for the address if that is known.
func (r Registry) Server(s Settings, at Address) *unstructured.Unstructured {
	u := r.object("apps/v1", "StatefulSet", r.Name)
	u.SetAnnotations(map[string]string{AnnotationSettings: s.encode()})
	volume := map[string]any{
		"accessModes": []any{"ReadWriteOnce"},
		"resources":   map[string]any{"requests": map[string]any{"storage": s.Storage}},
	}
	if s.StorageClass != "" {
		volume["storageClassName"] = s.StorageClass
	}
	containers := []any{r.server(s, at.Host)}
	if s.Agent != "" {
		containers = append(containers, r.agent(s, at))
	}
	u.Object["spec"] = map[string]any{
		"replicas":    int64(1),
		"serviceName": r.Name,
		"selector":    map[string]any{"matchLabels": r.selector()},
		"template": map[string]any{
			"metadata": map[string]any{"labels": r.labels()},
			"spec": map[string]any{
				"automountServiceAccountToken":  false, // it asks the host for nothing
				"enableServiceLinks":            false,
				"terminationGracePeriodSeconds": int64(30),
				"securityContext": map[string]any{
					"runAsNonRoot": true, "runAsUser": user, "runAsGroup": user,
					// Once, and not at each start: the server keeps its keys from other groups.
					"fsGroup": user, "fsGroupChangePolicy": "OnRootMismatch",
					"seccompProfile": map[string]any{"type": "RuntimeDefault"},
				},
				"containers": containers,
				"volumes": []any{map[string]any{
					"name": volumeCA, "secret": map[string]any{"secretName": r.SecretName(), "defaultMode": int64(0o440)},
				}},
			},
		},
		"volumeClaimTemplates": []any{map[string]any{
			"metadata": map[string]any{"name": volumeData, "labels": r.labels()},
			"spec":     volume,
		}},
	}
	return u
}
