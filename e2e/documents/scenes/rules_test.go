// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package scenes

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/roster-mesh/roster/e2e/documents"
)

// certificates is the rule of which the documents speak.
const certificates = `apiVersion: clusterregistry.k8s.cisco.com/v1alpha1
kind: ResourceSyncRule
metadata: {name: web-certs}
spec:
  groupVersionKind: {version: v1, kind: Secret}
  rules:
  - match: [{objectKey: {name: web-tls, namespace: shop}}]
  - match: [{objectKey: {name: old-tls, namespace: shop}}]
`

const certificate = `apiVersion: v1
kind: Secret
metadata: {name: web-tls, namespace: shop}
stringData: {tls.crt: one}
`

// copies has a rule copy two Secrets of cluster-1, and asks about them.
func (r *room) copies() {
	rights := r.must(r.docs.Block(documents.RBAC, "Secrets", "yaml", "roster-read-secrets"))
	for _, c := range r.fleet.Clusters {
		r.apply(c.Name, "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\n"+rights)
	}
	r.write("rules/web-certs.yaml", certificates)
	r.write("rule.yaml", strings.ReplaceAll(certificates, "web-", "other-"))
	r.write("secret.yaml", strings.ReplaceAll(certificate, "web-", "other-"))
	r.apply(one, certificates)
	r.apply(one, certificate)
	r.apply(one, strings.ReplaceAll(certificate, "web-", "old-"))
	for _, name := range []string{"web-tls", "old-tls"} {
		r.eventually(name+" is in cluster-3", r.shows(three, name, "-n", "shop", "get", "secret", name))
	}

	r.labelled()
	r.types(documents.GitOps, "agentctl rules lint")
	r.types(documents.Troubleshooting, "agentctl rules lint")
	r.until(documents.Troubleshooting, "agentctl rules list", "web-certs")
	r.until(documents.Troubleshooting, "agentctl rules list --fleet", "web-certs")
	r.prints(r.types(documents.Troubleshooting, "agentctl rules explain web-certs"), two, three)
	r.prints(r.types(documents.Troubleshooting, "agentctl rules explain secret"), "web-certs", "in sync")
	r.prints(r.types(documents.Troubleshooting, "agentctl rules explain -f"), "other-certs")
	r.prints(r.types(documents.Evidence, "agentctl verify"), "CREATE", two, three)
	// Members without a context here are asked with what their agents issued, which reads neither events nor pods.
	r.must(r.shell(r.Context(), "if "+r.lines(documents.Evidence, "agentctl bundle")+"; then exit 1; else test $? = 6; fi"))
	if _, err := os.Stat(filepath.Join(r.work, "roster.tgz")); err != nil {
		r.Error(err)
	}

	r.with("cluster west", "cluster "+two).types(documents.Rules, "kubectl --context west label")
	r.eventually("cluster-1 shows the label", r.shows(one, two, "get", "clusters", "-l", "tier=edge"))
	r.adopts()
	const accepted = `jsonpath={.metadata.annotations.local\.cluster-registry\.k8s\.cisco\.com/accept}`
	r.with("paris", two).types(documents.Rules, "agentctl accept")
	r.must("", r.shows(one, "objects", "get", "cluster", two, "-o", accepted)(r.Context()))
	r.must(r.shell(r.Context(), "agentctl accept cluster-2 default"))
	r.must("", r.none(one, "get", "cluster", two, "-o", accepted)(r.Context()))
}

// labelled has a Secret copied into the namespaces of cluster-2 that have a label, with the rights that the document gives for that.
func (r *room) labelled() {
	rights := r.must(r.docs.Block(documents.RBAC, "Secrets", "yaml", "kind: ClusterRole\n"))
	r.apply(two, rights)
	r.apply(two, "apiVersion: v1\nkind: Namespace\nmetadata: {name: team-tls, labels: {certificates: shop}}\n")
	rule := strings.NewReplacer("web-certs", "labelled", "  rules:", "  ruleDeletionPolicy: Delete\n  targetNamespaces: {matchLabels: {certificates: shop}}\n  rules:").Replace(certificates)
	r.apply(one, rule)
	r.eventually("the copy is in team-tls of cluster-2", r.shows(two, "web-tls", "-n", "team-tls", "get", "secret", "web-tls"))
	r.must(r.cluster(one).Kubectl(r.Context(), "delete", "rsr", "labelled"))
	r.eventually("it is gone with the rule", r.none(two, "-n", "team-tls", "get", "secret", "web-tls"))
	r.must(r.cluster(two).Kubectl(r.Context(), "delete", "clusterrole", "roster-write-secrets"))
}

// adopts has cluster-2 give up an object of its own for the copy of one of cluster-1.
func (r *room) adopts() {
	for _, kind := range []string{"rights", "rules"} {
		example, err := os.ReadFile(filepath.Join(r.root, "docs/examples", kind, "adopt-settings.yaml"))
		manifest := strings.ReplaceAll(r.must(string(example), err), "shop-settings", "team")
		r.apply(one, manifest)
		if kind == "rights" {
			r.apply(two, manifest)
		}
	}
	r.must(r.cluster(two).Kubectl(r.Context(), "-n", "team", "create", "configmap", "settings", "--from-literal=currency=JPY"))
	r.must(r.cluster(one).Kubectl(r.Context(), "-n", "team", "create", "configmap", "settings", "--from-literal=currency=EUR"))
	r.must(r.cluster(one).Kubectl(r.Context(), "-n", "team", "label", "configmap", "settings", "shared=yes"))
	content := []string{"-n", "team", "get", "configmap", "settings", "-o", "jsonpath={.data.currency}"}
	r.eventually("cluster-2 reports the conflict", r.shows(two, "adopt=adopt-settings", "get", "rsr", "adopt-settings", "-o", "yaml"))
	r.must("", r.shows(two, "JPY", content...)(r.Context()))
	r.with("RULE", "adopt-settings").types(documents.Rules, "agentctl rules adopt")
	r.eventually("it has the content of cluster-1", r.shows(two, "EUR", content...))
	r.must(r.cluster(one).Kubectl(r.Context(), "delete", "rsr", "adopt-settings"))
	r.eventually("the rule is gone from cluster-2", r.none(two, "get", "rsr", "adopt-settings"))
}
