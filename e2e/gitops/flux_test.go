// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

	r.apply(r.two, deployer)
	token := r.must(r.two.Token(r.Context(), shop, "deployer"))
	r.must("", r.two.WriteKubeconfig(filepath.Join(r.work, "cluster-2.kubeconfig"), token))
	r.types(r.work, r.example("flux-kubeconfigs.yaml"))
	r.arrives(r.one, "flux-system", "cluster-2-kubeconfig")
	r.apply(r.one, strings.ReplaceAll(kustomization, "namespace: apps", "namespace: flux-system"))
	r.reconcile(kubeconfig, "apply", "flux-system", "copied")
	r.eventually("the copy deploys", r.has("copied", "EUR"))
}

// reconcile does with the Kustomization of a namespace what kustomize-controller does, for a source with one ConfigMap.
func (r *room) reconcile(kubeconfig, verb, namespace, name string) {
	r.Helper()
	folder := filepath.Join(r.work, "source-"+verb+"-"+name)
	r.must("", os.Mkdir(folder, 0o755))
	r.must("", os.WriteFile(filepath.Join(folder, "goods.yaml"), []byte(goods(name, "EUR")), 0o600))
	r.types(r.work, fmt.Sprintf("KUBECONFIG=%s %s %s %s shop-cluster-2 %s", kubeconfig, r.tool("flux"), verb, namespace, folder))
}
