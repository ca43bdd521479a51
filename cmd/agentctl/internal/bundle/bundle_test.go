// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/fleet"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

const (
	token      = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"
	privateKey = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIB\n-----END EC PRIVATE KEY-----\n"
)

// group is two clusters behind one server, alpha and beta, and a third that nobody can ask. answers are by cluster and path.
type group struct {
	*httptest.Server

	answers map[string]func(http.ResponseWriter)

	mu   sync.Mutex
	read []string
}

func newGroup(t *testing.T) *group {
	t.Helper()
	g := &group{answers: map[string]func(http.ResponseWriter){}}
	g.Server = httptest.NewServer(g)
	t.Cleanup(g.Close)
	cluster := func(name string) string {
		return `{"apiVersion":"clusterregistry.k8s.cisco.com/v1alpha1","kind":"Cluster","metadata":{"name":"` + name + `","managedFields":[{"manager":"x"}],
"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}","note":"` + token + ` \" and Bearer abcdefghijk"}},"spec":{"clusterID":"id-` + name + `"},"status":{"agentVersion":"1.2.3"}}`
	}
	for _, name := range []string{"alpha", "beta"} {
		g.say(name+"/api/v1/namespaces/kube-system", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kube-system","uid":"id-`+name+`"}}`)
		g.say(name+"/version", `{"gitVersion":"v1.36.3"}`)
		registry := name + "/apis/clusterregistry.k8s.cisco.com/v1alpha1/"
		g.say(registry+"clusters", list("Cluster", cluster("alpha"), cluster("beta"), cluster("gamma")))
		g.say(registry+"resourcesyncrules", list("ResourceSyncRule"))
		g.say(registry+"clusterfeatures", list("ClusterFeature"))
		g.say(name+"/api/v1/namespaces/cluster-registry/events", list("Event", `{"metadata":{"name":"b"},"message":"second"}`, `{"metadata":{"name":"a"},"message":"first"}`))
		g.say(name+"/api/v1/namespaces/default/events", list("Event"))
		g.say(name+"/api/v1/namespaces/cluster-registry/pods", list("Pod"))
	}
	g.say("alpha/api/v1/namespaces/cluster-registry/pods", list("Pod", aPod("agent-0")))
	at := "alpha/api/v1/namespaces/cluster-registry/pods/agent-0"
	g.say(at+":8080/proxy/metrics", "roster_members 3\n")
	g.say(at+"/log?previous=false", "starts\x1b[31m\n"+privateKey+"uses "+token+"\nends\n")
	g.say(at+"/log?previous=true", "before\n")
	return g
}

func (g *group) say(at, text string) {
	g.answers[at] = func(w http.ResponseWriter) { fmt.Fprint(w, text) }
}

func list(kind string, items ...string) string {
	return `{"apiVersion":"v1","kind":"` + kind + `List","metadata":{},"items":[` + strings.Join(items, ",") + `]}`
}

func aPod(name string) string {
	return `{"metadata":{"name":"` + name + `"},"spec":{"containers":[{"name":"agent","env":[{"name":"X","value":"in-the-environment"}],"ports":[{"name":"http","containerPort":8080}]}]},
"status":{"phase":"Running","containerStatuses":[{"name":"agent","restartCount":1}]}}`
}

func (g *group) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := strings.TrimPrefix(r.URL.Path, "/")
	if strings.HasSuffix(at, "/log") {
		at += "?previous=" + r.URL.Query().Get("previous")
	}
	g.mu.Lock()
	g.read = append(g.read, at)
	g.mu.Unlock()
	if said := g.answers[at]; said != nil {
		w.Header().Set("Content-Type", "application/json")
		said(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	fmt.Fprintf(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Forbidden","message":"you may not read %s","code":403}`, at)
}

// options are those of a person with contexts for alpha and beta.
func (g *group) options(t *testing.T) *Options {
	t.Helper()
	dir := t.TempDir()
	var all, contexts []string
	for _, name := range []string{"alpha", "beta"} {
		all = append(all, fmt.Sprintf(`{"name":"%[1]s","cluster":{"server":"%[2]s/%[1]s"}}`, name, g.URL))
		contexts = append(contexts, fmt.Sprintf(`{"name":"%[1]s","context":{"cluster":"%[1]s","user":"u"}}`, name))
	}
	text := fmt.Sprintf(`{"current-context":"alpha","clusters":[%s],"users":[{"name":"u","user":{}}],"contexts":[%s]}`, strings.Join(all, ","), strings.Join(contexts, ","))
	path := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	says := func(text string) func(context.Context, *Options) ([]byte, error) {
		return func(context.Context, *Options) ([]byte, error) { return []byte(text), nil }
	}
	return &Options{
		Group: &fleet.Group{Access: clusters.Access{Kubeconfig: path}, Contexts: []string{"beta"}, Network: "default", Timeout: 5 * time.Minute},
		Uses:  Uses{Doctor: says(`{"findings":[]}`), Version: says(`{}`)}, Namespace: v1alpha1.DefaultNamespace,
		File: filepath.Join(t.TempDir(), "x.tgz"),
	}
}

// run returns what is printed, and the error.
func run(ctx context.Context, o *Options) (string, error) {
	var out bytes.Buffer
	if err := o.Validate(); err != nil {
		return "", err
	}
	err := o.Run(ctx, &cli.Output{Stdout: &out, Stderr: io.Discard, Format: "table"})
	return out.String(), err
}

// unpack returns the names in their order, and the content by them.
func unpack(t *testing.T, path string) (names []string, content map[string]string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	gz, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	content = map[string]string{}
	for r := tar.NewReader(gz); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names, content
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		names, content[h.Name] = append(names, h.Name), string(data)
	}
}

func indexOf(t *testing.T, content map[string]string) (x index) {
	t.Helper()
	if err := json.Unmarshal([]byte(content["index.json"]), &x); err != nil {
		t.Fatal(err)
	}
	return x
}

// What members say is in the file, in an order that is always the same; who could not be asked is named; no Secret is read, and what
// looks like a credential is nowhere.
func TestBundle(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	o := g.options(t)
	printed, err := run(t.Context(), o)
	if cli.ExitCode(err) != cli.ExitUnknown || !strings.Contains(printed, "unknown: cluster gamma: its Cluster object names no credential") {
		t.Errorf("exit code %d, %v:\n%s", cli.ExitCode(err), err, printed)
	}
	names, content := unpack(t, o.File)
	want := []string{"index.json", "doctor.json", "version.json"}
	for _, name := range []string{"version.json", "clusters.json", "rules.json", "features.json", "events.json", "events-registry.json", "pods.json", "pods/agent-0/agent.metrics", "pods/agent-0/agent.log", "pods/agent-0/agent.previous.log"} {
		want = append(want, "members/alpha/"+name)
	}
	for _, name := range []string{"version.json", "clusters.json", "rules.json", "features.json", "events.json", "events-registry.json", "pods.json"} {
		want = append(want, "members/beta/"+name)
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	x := indexOf(t, content)
	if diff := cmp.Diff(names[1:], x.Files); diff != "" {
		t.Errorf("index.json (-archive +index):\n%s", diff)
	}
	if len(x.Missing) != 0 || len(x.Unknown) != 1 || x.Unknown[0].Cluster != "gamma" || x.Members[0].AgentVersion != "1.2.3" || x.Members[1].ServerVersion != "v1.36.3" ||
		len(x.Members[1].Notes) != 1 || !strings.Contains(x.Members[1].Notes[0], "has no pods of Roster") {
		t.Errorf("index.json: %s", content["index.json"])
	}
	if got, want := content["members/alpha/pods/agent-0/agent.log"], "starts?[31m\n[removed]\nuses [removed]\nends\n"; got != want {
		t.Errorf("the log is %q, not %q", got, want)
	}
	if text := content["members/alpha/events.json"]; strings.Index(text, "first") > strings.Index(text, "second") {
		t.Errorf("events are not in order:\n%s", text)
	}
	for _, name := range slices.Sorted(maps.Keys(content)) {
		for _, secret := range []string{"eyJ", "MHcC", "abcdefghijk", "in-the-environment", "managedFields", "last-applied"} {
			if strings.Contains(content[name], secret) {
				t.Errorf("%s has %q:\n%s", name, secret, content[name])
			}
		}
		if strings.HasSuffix(name, ".json") && !json.Valid([]byte(content[name])) {
			t.Errorf("%s is no JSON any more:\n%s", name, content[name])
		}
	}
	for _, at := range g.read {
		if strings.Contains(at, "secrets") {
			t.Errorf("read %s", at)
		}
	}
	o.Force = true
	if _, err := run(t.Context(), o); cli.ExitCode(err) != cli.ExitUnknown {
		t.Error(err)
	}
	if again, _ := unpack(t, o.File); !slices.Equal(names, again) {
		t.Errorf("another time the files are %v", again)
	}
}

// A standalone API server serves no pods: nothing is missing there.
func TestMemberThatServesNoPods(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	g.answers["beta/api/v1/namespaces/cluster-registry/pods"] = func(w http.ResponseWriter) { http.Error(w, "404 page not found", http.StatusNotFound) }
	o := g.options(t)
	if _, err := run(t.Context(), o); cli.ExitCode(err) != cli.ExitUnknown { // because of gamma
		t.Error(err)
	}
	_, content := unpack(t, o.File)
	if x := indexOf(t, content); len(x.Missing) != 0 || len(x.Members[1].Notes) != 1 || !strings.Contains(x.Members[1].Notes[0], "has no pods of Roster") {
		t.Errorf("index.json: %s", content["index.json"])
	}
}

// A file that is there stays as it is without --force, and a command that is interrupted leaves none.
func TestFileStays(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	o := g.options(t)
	ctx, cancel := context.WithCancel(t.Context())
	g.answers["beta/version"] = func(http.ResponseWriter) { cancel(); <-ctx.Done() }
	if _, err := run(ctx, o); err == nil || err.Error() != "interrupted; no file was written" {
		t.Errorf("interrupted: %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(o.File)); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := os.WriteFile(o.File, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t.Context(), o); cli.ExitCode(err) != cli.ExitFailed || !strings.Contains(err.Error(), "is there already; --force replaces it") {
		t.Errorf("a file is there: %v", err)
	}
	if data, err := os.ReadFile(o.File); err != nil || string(data) != "mine" {
		t.Errorf("%q, %v", data, err)
	}
}

// A hostile member fills neither the memory nor the disk, writes no file elsewhere, and is named.
func TestHostileMember(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	flood := func(bytes int) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			line := []byte(strings.Repeat("x", 1<<10-1) + "\n")
			for range bytes >> 10 {
				if _, err := w.Write(line); err != nil {
					return
				}
			}
		}
	}
	at := "beta/api/v1/namespaces/cluster-registry/"
	g.say(at+"pods", list("Pod", aPod("../../../x"), aPod("agent-0"), aPod("agent-1")))
	g.answers[at+"pods/agent-0:8080/proxy/metrics"] = flood(100 << 20)
	g.answers[at+"pods/agent-0/log?previous=false"] = flood(2 << 20)
	g.answers[at+"pods/agent-1:8080/proxy/metrics"] = flood(1 << 20)
	g.say("beta/version", "\x1b[31m")
	g.answers["beta/apis/clusterregistry.k8s.cisco.com/v1alpha1/clusterfeatures"] = flood(100 << 20)
	o := g.options(t)
	printed, err := run(t.Context(), o)
	if cli.ExitCode(err) != cli.ExitUnknown {
		t.Errorf("%v:\n%s", err, printed)
	}
	names, content := unpack(t, o.File)
	for _, name := range names {
		if strings.Contains(name, "..") || !strings.HasPrefix(name, "members/") && strings.Contains(name, "/") {
			t.Errorf("a file is called %s", name)
		}
	}
	if n := len(content["members/beta/pods/agent-0/agent.log"]); n != maxLog {
		t.Errorf("%d bytes of a log were kept", n)
	}
	for _, want := range []string{
		"missing: cluster beta: version.json: the answer is no version",
		"missing: cluster beta: features.json: ", "missing: cluster beta: logs and metrics of a pod: no Pod can have its name",
		"missing: cluster beta: pods/agent-0/agent.metrics: the answer is larger than 8 MiB",
		"missing: cluster beta: pods/agent-0/agent.previous.log: you may not read",
	} {
		if !strings.Contains(printed, want) {
			t.Errorf("%q is not said:\n%s", want, printed)
		}
	}
	if x := indexOf(t, content); !slices.Contains(x.Members[1].Notes, "pods/agent-0/agent.log: its last 1 MiB") {
		t.Errorf("notes: %v", x.Members[1].Notes)
	}
}

// Of a member that says too much, what fits is kept, and what does not is an error.
func TestPartIsBounded(t *testing.T) {
	t.Parallel()
	p := newPart("x/")
	if p.left != maxPart {
		t.Errorf("there is room for %d bytes", p.left)
	}
	p.left = 1 << 20 // more takes a minute with the race detector
	for i := range 3 {
		err := p.add(fmt.Sprint(i), make([]byte, 1<<19))
		if (err != nil) != (i == 2) {
			t.Errorf("file %d: %v", i, err)
		}
	}
	if err := p.add("small", []byte("1")); err == nil {
		t.Error("there was room for more than fits")
	}
}

// Where no agent has ever come up there is no group to ask, and the cluster itself is what a person needs help with.
func TestAgentThatNeverCameUp(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	g.say("alpha/apis/clusterregistry.k8s.cisco.com/v1alpha1/clusters", list("Cluster"))
	o := g.options(t)
	o.Contexts = nil
	printed, err := run(t.Context(), o)
	if cli.ExitCode(err) != cli.ExitUnknown || !strings.Contains(printed, "missing: the other members: ") {
		t.Errorf("%v:\n%s", err, printed)
	}
	if _, content := unpack(t, o.File); !strings.Contains(content["members/alpha/pods/agent-0/agent.log"], "starts") {
		t.Errorf("the log is not there: %v", slices.Sorted(maps.Keys(content)))
	}
}
