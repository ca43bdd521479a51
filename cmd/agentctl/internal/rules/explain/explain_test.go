// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/apitest"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/claimtest"
)

// Whatever is in a Secret, and wherever a copy of it carries that, none of it is shown.
func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		token := "tok" + rapid.StringMatching(`[a-zA-Z0-9]{8,24}`).Draw(t, "token")
		encoded := base64.StdEncoding.EncodeToString([]byte(token))
		secret := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
			"metadata": map[string]any{"name": "x", "namespace": "y", "labels": map[string]any{"app": "web"}},
			"data":     map[string]any{"v": encoded},
		}}
		carried := rapid.SampledFrom([]any{
			token, encoded, "x" + token + "y", []any{token}, map[string]any{"a": map[string]any{"b": token}}, []any{map[string]any{"c": encoded}},
		})
		other := secret.DeepCopy()
		if rapid.Bool().Draw(t, "another kind") {
			other.SetKind("ConfigMap")
		}
		for _, field := range []string{"data", "spec", "type", "stringData", "status"} {
			if rapid.Bool().Draw(t, field) {
				other.Object[field] = carried.Draw(t, "value of "+field)
			}
		}
		other.SetLabels(map[string]string{"app": "web", "l": rapid.SampledFrom([]string{"", token}).Draw(t, "label")})
		other.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": token, "a": token})
		local, wanted := other, secret
		if rapid.Bool().Draw(t, "the other way") {
			local, wanted = secret, other
		}
		q := &inquiry{}
		hide := q.redaction(syncrules.Facts{Local: local}, syncrules.Decision{Object: wanted}, []*offer{{obj: secret}})
		text, err := hide.Diff(local, wanted)
		if err != nil {
			t.Fatal(err)
		}
		refusal := &apierrors.StatusError{ErrStatus: metav1.Status{
			Reason: metav1.StatusReasonInvalid, Message: "bad: " + token,
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: "FieldValueInvalid", Field: "data", Message: token}}},
		}}
		text += hide.Error(refusal) + hide.Error(errors.New(token)) + safeError(fmt.Errorf("atoi %q, %s", token, encoded), secret)
		if strings.Contains(text, token) || strings.Contains(text, encoded) {
			t.Fatalf("shown:\n%s", text)
		}
		if !strings.Contains(text, "Invalid data (FieldValueInvalid)") {
			t.Fatalf("the refusal says %s", text)
		}
	})
}

