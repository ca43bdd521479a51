// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// The condition Ready of a rule and of a cluster is False when something is wrong, says what, and is True again
// when that is fixed.
func TestParityC11_ReadyTellsTheTruth(t *testing.T) {
	r := newRoom(t)
	r.rule(t, r.alpha, "maps", ofConfigMaps+"rules: [{"+forLabel("all")+"}]")
	r.rule(t, r.alpha, "no-right", "groupVersionKind: {version: v1, kind: ResourceQuota}, rules: [{match: [{namespaces: [NS]}]}]")
	r.rule(t, r.alpha, "no-namespace", ofWidgets+"rules: [{match: [{namespaces: [NS-late]}]}]")
	late := r.name + "-late"
	furnish(t, r.gamma, late)
	u := r.object(widgets, "early", "all", "one")
	u.SetNamespace(late)
	put(t, r.gamma, widgets, u)
	put(t, r.gamma, configMaps, r.object(configMaps, "fine", "all", "one"))
	eventually(t, "a rule that works is Ready", within, r.ruleSays(r.beta, "maps", "True", "Synced"))
	eventually(t, "one that lacks a right is not", within, r.ruleSays(r.beta, "no-right", "False", "MissingPermission"))
	eventually(t, "one that lacks a namespace is not", within, r.ruleSays(r.beta, "no-namespace", "False", late))
	furnish(t, r.beta, late)
	eventually(t, "with the namespace it is", within, r.ruleSays(r.beta, "no-namespace", "True", "Synced"))

	up := r.down(t, r.gamma)
	eventually(t, "alpha does not call gamma ready", afterFault, func(ctx context.Context) error {
		u, err := get(ctx, r.alpha, harness.Clusters(), "", "gamma")
		if err != nil {
			return err
		}
		if harness.ConditionTrue(u, "Ready") == nil {
			return errors.New("it does")
		}
		return nil
	})
	eventually(t, "nor the rule that reads from there", within, r.ruleSays(r.alpha, "maps", "False", "SourceUnreachable: cluster gamma"))
	up()
	r.eventuallyWhole(t, afterFault)
	eventually(t, "gamma is back, and the rule Ready", afterFault, r.ruleSays(r.alpha, "maps", "True", "Synced"))
}

// briefly is longer than the ping that makes a cluster dead elsewhere.
const briefly = 6 * time.Second

// An agent that hangs for some seconds, together with an API server that does not answer and packets that are
// lost, does not make a cluster dead.
func TestParityC12_BriefFailureIsNotDeath(t *testing.T) {
	r := newRoom(t)
	r.rule(t, r.alpha, "all", ofConfigMaps+"rules: [{"+forLabel("all")+"}]")
	put(t, r.gamma, configMaps, r.object(configMaps, "kept", "all", "one"))
	r.eventuallyCopied(t, configMaps, "kept", "one", r.alpha, r.beta)
	kept := r.asIs(t, configMaps, "kept", r.alpha, r.beta)
	seen := map[*harness.Cluster]*harness.Watch{}
	for _, c := range []*harness.Cluster{r.alpha, r.beta} {
		w, err := c.Watch(t.Context(), harness.Clusters(), "", "gamma")
		if err != nil {
			t.Fatal(err)
		}
		seen[c] = w
	}
	pid := r.gamma.AgentPID()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Kill(pid, syscall.SIGCONT) }) //nolint:errcheck // It may have gone on, or ended.
	if r.isolated {
		if err := r.Cut(t.Context(), r.alpha, r.gamma); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := r.Heal(lasting(t), r.alpha, r.gamma); err != nil {
				t.Error(err)
			}
		})
	}
	began := time.Now()
	if err := errors.Join(r.gamma.StopAPIServer(t.Context()), r.gamma.StartAPIServer(t.Context())); err != nil {
		t.Fatal(err)
	}
	pass(t, briefly-time.Since(began))
	if r.isolated {
		if err := r.Heal(t.Context(), r.alpha, r.gamma); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	put(t, r.gamma, configMaps, r.object(configMaps, "marker", "all", "one"))
	r.eventuallyCopied(t, configMaps, "marker", "one", r.alpha, r.beta)
	r.eventuallyWhole(t, afterFault)
	kept(t)
	for c, w := range seen {
		dead, err := w.Until(t.Context(), "gamma dead", time.Millisecond, func(u *unstructured.Unstructured) bool {
			if u == nil {
				return true
			}
			state, _, _ := unstructured.NestedString(u.Object, "status", "state")
			return state == string(v1alpha1.ClusterStateFailed) || harness.Condition(u, "Ready")["status"] == "False"
		})
		if err == nil {
			t.Errorf("%s called gamma dead: %v", c.Name, dead.Object)
		}
	}
}

