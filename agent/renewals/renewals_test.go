// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package renewals

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/apiconn"
	"github.com/roster-mesh/roster/agent/health"
	"github.com/roster-mesh/roster/agent/informers"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/kube/exported"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// room has renewals in the namespace argocd, the cluster paris, and an API server that counts writes.
type room struct {
	*testing.T

	r        *Renewals
	problems health.Problems
	gone     bool
	access   apiconn.Access
	issued   bool
	proven   *rest.Config
	events   []string
	writes   int
	err      error // of the next write
}

func newRoom(t *testing.T) *room {
	t.Helper()
	_, client := agenttest.NewAPIServer(t)
	w := &room{T: t, access: apiconn.Ready, issued: true, proven: token("one")}
	registry := informers.New(client, "cluster-registry", slog.New(slog.DiscardHandler))
	if err := registry.Put(agenttest.Cluster("here", agenttest.IDA), agenttest.Cluster("paris", agenttest.IDB)); err != nil {
		t.Fatal(err)
	}
	w.r = New(Options{
		Namespaces: []string{"argocd"}, ClusterID: agenttest.IDA, Client: client, Registry: registry,
		Gone:   func(string) bool { return w.gone },
		Access: func(string) (apiconn.Access, bool) { return w.access, w.issued },
		Proven: func(id string) *rest.Config {
			if id != agenttest.IDB {
				return nil
			}
			return w.proven
		},
		Events: w, Problem: w.problems.Reporter("renewals"), Log: slog.New(slog.DiscardHandler),
	})
	w.r.change = func(_ context.Context, was, now *kube.Secret) error {
		if w.writes++; w.err != nil {
			return w.err
		}
		if was.ResourceVersion != now.ResourceVersion {
			t.Error("a write without a precondition")
		}
		stored := *now
		stored.ResourceVersion = fmt.Sprint(w.writes)
		w.put(&stored)
		return nil
	}
	return w
}

func token(value string) *rest.Config {
	return &rest.Config{Host: "https://paris.example:6443", BearerToken: value, TLSClientConfig: rest.TLSClientConfig{CAData: []byte("ca")}}
}

func (w *room) Event(_ schema.GroupVersionKind, about metav1.Object, kind, reason, message string) {
	w.events = append(w.events, kind+" "+about.GetName()+" "+reason+" "+message)
}

// put delivers a Secret as the watch does.
func (w *room) put(s *kube.Secret) {
	w.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s)
	if err != nil {
		w.Fatal(err)
	}
	(&received{w.r, s.Namespace}).Upsert(&unstructured.Unstructured{Object: content})
}

// secret is one that asks for the credential for paris.
func secret(format exported.Format) *kube.Secret {
	return &kube.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: "s", Namespace: "argocd", UID: "u", Labels: map[string]string{v1alpha1.LabelExportedFor: string(format)},
			Annotations: map[string]string{v1alpha1.AnnotationRenewCredentialOf: "paris"},
		},
		Type: "Opaque",
	}
}

// reconcile returns the Secret after it was reconciled, and how many writes and events that took.
func (w *room) reconcile() (now *kube.Secret, writes, events int) {
	w.Helper()
	wrote, told := w.writes, len(w.events)
	key := types.NamespacedName{Namespace: "argocd", Name: "s"}
	if err := w.r.reconcile(w.Context(), key); err != nil {
		w.Fatal(err)
	}
	return w.r.shelf.get(key), w.writes - wrote, len(w.events) - told
}

