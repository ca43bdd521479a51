// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/kube/offlocal"
)

// group is a group of many members behind one server, each under a path of its own. The first one is the caller's own cluster.
type group struct {
	*httptest.Server

	members int
	own     []*httptest.Server          // of each member, where they have one
	odd     map[string]http.HandlerFunc // members that do not answer as they should, by name

	mu          sync.Mutex
	asked, most int // members that are asked now, and at most
	held        chan struct{}
	secrets     []string // paths of Secrets that were read, and of lists of them
	wrong       []string // requests with the token of another member
}

func newGroup(t testing.TB, members int) *group {
	t.Helper()
	g := &group{members: members, odd: map[string]http.HandlerFunc{}, held: make(chan struct{})}
	g.Server = g.serve(t)
	return g
}

// serve starts one more server of the group.
func (g *group) serve(t testing.TB) *httptest.Server {
	s := httptest.NewUnstartedServer(g)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of connections that a client gave up
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// url is where a member is.
func (g *group) url(i int) string {
	if i < len(g.own) {
		return g.own[i].URL + "/" + name(i)
	}
	return g.URL + "/" + name(i)
}

func name(i int) string { return fmt.Sprintf("m%03d", i) }

func (g *group) kubeconfig(i int) string {
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.Certificate().Raw}))
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"%[1]s","clusters":[{"name":"c","cluster":{"server":"%[2]s","certificate-authority-data":"%[3]s"}}],
"users":[{"name":"u","user":{"token":"token-of-%[1]s"}}],"contexts":[{"name":"%[1]s","context":{"cluster":"c","user":"u"}}]}`, name(i), g.url(i), ca)
}

// ask is the group as a user reaches it.
func (g *group) ask(t testing.TB) *Group {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(g.kubeconfig(0)), 0o600); err != nil {
		t.Fatal(err)
	}
	return &Group{Access: clusters.Access{Kubeconfig: path}, Network: "default", Timeout: 10 * time.Minute}
}

func (g *group) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	member, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	g.mu.Lock()
	if got := r.Header.Get("Authorization"); got != "Bearer token-of-"+member {
		g.wrong = append(g.wrong, member+": "+got)
	}
	if strings.Contains(path, "secrets") {
		g.secrets = append(g.secrets, path)
	}
	odd := g.odd[member]
	g.mu.Unlock()
	var i int
	_, err := fmt.Sscanf(member, "m%d", &i)
	switch {
	case err != nil:
		http.Error(w, "no such member", http.StatusNotFound)
	case path == "api/v1/namespaces/kube-system":
		answer(w, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "kube-system", "uid": "id-" + member}})
	case odd != nil && !strings.Contains(path, "clusters"):
		odd(w, r)
	case strings.HasSuffix(path, "/clusters"):
		g.clusters(w)
	case strings.Contains(path, "/secrets/peer-id-"):
		_, id, _ := strings.Cut(path, "/secrets/peer-id-m")
		if i, err = strconv.Atoi(id); err != nil {
			http.Error(w, "no such Secret", http.StatusNotFound)
			return
		}
		data := map[string]any{"kubeconfig": base64.StdEncoding.EncodeToString([]byte(g.kubeconfig(i)))}
		answer(w, map[string]any{"apiVersion": "v1", "kind": "Secret", "type": v1alpha1.SecretType, "metadata": map[string]any{"name": "x"}, "data": data})
	default:
		g.rules(w, r)
	}
}

// clusters lists the members; the last one names the credential of another.
func (g *group) clusters(w http.ResponseWriter) {
	items := []any{}
	for i := range g.members {
		secret := "peer-id-" + name(i)
		if g.odd[name(i)] != nil && i == g.members-1 {
			secret = "peer-id-" + name(1)
		}
		items = append(items, map[string]any{"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": "Cluster", "metadata": map[string]any{"name": name(i)}, "spec": map[string]any{
			"clusterID": "id-" + name(i), "authInfo": map[string]any{"secretRef": map[string]any{"name": secret, "namespace": "cluster-registry-private"}},
		}})
	}
	answer(w, map[string]any{"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": "ClusterList", "items": items})
}

// rules answers in pages of one rule, once enough members ask at the same time.
func (g *group) rules(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	if g.asked++; g.asked > g.most {
		g.most = g.asked
		if g.most == maxMembers {
			close(g.held)
		}
	}
	g.mu.Unlock()
	select {
	case <-g.held:
	case <-r.Context().Done():
	}
	g.mu.Lock()
	g.asked--
	g.mu.Unlock()
	page, next := r.URL.Query().Get("continue"), ""
	if page == "" {
		next = "two"
	}
	answer(w, map[string]any{"metadata": map[string]any{"continue": next}, "items": []any{map[string]any{"metadata": map[string]any{"name": "rule" + page}}}})
}

func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(body); err != nil {
		panic(http.ErrAbortHandler)
	}
}

func rulesOf(ctx context.Context, m *Member) (string, error) {
	rules, err := List[v1alpha1.ResourceSyncRule](ctx, m, clusters.RuleResource())
	var names []string
	for _, r := range rules {
		names = append(names, r.Name)
	}
	return strings.Join(names, ","), err
}

// Each of 500 members is asked once, with its own token, by at most so many at a time; no Secret is listed.
func TestFiveHundredMembers(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 500)
	answers, err := Ask(t.Context(), g.ask(t), rulesOf)
	if err != nil || len(answers) != 500 {
		t.Fatalf("%d answers, %v", len(answers), err)
	}
	for i, a := range answers {
		if a.Name != name(i) || a.Value != "rule,ruletwo" || a.Err != nil || a.Local != (i == 0) {
			t.Errorf("answer %d of %s: %q, %v", i, a.Name, a.Value, a.Err)
		}
	}
	if g.most != maxMembers {
		t.Errorf("%d members were asked at a time, and %d may be", g.most, maxMembers)
	}
	if len(g.wrong) > 0 || len(g.secrets) != 499 {
		t.Errorf("%d Secrets were read, wrong tokens: %v", len(g.secrets), g.wrong)
	}
	for _, path := range g.secrets {
		if !strings.HasPrefix(path, "api/v1/namespaces/cluster-registry-private/secrets/peer-id-") {
			t.Errorf("read %s", path)
		}
	}
}

// A member that answers without end, nonsense, or nothing in time is unknown, and the others are not.
func TestOddMembers(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 8)
	close(g.held)
	g.most = maxMembers
	flood := func(part string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"items":[`)
			for range (100 << 20) / len(part) {
				if _, err := fmt.Fprint(w, part); err != nil {
					return
				}
			}
			fmt.Fprint(w, `{}]}`)
		}
	}
	g.odd = map[string]http.HandlerFunc{
		name(1): flood(strings.Repeat(" ", 1<<20)),
		name(2): func(w http.ResponseWriter, _ *http.Request) {
			answer(w, map[string]any{"items": make([]struct{}, 6000)})
		},
		name(3): func(w http.ResponseWriter, _ *http.Request) { answer(w, "\x1b[31m") },
		name(4): func(w http.ResponseWriter, _ *http.Request) {
			answer(w, map[string]any{"items": []any{strings.Repeat("x", maxObject)}})
		},
		name(5): func(w http.ResponseWriter, _ *http.Request) {
			answer(w, map[string]any{"metadata": map[string]any{"continue": "x"}, "items": []any{}})
		},
		name(6): func(w http.ResponseWriter, _ *http.Request) { // no page is too large
			object := map[string]any{"metadata": map[string]any{"name": "x"}, "filling": strings.Repeat("x", maxObject-1000)}
			answer(w, map[string]any{"metadata": map[string]any{"continue": "x"}, "items": []any{object, object, object}})
		},
		name(7): func(http.ResponseWriter, *http.Request) {}, // its Cluster object names the Secret of another
	}
	answers, err := Ask(t.Context(), g.ask(t), rulesOf)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		"", "the answer is larger than 8 MiB", "there are more than 5000", "not a list", "an object is larger than 2 MiB", "a page without objects",
		"they are larger than 32 MiB together", "is not the one that its agent issued",
	} {
		if got := fmt.Sprint(answers[i].Err); want == "" && answers[i].Err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %v, want %q", answers[i].Name, answers[i].Err, want)
		}
	}
	if unknown := Unknowns(answers); len(unknown) != 7 || unknown[0].Cluster != name(1) {
		t.Errorf("unknown: %v", unknown)
	}
	if len(g.wrong) > 0 {
		t.Errorf("wrong tokens: %v", g.wrong)
	}
}

