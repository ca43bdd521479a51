// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// withAPI runs f in virtual time with an API server and a client of it.
func withAPI(t *testing.T, f func(t *testing.T, a *api, c *Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		f(t, a, a.client(t))
	})
}

func kubeSystem(uid string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "kube-system", "uid": uid},
	}}
}

func TestVerifyPeerReturnsTheCause(t *testing.T) {
	withAPI(t, func(t *testing.T, a *api, c *Client) {
		a.put(kubeSystem("id-1"))
		if err := VerifyPeer(t.Context(), c, "id-1"); err != nil {
			t.Error(err)
		}
		for class, breakIt := range map[error]func(){
			ErrWrongCluster: func() { a.put(kubeSystem("id-2\nforged")) },
			ErrUnauthorized: func() { a.deny["get"] = http.StatusUnauthorized },
			ErrForbidden:    func() { a.deny["get"] = http.StatusForbidden },
			ErrUnreachable:  func() { a.net.setRefuse(true) },
		} {
			delete(a.deny, "get")
			a.net.setRefuse(false)
			a.put(kubeSystem("id-1"))
			breakIt()
			err := VerifyPeer(t.Context(), c, "id-1")
			if !errors.Is(err, class) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want %q", err, class)
			}
		}
		a.net.setRefuse(false)
		a.net.setSilent(true)
		start := time.Now()
		if err := VerifyPeer(t.Context(), c, "id-1"); !errors.Is(err, ErrUnreachable) || time.Since(start) > requestTimeout {
			t.Errorf("error %v after %s", err, time.Since(start))
		}
	})
}

func TestServerVersion(t *testing.T) {
	withAPI(t, func(t *testing.T, _ *api, c *Client) {
		if v, err := c.ServerVersion(t.Context()); v != "v1.36.3" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
	})
}

func TestOtherCAIsNotTrusted(t *testing.T) {
	withAPI(t, func(t *testing.T, a *api, _ *Client) {
		cfg := a.config()
		cfg.CAData, _ = keyPair(t)
		c, err := NewClient(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, err = c.ClusterID(t.Context())
		if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "not signed by the CA") {
			t.Errorf("error %v", err)
		}
	})
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	withAPI(t, func(t *testing.T, a *api, c *Client) {
		a.handle = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				t.Error("the redirect was followed")
			}
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		})
		if err := c.requests.Get().AbsPath("/redirect").Do(t.Context()).Error(); err == nil {
			t.Error("a redirect was taken for an answer")
		}
	})
}

