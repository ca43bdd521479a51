// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/roster-mesh/roster/e2e/harness"
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

// gitRepository is what source-controller has made of a repository: an artifact of the last revision.
const gitRepository = `
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: shop, namespace: %[1]s}
spec: {interval: 10m, url: "https://git.example.com/shop.git"}
status:
  observedGeneration: 1
  conditions: [{type: Ready, status: "True", reason: Succeeded, message: stored artifact, lastTransitionTime: "%[2]s"}]
  artifact: {revision: "main@%[3]s", digest: "%[3]s", path: "%[4]s", url: "%[5]s/%[4]s", lastUpdateTime: "%[2]s"}
`

// sources plays Flux's source-controller, which serves to kustomize-controller over HTTP what it has fetched.
type sources struct {
	*room

	folder, address string
}

// flux has Flux deploy to cluster-2, with the Secret that agentctl prints, and with the copy of one that the example makes.
func (r *room) flux() {
	r.apply(r.one, fluxAccount)
	r.must(r.one.Kubectl(r.Context(), "apply", "--server-side", "-f", r.tool("flux.yaml")))
	r.must(r.one.Kubectl(r.Context(), "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"))
	for _, namespace := range []string{"apps", "my-operator"} {
		r.must(r.one.Kubectl(r.Context(), "create", "namespace", namespace))
	}
	s := r.startFlux()
	r.types(r.root, r.block("Flux and multicluster-runtime", "sh", "-o flux", "--context flux", "--context cluster-1", "--context host", "--context cluster-1"))
	kustomization := r.block("Flux and multicluster-runtime", "yaml", "kind: Kustomization")

	r.apply(r.one, kustomization)
	s.deploys("apps", "exported", "EUR")
	s.deploys("apps", "exported", "CHF")
	r.renewed()
	s.deploys("apps", "exported", "JPY")
	r.must(r.one.Kubectl(r.Context(), "-n", "apps", "delete", "kustomization", "shop-cluster-2", "--timeout="+within.String()))
	r.eventually("Flux prunes", r.lacks("exported"))

	r.apply(r.two, deployer)
	token := r.must(r.two.Token(r.Context(), shop, "deployer"))
	r.must("", r.two.WriteKubeconfig(filepath.Join(r.work, "cluster-2.kubeconfig"), token))
	r.types(r.work, r.example("flux-kubeconfigs.yaml"))
	r.arrives(r.one, "flux-system", "cluster-2-kubeconfig")
	r.apply(r.one, strings.ReplaceAll(kustomization, "namespace: apps", "namespace: flux-system"))
	s.deploys("flux-system", "copied", "EUR")
}

// startFlux starts kustomize-controller as its Deployment does, but for the election of a leader, which needs a pod, with the
// account that flux install gives it, and a server of artifacts.
func (r *room) startFlux() sources {
	r.Helper()
	folder := filepath.Join(r.work, "artifacts")
	r.must("", os.Mkdir(folder, 0o755))
	server := httptest.NewServer(http.FileServer(http.Dir(folder)))
	r.Cleanup(server.Close)
	kubeconfig := r.account("flux-system", "kustomize-controller")
	r.runs("kustomize-controller", r.tool("flux"), []string{"KUBECONFIG=" + kubeconfig, "RUNTIME_NAMESPACE=flux-system"},
		"--watch-all-namespaces", "--metrics-addr", r.address(), "--health-addr", r.address())
	return sources{room: r, folder: folder, address: server.URL}
}

// deploys makes the next revision of the source in a namespace, and waits until the Kustomization there has it in cluster-2.
func (s sources) deploys(namespace, name, currency string) {
	s.Helper()
	revision := s.revise(namespace, goods(name, currency))
	s.eventually(fmt.Sprintf("Flux deploys %s, %s, from %s", name, currency, namespace), s.has(name, currency))
	kustomizations := s.one.Dynamic.Resource(schema.GroupVersionResource{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Resource: "kustomizations"})
	s.eventually("Flux is content", func(ctx context.Context) error {
		u, err := kustomizations.Namespace(namespace).Get(ctx, "shop-cluster-2", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if applied, _, _ := unstructured.NestedString(u.Object, "status", "lastAppliedRevision"); applied != revision {
			return fmt.Errorf("it has applied %q, not %s: %v", applied, revision, u.Object["status"])
		}
		return harness.ConditionTrue(u, "Ready")
	})
}

// revise publishes a revision with one file.
func (s sources) revise(namespace, content string) (revision string) {
	s.Helper()
	var archive bytes.Buffer
	packed := gzip.NewWriter(&archive)
	files := tar.NewWriter(packed)
	s.must("", files.WriteHeader(&tar.Header{Name: "goods.yaml", Mode: 0o644, Size: int64(len(content))}))
	_, err := files.Write([]byte(content))
	s.must("", errors.Join(err, files.Close(), packed.Close()))
	sum := fmt.Sprintf("%x", sha256.Sum256(archive.Bytes()))
	path, digest := sum+".tar.gz", "sha256:"+sum
	s.must("", os.WriteFile(filepath.Join(s.folder, path), archive.Bytes(), 0o600))
	repository := fmt.Sprintf(gitRepository, namespace, time.Now().UTC().Format(time.RFC3339), digest, path, s.address)
	s.apply(s.one, repository, "--server-side")
	s.apply(s.one, repository, "--server-side", "--subresource=status")
	return "main@" + digest
}

// renewed puts an empty Secret in the place of the exported one, marked as docs/export.md says. The agent fills it. Its credential is
// revoked, and the agent writes the next one.
func (r *room) renewed() {
	r.Helper()
	r.apply(r.one, renewer)
	r.must(r.one.Kubectl(r.Context(), "-n", "apps", "delete", "secret", "cluster-2-kubeconfig"))
	r.apply(r.one, r.block("Renewed Secrets", "yaml", "renew-credential-of"), "-n", "apps")
	restart := func() {
		r.Helper()
		r.must("", errors.Join(r.one.StopAgent(), r.one.StartAgent(r.Context(), "--renew-namespaces", "apps")))
	}
	restart()
	var revoked []byte
	r.eventually("the agent has filled it", func(ctx context.Context) (err error) {
		if revoked, err = r.exported(ctx); err == nil && len(revoked) == 0 {
			err = errors.New("it is empty")
		}
		return err
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
		now, err := r.exported(ctx)
		if err == nil && bytes.Equal(now, revoked) {
			err = errors.New("it is the same")
		}
		return err
	})
}

// exported is the kubeconfig in the Secret of Flux.
func (r *room) exported(ctx context.Context) ([]byte, error) {
	secret, err := r.one.Kube.CoreV1().Secrets("apps").Get(ctx, "cluster-2-kubeconfig", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return secret.Data["value"], nil
}
