// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registryapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/e2e/harness"
)

const (
	apiService = "apiservice/v1alpha1.clusterregistry.k8s.io"
	private    = harness.Namespace + "-private"
	service    = "cluster-registry-api"
)

// testCertificate: the APIService goes on naming the CA of the server, whoever takes it away, and of all servers when another
// one had to make a new CA.
func (f *front) testCertificate(t *testing.T) {
	if f.server == nil {
		t.Skip("a standalone API server has it in its own chain")
	}
	before := f.named(t)
	if !signed(t.Context(), f.direct, before) {
		t.Fatal("the APIService does not name the CA of the server")
	}
	must := func(args ...string) {
		t.Helper()
		if _, err := f.Kubectl(t.Context(), args...); err != nil {
			t.Fatal(err)
		}
	}
	passedOn := func(what string) {
		t.Helper()
		eventually(t, what, func(ctx context.Context) error {
			if !signed(ctx, f.direct, f.named(t)) {
				return errNotYet
			}
			_, err := f.shown(t, "").List(ctx, metav1.ListOptions{Limit: 1})
			return err
		})
	}
	must("patch", apiService, "--type=merge", "-p", `{"spec":{"caBundle":null}}`)
	passedOn("with the CA taken away")
	if !bytes.Equal(f.named(t), before) {
		t.Error("the CA was made anew")
	}

	must("delete", apiService)
	if _, err := f.Apply(t.Context(), f.manifest); err != nil {
		t.Fatal(err)
	}
	passedOn("with the APIService made anew")

	must("delete", "secret", service, "-n", private)
	address, err := harness.FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	start(t, f.program, "aggregated", "--kubeconfig", f.kubeconfig, "--listen", address)
	eventually(t, "the APIService names the CA that the second server has made", func(context.Context) error {
		if bytes.Equal(f.named(t), before) {
			return errNotYet
		}
		return nil
	})
	passedOn("the first server follows the second")
	eventually(t, "both servers have certificates of the one CA that the APIService and the Secret name", func(ctx context.Context) error {
		ca := f.named(t)
		secret, err := f.Kube.CoreV1().Secrets(private).Get(ctx, service, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !bytes.Equal(secret.Data["tls.crt"], ca) || !signed(ctx, f.direct, ca) || !signed(ctx, "https://"+address, ca) {
			return errNotYet
		}
		return nil
	})

	// The one that is lost now, no server has asked for since. Both notice at once that the APIService names none.
	must("delete", "secret", service, "-n", private)
	must("patch", apiService, "--type=merge", "-p", `{"spec":{"caBundle":null}}`)
	passedOn("with another CA")
	eventually(t, "both servers have certificates of the CA that one of them has made", func(ctx context.Context) error {
		if ca := f.named(t); !signed(ctx, f.direct, ca) || !signed(ctx, "https://"+address, ca) {
			return errNotYet
		}
		return nil
	})
}

// named is the CA that the APIService names.
func (f *front) named(t *testing.T) []byte {
	t.Helper()
	out, err := f.Kubectl(t.Context(), "get", apiService, "-o=jsonpath={.spec.caBundle}")
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := base64.StdEncoding.DecodeString(out)
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

// signed says whether the server at a URL has a certificate of a CA, for the name that the API server expects.
func signed(ctx context.Context, url string, ca []byte) bool {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return false
	}
	conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: pool, ServerName: fmt.Sprintf("%s.%s.svc", service, harness.Namespace)}}).
		DialContext(ctx, "tcp", strings.TrimPrefix(url, "https://"))
	if err != nil {
		return false
	}
	return conn.Close() == nil
}
