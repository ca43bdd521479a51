// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/apiconn"
	"github.com/roster-mesh/roster/agent/health"
	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/replica/shares"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a cluster that issues credentials.
type world struct {
	*Credentials
	api      *agenttest.APIServer
	client   *kube.Client
	problems health.Problems
	name     string // of the own Cluster object
	disabled bool
	pinned   bool
	parents  map[string]string // who admitted whom, not this cluster

	mu     sync.Mutex
	issued []string                            // accounts that tokens were made of, since it was asked last
	life   time.Duration                       // of tokens; 0 refuses them
	age    time.Duration                       // of tokens that are made now
	config func(claims ...string) *rest.Config // of a kubeconfig with such a token
}

func newWorld(t *testing.T, manageSecret bool) *world {
	t.Helper()
	w := &world{name: "a", pinned: true, life: time.Hour}
	w.api, _ = agenttest.NewAPIServer(t)
	w.config = func(claims ...string) *rest.Config {
		config, err := kube.ParseKubeconfig(agenttest.Kubeconfig(t, w.age, w.life, claims...))
		if err != nil {
			t.Error(err)
		}
		return config
	}
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	var err error
	if w.client, err = kube.NewClient(&rest.Config{Host: server.URL, QPS: -1}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.client.Close)
	w.Credentials = New(Options{
		Client: w.client, Namespace: "n", Name: func() string { return w.name }, ManageSecret: manageSecret, Store: store.New(w.client, "n-private"), Clock: &apiconn.Clock{},
		Issuer:   kube.NewIssuer(w.client, "n", kube.Server{Address: "https://a.example", CABundle: w.config().CAData}, "a"),
		Disabled: func(string) bool { return w.disabled }, Pinned: func(mesh.Caller) bool { return w.pinned },
		Share: func(total int, wants map[string]int) map[string]int {
			return shares.Of(total, "a", func(id string) string { return w.parents[id] }, wants)
		},
		Problem: w.problems.Reporter("credential"), Log: slog.New(slog.DiscardHandler),
	})
	return w
}

// ServeHTTP issues tokens, and passes other requests to the API server.
func (w *world) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	if path.Base(r.URL.Path) != "token" {
		w.api.ServeHTTP(out, r)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	out.Header().Set("Content-Type", "application/json")
	if w.life == 0 {
		out.WriteHeader(http.StatusForbidden)
		return
	}
	account := path.Base(path.Dir(r.URL.Path))
	w.issued = append(w.issued, account)
	var request authenticationv1.TokenRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		out.WriteHeader(http.StatusBadRequest)
		return
	}
	claims := []string{fmt.Sprintf(`"sub":"system:serviceaccount:%s:%s"`, strings.Split(r.URL.Path, "/")[4], account)}
	if to := request.Spec.BoundObjectRef; to != nil && to.Kind == "Secret" && to.Name == v1alpha1.SwapSecret {
		claims = append(claims, fmt.Sprintf(`"kubernetes.io":{"secret":{"uid":%q}}`, to.UID))
	}
	config := w.config(claims...)
	_ = json.NewEncoder(out).Encode(map[string]any{"status": map[string]any{"token": config.BearerToken, "expirationTimestamp": time.Now().Add(w.life).UTC().Format(time.RFC3339)}})
}

// Claims of the tokens that may be in the Secret: of a swapped one, and of one of an earlier release.
const (
	narrow = `"sub":"system:serviceaccount:n-private:swap"`
	wide   = `"sub":"system:serviceaccount:n-readers:bootstrap"`
)

// took returns the accounts for which tokens were issued since the last call.
func (w *world) took() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.issued
	w.issued = nil
	return out
}

// grant sets the age and the life of tokens from now on.
func (w *world) grant(age, life time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.age, w.life = age, life
}

// kept is the kubeconfig in a Secret, "" for none.
func (w *world) kept(t *testing.T, name string) string {
	t.Helper()
	object := w.api.Object(name)
	if object == nil {
		return ""
	}
	var secret kube.Secret
	if err := json.Unmarshal(object, &secret); err != nil {
		t.Fatal(err)
	}
	return string(secret.Data[v1alpha1.SecretKubeconfigKey])
}

// check runs the check of the bootstrap credential once.
func (w *world) check(t *testing.T) {
	t.Helper()
	if err := w.renew(t.Context()); err != nil {
		t.Error(err)
	}
}

// The bootstrap credential is renewed when a fifth of its life is left.
func TestBootstrapIsRenewed(t *testing.T) {
	w := newWorld(t, true)
	if _, known := w.Expires(); known {
		t.Error("before there is one, it is known when it expires")
	}
	w.check(t)
	first := w.kept(t, "a")
	until, known := w.Expires()
	if first == "" || !known || time.Until(until) < 50*time.Minute || time.Until(until) > time.Hour {
		t.Errorf("it expires at %v, known: %t", until, known)
	}
	w.check(t)
	if got := w.took(); !slices.Equal(got, []string{v1alpha1.SwapAccount}) || w.kept(t, "a") != first {
		t.Errorf("looked at twice, it is issued for %v", got)
	}
	old := agenttest.Kubeconfig(t, 55*time.Minute, time.Hour, narrow)
	if err := w.put("a", v1alpha1.SecretType, old); err != nil {
		t.Fatal(err)
	}
	w.check(t)
	if now := w.kept(t, "a"); len(w.took()) != 1 || now == string(old) {
		t.Error("one that is nearly over stays")
	}
	if err := w.put("a", v1alpha1.SecretType, []byte("nonsense")); err != nil {
		t.Fatal(err)
	}
	w.check(t)
	if now := w.kept(t, "a"); len(w.took()) != 1 || now == "nonsense" {
		t.Error("one that cannot be read stays")
	}
}

