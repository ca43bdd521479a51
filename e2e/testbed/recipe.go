// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The flags of each component, and what ready means for it.

func (p *plane) etcdArgs(fsync bool) []string {
	peer := "http://127.0.0.1:" + strconv.Itoa(p.ports.EtcdPeer)
	return []string{
		"--name=default",
		"--data-dir=" + filepath.Join(p.dir, "etcd"),
		"--listen-client-urls=" + p.etcdURL(),
		"--advertise-client-urls=" + p.etcdURL(),
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		"--quota-backend-bytes=4294967296",
		// Without fsync a crash of the machine loses data; a crash of etcd does not.
		"--unsafe-no-fsync=" + strconv.FormatBool(!fsync),
		"--log-level=warn",
	}
}

// apiserverArgs leaves profiles on, as they are by default: the benchmark has API servers collect their garbage by them.
func (p *plane) apiserverArgs() []string {
	return []string{
		"--etcd-servers=" + p.etcdURL(),
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(p.ports.APIServer),
		"--endpoint-reconciler-type=none",
		"--tls-cert-file=" + p.pki.path("apiserver.crt"),
		"--tls-private-key-file=" + p.pki.path("apiserver.key"),
		"--client-ca-file=" + p.pki.path("ca.crt"),
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + p.pki.path("service-account.pub"),
		"--service-account-signing-key-file=" + p.pki.path("service-account.key"),
		"--service-cluster-ip-range=10.96.0.0/16",
		"--requestheader-client-ca-file=" + p.pki.path("ca.crt"),
		"--requestheader-allowed-names=" + frontProxy,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + p.pki.path(frontProxy+".crt"),
		"--proxy-client-key-file=" + p.pki.path(frontProxy+".key"),
	}
}

func (p *plane) controllerArgs() []string {
	controllers := []string{
		"serviceaccount-token-controller",
		"serviceaccount-controller",
		"root-ca-certificate-publisher-controller",
		"namespace-controller",
		"garbage-collector-controller",
		"clusterrole-aggregation-controller",
	}
	return []string{
		"--kubeconfig=" + p.controllerKubeconfig(),
		"--controllers=" + strings.Join(controllers, ","),
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + p.pki.path("service-account.key"),
		"--root-ca-file=" + p.pki.path("ca.crt"),
		"--leader-elect=false",
		"--secure-port=0",
		"--profiling=false",
	}
}

func (p *plane) etcdReady(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.etcdURL()+"/health", http.NoBody)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("/health: %s", res.Status)
	}
	return nil
}

// apiserverReady: beside /readyz, the namespaces that the API server makes a moment later are there.
func (p *plane) apiserverReady(ctx context.Context) error {
	for _, path := range []string{"/readyz", "/api/v1/namespaces/kube-system", "/api/v1/namespaces/default"} {
		if err := p.api.do(ctx, http.MethodGet, path); err != nil {
			return err
		}
	}
	return nil
}

// controllersReady returns a check for one start: the controllers restore two objects that nobody
// uses after it deleted them. They serve no port here, so their work is the only proof of it. On a
// new plane the namespaces that tests use may come after that one, so they are looked at, too.
func (p *plane) controllersReady() func(context.Context) error {
	objects := func(namespace string) []string {
		namespace = "/api/v1/namespaces/" + namespace
		return []string{namespace + "/serviceaccounts/default", namespace + "/configmaps/kube-root-ca.crt"}
	}
	unused := objects("kube-public")
	wanted := slices.Concat(unused, objects("default"), objects("kube-system"))
	deleted := false
	return func(ctx context.Context) error {
		for _, path := range unused {
			if deleted {
				break
			}
			if err := p.api.do(ctx, http.MethodDelete, path); err != nil && !errors.Is(err, errNotFound) {
				return err
			}
		}
		deleted = true
		for _, path := range wanted {
			if err := p.api.do(ctx, http.MethodGet, path); err != nil {
				return err
			}
		}
		return nil
	}
}

// writeKubeconfig writes access for the client certificate of that name.
func (p *plane) writeKubeconfig(path, user string) error {
	var inline [3]string
	for i, name := range []string{"ca.crt", user + ".crt", user + ".key"} {
		data, err := os.ReadFile(p.pki.path(name))
		if err != nil {
			return err
		}
		inline[i] = base64.StdEncoding.EncodeToString(data)
	}
	config := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: %[1]s
  cluster:
    server: %[2]s
    certificate-authority-data: %[3]s
users:
- name: %[1]s-%[4]s
  user:
    client-certificate-data: %[5]s
    client-key-data: %[6]s
contexts:
- name: %[1]s
  context:
    cluster: %[1]s
    user: %[1]s-%[4]s
current-context: %[1]s
`, p.name, p.server(), inline[0], user, inline[1], inline[2])
	return writeFile(path, []byte(config))
}
