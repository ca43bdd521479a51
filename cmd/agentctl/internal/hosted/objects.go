// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package hosted

import (
	"encoding/base64"
	"maps"

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
	portName   = "https"
	volumeData = "data"
	volumeCA   = "ca"
)

// The kinds of objects that a registry is made of.
func namespaces() schema.GroupVersionResource { return clusters.Core("namespaces") }
func secrets() schema.GroupVersionResource    { return clusters.Core("secrets") }
func services() schema.GroupVersionResource   { return clusters.Core("services") }
func claims() schema.GroupVersionResource     { return clusters.Core("persistentvolumeclaims") }
func statefulSets() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
}

// selector are the labels that tell the pods of a registry.
func (p *Place) selector() map[string]any {
	return map[string]any{labelName: serverName, labelInstance: p.Name}
}

// labels are those of all that init makes.
func (p *Place) labels() map[string]any {
	all := map[string]any{labelManagedBy: manager, labelPartOf: "roster"}
	maps.Copy(all, p.selector())
	return all
}

// mine tells whether init has made an object for this registry.
func (p *Place) mine(u *unstructured.Unstructured) bool {
	l := u.GetLabels()
	return l[labelManagedBy] == manager && l[labelName] == serverName && l[labelInstance] == p.Name
}

func (p *Place) secretName() string { return p.Name + "-ca" }

// object is what all objects of a registry have in common.
func (p *Place) object(version, kind, name string) *unstructured.Unstructured {
	metadata := map[string]any{"name": name, "labels": p.labels()}
	if kind != "Namespace" {
		metadata["namespace"] = p.Namespace
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind, "metadata": metadata}}
}

func (p *Place) namespace() *unstructured.Unstructured {
	u := p.object("v1", "Namespace", p.Namespace)
	l := u.GetLabels()
	l["pod-security.kubernetes.io/enforce"] = "restricted"
	u.SetLabels(l)
	return u
}

// authority is the Secret with the CA; without one, its form alone.
func (p *Place) authority(ca *pki.Pair) (*unstructured.Unstructured, error) {
	u := p.object("v1", "Secret", p.secretName())
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

func (p *Place) service(s settings) *unstructured.Unstructured {
	u := p.object("v1", "Service", p.Name)
	u.SetAnnotations(map[string]string{annotationSettings: s.encode()})
	u.Object["spec"] = map[string]any{
		"type":     s.ServiceType,
		"selector": p.selector(),
		"ports":    []any{map[string]any{"name": portName, "port": int64(defaultPort), "targetPort": portName, "protocol": "TCP"}},
	}
	return u
}

// server is the StatefulSet. Its certificate is for the Service's names in the host, and for this host if it is not "".
func (p *Place) server(s settings, host string) *unstructured.Unstructured {
	u := p.object("apps/v1", "StatefulSet", p.Name)
	u.SetAnnotations(map[string]string{annotationSettings: s.encode()})
	volume := map[string]any{
		"accessModes": []any{"ReadWriteOnce"},
		"resources":   map[string]any{"requests": map[string]any{"storage": s.Storage}},
	}
	if s.StorageClass != "" {
		volume["storageClassName"] = s.StorageClass
	}
	u.Object["spec"] = map[string]any{
		"replicas":    int64(1),
		"serviceName": p.Name,
		"selector":    map[string]any{"matchLabels": p.selector()},
		"template": map[string]any{
			"metadata": map[string]any{"labels": p.labels()},
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
				"containers": []any{p.container(s, host)},
				"volumes": []any{map[string]any{
					"name": volumeCA, "secret": map[string]any{"secretName": p.secretName(), "defaultMode": int64(0o440)},
				}},
			},
		},
		"volumeClaimTemplates": []any{map[string]any{
			"metadata": map[string]any{"name": volumeData, "labels": p.labels()},
			"spec":     volume,
		}},
	}
	return u
}

func (p *Place) container(s settings, host string) map[string]any {
	args := []any{
		"standalone", "--data-dir=" + dataDir, "--cluster-name=" + p.Name, "--listen=:6443", "--ca=" + caMount,
		"--advertise=" + p.Name + "." + p.Namespace, "--advertise=" + p.Name + "." + p.Namespace + ".svc",
	}
	if host != "" {
		args = append(args, "--advertise="+host)
	}
	for _, arg := range s.Args {
		args = append(args, "--"+arg)
	}
	// Everybody may ask these, with Kubernetes' default roles.
	probe := func(path string, period, failures int64) map[string]any {
		return map[string]any{
			"httpGet":       map[string]any{"path": path, "port": portName, "scheme": "HTTPS"},
			"periodSeconds": period, "timeoutSeconds": int64(5), "failureThreshold": failures,
		}
	}
	return map[string]any{
		"name":  serverName,
		"image": s.Image,
		"args":  args,
		"ports": []any{map[string]any{"name": portName, "containerPort": port, "protocol": "TCP"}},
		// A start may take long, when etcd has much to read; one that does not come to an end is begun again.
		"startupProbe":             probe("/readyz", 2, 300),
		"livenessProbe":            probe("/livez", 10, 6),
		"readinessProbe":           probe("/readyz", 2, 3),
		"terminationMessagePolicy": "FallbackToLogsOnError", // its last line says why it ended
		"resources":                map[string]any{"requests": map[string]any{"cpu": "100m", "memory": "256Mi"}},
		"securityContext": map[string]any{
			"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
			"capabilities": map[string]any{"drop": []any{"ALL"}},
		},
		"volumeMounts": []any{
			map[string]any{"name": volumeData, "mountPath": dataMount},
			map[string]any{"name": volumeCA, "mountPath": caMount, "readOnly": true},
		},
	}
}
