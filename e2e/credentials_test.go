// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// tokenRefused: the API server accepts a token no more.
func tokenRefused(r reader) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := r.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if apierrors.IsUnauthorized(err) {
			return nil
		}
		return errors.Join(errors.New("not Unauthorized"), err)
	}
}

// TestRevokedCredentials: the swapped token of beta reads the registry alone. agentctl ends it and what beta's agent issued
// to alpha, not what it issued to gamma; both agents then have others, and rules go on.
func TestRevokedCredentials(t *testing.T) {
	g := joined(t)
	g.cleanUp(t, "revoked")
	putSecret(t, g.beta, "revoked", "one")
	apply(t, g.alpha, rule("revoked", "revoked"))
	eventually(t, "what beta has is in alpha", within, hasCopy(g.alpha, g.beta, "revoked", "one"))
	private, id := v1alpha1.PrivateNamespace(harness.Namespace), clusterID(t, g.beta)
	swapped := credential(t, g.beta, harness.Namespace, "beta")
	if want := private + ":" + v1alpha1.SwapAccount; swapped.account != want {
		t.Errorf("the swapped token is of %s, not %s", swapped.account, want)
	}
	if _, err := swapped.client.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{}); err != nil {
		t.Error("it does not prove whose API server it is:", err)
	}
	if _, err := swapped.client.CoreV1().Secrets(harness.Namespace).Get(t.Context(), "beta", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Error("it reads its successor:", err)
	}
	for _, holder := range []*harness.Cluster{g.alpha, g.gamma} {
		g.credentialOf(t, holder, g.beta) // its agent has one
	}
	issued, other := credential(t, g.alpha, private, "peer-"+id), credential(t, g.gamma, private, "peer-"+id)
	if out := agentctl(t, g, "credentials", "revoke", "alpha", "--context", "beta", "--dry-run"); !strings.Contains(out, "would delete Secret "+private+"/"+v1alpha1.SwapSecret) {
		t.Errorf("the dry run: %s", out)
	}
	t.Log(agentctl(t, g, "credentials", "revoke", "alpha", "--context", "beta"))
	eventually(t, "the swapped token is refused", afterFault, tokenRefused(swapped))
	eventually(t, "the issued token is refused", afterFault, tokenRefused(issued))
	if _, err := other.client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("gamma's was revoked with alpha's: %v", err)
	}
	eventually(t, "beta has another swapped token", afterFault, func(ctx context.Context) error {
		if _, err := get(ctx, g.beta, harness.Secrets(), harness.Namespace, "beta"); err != nil {
			return err
		}
		if now := credential(t, g.beta, harness.Namespace, "beta"); now.token == swapped.token {
			return errors.New("it is the same")
		}
		return nil
	})
	if err := g.alpha.RestartAgent(t.Context()); err != nil { // its open watches would last until their connection ends
		t.Fatal(err)
	}
	g.eventuallyWhole(t, afterFault)
	putSecret(t, g.beta, "revoked", "two")
	eventually(t, "what beta changes arrives in alpha", afterFault, hasCopy(g.alpha, g.beta, "revoked", "two"))
	if now := credential(t, g.alpha, private, "peer-"+id); now.token == issued.token {
		t.Error("alpha has no new credential")
	}
}

// TestPastedTokenIsNotStolen: a Cluster of alpha names the Secret that was pasted for beta, and leads to a server with a CA
// of its own. It does not get beta's token, also not after a restart; what it is told says whose the Secret is.
func TestPastedTokenIsNotStolen(t *testing.T) {
	g := joined(t)
	var took atomic.Int32
	thief := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			took.Add(1)
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer thief.Close()
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: thief.Certificate().Raw}))
	apply(t, g.alpha, cluster("thief", newID(7), "beta", thief.URL)+fmt.Sprintf("    caBundle: %s\n", ca))
	t.Cleanup(func() {
		kubectl(t, g.alpha, "delete", "cluster", "thief")
		eventually(t, "it is gone", within, absent(g.alpha, harness.Clusters(), "", "thief"))
	})
	told := func(ctx context.Context) error {
		u, err := get(ctx, g.alpha, harness.Clusters(), "", "thief")
		if err != nil {
			return err
		}
		return says(u, v1alpha1.ClusterStateInvalidAuthInfo, "serves cluster beta, whose Cluster object named it first")
	}
	eventually(t, "its status says whose the Secret is", within, told)
	if err := g.alpha.RestartAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	peersSynced(t, g)
	eventually(t, "and after a restart", within, told)
	if n := took.Load(); n > 0 {
		t.Errorf("the token was sent %d times", n)
	}
}

