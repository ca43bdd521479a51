// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/e2e/harness"
)

const argo = "argocd" // the namespace of Argo CD, its program, and how its parts are called

// project is what argocd-server makes when it starts, which a core installation does not have.
const project = `
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: default, namespace: argocd}
spec: {sourceRepos: ["*"], destinations: [{namespace: "*", server: "*"}]}
`

// argoCD has Argo CD find cluster-2 by its label, and deploy from git there. Of a copy of the Secret, in cluster-2, Argo CD there
// makes a kubeconfig that works.
func (r *room) argoCD() {
	for _, c := range r.fleet.Clusters {
		r.must(c.Kubectl(r.Context(), "create", "namespace", argo))
		r.must(c.Kubectl(r.Context(), "-n", argo, "apply", "--server-side", "-f", r.tool("argocd.yaml")))
	}
	r.must(r.one.Kubectl(r.Context(), "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"))
	r.apply(r.one, project)

	commands := r.example("argocd-clusters.yaml")
	r.types(r.root, commands)
	r.arrives(r.two, argo, "cluster-cluster-2")
	r.must("", r.known(r.two))

	r.types(r.root, r.block("Argo CD", "sh", "-o argocd", "--context argo", "--context cluster-1"))
	r.types(r.root, r.block("Argo CD", "sh", "respectRBAC", "--context argo", "--context cluster-1"))
	r.must("", r.known(r.one))
	redis := r.startArgoCD()
	repository := filepath.Join(r.work, "shop.git")
	r.commit(repository, "EUR")
	r.apply(r.one, strings.ReplaceAll(r.block("Argo CD", "yaml", "kind: ApplicationSet"), "https://git.example.com/shop.git", "file://"+repository))

	r.eventually("Argo CD deploys to cluster-2", r.has("goods", "EUR"))
	r.eventually("Argo CD is content", r.synced)
	r.eventually("Argo CD says that it is connected", func(context.Context) error {
		stats, err := r.argocd(r.one, "stats", "--port-forward-redis=false", "--redis", redis, "--replicas", "1")
		if err == nil && !connected(stats, r.two.Config.Host) {
			err = errors.New(stats)
		}
		return err
	})
	r.commit(repository, "CHF")
	r.must(r.one.Kubectl(r.Context(), "-n", argo, "annotate", "application", "shop-cluster-2", "argocd.argoproj.io/refresh=normal"))
	r.eventually("Argo CD deploys a change", r.has("goods", "CHF"))
}

// startArgoCD starts what a core installation consists of, with the accounts that its manifests give it.
func (r *room) startArgoCD() (redis string) {
	r.Helper()
	redis = r.address()
	repo, metrics := r.address(), r.address()
	r.runs("redis", r.tool("redis"), nil, redis)
	host, port, err := net.SplitHostPort(repo)
	r.must("", err)
	_, metricsPort, err := net.SplitHostPort(metrics)
	r.must("", err)
	part := func(name, kubeconfig string, args ...string) {
		r.runs(name, r.tool(argo), []string{
			"ARGOCD_BINARY_NAME=argocd-" + name, "KUBECONFIG=" + kubeconfig, "ARGOCD_GPG_ENABLED=false",
			"ARGOCD_ASK_PASS_SOCK=" + filepath.Join(r.work, name, "ask-pass.sock"),
		}, args...)
	}
	part("repo-server", "", "--address", host, "--port", port, "--metrics-address", host, "--metrics-port", metricsPort, "--redis", redis)
	_, metricsPort, err = net.SplitHostPort(r.address())
	r.must("", err)
	part("application-controller", r.account(argo, "argocd-application-controller"), "--namespace", argo, "--metrics-port", metricsPort,
		"--repo-server", repo, "--redis", redis)
	part("applicationset-controller", r.account(argo, "argocd-applicationset-controller"), "--namespace", argo, "--metrics-addr", r.address(),
		"--probe-addr", r.address(), "--webhook-addr", r.address(), "--argocd-repo-server", repo)
	return redis
}

// argocd runs argocd admin cluster for the Argo CD of a cluster.
func (r *room) argocd(in *harness.Cluster, args ...string) (string, error) {
	command := append([]string{r.tool(argo), "admin", "cluster"}, append(args, "--context", in.Name, "--namespace", argo)...)
	return r.fleet.Shell(r.Context(), r.work, strings.Join(command, " "))
}

// known: the kubeconfig that Argo CD makes of what it knows of cluster-2 leads there.
func (r *room) known(in *harness.Cluster) error {
	file := filepath.Join(r.work, in.Name+"-argocd.kubeconfig")
	if out, err := r.argocd(in, "kubeconfig", r.two.Config.Host, file); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	found, err := r.fleet.Shell(r.Context(), r.work, "kubectl --kubeconfig "+file+" get namespace kube-system -o jsonpath={.metadata.uid}")
	id, idErr := r.two.ID(r.Context())
	if err = errors.Join(err, idErr); err == nil && found != id {
		err = fmt.Errorf("it leads to %q, not %s", found, id)
	}
	return err
}

// connected: a line of stats says so of an API server.
func connected(stats, server string) bool {
	for line := range strings.Lines(stats) {
		if strings.HasPrefix(line, server+" ") {
			return strings.Contains(line, " Successful ")
		}
	}
	return false
}

// synced: the Application that the ApplicationSet has made for cluster-2.
func (r *room) synced(ctx context.Context) error {
	applications := r.one.Dynamic.Resource(schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"})
	u, err := applications.Namespace(argo).Get(ctx, "shop-cluster-2", metav1.GetOptions{})
	if err != nil {
		return err
	}
	sync, _, _ := unstructured.NestedString(u.Object, "status", "sync", "status")
	health, _, _ := unstructured.NestedString(u.Object, "status", "health", "status")
	if sync != "Synced" || health != "Healthy" {
		return fmt.Errorf("sync is %q, health is %q: %v", sync, health, u.Object["status"])
	}
	return nil
}

// commit writes the next state of the repository.
func (r *room) commit(repository, currency string) {
	r.Helper()
	r.types(r.work, fmt.Sprintf(`
[ -e %[1]s ] || git init -q -b main %[1]s
cat >%[1]s/goods.yaml <<'EOF'
%[2]sEOF
git -C %[1]s add goods.yaml
git -C %[1]s -c user.name=test -c user.email=test@example.com commit -q -m %[3]s`, repository, goods("goods", currency), currency))
}
