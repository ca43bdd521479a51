// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// fluxAccount has the rights that flux install gives.
const fluxAccount = `
apiVersion: v1
kind: Namespace
metadata: {name: flux-system}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: kustomize-controller, namespace: flux-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: cluster-reconciler}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: kustomize-controller, namespace: flux-system}]
`

// deployer is an account of cluster-2 that may deploy there.
const deployer = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: deployer, namespace: shop}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: deployer, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin}
subjects: [{kind: ServiceAccount, name: deployer, namespace: shop}]
`

// renewer is what the chart grants for a namespace of renew.namespaces.
const renewer = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: renew, namespace: apps}
rules:
- {apiGroups: [""], resources: [secrets], verbs: [list, watch, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: renew, namespace: apps}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: renew}
subjects: [{kind: ServiceAccount, name: cluster-registry-controller, namespace: cluster-registry}]
`

// flux has Flux deploy to cluster-2, with the Secret that agentctl prints, and with the copy of one that the example makes.
func (r *room) flux() {
	r.apply(r.one, fluxAccount)
	r.must(r.one.Kubectl(r.Context(), "apply", "--server-side", "-f", r.tool("flux.yaml")))
	r.must(r.one.Kubectl(r.Context(), "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"))
	for _, namespace := range []string{"apps", "my-operator"} {
		r.must(r.one.Kubectl(r.Context(), "create", "namespace", namespace))
	}
	kubeconfig := r.account("flux-system", "kustomize-controller")
	r.types(r.root, r.block("Flux and multicluster-runtime", "sh", "-o flux"))
	kustomization := r.block("Flux and multicluster-runtime", "yaml", "kind: Kustomization")

	r.apply(r.one, kustomization)
	r.reconcile(kubeconfig, "apply", "apps", "exported")
	r.eventually("the exported Secret deploys", r.has("exported", "EUR"))
	r.reconcile(kubeconfig, "delete", "apps", "exported")
	r.eventually("the exported Secret prunes", r.lacks("exported"))
	r.renewed(kubeconfig)

	r.apply(r.two, deployer)
	token := r.must(r.two.Token(r.Context(), shop, "deployer"))
	r.must("", r.two.WriteKubeconfig(filepath.Join(r.work, "cluster-2.kubeconfig"), token))
	r.types(r.work, r.example("flux-kubeconfigs.yaml"))
	r.arrives(r.one, "flux-system", "cluster-2-kubeconfig")
	r.apply(r.one, strings.ReplaceAll(kustomization, "namespace: apps", "namespace: flux-system"))
	r.reconcile(kubeconfig, "apply", "flux-system", "copied")
	r.eventually("the copy deploys", r.has("copied", "EUR"))
}

// renewed marks the exported Secret as docs/export.md says. Its credential is revoked; the agent writes the next one, which may do
// the same.
func (r *room) renewed(kubeconfig string) {
	r.Helper()
	r.apply(r.one, renewer)
	r.apply(r.one, r.block("Renewed Secrets", "yaml", "renew-credential-of"), "-n", "apps")
	restart := func() {
		r.Helper()
		r.must("", errors.Join(r.one.StopAgent(), r.one.StartAgent(r.Context(), "--renew-namespaces", "apps")))
	}
	restart()
	var revoked []byte
	r.eventually("the agent has filled it", func(ctx context.Context) error {
		if revoked = r.exported(ctx); len(revoked) == 0 {
			return errors.New("it is empty")
		}
		return nil
	})
	r.must(r.two.Agentctl(r.Context(), "credentials", "revoke", "cluster-1"))
	r.eventually("the exported credential is refused", func(ctx context.Context) error {
		config, err := clientcmd.RESTConfigFromKubeConfig(revoked)
		if err != nil {
			return err
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		if _, err := client.CoreV1().Namespaces().Get(ctx, shop, metav1.GetOptions{}); !apierrors.IsUnauthorized(err) {
			return errors.Join(errors.New("not Unauthorized"), err)
		}
		return nil
	})
	restart() // its open watches would last until their connection ends
	r.eventually("the Secret has another credential", func(ctx context.Context) error {
		if string(r.exported(ctx)) == string(revoked) {
			return errors.New("it is the same")
		}
		return nil
	})
	r.reconcile(kubeconfig, "apply", "apps", "renewed")
	r.eventually("the renewed Secret deploys", r.has("renewed", "EUR"))
}

// exported is the kubeconfig in the Secret of Flux.
func (r *room) exported(ctx context.Context) []byte {
	r.Helper()
	secret, err := r.one.Kube.CoreV1().Secrets("apps").Get(ctx, "cluster-2-kubeconfig", metav1.GetOptions{})
	r.must("", err)
	return secret.Data["value"]
}

// reconcile does with the Kustomization of a namespace what kustomize-controller does, for a source with one ConfigMap.
func (r *room) reconcile(kubeconfig, verb, namespace, name string) {
	r.Helper()
	folder := filepath.Join(r.work, "source-"+verb+"-"+name)
	r.must("", os.Mkdir(folder, 0o755))
	r.must("", os.WriteFile(filepath.Join(folder, "goods.yaml"), []byte(goods(name, "EUR")), 0o600))
	r.types(r.work, fmt.Sprintf("KUBECONFIG=%s %s %s %s shop-cluster-2 %s", kubeconfig, r.tool("flux"), verb, namespace, folder))
}