// A Secret is written when there is another credential, and then only; what a person keeps in it stays.
func TestRenewed(t *testing.T) {
	t.Parallel()
	for format, key := range map[exported.Format]string{exported.ArgoCD: "config", exported.Flux: "value", exported.Runtime: "kubeconfig"} {
		w, s := newRoom(t), secret(format)
		s.Data = map[string][]byte{"project": []byte("mine"), "name": []byte("my name")}
		w.put(s)
		now, writes, events := w.reconcile()
		if writes != 1 || events != 0 || !strings.Contains(string(now.Data[key]), "one") {
			t.Errorf("%s: %d writes, %d events; it has %s", format, writes, events, now.Data[key])
		}
		if string(now.Data["project"]) != "mine" || string(now.Data["name"]) != "my name" || now.Annotations[v1alpha1.AnnotationExportedClusterID] != agenttest.IDB {
			t.Errorf("%s: it has %v, %v", format, slices.Sorted(maps.Keys(now.Data)), now.Annotations)
		}
		if _, writes, _ := w.reconcile(); writes != 0 {
			t.Errorf("%s: written again though nothing changed", format)
		}
		w.proven = token("two")
		if now, writes, _ := w.reconcile(); writes != 1 || !strings.Contains(string(now.Data[key]), "two") {
			t.Errorf("%s: after a renewal: %d writes; it has %s", format, writes, now.Data[key])
		}
		w.proven, w.access = nil, apiconn.Unreachable
		if now, writes, events := w.reconcile(); writes != 0 || events != 0 || !strings.Contains(string(now.Data[key]), "two") {
			t.Errorf("%s: while nothing is known: %d writes, %d events", format, writes, events)
		}
		s = w.r.shelf.get(keyOf(s))
		plain := *s
		plain.Annotations = nil
		if w.put(&plain); w.r.shelf.get(keyOf(s)) != nil {
			t.Errorf("%s: it is kept though it asks no more", format)
		}
	}
}

// What is not renewed is told once, and stays as it is.
func TestNotRenewed(t *testing.T) {
	t.Parallel()
	yes := true
	for want, change := range map[string]func(*room, *kube.Secret){
		`no cluster "london" is in the group`: func(_ *room, s *kube.Secret) {
			s.Annotations[v1alpha1.AnnotationRenewCredentialOf] = "london"
		},
		`no cluster "paris" is in the group`:                                    func(w *room, _ *kube.Secret) { w.gone = true },
		"cluster here is this cluster itself":                                   func(_ *room, s *kube.Secret) { s.Annotations[v1alpha1.AnnotationRenewCredentialOf] = "here" },
		"cluster paris is another cluster than the one":                         func(_ *room, s *kube.Secret) { s.Annotations[v1alpha1.AnnotationExportedClusterID] = agenttest.IDC },
		"the agent of cluster paris has issued no credential":                   func(w *room, _ *kube.Secret) { w.proven, w.issued = nil, false },
		"cluster paris is disabled here":                                        func(w *room, _ *kube.Secret) { w.proven, w.access = nil, apiconn.Disabled },
		"there is no working credential for cluster paris":                      func(w *room, _ *kube.Secret) { w.proven, w.access = nil, apiconn.Wrong },
		"names no format: it must be one of [argocd flux multicluster-runtime]": func(_ *room, s *kube.Secret) { s.Labels[v1alpha1.LabelExportedFor] = "helm" },
		"it is a copy that a rule made":                                         func(_ *room, s *kube.Secret) { s.Annotations[v1alpha1.AnnotationOwnerClusterID] = agenttest.IDC },
		"it is not of type Opaque":                                              func(_ *room, s *kube.Secret) { s.Type = v1alpha1.SecretType },
		"it is immutable":                                                       func(_ *room, s *kube.Secret) { s.Immutable = &yes },
	} {
		w, s := newRoom(t), secret(exported.ArgoCD)
		s.Data = map[string][]byte{"config": []byte("{}")}
		change(w, s)
		w.put(s)
		now, writes, events := w.reconcile()
		if writes != 0 || events != 1 || string(now.Data["config"]) != "{}" || !strings.HasPrefix(w.events[0], "Warning s CredentialNotRenewed ") || !strings.Contains(w.events[0], want) {
			t.Errorf("%s: %d writes, events %q", want, writes, w.events)
		}
		if _, _, events := w.reconcile(); events != 0 {
			t.Errorf("%s: told again", want)
		}
	}
}

// A cluster that has got another name here keeps its Secret.
func TestRenamed(t *testing.T) {
	t.Parallel()
	w, s := newRoom(t), secret(exported.ArgoCD)
	s.Annotations[v1alpha1.AnnotationRenewCredentialOf], s.Annotations[v1alpha1.AnnotationExportedClusterID] = "before", agenttest.IDB
	w.put(s)
	if _, writes, events := w.reconcile(); writes != 1 || events != 0 {
		t.Errorf("%d writes, events %q", writes, w.events)
	}
}

