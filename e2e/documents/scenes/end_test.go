// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package scenes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/roster-mesh/roster/e2e/harness"
)

const (
	groupOfAgents     = "docs/ha.md"
	uninstallDocument = "docs/uninstall.md"
)

// leftBehind is the APIService of a release with the registry API whose namespace was deleted.
const leftBehind = `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1alpha1.clusterregistry.k8s.io}
spec:
  group: clusterregistry.k8s.io
  version: v1alpha1
  groupPriorityMinimum: 1000
  versionPriority: 10
  service: {name: cluster-registry-api, namespace: cluster-registry}
`

// several has three agents in cluster-4, which is alone by now.
func (r *room) several() {
	c := r.cluster(four)
	r.must("", c.StopAgent())
	var here, pages []string
	for i := range 3 {
		at, err := harness.FreeAddress(r.Context())
		page, pageErr := harness.FreeAddress(r.Context())
		r.must("", errors.Join(err, pageErr))
		here, pages = append(here, fmt.Sprintf("10.0.0.%d:7946", i+1), at), append(pages, page)
	}
	for i, page := range pages {
		at := here[2*i+1]
		flags := strings.Join(append(c.AgentFlags(), "--mesh-listen", at, "--http-listen", page), " ")
		data := filepath.Join(r.work, fmt.Sprint("agent-", i))
		r.must("", os.Mkdir(data, 0o700))
		words := append([]string{"…", flags, "/var/lib/roster", data, "--group-address 10.0.0.1:7946", "--group-address " + at}, here...)
		r.with(words...).runs(groupOfAgents, "agent run")
	}
	r.eventually("three agents are ready", func(ctx context.Context) error {
		for _, page := range pages {
			if err := answers(ctx, "http://"+page+"/readyz", http.StatusOK); err != nil {
				return err
			}
		}
		return nil
	})
}

// uninstall ends the release of cluster-1, and takes everything from cluster-2, which has none.
func (r *room) uninstall() {
	r.types(profilesDocument, "kubectl delete clusterprofiles", "kubectl delete clusterproperties")
	r.must("", r.cluster(one).StopAgent())
	r.types(uninstallDocument, "helm uninstall")

	r.must("", r.cluster(two).StopAgent())
	r.apply(two, leftBehind)
	there := r.in(two)
	there.types(uninstallDocument, "kubectl delete apiservice")
	r.prints(there.types(uninstallDocument, "kubectl delete clusterrole", "kubectl delete role,rolebinding", "kubectl delete rolebinding"), "deleted")
	there.types(uninstallDocument, "kubectl delete namespace")
	r.prints(there.types(uninstallDocument, "kubectl get secrets", "kubectl delete secrets"), "web-tls", "deleted")
	there.types(uninstallDocument, "kubectl delete crd")
}