// Who does not answer in time is unknown; what was answered before counts, and nobody is waited for.
func TestLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		end := make(chan struct{})
		defer close(end)
		ways := make([]*way, 3*maxMembers)
		for i := range ways {
			ways[i] = &way{Member: Member{Name: name(i)}}
		}
		began := time.Now()
		answers := gather(ctx, time.Minute, ways, func(_ context.Context, w *way) (string, error) {
			if w.Name == name(0) {
				return "here", nil
			}
			<-end // it does not even look at the context
			return "", nil
		})
		if took := time.Since(began); took != time.Minute || len(answers) != len(ways) {
			t.Errorf("%d answers after %s", len(answers), took)
		}
		for i, a := range answers {
			if i == 0 && (a.Value != "here" || a.Err != nil) || i > 0 && fmt.Sprint(a.Err) != "it has not answered within 1m0s" {
				t.Errorf("%s: %q, %v", a.Name, a.Value, a.Err)
			}
		}
	})
}

// A context leads to the member that its server says it is. Where two say so, neither is believed, and only what the caller says
// is certain.
func TestTwoContextsOfOneMember(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 4)
	close(g.held)
	g.most = maxMembers
	asked := g.ask(t)
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.Certificate().Raw}))
	var all, users, contexts []string
	for i, to := range []int{0, 1, 1, 2, 3} {
		all = append(all, fmt.Sprintf(`{"name":"c%d","cluster":{"server":"%s/%s","certificate-authority-data":"%s"}}`, i, g.URL, name(to), ca))
		users = append(users, fmt.Sprintf(`{"name":"c%d","user":{"token":"token-of-%s"}}`, i, name(to)))
		contexts = append(contexts, fmt.Sprintf(`{"name":"c%[1]d","context":{"cluster":"c%[1]d","user":"c%[1]d"}}`, i))
	}
	text := fmt.Sprintf(`{"current-context":"c0","clusters":[%s],"users":[%s],"contexts":[%s]}`, strings.Join(all, ","), strings.Join(users, ","), strings.Join(contexts, ","))
	if err := os.WriteFile(asked.Kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	asked.Contexts, asked.Named = []string{"c1", "c2", "c3", "c3"}, map[string]string{name(3): "c4"}
	answers, err := Ask(t.Context(), asked, func(_ context.Context, m *Member) (string, error) { return fmt.Sprint(m.Own, m.Certain), nil })
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"true true", "", "true false", "true true"} {
		if answers[i].Value != want {
			t.Errorf("%s: %q, want %q (%v)", answers[i].Name, answers[i].Value, want, answers[i].Err)
		}
	}
	if got := fmt.Sprint(answers[1].Err); !strings.Contains(got, "two contexts claim to be it, c1 and c2") {
		t.Errorf("two contexts: %s", got)
	}
}

// In a pod, as the page for others is, members are not asked at addresses that lead to that pod or its node, whatever they publish.
func TestPodsKeepOffLocalAddresses(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 2)
	at := g.ask(t)
	for _, inPod := range []bool{true, false} {
		ways, err := at.find(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		peer := ways[1]
		peer.local.InCluster = inPod
		if err := at.open(t.Context(), peer); errors.Is(err, offlocal.ErrAddress) != inPod || !inPod && err != nil {
			t.Errorf("in a pod: %t: %v", inPod, err)
		}
	}
}
