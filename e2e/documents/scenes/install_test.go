// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package scenes

import (
	"context"
	"fmt"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/roster-mesh/roster/e2e/documents"
	"github.com/roster-mesh/roster/e2e/harness"
)

// publishing stands for the CRDs of the SIG, which e2e/profiles has.
const publishing = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: clusterprofiles.multicluster.x-k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes/enhancements/pull/4322"}
spec:
  group: multicluster.x-k8s.io
  scope: Namespaced
  names: {kind: ClusterProfile, plural: clusterprofiles, singular: clusterprofile}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: clusterproperties.about.k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes/enhancements/pull/2149"}
spec:
  group: about.k8s.io
  scope: Cluster
  names: {kind: ClusterProperty, plural: clusterproperties, singular: clusterproperty}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// install brings the chart to the clusters in three ways, and starts an agent beside each.
func (r *room) install() {
	own, ctx := errgroup.WithContext(r.Context())
	for _, name := range []string{four, shop} {
		own.Go(func() error {
			if err := r.cluster(name).Install(ctx); err != nil {
				return err
			}
			return r.cluster(name).StartAgent(ctx)
		})
	}
	r.withHelm()
	r.withKubectl()
	r.outside()
	r.must("", own.Wait())
}

// withHelm installs a release, without a pod, that publishes profiles and renews Secrets.
func (r *room) withHelm() {
	r.with("NAME", one+",replicas=0").types(documents.Chart, "helm install")
	r.apply(one, publishing)
	r.must(r.cluster(one).Kubectl(r.Context(), "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"))
	r.types(documents.Profiles, "kubectl create namespace inventory", "helm upgrade")
	r.must(r.cluster(one).Kubectl(r.Context(), "create", "namespace", "argocd"))
	r.types(documents.Export, "helm upgrade")
	r.types(documents.Chart, "helm upgrade cluster-registry-controller charts/agent -n cluster-registry --reuse-values --set mesh.service.type=LoadBalancer")
	made := r.must(r.cluster(one).Kubectl(r.Context(), "-n", harness.Namespace, "get", "deployments,services", "-o", "yaml"))
	r.prints(made, "- --publish-namespace=inventory", "- --renew-namespaces=argocd", "type: LoadBalancer")
	r.must("", r.cluster(one).Authorize(r.Context()))
	r.must("", r.cluster(one).StartAgent(r.Context(), "--publish-cluster-profiles", "--publish-namespace", "inventory", "--renew-namespaces", "argocd"))
}

func (r *room) withKubectl() {
	r.in(two).with("NAME", two).types(documents.Chart, "kubectl create namespace", "helm template", "kubectl -n cluster-registry create token")
	r.must("", r.cluster(two).Authorize(r.Context()))
	r.must("", r.cluster(two).StartAgent(r.Context()))
}

// outside is docs/run-outside.md, with its agent.
func (r *room) outside() {
	c := r.cluster(three)
	mesh := fmt.Sprintf("127.0.0.1:%d", c.MeshPort)
	there := r.in(three).with(one, three)
	there.types(documents.RunOutside, "kubectl create namespace", "helm template", "kubectl config view", "kubectl --kubeconfig agent.kubeconfig config delete-user",
		"kubectl --kubeconfig agent.kubeconfig config set-credentials", "kubectl --kubeconfig agent.kubeconfig config set-context")
	there.with("this-host.example.com:7946", mesh, "--mesh-listen :7946", "--mesh-listen "+mesh).runs(documents.RunOutside, "agent run", "ROSTER_DATA_DIR="+filepath.Join(r.work, "outside"), fmt.Sprintf("ROSTER_HTTP_LISTEN=127.0.0.1:%d", c.HTTPPort))
	r.eventually("the agent outside is ready", func(ctx context.Context) error {
		_, err := c.AgentHTTP(ctx, "/readyz")
		return err
	})
}
