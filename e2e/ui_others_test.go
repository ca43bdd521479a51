// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/e2e/harness"
)

// sharedPage is agentctl ui for others: where it is, and what its clients trust.
type sharedPage struct {
	at    *url.URL
	roots *x509.CertPool
	said  locked // on standard error
}

// sharePage runs agentctl ui in alpha as the chart's pod does, with the account that the chart makes for it, until the test ends.
func (g *group) sharePage(t *testing.T) *sharedPage {
	t.Helper()
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := exec.CommandContext(t.Context(), bin.Helm, "template", bin.Chart, "-n", harness.Namespace,
		"--set=ui.enabled=true,ui.tlsSecretName=page", "--show-only=templates/ui-rbac.yaml").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, manifest)
	}
	apply(t, g.alpha, string(manifest))
	t.Cleanup(func() {
		kubectl(t, g.alpha, "-n", harness.Namespace, "delete", "serviceaccount,clusterrole,clusterrolebinding", "-l", "app.kubernetes.io/component=ui")
	})
	token, err := g.alpha.Token(lasting(t), harness.Namespace, "cluster-registry-ui")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	config, cert, key := filepath.Join(folder, "config"), filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	if err := g.alpha.WriteKubeconfig(config, token); err != nil {
		t.Fatal(err)
	}
	p := &sharedPage{roots: writeCertificate(t, cert, key)}
	cmd := exec.CommandContext(t.Context(), bin.Agentctl, "ui", "--kubeconfig", config, "--listen", ":0", "--tls-cert-file", cert, "--tls-private-key-file", key)
	cmd.Stderr = &p.said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // it was killed
	line, err := bufio.NewReader(out).ReadString('\n')
	_, address, found := strings.Cut(line, "https://")
	address, _, _ = strings.Cut(address, "/")
	_, port, splits := net.SplitHostPort(address)
	if err != nil || !found || splits != nil {
		t.Fatalf("agentctl ui says %q: %v", line, err)
	}
	p.at = &url.URL{Scheme: "https", Host: "127.0.0.1:" + port, Path: "/"}
	return p
}

// writeCertificate writes a certificate for 127.0.0.1 with its key, and returns what trusts it.
func writeCertificate(t *testing.T, cert, key string) *x509.CertPool {
	t.Helper()
	s := httptest.NewTLSServer(nil) // which has one
	defer s.Close()
	secret, err := x509.MarshalPKCS8PrivateKey(s.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: s.Certificate().Raw}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return roots
}

