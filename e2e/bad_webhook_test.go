// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// notHeldUp is how soon most copies follow while another kind's writes hang, beside slack times what they take else.
const notHeldUp = 3 * time.Second

// webhook is an admission webhook that refuses everything, or hangs.
type webhook struct {
	*httptest.Server
	hangs atomic.Bool
	ended chan struct{}
}

func newWebhook(t *testing.T) *webhook {
	w := &webhook{ended: make(chan struct{})}
	w.Server = httptest.NewTLSServer(w)
	t.Cleanup(func() {
		close(w.ended)
		w.Close()
	})
	return w
}

func (w *webhook) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	if w.hangs.Load() {
		select {
		case <-w.ended:
		case <-r.Context().Done():
		}
		return
	}
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Message: "not in this house"}}
	review.Request = nil
	_ = json.NewEncoder(out).Encode(review)
}

// manifest has the webhook asked about ConfigMaps with a label.
func (w *webhook) manifest(name, label string) string {
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.Certificate().Raw})
	return fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: %s}
webhooks:
- name: %s.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  timeoutSeconds: 5
  objectSelector: {matchLabels: {case: %s}}
  rules:
  - {apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}
  clientConfig: {url: "%s/", caBundle: %s}
`, name, name, label, w.URL, base64.StdEncoding.EncodeToString(bundle))
}

// badWebhook: a webhook that refuses is named, and one that hangs holds up neither other rules nor, for longer than it
// hangs, its own.
func badWebhook(t *testing.T, b, other bad) {
	const objects = 60
	w := newWebhook(t)
	apply(t, b.g.beta, w.manifest(b.rule, b.rule))
	probe := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: unwanted-probe, namespace: %s, labels: {case: %s}}\n", badNamespace, b.rule)
	eventually(t, "the webhook is in force", afterFault, func(ctx context.Context) error {
		if _, err := b.g.beta.Apply(ctx, probe, "--dry-run=server"); err == nil || !strings.Contains(err.Error(), b.rule+".example.com") {
			return errors.Join(errors.New("a ConfigMap is not refused by it"), err)
		}
		return nil
	})
	gone := func() {
		kubectl(t, b.g.beta, "delete", "--ignore-not-found", "validatingwebhookconfiguration", b.rule)
	}
	t.Cleanup(gone)
	b.start(t)
	other.start(t)
	b.mustPut(t, "unwanted", map[string]any{"data": map[string]any{"v": "1"}})
	b.says(t, "AdmissionRefused", "1 of 1", "not in this house", b.rule+".example.com", "ConfigMap bad-input/unwanted")
	follows := func(name string) time.Duration {
		t.Helper()
		began := time.Now()
		other.mustPut(t, name, map[string]any{"stringData": map[string]any{"v": "1"}})
		eventually(t, name+" passes", afterFault, present(b.g.beta, other.gvr, badNamespace, name))
		return time.Since(began)
	}
	var plain time.Duration // what this machine takes while nothing hangs
	for i := range 5 {
		plain = max(plain, follows(fmt.Sprintf("plain-%d", i)))
	}
	w.hangs.Store(true)
	for i := range objects {
		b.mustPut(t, fmt.Sprintf("hangs-%d", i), map[string]any{"data": map[string]any{"v": "1"}})
	}
	b.says(t, "AdmissionRefused", "of 61", b.rule+".example.com")
	var took []time.Duration
	for i := range 10 {
		took = append(took, follows(fmt.Sprintf("passes-%d", i)))
	}
	gone()
	b.says(t, "Synced")
	for i := range 5 { // others may have begun to keep the machine busy in between
		plain = max(plain, follows(fmt.Sprintf("after-%d", i)))
	}
	most := notHeldUp + slack*plain
	if slices.Sort(took); took[7] > most || took[9] > most+5*time.Second {
		t.Errorf("copies of another kind are held up: %v, and %v without", took, plain)
	}
}