// quickstartWithoutMesh is what the quickstart of the original controller does with rules, where one reads two, which has no mesh. The features of
// two are not known in one then, since they come by the mesh.
func quickstartWithoutMesh(t *testing.T, one, two *harness.Cluster) {
	apply(t, two, harness.QuickstartSecret, "-n", harness.Namespace)
	apply(t, one, harness.QuickstartRule)
	copied := hasCopy(one, two, "test-secret", "")
	eventually(t, "sync everywhere: the Secret is in one", afterFault, copied)
	deleteSecret(t, one, "test-secret")
	eventually(t, "deleted, it is back", within, copied)
	putSecret(t, one, "test-secret", "tampered")
	eventually(t, "modified, it is restored", within, copied)

	stays(t, "sync to a set: the rule, and so a copy, is only in one", quiet, noRule(two, "test-secret-sink"))

	kubectl(t, one, "patch", "resourcesyncrule", "test-secret-sink", "--type=merge", "-p", `{"spec":{"clusterFeatureMatch":[{"featureName":"test-secret-feature"}]}}`)
	eventually(t, "sync from a set: the rule says that it cannot know whether two is in it", afterFault, func(ctx context.Context) error {
		u, err := get(ctx, one, harness.Rules(), "", "test-secret-sink")
		if err != nil {
			return err
		}
		if text := fmt.Sprint(u.Object["status"]); !strings.Contains(text, "the features of cluster two are not known") {
			return fmt.Errorf("it says %s", text)
		}
		return nil
	})
	deleteSecret(t, two, "test-secret")
	stays(t, "so the copy stays as it is", quiet, copied)
	kubectl(t, one, "delete", "resourcesyncrule", "test-secret-sink")
}

// TestWithoutMesh: a cluster that was handed over without its mesh key is read with its swapped token alone. That reads the
// registry, and the rule says so; with --legacy-token there, and that token handed over, copies come. They go on after an
// upgrade: the agent replaces the token in its Secret, and the one that was handed over is accepted until it expires.
func TestWithoutMesh(t *testing.T) {
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	fleet := ofTheirOwn(t, bin, "one", "two")
	one, two := fleet.Clusters[0], fleet.Clusters[1]
	swapped := func(account string) reader {
		t.Helper()
		eventually(t, "the swapped token of two is of "+account, afterFault, func(ctx context.Context) error {
			if err := present(two, harness.Secrets(), harness.Namespace, "two")(ctx); err != nil {
				return err
			}
			if r := credential(t, two, harness.Namespace, "two"); r.account != account {
				return fmt.Errorf("it is of %s", r.account)
			}
			return nil
		})
		return credential(t, two, harness.Namespace, "two")
	}
	handOver := func() {
		t.Helper()
		secret, err := two.Kube.CoreV1().Secrets(harness.Namespace).Get(t.Context(), "two", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		apply(t, one, fmt.Sprintf("apiVersion: v1\nkind: Secret\ntype: %s\nmetadata: {name: two, namespace: %s}\ndata: {kubeconfig: %s}\n",
			v1alpha1.SecretType, harness.Namespace, base64.StdEncoding.EncodeToString(secret.Data[v1alpha1.SecretKubeconfigKey])))
	}
	narrow := v1alpha1.PrivateNamespace(harness.Namespace) + ":" + v1alpha1.SwapAccount
	swapped(narrow)
	apply(t, one, cluster("two", clusterID(t, two), "two", ""))
	handOver()
	putSecret(t, two, "wide", "one")
	apply(t, one, rule("wide", "wide"))
	eventually(t, "the rule says what is missing", within, func(ctx context.Context) error {
		u, err := get(ctx, one, harness.Rules(), "", "wide")
		if err != nil {
			return err
		}
		if ready := fmt.Sprint(harness.Condition(u, "Ready")["message"]); !strings.Contains(ready, "cluster two: ") || !strings.Contains(ready, "credentials.legacyToken") {
			return fmt.Errorf("it says %s", ready)
		}
		return noSecret(one, "wide")(ctx)
	})

	if err := errors.Join(two.StopAgent(), two.StartAgent(t.Context(), "--legacy-token")); err != nil {
		t.Fatal(err)
	}
	wide := swapped(v1alpha1.ReadersNamespace(harness.Namespace) + ":" + v1alpha1.LegacySwapAccount)
	handOver()
	eventually(t, "the copy is there", afterFault, hasCopy(one, two, "wide", "one"))
	quickstartWithoutMesh(t, one, two)

	if err := two.RestartAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	swapped(narrow)
	if err := one.RestartAgent(t.Context()); err != nil { // no watch is left open
		t.Fatal(err)
	}
	putSecret(t, two, "wide", "two")
	eventually(t, "the copy follows after the upgrade", afterFault, hasCopy(one, two, "wide", "two"))
	if _, err := wide.client.CoreV1().Secrets(harness.Namespace).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error("what was swapped before the upgrade is refused:", err)
	}
}