// bearer sends a token with each request, as an authenticating proxy does.
type bearer struct {
	next  http.RoundTripper
	token string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// visitor is a browser. With a token it comes through a proxy.
func (p *sharedPage) visitor(t *testing.T, token string) *page {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: p.roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	v := &page{Client: &http.Client{Jar: jar, Transport: transport}, at: p.at}
	if token != "" {
		v.Transport = bearer{transport, token}
	}
	return v
}

// signIn posts the form, and returns the code of the page that it leads to.
func (p *page) signIn(t *testing.T, token string) int {
	t.Helper()
	response, err := p.PostForm(p.at.JoinPath("signin").String(), url.Values{"token": {token}})
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// is a condition: the page is answered with this code, and these texts.
func (p *page) is(name string, code int, texts ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		text, got, err := p.get(ctx, name)
		if err != nil || got != code {
			return fmt.Errorf("the page %q: %d, %w: %s", name, got, err, text)
		}
		for _, want := range texts {
			if !strings.Contains(text, want) {
				return fmt.Errorf("the page does not have %q:\n%s", want, text)
			}
		}
		return nil
	}
}

// visitors makes accounts in a namespace of their own, each with a binding of its name to the role of visitors but the last, and
// returns their tokens.
func (g *group) visitors(t *testing.T, namespace string, names ...string) (tokens []string) {
	t.Helper()
	kubectl(t, g.alpha, "create", "namespace", namespace)
	t.Cleanup(func() {
		kubectl(t, g.alpha, "delete", "namespace", namespace, "--wait=false") // without a controller it stays, empty
		kubectl(t, g.alpha, "delete", "clusterrolebinding", "--ignore-not-found", namespace+"-"+names[0], namespace+"-"+names[1])
	})
	for i, name := range names {
		kubectl(t, g.alpha, "-n", namespace, "create", "serviceaccount", name)
		if i < len(names)-1 {
			kubectl(t, g.alpha, "create", "clusterrolebinding", namespace+"-"+name, "--clusterrole=cluster-registry-ui-visitor", "--serviceaccount="+namespace+":"+name)
		}
		token, err := g.alpha.Token(lasting(t), namespace, name)
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	return tokens
}

// Whoever may read the registry sees the page, by a form or by a header, and nobody else does. A question about a Secret is answered
// to whom it may be shown. Who has lost the account, or the rights, is out within a minute, with what is open.
func TestPageForOthers(t *testing.T) {
	g := joined(t)
	name := fmt.Sprintf("visited-%d", time.Now().UnixNano())
	g.cleanUp(t, name)
	g.share(t, name, "v1")
	tokens := g.visitors(t, name, "ann", "bob", "eve")
	shared := g.sharePage(t)
	may(t, g.alpha, []string{"--as=system:serviceaccount:" + harness.Namespace + ":cluster-registry-ui"}, map[string]bool{
		"list clusters.clusterregistry.k8s.cisco.com":  true,
		"get secrets -n " + harness.Namespace:          false,
		"patch clusters.clusterregistry.k8s.cisco.com": false,
	})

	stranger := shared.visitor(t, "")
	eventually(t, "no token", within, stranger.is("", http.StatusUnauthorized, "A token of this cluster is needed."))
	if code := stranger.signIn(t, "wrong"); code != http.StatusUnauthorized {
		t.Errorf("signing in with a wrong token: %d", code)
	}
	if code := stranger.signIn(t, tokens[2]); code != http.StatusForbidden {
		t.Errorf("signing in without rights: %d", code)
	}
	eventually(t, "a wrong token", within, shared.visitor(t, tokens[0]+"x").is("", http.StatusUnauthorized, "does not know this token"))
	eventually(t, "no rights", within, shared.visitor(t, tokens[2]).is("", http.StatusForbidden,
		`clusters.clusterregistry.k8s.cisco.com is forbidden: User "system:serviceaccount:`+name+`:eve" cannot list resource "clusters" in API group "clusterregistry.k8s.cisco.com" at the cluster scope`,
		`cannot watch resource "resourcesyncrules"`))

	ann, bob := shared.visitor(t, ""), shared.visitor(t, tokens[1])
	eventually(t, "ann's rights are in force", within, func(context.Context) error {
		if code := ann.signIn(t, tokens[0]); code != http.StatusOK {
			return fmt.Errorf("signing in: %d", code)
		}
		return nil
	})
	ended := make(chan struct{}, 2)
	for _, p := range []*page{ann, bob} {
		eventually(t, "the page", within, p.is("", http.StatusOK, "</span> alpha", "</span> beta", "<span>"+name+"</span>"))
		go func() {
			p.follow(t.Context())
			ended <- struct{}{}
		}()
	}
	other := name + "-other"
	g.cleanUp(t, other)
	apply(t, g.alpha, rule(other, other))
	eventually(t, "ann follows", within, ann.shows(0, []string{"<span>" + other + "</span>"}))
	eventually(t, "bob follows", within, bob.shows(0, []string{"<span>" + other + "</span>"}))

	why := "why?kind=secret&object=" + harness.Namespace + "/" + name
	eventually(t, "ann may not get the Secret", within, ann.is(why, http.StatusForbidden, "secrets &#34;"+name+"&#34; is forbidden", "cannot get resource"))
	kubectl(t, g.alpha, "-n", harness.Namespace, "create", "role", name, "--verb=get", "--resource=secrets", "--resource-name="+name)
	kubectl(t, g.alpha, "-n", harness.Namespace, "create", "rolebinding", name, "--role="+name, "--serviceaccount="+name+":ann")
	t.Cleanup(func() { kubectl(t, g.alpha, "-n", harness.Namespace, "delete", "role,rolebinding", name) })
	eventually(t, "ann may", within, ann.is(why, http.StatusOK, "alpha</b> a copy, owned by gamma"))
	eventually(t, "bob still may not", within, bob.is(why, http.StatusForbidden, "is forbidden"))

	if err := g.alpha.Kube.CoreV1().ServiceAccounts(name).Delete(lasting(t), "ann", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	kubectl(t, g.alpha, "delete", "clusterrolebinding", name+"-bob")
	eventually(t, "ann is signed out", afterFault, ann.is("", http.StatusUnauthorized))
	eventually(t, "bob has no right", afterFault, bob.is("", http.StatusForbidden, "bob", "cannot list resource"))
	eventually(t, "nothing is open", afterFault, func(context.Context) error {
		if len(ended) < 2 {
			return fmt.Errorf("%d streams have ended", len(ended))
		}
		return nil
	})
	for _, token := range tokens {
		if strings.Contains(shared.said.String(), token) {
			t.Errorf("agentctl ui tells a token:\n%s", &shared.said)
		}
	}
}