// put writes a Secret as another client would.
func (w *world) put(name string, kind string, kubeconfig []byte) error {
	secret := map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": map[string]any{"name": name, "namespace": "n"},
		"data": map[string][]byte{v1alpha1.SecretKubeconfigKey: kubeconfig},
	}
	data, err := json.Marshal(secret)
	w.api.SetObject(name, data)
	return err
}

// The Secret has the name of the Cluster object, also after that was renamed.
func TestBootstrapFollowsTheName(t *testing.T) {
	w := newWorld(t, true)
	w.check(t)
	w.name = "b"
	w.check(t)
	if w.kept(t, "b") == "" {
		t.Error("the Secret has the old name")
	}
}

// A Secret of another type is left alone, and is a problem until it is deleted.
func TestSecretOfAnotherTypeIsLeftAlone(t *testing.T) {
	w := newWorld(t, true)
	if err := w.put("a", "Opaque", []byte("theirs")); err != nil {
		t.Fatal(err)
	}
	if err := w.renew(t.Context()); err == nil || w.kept(t, "a") != "theirs" || !strings.Contains(w.problems.String(), "Secret n/a has type Opaque") {
		t.Errorf("%v, kept %q, problem %q", err, w.kept(t, "a"), &w.problems)
	}
	w.api.SetObject("a", nil)
	w.check(t)
	if w.problems.String() != "" {
		t.Errorf("problem %q", &w.problems)
	}
}

// A removed cluster may know the bootstrap credential. It is revoked at once. If no other one can be issued then, the
// one in the Secret is not used although it has not expired.
func TestReissue(t *testing.T) {
	w := newWorld(t, true)
	w.check(t)
	first := w.kept(t, "a")
	w.took()
	w.grant(time.Second, 0)
	if err := w.Reissue(t.Context()); err != nil || !strings.Contains(w.problems.String(), "issue the credential that peers are given") {
		t.Errorf("no tokens are made: %v, which has it revoked again and again; problem %q", err, &w.problems)
	}
	if got := w.api.Deleted(); !slices.Equal(got, []string{v1alpha1.SwapSecret, legacyAccount, readerAccount}) {
		t.Errorf("ended: %v", got)
	}
	w.grant(time.Second, 2*time.Hour)
	w.check(t)
	if now := w.kept(t, "a"); now == first || w.problems.String() != "" {
		t.Errorf("it is the one that was revoked: %t, problem %q", now == first, &w.problems)
	}
	w.took()
	w.check(t)
	if got := w.took(); len(got) > 0 {
		t.Errorf("it is replaced again: %v", got)
	}
	w.api.FailDeletes(1)
	if err := w.Reissue(t.Context()); err == nil || w.problems.String() != "" {
		t.Errorf("an account that could not be deleted: %v, problem %q", err, &w.problems)
	}
}

// Without ManageSecret nothing is issued, but what was issued is revoked.
func TestWithoutManageSecret(t *testing.T) {
	w := newWorld(t, false)
	w.check(t)
	if err := w.Reissue(t.Context()); err != nil {
		t.Error(err)
	}
	if writes, _ := w.api.Writes(); writes != 0 || !slices.Equal(w.api.Deleted(), []string{v1alpha1.SwapSecret, legacyAccount, readerAccount}) {
		t.Errorf("%d writes", writes)
	}
}

// A member gets a credential of an account of its own. A cluster that is disabled, or not a member, gets none.
func TestIssue(t *testing.T) {
	w := newWorld(t, true)
	account := readerAccount + "-" + agenttest.IDB
	kubeconfig, err := w.Issue(t.Context(), mesh.Caller{ClusterID: agenttest.IDB}, nil)
	if _, invalid := kube.ParseKubeconfig(kubeconfig); err != nil || invalid != nil || !slices.Equal(w.took(), []string{account}) {
		t.Errorf("%v, %v", err, invalid)
	}
	w.disabled = true
	if _, err := w.Issue(t.Context(), mesh.Caller{ClusterID: agenttest.IDB}, nil); err == nil || len(w.took()) > 0 {
		t.Errorf("one that is disabled gets a credential: %v", err)
	}
	w.disabled, w.pinned = false, false
	if got, err := w.Issue(t.Context(), mesh.Caller{ClusterID: agenttest.IDB}, nil); err == nil || got != nil || !slices.Equal(w.api.Deleted(), []string{account}) {
		t.Errorf("one that was removed meanwhile gets a credential: %v", err)
	}
	w.pinned = true
	w.grant(0, 0)
	if _, err := w.Issue(t.Context(), mesh.Caller{ClusterID: agenttest.IDB}, nil); err == nil {
		t.Error("no tokens are made, and it gets one")
	}
	if err := w.Revoke(t.Context(), agenttest.IDC); err != nil || !slices.Equal(w.api.Deleted(), []string{readerAccount + "-" + agenttest.IDC}) {
		t.Errorf("an account that there is not: %v", err)
	}
}