// A clusterID that is not that of the cluster behind the endpoint: nothing is copied under it.
func TestParityC13_WrongClusterIDIsRefused(t *testing.T) {
	r := newRoom(t)
	secret, err := get(t.Context(), r.gamma, harness.Secrets(), harness.Namespace, "gamma")
	if err != nil {
		t.Fatal(err)
	}
	credential, _, _ := unstructured.NestedString(secret.Object, "data", v1alpha1.SecretKubeconfigKey)
	const fake = "8f6b1a0e-63f4-4a0c-8ad5-0a9ad2b3c913"
	apply(t, r.alpha, cluster("impostor", fake, "impostor", "")+fmt.Sprintf(
		"---\napiVersion: v1\nkind: Secret\ntype: %s\nmetadata: {name: impostor, namespace: %s}\ndata: {kubeconfig: %q}\n", v1alpha1.SecretType, harness.Namespace, credential))
	t.Cleanup(func() {
		kubectl(t, r.alpha, "delete", "cluster", "impostor")
		kubectl(t, r.alpha, "delete", "secret", "impostor", "-n", harness.Namespace)
		eventually(t, "the impostor is gone", within, absent(r.alpha, harness.Clusters(), "", "impostor"))
	})
	eventually(t, "it is Failed", within, func(ctx context.Context) error {
		u, err := get(ctx, r.alpha, harness.Clusters(), "", "impostor")
		if err != nil {
			return err
		}
		if harness.Condition(u, "Ready")["status"] != "False" {
			return fmt.Errorf("conditions %v", u.Object["status"])
		}
		return says(u, v1alpha1.ClusterStateFailed, "another cluster")
	})
	r.rule(t, r.alpha, "all", ofConfigMaps+"rules: [{"+forLabel("all")+"}]")
	for i := range 3 {
		name := fmt.Sprintf("of-gamma-%d", i)
		put(t, r.gamma, configMaps, r.object(configMaps, name, "all", "one"))
		r.eventuallyCopied(t, configMaps, name, "one", r.alpha) // with the owner that it has
	}
	rule, err := get(t.Context(), r.alpha, harness.Rules(), "", r.name+"-all")
	if err != nil {
		t.Fatal(err)
	}
	sources, _, _ := unstructured.NestedSlice(rule.Object, "status", "sources")
	for _, s := range sources {
		if source, ok := s.(map[string]any); ok && source["clusterID"] == fake && source["watching"] == true {
			t.Errorf("the impostor is a source: %v", source)
		}
	}
	list, err := r.alpha.Kube.CoreV1().ConfigMaps(r.name).List(t.Context(), metav1.ListOptions{LabelSelector: v1alpha1.LabelOwnerClusterID + "=" + fake})
	if err != nil || len(list.Items) > 0 {
		t.Errorf("copies of the impostor: %v %v", list, err)
	}
}

// peerLife and swapLife are the longest that what peers read with may be accepted.
const (
	peerLife = 12 * time.Hour
	swapLife = 24 * time.Hour
)