// peerSecret is the credential of an API server that speaks TLS, as an agent keeps it.
func peerSecret(t *testing.T, url string, ca []byte) *unstructured.Unstructured {
	t.Helper()
	kubeconfig, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": []any{map[string]any{"name": "c", "cluster": map[string]any{"server": url, "certificate-authority-data": ca}}},
		"contexts": []any{map[string]any{"name": "c", "context": map[string]any{"cluster": "c", "user": "u"}}},
		"users":    []any{map[string]any{"name": "u", "user": map[string]any{"token": "t"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": v1alpha1.SecretType,
		"metadata": map[string]any{"name": "beta", "namespace": "private"},
		"data":     map[string]any{"kubeconfig": base64.StdEncoding.EncodeToString(kubeconfig)},
	}}
}

// accessTo is a kubeconfig that leads to an API server.
func accessTo(t *testing.T, url string) clusters.Access {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("{current-context: c, clusters: [{name: c, cluster: {server: %q}}], contexts: [{name: c, context: {cluster: c}}]}", url)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return clusters.Access{Kubeconfig: path}
}

// A peer is read with the credential that the local cluster holds, if it is the peer.
func TestPeerByCredential(t *testing.T) {
	t.Parallel()
	local, peer := apitest.New(), apitest.New()
	defer local.Close()
	secure := httptest.NewTLSServer(http.HandlerFunc(peer.Serve))
	defer secure.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	local.Put(apitest.Parse(t, "{apiVersion: v1, kind: Namespace, metadata: {name: kube-system, uid: id-alpha}}"))
	local.Put(apitest.Parse(t, "{apiVersion: clusterregistry.k8s.cisco.com/v1alpha1, kind: Cluster, metadata: {name: alpha}, spec: {clusterID: id-alpha}}"))
	local.Put(apitest.Parse(t, "{apiVersion: clusterregistry.k8s.cisco.com/v1alpha1, kind: Cluster, metadata: {name: beta}, spec: {clusterID: id-beta, authInfo: {secretRef: {name: beta, namespace: private}}}}"))
	peer.Put(apitest.Parse(t, "{apiVersion: clusterregistry.k8s.cisco.com/v1alpha1, kind: ClusterFeature, metadata: {name: f}, spec: {featureName: x}}"))
	beta := func() *reached {
		o := Options{Access: accessTo(t, local.URL), Network: "default"}
		own, known, _, err := reachAll(t.Context(), o.group())
		if err != nil {
			t.Fatal(err)
		}
		all, err := (&reach{member: own, known: known}).clusters(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(all, func(c *reached) bool { return c.name == "beta" })
		if !all[0].local || all[i].cluster.Spec.AuthInfo != (v1alpha1.AuthInfo{}) {
			t.Fatalf("clusters %+v", all)
		}
		return all[i]
	}
	if c := beta(); c.api != nil || !strings.Contains(c.why, "Secret private/beta here, cannot be read") {
		t.Errorf("without its credential: %q", c.why)
	}
	local.Put(peerSecret(t, secure.URL, ca))
	peer.Put(apitest.Parse(t, "{apiVersion: v1, kind: Namespace, metadata: {name: kube-system, uid: id-other}}"))
	if c := beta(); c.api != nil || !strings.Contains(c.why, "endpoint leads to another cluster") {
		t.Errorf("where another cluster answers: %q", c.why)
	}
	peer.Put(apitest.Parse(t, "{apiVersion: v1, kind: Namespace, metadata: {name: kube-system, uid: id-beta}}"))
	c := beta()
	if c.api == nil || c.mayWrite || len(c.features) != 1 {
		t.Fatalf("with its credential: %q, features %v (%s)", c.why, c.features, c.featuresWhy)
	}
	local.Put(apitest.Parse(t, "{apiVersion: clusterregistry.k8s.cisco.com/v1alpha1, kind: Cluster, metadata: {name: beta}, spec: {clusterID: id-beta, authInfo: {secretRef: {name: peer-id-other, namespace: n-private}}}}"))
	stolen := peerSecret(t, secure.URL, ca)
	stolen.SetNamespace("n-private")
	stolen.SetName("peer-id-other")
	local.Put(stolen)
	if c := beta(); c.api != nil || !strings.Contains(c.why, "which is not the one that its agent issued") {
		t.Errorf("with a credential that was issued for another cluster: %q", c.why)
	}
	local.Put(apitest.Parse(t, "{apiVersion: clusterregistry.k8s.cisco.com/v1alpha1, kind: Cluster, metadata: {name: beta}, spec: {clusterID: id-beta, authInfo: {secretRef: {name: beta, namespace: private}}}}"))
	peer.Set("clusterfeatures", "")
	if c := beta(); c.api == nil || !strings.Contains(c.featuresWhy, "you may not read clusterfeatures") {
		t.Errorf("without the right to read features: %q", c.featuresWhy)
	}
}

// A copy whose source is lacking went with its source, if the rule had selected that in its present form; else it is
// put down to the edit, or to the end of the rule.
func TestPolicyOfWhatIsLost(t *testing.T) {
	t.Parallel()
	api := &v1alpha1.ResourceSyncRule{}
	api.Name = "r"
	api.Spec.GVK = v1alpha1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	api.Spec.Rules = []v1alpha1.SyncRule{{Matches: []v1alpha1.SyncRuleMatch{{Name: "x"}}}}
	edited := api.DeepCopy()
	edited.Spec.Rules[0].Matches[0].Name = "y"
	paused := api.DeepCopy()
	paused.Spec.Paused = true
	source := apitest.Parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: shop}}")
	owner, to := &reached{name: "beta", id: "b", cluster: &v1alpha1.Cluster{}}, &reached{name: "alpha", id: "a", local: true, cluster: &v1alpha1.Cluster{}}
	compile := func(rule *v1alpha1.ResourceSyncRule) *ruleInForce {
		compiled, err := syncrules.Compile(rule)
		if err != nil {
			t.Fatal(err)
		}
		return &ruleInForce{api: rule, compiled: compiled}
	}
	copied, err := syncrules.Render([]*syncrules.Rule{compile(api).compiled}, source, syncrules.Input{Owner: owner.id})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		rules    []*ruleInForce
		standing syncrules.Standing
		policy   v1alpha1.DeletionPolicy
	}{
		{"source gone", []*ruleInForce{compile(api)}, syncrules.Gone, v1alpha1.DeletionDelete},
		{"rule edited", []*ruleInForce{compile(edited)}, syncrules.Released, v1alpha1.DeletionOrphan},
		{"rule gone", nil, syncrules.Released, v1alpha1.DeletionOrphan},
		{"rule paused", []*ruleInForce{compile(paused)}, syncrules.Held, ""},
	} {
		q := &inquiry{clusters: []*reached{to, owner}, rules: c.rules}
		got := q.claimFrom(copied, sourceState{}, owner, to)
		if got.Standing != c.standing || got.Policy != c.policy || got.Reason == "" {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// A rule that did not make a copy is in nobody's way; one that did holds it, and lets go of it as agents do.
func TestClaimsOfSeveralRules(t *testing.T) {
	t.Parallel()
	owner := &reached{name: "beta", id: "b", cluster: &v1alpha1.Cluster{}}
	to := &reached{name: "alpha", id: "a", local: true, cluster: &v1alpha1.Cluster{}}
	source := apitest.Parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: shop}}")
	rule := func(name string, change func(*v1alpha1.ResourceSyncRuleSpec)) *ruleInForce {
		api := &v1alpha1.ResourceSyncRule{}
		api.Name = name
		api.Spec.GVK = v1alpha1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
		api.Spec.Rules = []v1alpha1.SyncRule{{Matches: []v1alpha1.SyncRuleMatch{{Name: "x"}}}}
		change(&api.Spec)
		compiled, err := syncrules.Compile(api)
		if err != nil {
			t.Fatal(err)
		}
		return &ruleInForce{api: api, compiled: compiled}
	}
	plain := func(*v1alpha1.ResourceSyncRuleSpec) {}
	paused := rule("paused", func(s *v1alpha1.ResourceSyncRuleSpec) { s.Paused = true })
	busy, gone := rule("busy", plain), rule("gone", plain)
	copyBy := func(rules ...*ruleInForce) *unstructured.Unstructured {
		var compiled []*syncrules.Rule
		for _, r := range rules {
			compiled = append(compiled, r.compiled)
		}
		out, err := syncrules.Render(compiled, source, syncrules.Input{Owner: owner.id})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, c := range []struct {
		name     string
		rules    []*ruleInForce
		local    *unstructured.Unstructured
		standing syncrules.Standing
	}{
		{"nothing is there", []*ruleInForce{busy, paused}, nil, syncrules.Offered},
		{"made by the other", []*ruleInForce{busy, paused}, copyBy(busy), syncrules.Offered},
		{"made by both", []*ruleInForce{busy, paused}, copyBy(busy, paused), syncrules.Held},
		{"paused alone", []*ruleInForce{paused}, nil, syncrules.Held},
		{"one of the makers is gone", []*ruleInForce{busy}, copyBy(busy, gone), syncrules.Offered},
	} {
		q := &inquiry{clusters: []*reached{to, owner}, rules: c.rules}
		offers, problems := q.offers(owner, to, source)
		if len(offers) != 1 || len(problems) > 0 {
			t.Fatalf("%s: offers %v, problems %v", c.name, offers, problems)
		}
		for _, o := range offers {
			if got := q.claim(o, to, c.local); got.Standing != c.standing {
				t.Errorf("%s: %+v", c.name, got)
			}
		}
	}
	// What is gone at the source is by the policy for that, whatever a rule that is gone would say.
	q := &inquiry{clusters: []*reached{to, owner}, rules: []*ruleInForce{busy}}
	if got := q.claimFrom(copyBy(busy, gone), sourceState{}, owner, to); got.Standing != syncrules.Gone || got.Policy != v1alpha1.DeletionDelete {
		t.Errorf("lost: %+v", got)
	}
}

// What an explanation concludes is what is written in claimtest, and what agents do.
func TestClaims(t *testing.T) {
	t.Parallel()
	for _, c := range claimtest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			to := &reached{name: claimtest.Alpha, id: claimtest.AlphaID, local: true, cluster: &v1alpha1.Cluster{}}
			to.cluster.Labels = claimtest.Labels()
			owner := &reached{name: claimtest.Beta, id: claimtest.BetaID, cluster: &v1alpha1.Cluster{}}
			q := &inquiry{clusters: []*reached{to, owner}}
			for _, rule := range c.Rules {
				r := &ruleInForce{api: rule}
				r.compiled, r.err = syncrules.Compile(rule)
				q.rules = append(q.rules, r)
			}
			from := sourceState{obj: c.Source}
			if c.Unknown {
				from = sourceState{unknown: "what cluster beta has is not known now"}
			}
			got := q.claimFrom(c.Copy, from, owner, to)
			if got.Standing != c.Standing || got.Policy != c.Policy || got.Reason != c.Reason {
				t.Errorf("claim %d, %q, %q; want %d, %q, %q", got.Standing, got.Policy, got.Reason, c.Standing, c.Policy, c.Reason)
			}
			facts := syncrules.Facts{Self: to.id, Local: c.Copy, Claims: []syncrules.Claim{got}}
			if d := syncrules.Plan(facts); d.Action != c.Action {
				t.Errorf("action %s, want %s", d.Action, c.Action)
			}
		})
	}
}

// Objects are read in the version of the oldest rule, as agents do; a file's rule is the youngest.
func TestVersionOfTheOldestRule(t *testing.T) {
	t.Parallel()
	rule := func(name, version string, age time.Duration) *ruleInForce {
		api := &v1alpha1.ResourceSyncRule{}
		api.Name = name
		if age > 0 {
			api.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC).Add(-age))
		}
		api.Spec.GVK = v1alpha1.GroupVersionKind{Group: "example.com", Version: version, Kind: "Thing"}
		compiled, err := syncrules.Compile(api)
		if err != nil {
			t.Fatal(err)
		}
		return &ruleInForce{api: api, compiled: compiled}
	}
	q := &inquiry{rules: []*ruleInForce{rule("a", "v1", 0), rule("b", "v2", time.Hour), rule("c", "v3", time.Hour), rule("d", "v4", time.Minute)}}
	if got, of := q.version(schema.GroupKind{Group: "example.com", Kind: "Thing"}); got != "v2" || of != "b" {
		t.Errorf("version %s of rule %s, want that of the oldest, by name", got, of)
	}
}
