// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package scenes

import (
	"os"
	"path/filepath"
	"strings"
)

const (
	evidenceDocument = "docs/evidence.md"
	rulesDocument    = "docs/rules.md"
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
	rights, err := os.ReadFile(filepath.Join(r.root, "docs/examples/rights/wildcard-tls.yaml"))
	r.must("", err)
	granted := strings.NewReplacer("gateways", "shop", ", resourceNames: [wildcard-tls]", "").Replace(string(rights))
	for _, c := range r.fleet.Clusters {
		r.apply(c.Name, granted)
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

	r.types("docs/gitops.md", "agentctl rules lint")
	r.types(troubleDocument, "agentctl rules lint")
	r.until(troubleDocument, "agentctl rules list", "web-certs")
	r.until(troubleDocument, "agentctl rules list --fleet", "web-certs")
	r.prints(r.types(troubleDocument, "agentctl rules explain web-certs"), two, three)
	r.prints(r.types(troubleDocument, "agentctl rules explain secret"), "web-certs", "in sync")
	r.prints(r.types(troubleDocument, "agentctl rules explain -f"), "other-certs")
	r.prints(r.types(evidenceDocument, "agentctl verify"), "CREATE", two, three)
	// Members without a context here are asked with what their agents issued, which reads neither events nor pods.
	r.must(r.shell(r.Context(), r.lines(evidenceDocument, "agentctl bundle")+" || test $? = 6"))
	if _, err := os.Stat(filepath.Join(r.work, "roster.tgz")); err != nil {
		r.Error(err)
	}

	r.with("cluster west", "cluster "+two).types(rulesDocument, "kubectl --context west label")
	r.eventually("cluster-1 shows the label", r.shows(one, two, "get", "clusters", "-l", "tier=edge"))
	r.must(r.cluster(two).Kubectl(r.Context(), "create", "namespace", "team"))
	r.must(r.cluster(two).Kubectl(r.Context(), "-n", "team", "create", "configmap", "settings"))
	r.with("RULE", "settings").types(rulesDocument, "kubectl --context west -n team annotate")
	r.with("paris", two).types(rulesDocument, "agentctl accept")
	r.must(r.shell(r.Context(), "agentctl accept cluster-2 default"))
}
