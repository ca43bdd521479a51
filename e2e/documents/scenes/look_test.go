// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package scenes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/roster-mesh/roster/e2e/documents"
)

// look is what one sees of a group that is well.
func (r *room) look() {
	r.types(documents.Troubleshooting, "agentctl status --wait")
	r.prints(r.types(documents.Troubleshooting, "agentctl status --context A"), "cluster-1: healthy", "clusters: 5, 5 healthy")
	r.prints(r.types(documents.Troubleshooting, "agentctl status --fleet"), two, three, four, shop)
	r.prints(r.types(documents.Troubleshooting, "agentctl doctor --context A"), "nothing found")
	r.prints(r.types(documents.Troubleshooting, "agentctl doctor --context A --peer-context B"), "nothing found")
	r.prints(r.types(documents.Upgrade, "agentctl version"), two, three)
	r.prints(r.types(documents.Upgrade, "agentctl doctor"), "nothing found")
	r.prints(r.types(documents.Upgrade, "kubectl get clusters", "agentctl status"), "Synced", "cluster-1: healthy")

	r.prints(r.types(documents.Groups, "kubectl get clusters", "kubectl get clusters -o wide"), "STATUS MESSAGE", three)
	r.prints(r.types(documents.Groups, "agentctl members", "agentctl members --tree"), "Alive", "full")
	r.prints(r.types(documents.Groups, "agentctl status --fleet"), two, three, four, shop)
	r.prints(r.with("NAME", two).types(documents.Groups, "kubectl describe cluster NAME"), "ClustersSynced")
	r.prints(r.types(documents.Chart, "kubectl get clusters -o custom-columns", "kubectl get clusters -o wide"), "127.0.0.1:")
	r.prints(r.in(four).types(documents.RegistryAPI, "kubectl get clusters.clusterregistry.k8s.io"), three)
	r.prints(r.types(documents.Standalone, "kubectl get clusters.clusterregistry.k8s.io"), three)
	r.prints(r.types(documents.Profiles, "kubectl get clusterprofiles"), two, three, four, shop)
	r.plugin()
	r.page("agentctl ui")
	r.page("agentctl ui --context")
}

// plugin is docs/release.md about kubectl, and about an image in a registry, which nobody has here.
func (r *room) plugin() {
	programs := filepath.Join(r.fleet.Dir, "bin") // the fleet's folder is the home of who types
	r.must("", errors.Join(os.Mkdir(programs, 0o755), os.Symlink(filepath.Join(r.root, "bin", "agentctl"), filepath.Join(programs, "agentctl"))))
	r.types(documents.Release, "ln -s agentctl")
	r.prints(r.with("kubectl roster", "PATH=$HOME/bin:$PATH kubectl roster").types(documents.Release, "kubectl roster"), two, three, four, shop)
	image := r.with("helm install …", "helm install another charts/agent --dry-run=client").types(documents.Release, "helm install")
	r.prints(image, `image: "registry.example/roster-mesh/agent:`)
}

var link = regexp.MustCompile(`http://127\.0\.0\.1:\S+`)

// page opens the link that agentctl ui prints, as the script of the page does: once, for one browser.
func (r *room) page(command string) {
	log, stop := r.runs(documents.UI, command)
	defer stop()
	var at *url.URL
	r.eventually("agentctl ui prints a link", func(context.Context) error {
		said, err := os.ReadFile(log)
		if err != nil {
			return err
		}
		at, err = url.Parse(link.FindString(string(said)))
		if err == nil && at.Fragment == "" {
			err = fmt.Errorf("it says %s", said)
		}
		return err
	})
	jar, err := cookiejar.New(nil)
	r.must("", err)
	browser := &http.Client{Jar: jar}
	token := url.Values{"token": {at.Fragment}}
	at.Fragment = ""
	request, err := http.NewRequestWithContext(r.Context(), http.MethodPost, at.JoinPath("login").String(), strings.NewReader(token.Encode()))
	r.must("", err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.must(read(browser, request))
	r.eventually("the page shows the clusters", func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
		if err != nil {
			return err
		}
		text, err := read(browser, request)
		for _, name := range []string{one, two, three, four, shop} {
			if err == nil && !strings.Contains(text, name) {
				err = fmt.Errorf("no %s in %s", name, text)
			}
		}
		return err
	})
}

// read returns what is answered, or an error unless that is OK.
func read(client *http.Client, request *http.Request) (string, error) {
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		err = errors.Join(err, errors.New(response.Status))
	}
	return string(text), err
}