func TestResponsesAreBounded(t *testing.T) {
	body := &boundedBody{ReadCloser: io.NopCloser(endless{}), ctx: t.Context, left: 1 << 20}
	n, err := io.Copy(io.Discard, body)
	if err == nil || n != 1<<20 {
		t.Errorf("read %d bytes, error %v", n, err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestWritesAreOneRequestEach(t *testing.T) {
	withAPI(t, func(t *testing.T, a *api, c *Client) {
		ctx := t.Context()
		made, err := c.Create(ctx, secret("one", "yes"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Create(ctx, secret("one", "yes")); !apierrors.IsAlreadyExists(err) {
			t.Errorf("second create: %v", err)
		}
		a.takeRequests()
		stale := made.DeepCopy()
		made.SetLabels(map[string]string{"app": "no"})
		changed, err := c.Update(ctx, made)
		if err != nil {
			t.Fatal(err)
		}
		if body := a.bodies[0]; !strings.Contains(body, `"uid":"uid-one"`) || !strings.Contains(body, `"resourceVersion":"`+stale.GetResourceVersion()) {
			t.Errorf("update without preconditions: %s", body)
		}
		if _, err := c.Update(ctx, stale); !apierrors.IsConflict(err) {
			t.Errorf("update of a stale object: %v", err)
		}
		if got, err := c.Read(ctx, secretKind, "a", "one"); err != nil || got.GetLabels()["app"] != "no" {
			t.Errorf("read %v, %v", got, err)
		}
		a.set(func() { a.bodies = nil })
		if err := c.Delete(ctx, changed); err != nil {
			t.Fatal(err)
		}
		var options metav1.DeleteOptions
		if err := json.Unmarshal([]byte(a.bodies[0]), &options); err != nil || options.Preconditions == nil ||
			*options.Preconditions.UID != "uid-one" || *options.Preconditions.ResourceVersion != changed.GetResourceVersion() {
			t.Errorf("delete with options %s", a.bodies[0])
		}
		if _, err := c.Read(ctx, secretKind, "a", "one"); !apierrors.IsNotFound(err) || errors.Is(err, ErrKindUnknown) {
			t.Errorf("read of what is gone: %v", err)
		}
		if diff := cmp.Diff([]string{"update", "update", "get", "delete", "get"}, a.takeRequests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		for name, f := range map[string]func() error{
			"update": func() error { _, err := c.Update(ctx, secret("one", "")); return err },
			"delete": func() error { return c.Delete(ctx, secret("one", "")) },
		} {
			if err := f(); !errors.Is(err, ErrNoPrecondition) {
				t.Errorf("%s without preconditions: %v", name, err)
			}
		}
		if got := a.takeRequests(); len(got) > 0 {
			t.Errorf("requests %v", got)
		}
	})
}

func TestKindIsLookedUpAgainAfterItWasRemoved(t *testing.T) {
	withAPI(t, func(t *testing.T, a *api, c *Client) {
		w := secret("w", "")
		w.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"})
		for _, served := range []bool{false, true, false, true} {
			a.set(func() { a.widgets = served })
			_, err := c.Create(t.Context(), w)
			if served && err != nil && !apierrors.IsAlreadyExists(err) {
				t.Errorf("served: %v", err)
			}
			if !served && !errors.Is(err, ErrKindUnknown) {
				t.Errorf("not served: %v", err)
			}
		}
	})
}

func TestFindServer(t *testing.T) {
	withAPI(t, func(t *testing.T, a *api, c *Client) {
		slices := `{"kind":"EndpointSliceList","apiVersion":"discovery.k8s.io/v1","items":[{"addressType":"IPv6",
			"ports":[{"name":"https","port":6443}],"endpoints":[{"addresses":["fd00::1"]}]}]}`
		forbidden := false
		a.handle = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch {
			case r.URL.Path == "/api":
				_, _ = io.WriteString(w, `{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[{"clientCIDR":"0.0.0.0/0","serverAddress":"10.0.0.9:6443"}]}`)
			case forbidden:
				writeStatus(w, refusal(http.StatusForbidden))
			case strings.HasPrefix(r.URL.Path, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"):
				_, _ = io.WriteString(w, slices)
			default:
				http.NotFound(w, r)
			}
		})
		want := func(flag, address string) {
			t.Helper()
			s, err := FindServer(t.Context(), c, flag)
			if err != nil {
				t.Error(err)
			}
			if s.Address != address || string(s.CABundle) != string(a.config().CAData) {
				t.Errorf("flag %q: %s, want %s", flag, s.Address, address)
			}
		}
		want("", "https://127.0.0.1:6443")
		want("api.example.com", "https://api.example.com")
		want("https://api.example.com:6443/", "https://api.example.com:6443")
		if _, err := FindServer(t.Context(), c, "http://x"); err == nil || !strings.Contains(err.Error(), "--apiserver-endpoint: must start with https") {
			t.Errorf("error %v", err)
		}
		c.Config.BearerTokenFile = PodTokenFile
		want("", "https://[fd00::1]:6443")
		slices = `{"kind":"EndpointSliceList","apiVersion":"discovery.k8s.io/v1","items":[]}`
		want("", "https://10.0.0.9:6443")
		forbidden = true
		want("", "https://10.0.0.9:6443")
		c.Config.CAData = nil
		if _, err := FindServer(t.Context(), c, ""); err == nil || !strings.Contains(err.Error(), "kube-root-ca.crt") {
			t.Errorf("error %v", err)
		}
	})
}

func TestLoadConfigErrors(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	ca, _ := keyPair(t)
	dir := t.TempDir()
	good, broken, empty := filepath.Join(dir, "good"), filepath.Join(dir, "broken"), filepath.Join(dir, "empty")
	doc := document(ca)
	for path, data := range map[string][]byte{good: marshal(t, doc), broken: []byte("s3cret: ["), empty: nil} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := LoadConfig(good)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.QPS != -1 || cfg.Host != "https://10.0.0.1:6443" || cfg.Timeout != 0 {
		t.Errorf("loaded %s", cfg)
	}
	for name, f := range map[string]func() (*rest.Config, error){
		"name a kubeconfig file": func() (*rest.Config, error) { return LoadConfig("") },
		"no such file":           func() (*rest.Config, error) { return LoadConfig(filepath.Join(dir, "none")) },
		"not a kubeconfig":       func() (*rest.Config, error) { return LoadConfig(broken) },
		"no current-context":     func() (*rest.Config, error) { return LoadConfig(empty) },
		`no context "y"`:         func() (*rest.Config, error) { return LoadContext(good, "y") },
	} {
		if _, err := f(); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "s3cret") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("error %q, want %q", err, name)
		}
	}
}

func TestClientLogsAreAtLevelDebug(t *testing.T) {
	t.Cleanup(klog.ClearLogger)
	var out bytes.Buffer
	RouteClientLogs(slog.New(slog.NewTextHandler(&out, nil)))
	klog.Error("noise")
	if out.Len() > 0 {
		t.Errorf("logged at info: %s", out.String())
	}
	RouteClientLogs(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	klog.Error("noise")
	if !strings.Contains(out.String(), "level=DEBUG") {
		t.Errorf("logged %q", out.String())
	}
	out.Reset()
	for v := range klog.Level(11) {
		if v > 0 {
			klog.FromContext(t.Context()).V(int(v)).Info("a whole response, with its Secrets")
			klog.V(v).Info("a whole response, with its Secrets")
		}
	}
	if out.Len() > 0 || klog.FromContext(t.Context()).V(8).Enabled() {
		t.Errorf("logged what may hold Secrets: %q", out.String())
	}
}

func TestClassifyBoundsMessagesOfServers(t *testing.T) {
	long := strings.Repeat("line\n\x1b[31m", 1000)
	for _, err := range []error{
		apierrors.NewForbidden(schema.GroupResource{}, "", errors.New(long)), apierrors.NewBadRequest(long), errors.New(long),
	} {
		got := classify(err).Error()
		if len(got) > maxMessage+64 || strings.ContainsAny(got, "\n\x1b") {
			t.Errorf("%d bytes: %.80q", len(got), got)
		}
	}
	if err := classify(context.Canceled); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnreachable) {
		t.Errorf("cancelled: %v", err)
	}
}
