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

	"github.com/roster-mesh/roster/e2e/documents"
	"github.com/roster-mesh/roster/e2e/harness"
)

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
		r.with(words...).runs(documents.HA, "agent run")
	}
	r.eventually("three agents are ready", func(ctx context.Context) error {
		for _, page := range pages {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+page+"/readyz", nil)
			if err != nil {
				return err
			}
			if _, err = read(http.DefaultClient, request); err != nil {
				return err
			}
		}
		return nil
	})
}

// uninstall ends the release of cluster-1, and takes everything from cluster-2, which has none.
func (r *room) uninstall() {
	r.must("", r.cluster(one).StopAgent())
	r.prints(r.types(documents.Profiles, "kubectl delete clusterprofiles"), `"cluster-2" deleted`)
	r.prints(r.types(documents.Profiles, "kubectl delete clusterproperties"), `"cluster.clusterset.k8s.io" deleted`)
	r.must("", r.none(one, "get", "clusterprofiles,clusterproperties", "-A", "-o", "name")(r.Context()))
	r.prints(r.types(documents.Uninstall, "helm uninstall"), "uninstalled")
	r.must("", r.none(one, "-n", harness.Namespace, "get", "deployments", "-o", "name")(r.Context()))

	r.must("", r.cluster(two).StopAgent())
	there := r.in(two)
	there.withRegistry()
	there.types(documents.Uninstall, "kubectl delete apiservice")
	r.must("", r.none(two, "get", "apiservice", "v1alpha1.clusterregistry.k8s.io")(r.Context()))
	deletes := func(command string, kinds ...string) {
		r.Helper()
		out := there.types(documents.Uninstall, command)
		for _, kind := range kinds {
			r.prints("\n"+out, "\n"+kind)
		}
	}
	deletes("kubectl delete clusterrole", "clusterrole.", "clusterrolebinding.", "validatingadmissionpolicy.", "validatingadmissionpolicybinding.",
		"flowschema.", "prioritylevelconfiguration.")
	deletes("kubectl delete role,rolebinding", "role.", "rolebinding.")
	deletes("kubectl delete rolebinding", "rolebinding.")
	there.types(documents.Uninstall, "kubectl delete namespace")
	r.must("", r.none(two, "get", "namespaces", harness.Namespace, harness.Namespace+"-private", harness.Namespace+"-readers", "-o", "name")(r.Context()))
	r.prints(there.types(documents.Uninstall, "kubectl get secrets", "kubectl delete secrets"), "web-tls", "deleted")
	r.must("", r.none(two, "-n", "shop", "get", "secret", "web-tls")(r.Context()))
	there.types(documents.Uninstall, "kubectl delete crd")
	r.must("", r.none(two, "get", "crd", "clusters.clusterregistry.k8s.cisco.com")(r.Context()))
}

// withRegistry has a cluster have everything that a release can leave behind: with the registry API, whose server is not there.
func (r *room) withRegistry() {
	r.must(r.shell(r.Context(), "helm template charts/agent -n cluster-registry --no-hooks "+
		"--set localCluster.name="+r.current+",registry.enabled=true,replicas=0 | kubectl apply -f -"))
}