// Run issues the bootstrap credential, and checks it again when asked.
func TestRun(t *testing.T) {
	w := newWorld(t, true)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	for i := range 2 {
		deadline := time.Now().Add(time.Minute)
		for w.api.Object("a") == nil {
			if time.Now().After(deadline) {
				t.Fatal(fmt.Sprint("nothing is issued: ", i))
			}
			time.Sleep(time.Millisecond)
		}
		w.api.SetObject("a", nil)
		w.Recheck()
	}
	w.ClockMoved()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// What was swapped with an earlier release is a reader's token. It gives way at once to a narrow one, its account lives
// until it must have expired, and no token is bound to a Secret that is not there any more.
func TestWideTokenGivesWay(t *testing.T) {
	w := newWorld(t, true)
	if err := w.put("a", v1alpha1.SecretType, agenttest.Kubeconfig(t, 0, bootstrapLife, wide)); err != nil {
		t.Fatal(err)
	}
	w.check(t)
	w.check(t)
	if got := w.took(); !slices.Equal(got, []string{v1alpha1.SwapAccount}) || len(w.api.Deleted()) > 0 {
		t.Errorf("issued for %v, deleted %v", got, w.api.Deleted())
	}
	w.bound(t, "one", time.Hour)
	w.check(t)
	w.check(t)
	if got := w.took(); !slices.Equal(got, []string{v1alpha1.SwapAccount}) || len(w.api.Deleted()) > 0 {
		t.Errorf("bound to another Secret: issued for %v, deleted %v", got, w.api.Deleted())
	}
	w.bound(t, "one", bootstrapLife+time.Minute)
	w.check(t)
	w.check(t)
	if got := w.api.Deleted(); !slices.Equal(got, []string{legacyAccount}) || len(w.took()) > 0 {
		t.Errorf("a day later: deleted %v", got)
	}
}

// bound replaces the Secret that swapped tokens are bound to.
func (w *world) bound(t *testing.T, uid string, age time.Duration) {
	t.Helper()
	data, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{
		"name": v1alpha1.SwapSecret, "namespace": "n-private", "uid": uid, "creationTimestamp": time.Now().Add(-age).UTC().Format(time.RFC3339),
	}})
	if err != nil {
		t.Fatal(err)
	}
	w.api.SetObject(v1alpha1.SwapSecret, data)
}

// With LegacyToken the credential is a reader's again, and the narrow ones end.
func TestLegacyToken(t *testing.T) {
	w := newWorld(t, true)
	w.check(t)
	w.took()
	w.options.LegacyToken = true
	w.check(t)
	w.check(t)
	if got := w.took(); !slices.Equal(got, []string{legacyAccount}) || w.api.Object(v1alpha1.SwapSecret) != nil {
		t.Errorf("issued for %v", got)
	}
}

// Where the chart is older than the agent, the problem says so.
func TestChartWithoutTheAccount(t *testing.T) {
	w := newWorld(t, true)
	w.grant(0, 0)
	if err := w.renew(t.Context()); err == nil || !strings.Contains(w.problems.String(), "upgrade the chart, which makes ServiceAccount n-private/swap") {
		t.Errorf("%v, problem %q", err, &w.problems)
	}
}

// TestInventionsLeaveRoomForCredentials: a member has invented 4,096 clusters, each of which asks for a credential again and again. Few
// get one, and a newcomer of another member gets one at once beside them.
func TestInventionsLeaveRoomForCredentials(t *testing.T) {
	w := newWorld(t, false)
	w.parents = map[string]string{"m": "a", "honest-0": "a", "honest-1": "a"}
	began := time.Now()
	for round := range 2 {
		for i := range 4096 {
			id := fmt.Sprint("invented-", i)
			w.parents[id] = "m"
			_, _ = w.Issue(t.Context(), mesh.Caller{ClusterID: id}, nil)
		}
		honest := mesh.Caller{ClusterID: fmt.Sprint("honest-", round)}
		_, err := w.Issue(t.Context(), honest, nil)
		if errors.Is(err, errTooMany) {
			time.Sleep(issuePeriod / 4) // it was not heard of when the reserve was divided last, which then rests for no longer than that
			_, err = w.Issue(t.Context(), honest, nil)
		}
		if err != nil {
			t.Errorf("a newcomer gets none: %v", err)
		}
	}
	periods := 2 + int(time.Since(began)/issuePeriod)
	if n := len(w.took()); n > periods*maxIssued*3/2 || n < maxIssued {
		t.Errorf("%d are issued in %s", n, time.Since(began))
	}
}
