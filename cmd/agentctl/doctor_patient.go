// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// patient is a cluster that is looked at, and what was read of it. Each of its parts may be missing, and the
// error beside it says why.
type patient struct {
	side *side

	apiErr error // no answer, or a refusal
	offset time.Duration
	asked  time.Duration // how long the answer took, by which offset may be wrong

	id    string
	idErr error

	clusters    []*v1alpha1.Cluster
	clustersErr error
	rules       []*v1alpha1.ResourceSyncRule
	rulesErr    error
}

// read reads what several checks need.
func (x *examination) read(ctx context.Context) {
	var wg sync.WaitGroup
	for _, p := range x.patients {
		wg.Go(func() { p.read(ctx) })
	}
	wg.Wait()
}

func (p *patient) read(ctx context.Context) {
	if p.apiErr = p.greet(ctx); p.apiErr != nil {
		p.idErr, p.clustersErr, p.rulesErr = p.apiErr, p.apiErr, p.apiErr
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { p.id, p.idErr = p.side.clusterID(ctx) })
	wg.Go(func() { p.clusters, p.clustersErr = p.side.typedClusters(ctx) })
	wg.Go(func() { p.rules, p.rulesErr = p.side.rules(ctx) })
	wg.Wait()
}

// greet asks for what every API server tells, and hears from the header what time it is there.
func (p *patient) greet(ctx context.Context) error {
	start := time.Now()
	answer, body, err := p.fetch(ctx, "version")
	if err != nil {
		return err
	}
	p.asked = time.Since(start)
	if answer.StatusCode != http.StatusOK {
		var status struct {
			Message string `json:"message"`
		}
		_ = json.Unmarshal(body, &status) // only for a better message
		return refusedError{answer.StatusCode, strings.TrimSpace(answer.Status + ": " + status.Message)}
	}
	there, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return nil //nolint:nilerr // the clock check says that it is not known
	}
	// The header has whole seconds: on average it is half a second old when it is written.
	p.offset = there.Add(500 * time.Millisecond).Sub(start.Add(p.asked / 2))
	if p.offset == 0 {
		p.offset = time.Nanosecond // 0 is for not known
	}
	return nil
}

// fetch gets a path of the API server, and reads so much of the answer that a person would, too.
func (p *patient) fetch(ctx context.Context, path string) (*http.Response, []byte, error) {
	client, err := rest.HTTPClientFor(p.side.config)
	if err != nil {
		return nil, nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(p.side.config)
	if err != nil {
		return nil, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath(path).String(), nil)
	if err != nil {
		return nil, nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	return answer, body, err
}

// refusedError is an answer of an API server that is not what was asked for.
type refusedError struct {
	code int
	text string
}

func (e refusedError) Error() string { return e.text }

// local is the Cluster object of the patient itself, as far as it is known.
func (p *patient) local() *v1alpha1.Cluster {
	for _, c := range p.clusters {
		if p.id != "" && string(c.Spec.ClusterID) == p.id {
			return c
		}
	}
	return nil
}

// name is what people call the patient.
func (p *patient) name() string {
	if c := p.local(); c != nil {
		return c.Name
	}
	return p.side.Context
}

// isPeer tells a Cluster object of another cluster that nobody has switched off.
func (p *patient) isPeer(c *v1alpha1.Cluster) bool {
	_, disabled := c.Annotations[v1alpha1.AnnotationClusterDisabled]
	return string(c.Spec.ClusterID) != p.id && !disabled
}

// kubectl is a command line for the patient's cluster.
func (p *patient) kubectl(args ...string) string {
	words := []string{"kubectl"}
	if !p.side.inside {
		words = append(words, "--context", shellWord(p.side.Context))
	}
	for _, a := range args {
		words = append(words, shellWord(a))
	}
	return strings.Join(words, " ")
}

// kubectlIn is a command line for any cluster, which says where to run it if no context of it is known.
func (x *examination) kubectlIn(c *v1alpha1.Cluster, args ...string) string {
	if p := x.find(string(c.Spec.ClusterID)); p != nil {
		return p.kubectl(args...)
	}
	words := []string{"kubectl"}
	for _, a := range args {
		words = append(words, shellWord(a))
	}
	return strings.Join(words, " ") + "  # in cluster " + shellWord(c.Name)
}

// find is the patient with a clusterID, or nil.
func (x *examination) find(id string) *patient {
	for _, p := range x.patients {
		if p.id != "" && p.id == id {
			return p
		}
	}
	return nil
}

// join is the command that swaps two clusters again.
func (x *examination) join(p *patient, c *v1alpha1.Cluster) string {
	to := c.Name + "  # the context of that cluster"
	if other := x.find(string(c.Spec.ClusterID)); other != nil {
		to = shellWord(other.side.Context)
	}
	return fmt.Sprintf("agentctl join --context %s --peer-context %s", shellWord(p.side.Context), to)
}

// restart is the command that starts an agent again.
func (x *examination) restart(c *v1alpha1.Cluster) string {
	return x.kubectlIn(c, "-n", x.namespace, "rollout", "restart", "deployment,statefulset", "-l", podsOfAgents)
}

// agentLog is the command that shows what an agent wrote last; there may be three.
func (x *examination) agentLog(p *patient) string {
	return p.kubectl("-n", x.namespace, "logs", "-l", podsOfAgents, "--tail=20")
}

// install is the command that brings what the chart makes up to date.
func (x *examination) install(p *patient) string {
	where := ""
	if !p.side.inside {
		where = " --kube-context " + shellWord(p.side.Context)
	}
	return fmt.Sprintf("helm upgrade --install %s charts/agent%s --namespace %s --reuse-values", v1alpha1.DefaultServiceAccount, where, shellWord(x.namespace))
}

// plainWord needs no quotes in a shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shellWord makes a word safe to paste: names may come from other clusters.
func shellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
