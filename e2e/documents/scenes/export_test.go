// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package scenes

import (
	"fmt"
	"strings"
)

// export takes the list elsewhere: to a file and back, and to kubectl.
func (r *room) export() {
	r.must(r.cluster(two).Kubectl(r.Context(), "label", "cluster", two, "example.com/stage=prod"))
	r.eventually("cluster-1 shows the label", r.shows(one, two, "get", "clusters", "-l", "example.com/stage=prod"))
	r.types(exportDocument, "agentctl export --context cluster-1 > clusters.yaml")
	r.prints(r.types(exportDocument, "agentctl export cluster-2 cluster-3"), two, three)
	r.prints(r.types(exportDocument, "agentctl export --context cluster-1 -l"), two)
	r.types(exportDocument, "agentctl import clusters.yaml --context other --dry-run")
	r.prints(r.types(exportDocument, "agentctl import clusters.yaml --context other"), "unchanged")
	r.types(exportDocument, "agentctl export --context cluster-1 --with-credentials --to")

	own := r.in("own")
	own.types(exportDocument, "agentctl kubeconfig")
	own.prints(own.types(exportDocument, "kubectl --context cluster-2 get clusters"), three)
	own.types(exportDocument, "agentctl export --context cluster-1 -o kubeconfig")
	r.must(r.cluster(two).Kubectl(r.Context(), "create", "serviceaccount", "reader"))
	r.must(r.cluster(two).Kubectl(r.Context(), "create", "clusterrolebinding", "reader", "--clusterrole=cluster-admin", "--serviceaccount=default:reader"))
	token := strings.TrimSpace(r.must(r.cluster(two).Kubectl(r.Context(), "create", "token", "reader")))
	own.with("…", token).types(exportDocument, "kubectl --kubeconfig clusters.kubeconfig config set-credentials")
	own.until(exportDocument, "kubectl --kubeconfig clusters.kubeconfig --context cluster-2 get nodes")

	r.types(exportDocument, "agentctl export --context cluster-1 --with-credentials -o argocd --renew")
	for _, name := range []string{two, three} {
		r.eventually(fmt.Sprintf("Argo CD has a credential for %s", name),
			r.shows(one, "bearerToken", "-n", "argocd", "get", "secret", "cluster-"+name, "-o", "go-template={{.data.config|base64decode}}"))
	}
}
