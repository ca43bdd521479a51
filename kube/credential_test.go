// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestIssueCreatesTheAccountOnce(t *testing.T) {
	withAPI(t, func(t *testing.T, a *api, c *Client) {
		var accounts, tokens int
		granted := metav1.NewTime(time.Now().Add(20 * time.Minute).Truncate(time.Second))
		namespace, full := true, false
		a.handle = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			const path = "/api/v1/namespaces/ns-readers/serviceaccounts"
			notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "serviceaccounts"}, "peer")
			switch {
			case !namespace || !strings.HasPrefix(r.URL.Path, path):
				writeStatus(w, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "ns-readers"))
			case r.URL.Path == path && full:
				writeStatus(w, apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts"}, "peer", errors.New("exceeded quota")))
			case r.URL.Path == path:
				accounts++
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.Copy(w, r.Body)
			case accounts == 0:
				writeStatus(w, notFound)
			default:
				tokens++
				var request authenticationv1.TokenRequest
				_ = json.NewDecoder(r.Body).Decode(&request)
				request.Kind, request.APIVersion = "TokenRequest", "authentication.k8s.io/v1"
				if *request.Spec.ExpirationSeconds != 3600 {
					t.Errorf("asked for %d seconds", *request.Spec.ExpirationSeconds)
				}
				request.Status = authenticationv1.TokenRequestStatus{Token: "tok", ExpirationTimestamp: granted}
				writeJSON(w, http.StatusCreated, request)
			}
		})
		ca := a.config().CAData
		issuer := NewIssuer(c, "ns", Server{Address: "https://h:6443", CABundle: ca}, "first")
		for range 2 {
			cred, err := issuer.Issue(t.Context(), "peer", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := ParseKubeconfig(cred.Kubeconfig)
			if err != nil {
				t.Fatal(err)
			}
			if cfg.BearerToken != "tok" || cfg.Host != "https://h:6443" || !cred.Expires.Equal(granted.Time) {
				t.Errorf("issued %s until %s", cfg, cred.Expires)
			}
		}
		if accounts != 1 || tokens != 2 {
			t.Errorf("%d accounts, %d tokens", accounts, tokens)
		}
		accounts = 0 // it was deleted
		if _, err := issuer.Issue(t.Context(), "peer", time.Hour); err != nil || accounts != 1 {
			t.Errorf("%d accounts after it was deleted: %v", accounts, err)
		}
		full = true
		for _, issuer := range []*Issuer{issuer, NewIssuer(c, "ns", Server{Address: "https://h:6443", CABundle: ca}, "first")} {
			if _, err := issuer.Issue(t.Context(), "peer", time.Hour); err != nil {
				t.Errorf("no token of an account that is there where none can be made: %v", err)
			}
		}
		accounts = 0
		if _, err := issuer.Issue(t.Context(), "peer", time.Hour); err == nil || !strings.Contains(err.Error(), "not allowed") {
			t.Errorf("where no account can be made: %v", err)
		}
		namespace, full = false, false
		if _, err := issuer.Issue(t.Context(), "peer", time.Hour); err == nil || !strings.Contains(err.Error(), "namespace ns-readers does not exist") {
			t.Errorf("error %v", err)
		}
		if _, err := NewIssuer(c, "ns", Server{}, "x").Issue(t.Context(), "peer", time.Hour); err == nil {
			t.Error("a kubeconfig without CA was issued")
		}
	})
}