// What a peer reads with ends by itself soon, reads Secrets only where that was granted, and ends at once when
// its account is taken away; agents then get a new one.
func TestParityC14_ReaderCredential(t *testing.T) {
	r := newRoom(t)
	id, err := r.gamma.ID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	issued := credential(t, r.alpha, v1alpha1.PrivateNamespace(harness.Namespace), "peer-"+id)
	swapped := credential(t, r.gamma, harness.Namespace, "gamma")
	if issued.account == swapped.account {
		t.Errorf("the swapped credential and what is issued in the mesh are the same account %s", issued.account)
	}
	other := credential(t, r.beta, v1alpha1.PrivateNamespace(harness.Namespace), "peer-"+id)
	if other.account == issued.account || other.token == issued.token {
		t.Errorf("alpha and beta read as the same account %s", issued.account)
	}
	for c, most := range map[reader]time.Duration{issued: peerLife, other: peerLife, swapped: swapLife} {
		if c.life <= 0 || c.life > most {
			t.Errorf("the credential of %s lives for %s", c.account, c.life)
		}
		elsewhere := []string{metav1.NamespaceSystem, metav1.NamespaceDefault, metav1.NamespaceAll, v1alpha1.PrivateNamespace(harness.Namespace), v1alpha1.ReadersNamespace(harness.Namespace)}
		for _, namespace := range elsewhere {
			if _, err := c.client.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
				t.Errorf("%s reads Secrets in %q: %v", c.account, namespace, err)
			}
		}
		_, err := c.client.CoreV1().Secrets(r.name).List(t.Context(), metav1.ListOptions{}) // granted to readers by the room
		if c == swapped && !apierrors.IsForbidden(err) || c != swapped && err != nil {
			t.Errorf("%s reads Secrets that readers may read: %v", c.account, err)
		}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "written"}}
		if _, err := c.client.CoreV1().Secrets(r.name).Create(t.Context(), secret, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("%s writes Secrets: %v", c.account, err)
		}
	}

	namespace, name, _ := strings.Cut(issued.account, ":")
	if err := r.gamma.Kube.CoreV1().ServiceAccounts(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is not accepted any more", within, func(ctx context.Context) error {
		if _, err := issued.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("the answer is %w", errors.Join(errors.New("not Unauthorized"), err))
		}
		return nil
	})
	if _, err := other.client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("beta's was revoked with alpha's: %v", err)
	}
	r.rule(t, r.alpha, "all", ofConfigMaps+"rules: [{"+forLabel("all")+"}]")
	without(t, r.alpha, func() { put(t, r.gamma, configMaps, r.object(configMaps, "after", "all", "one")) })
	r.eventuallyCopied(t, configMaps, "after", "one", r.alpha, r.beta)
	if now := credential(t, r.alpha, v1alpha1.PrivateNamespace(harness.Namespace), "peer-"+id); now.token == issued.token {
		t.Error("the agent has no new credential")
	}
}

// reader is what a kubeconfig that was handed to a peer allows.
type reader struct {
	client  kubernetes.Interface
	token   string
	account string // namespace:name
	life    time.Duration
}

// credential reads a kubeconfig from a Secret; whose it is and how long it is good stands in its token.
func credential(t *testing.T, c *harness.Cluster, namespace, name string) reader {
	t.Helper()
	secret, err := c.Kube.CoreV1().Secrets(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data[v1alpha1.SecretKubeconfigKey])
	if err != nil {
		t.Fatal(err)
	}
	out := reader{token: config.BearerToken}
	if out.client, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(config.BearerToken, ".")
	if len(parts) != 3 || len(config.CertData)+len(config.KeyData)+len(config.Password) > 0 {
		t.Fatalf("Secret %s in %s holds no token, or more than that", name, c.Name)
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	var claims struct {
		Subject string `json:"sub"`
		Issued  int64  `json:"iat"`
		Expires int64  `json:"exp"`
	}
	if err := json.Unmarshal(data, &claims); err != nil {
		t.Fatal(err)
	}
	out.account = strings.TrimPrefix(claims.Subject, "system:serviceaccount:")
	out.life = time.Duration(claims.Expires-claims.Issued) * time.Second
	return out
}