// Lost races are left to the watch, other errors are tried again, and a right that is missing is a problem until it is there.
func TestErrorsOfWrites(t *testing.T) {
	t.Parallel()
	w := newRoom(t)
	w.put(secret(exported.Flux))
	w.err = apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "s", errors.New("changed"))
	w.reconcile()
	w.err = apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "s", nil)
	if _, _, events := w.reconcile(); events != 1 || strings.Contains(w.events[0], "one") {
		t.Errorf("a refusal: %q", w.events)
	}
	w.err = errors.New("down")
	if err := w.r.reconcile(t.Context(), types.NamespacedName{Namespace: "argocd", Name: "s"}); err == nil {
		t.Error("an error is not tried again")
	}
	w.err = fmt.Errorf("%w: patch", kube.ErrForbidden)
	w.reconcile()
	(&received{w.r, "argocd"}).Health(kube.ErrForbidden)
	if got := w.problems.String(); got != "--renew-namespaces: Secrets in namespace argocd may not be watched, Secrets in namespace argocd may not be written; install charts/agent with these renew.namespaces" {
		t.Errorf("the problem is %q", got)
	}
	w.err = nil
	w.reconcile()
	if (&received{w.r, "argocd"}).Health(nil); w.problems.String() != "" {
		t.Errorf("it stays: %q", w.problems.String())
	}
}

// A right to write that no Secret of the namespace needs any more is no problem.
func TestNoneAsks(t *testing.T) {
	t.Parallel()
	w, other := newRoom(t), secret(exported.Flux)
	other.Name, other.UID = "other", "v"
	w.put(secret(exported.Flux))
	w.put(other)
	refused := func() {
		w.put(secret(exported.Flux))
		w.err = fmt.Errorf("%w: patch", kube.ErrForbidden)
		w.reconcile()
		if w.problems.String() == "" {
			t.Error("no problem")
		}
	}
	sink := &received{w.r, "argocd"}
	refused()
	if sink.Delete("argocd", "s", nil); w.problems.String() == "" {
		t.Error("it is cleared though another Secret asks")
	}
	if sink.Delete("argocd", "other", nil); w.problems.String() != "" {
		t.Errorf("it stays: %s", w.problems.String())
	}
	refused()
	if sink.Replace(nil, ""); w.problems.String() != "" {
		t.Errorf("after a list it stays: %s", w.problems.String())
	}
	w.r.rights.written("argocd", kube.ErrForbidden) // of a write that was under way
	if w.reconcile(); w.problems.String() != "" {
		t.Errorf("after the next try it stays: %s", w.problems.String())
	}
}

// A change of a cluster wakes the Secrets with its credential alone, and those that have none yet.
func TestChanged(t *testing.T) {
	t.Parallel()
	w := newRoom(t)
	other := secret(exported.Flux)
	other.Name, other.Annotations[v1alpha1.AnnotationRenewCredentialOf] = "other", "london"
	other.Annotations[v1alpha1.AnnotationExportedClusterID] = agenttest.IDC
	w.put(secret(exported.Flux))
	w.put(other)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	wrote := make(chan string)
	w.r.change = func(_ context.Context, was, _ *kube.Secret) error {
		wrote <- was.Name
		return nil
	}
	done := make(chan error, 1)
	go func() { done <- w.r.keys.Run(ctx, 1) }()
	if got := <-wrote; got != "s" {
		t.Errorf("%s is written", got)
	}
	w.r.Changed(agenttest.IDB)
	if got := <-wrote; got != "s" {
		t.Errorf("%s is written", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Each namespace is one in which another tool reads.
func TestCheck(t *testing.T) {
	t.Parallel()
	var got []string
	Check([]string{"argocd", "A", "n-private"}, []string{"n-private", "n-readers"}, func(flag, format string, args ...any) {
		got = append(got, flag+": "+fmt.Sprintf(format, args...))
	})
	if len(got) != 2 || !strings.Contains(got[0], `"A" is not a namespace name`) || !strings.HasPrefix(got[1], "renew-namespaces: n-private is the agent's own") {
		t.Errorf("%q", got)
	}
}
