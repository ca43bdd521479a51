// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"net"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const healthPort = int64(8080) // of the agent, for the kubelet

// server is the container of the API server.
func (r Registry) server(s Settings, host string) map[string]any {
	args := []any{
		"standalone", "--data-dir=" + dataDir, "--cluster-name=" + r.Name, "--listen=:6443", "--ca=" + caMount,
		"--advertise=" + r.Name + "." + r.Namespace, "--advertise=" + r.Name + "." + r.Namespace + ".svc",
	}
	if host != "" {
		args = append(args, "--advertise="+host)
	}
	for _, arg := range s.Args {
		args = append(args, "--"+arg)
	}
	c := container(serverName, s.Image, args, map[string]any{PortName: port})
	c["resources"] = map[string]any{"requests": map[string]any{"cpu": "100m", "memory": "256Mi"}}
	// Everybody may ask these, with Kubernetes' default roles. A start may take long, when etcd has much to read; one that
	// does not come to an end is begun again.
	c["startupProbe"] = probe("/readyz", PortName, "HTTPS", 2, 300)
	c["livenessProbe"] = probe("/livez", PortName, "HTTPS", 10, 6)
	c["readinessProbe"] = probe("/readyz", PortName, "HTTPS", 2, 3)
	c["volumeMounts"] = []any{
		map[string]any{"name": volumeData, "mountPath": dataMount},
		map[string]any{"name": volumeCA, "mountPath": caMount, "readOnly": true},
	}
	return c
}

// HostsOf are those that the certificate of a server is for, as its StatefulSet says.
func HostsOf(server *unstructured.Unstructured) (hosts []string) {
	containers, _, _ := unstructured.NestedSlice(server.Object, "spec", "template", "spec", "containers")
	for _, item := range containers {
		c, _ := item.(map[string]any)
		args, _ := c["args"].([]any)
		for _, arg := range args {
			text, _ := arg.(string)
			if host, ok := strings.CutPrefix(text, "--advertise="); ok && c["name"] == serverName {
				hosts = append(hosts, host)
			}
		}
	}
	return hosts
}

// agent is the container of the agent, which waits until the server has written its kubeconfig. That it is not ready, as
// while another cluster has its name, must not keep callers from the server: it has no readiness probe.
func (r Registry) agent(s Settings, at Address) map[string]any {
	args := []any{
		"run", "--keep-trying", "--kubeconfig=" + dataDir + "/agent.kubeconfig", "--cluster-name=" + r.Name,
		"--data-dir=" + dataMount + "/agent", "--mesh-listen=:" + strconv.Itoa(MeshPort), "--http-listen=:" + strconv.FormatInt(healthPort, 10),
	}
	if at.Host != "" {
		args = append(args, "--apiserver-endpoint="+at.URL(), "--mesh-advertise="+net.JoinHostPort(at.Host, strconv.Itoa(at.Mesh)))
	}
	c := container("agent", s.Agent, args, map[string]any{MeshName: int64(MeshPort), "http": healthPort})
	c["livenessProbe"] = probe("/healthz", "http", "HTTP", 10, 6)
	c["resources"] = map[string]any{"requests": map[string]any{"cpu": "50m", "memory": "64Mi"}, "limits": map[string]any{"memory": "384Mi"}}
	c["env"] = []any{map[string]any{ // what the garbage collector, and the bounds on what one peer may send, go by
		"name": "GOMEMLIMIT", "valueFrom": map[string]any{"resourceFieldRef": map[string]any{"resource": "limits.memory"}},
	}}
	c["volumeMounts"] = []any{map[string]any{"name": volumeData, "mountPath": dataMount}}
	return c
}

func container(name, image string, args []any, ports map[string]any) map[string]any {
	open := []any{}
	for _, of := range []string{PortName, MeshName, "http"} {
		if number, ok := ports[of]; ok {
			open = append(open, map[string]any{"name": of, "containerPort": number, "protocol": "TCP"})
		}
	}
	return map[string]any{
		"name": name, "image": image, "args": args, "ports": open,
		"terminationMessagePolicy": "FallbackToLogsOnError", // its last line says why it ended
		"securityContext": map[string]any{
			"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
			"capabilities": map[string]any{"drop": []any{"ALL"}},
		},
	}
}

func probe(path, port, scheme string, period, failures int64) map[string]any {
	return map[string]any{
		"httpGet":       map[string]any{"path": path, "port": port, "scheme": scheme},
		"periodSeconds": period, "timeoutSeconds": int64(5), "failureThreshold": failures,
	}
}
