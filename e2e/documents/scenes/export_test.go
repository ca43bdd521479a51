// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package scenes

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/roster-mesh/roster/e2e/documents"
)

// export takes the list elsewhere: to a file and back, and to kubectl.
func (r *room) export() {
	r.must(r.cluster(two).Kubectl(r.Context(), "label", "cluster", two, "example.com/stage=prod"))
	r.eventually("cluster-1 shows the label", r.shows(one, two, "get", "clusters", "-l", "example.com/stage=prod"))
	r.types(documents.Export, "agentctl export --context cluster-1 > clusters.yaml")
	r.prints(r.types(documents.Export, "agentctl export cluster-2 cluster-3"), two, three)
	r.prints(r.types(documents.Export, "agentctl export --context cluster-1 -l"), two)
	r.types(documents.Export, "agentctl export --context cluster-1 --with-credentials --to")
	written, err := os.ReadFile(filepath.Join(r.work, "clusters.yaml"))
	r.prints(r.must(string(written), err), "kind: Secret", "name: "+three, "kubeconfig: ")

	own := r.in("own")
	own.types(documents.Export, "agentctl kubeconfig")
	own.prints(own.types(documents.Export, "kubectl --context cluster-2 get clusters"), three)
	r.types(documents.Export, "kubectl --context cluster-2 create namespace ci", "kubectl --context cluster-2 -n ci create serviceaccount",
		"kubectl --context cluster-2 -n ci create rolebinding")
	own.types(documents.Export, "agentctl export --context cluster-1 -o kubeconfig")
	r.types(documents.Export, "kubectl --kubeconfig clusters.kubeconfig config set-credentials")
	own.until(documents.Export, "kubectl --kubeconfig clusters.kubeconfig --context cluster-2 -n ci get pods")

	r.types(documents.Export, "agentctl export --context cluster-1 --with-credentials -o argocd --renew")
	for _, name := range []string{two, three} {
		r.eventually(fmt.Sprintf("Argo CD has a credential for %s", name),
			r.shows(one, "bearerToken", "-n", "argocd", "get", "secret", "cluster-"+name, "-o", "go-template={{.data.config|base64decode}}"))
	}
}

// imports makes the clusters of cluster-1's group known in shop-1, which has left it.
func (r *room) imports() {
	alone := r.none(shop, "get", "cluster", one, two, "-o", "name")
	r.eventually("shop-1 is alone", alone)
	r.types(documents.Export, "agentctl export --context cluster-1 > clusters.yaml")
	r.prints(r.types(documents.Export, "agentctl import clusters.yaml --context other --dry-run"), "Cluster cluster-1 would be created", "Cluster cluster-2 would be created")
	r.must("", alone(r.Context()))
	r.prints(r.types(documents.Export, "agentctl import clusters.yaml --context other"), "Cluster cluster-1 created", "Cluster cluster-2 created")
	r.must("", r.shows(shop, two, "get", "cluster", two)(r.Context()))
}
