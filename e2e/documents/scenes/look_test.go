// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package scenes

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
)

const (
	releaseDocument  = "docs/release.md"
	registryDocument = "docs/registry-api.md"
	troubleDocument  = "docs/troubleshooting.md"
	uiDocument       = "docs/ui.md"
	upgradeDocument  = "docs/upgrade.md"
)

// look is what one sees of a group that is well.
func (r *room) look() {
	r.types(troubleDocument, "agentctl status --wait")
	r.prints(r.types(troubleDocument, "agentctl status --context A"), "cluster-1: healthy", "clusters: 5, 5 healthy")
	r.prints(r.types(troubleDocument, "agentctl status --fleet"), two, three, four, shop)
	r.prints(r.types(troubleDocument, "agentctl doctor --context A"), "nothing found")
	r.prints(r.types(troubleDocument, "agentctl doctor --context A --peer-context B"), "nothing found")
	r.prints(r.types(upgradeDocument, "agentctl version"), two, three)
	r.prints(r.types(upgradeDocument, "agentctl doctor"), "nothing found")
	r.prints(r.types(upgradeDocument, "kubectl get clusters", "agentctl status"), "Synced", "cluster-1: healthy")

	r.prints(r.types(groupsDocument, "kubectl get clusters", "kubectl get clusters -o wide"), "STATUS MESSAGE", three)
	r.prints(r.types(groupsDocument, "agentctl members", "agentctl members --tree"), "Alive", "full")
	r.prints(r.types(groupsDocument, "agentctl status --fleet"), two, three, four, shop)
	r.prints(r.with("NAME", two).types(groupsDocument, "kubectl describe cluster NAME"), "ClustersSynced")
	r.prints(r.types(chartDocument, "kubectl get clusters -o custom-columns", "kubectl get clusters -o wide"), "127.0.0.1:")
	r.prints(r.in(four).types(registryDocument, "kubectl get clusters.clusterregistry.k8s.io"), three)
	r.prints(r.types("docs/standalone.md", "kubectl get clusters.clusterregistry.k8s.io"), three)
	r.prints(r.types(profilesDocument, "kubectl get clusterprofiles"), two, three, four, shop)
	r.plugin()
	r.page("agentctl ui")
	r.page("agentctl ui --context")
}

// plugin is docs/release.md about kubectl, and about an image in a registry, which nobody has here.
func (r *room) plugin() {
	programs := filepath.Join(r.fleet.Dir, "bin") // the fleet's folder is the home of who types
	r.must("", errors.Join(os.Mkdir(programs, 0o755), os.Symlink(filepath.Join(r.root, "bin", "agentctl"), filepath.Join(programs, "agentctl"))))
	r.types(releaseDocument, "ln -s agentctl")
	r.prints(r.with("kubectl roster", "PATH=$HOME/bin:$PATH kubectl roster").types(releaseDocument, "kubectl roster"), two, three, four, shop)
	image := r.with("helm install …", "helm install another charts/agent --dry-run=client").types(releaseDocument, "helm install")
	r.prints(image, `image: "registry.example/roster-mesh/agent:`)
}

var link = regexp.MustCompile(`http://127\.0\.0\.1:\S+`)

// page opens the link that agentctl ui prints, without its token.
func (r *room) page(command string) {
	log, stop := r.runs(uiDocument, command)
	defer stop()
	r.eventually("the page answers", func(ctx context.Context) error {
		said, err := os.ReadFile(log)
		if err != nil {
			return err
		}
		return answers(ctx, link.FindString(string(said)), http.StatusUnauthorized)
	})
}

// answers returns an error unless a page is answered like this.
func answers(ctx context.Context, url string, code int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if err = response.Body.Close(); response.StatusCode != code {
		err = errors.New(response.Status)
	}
	return err
}
