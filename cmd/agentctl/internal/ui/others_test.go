// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/apitest"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/ui/view"
)

func TestListenAndCertificate(t *testing.T) {
	t.Parallel()
	for listen, others := range map[string]bool{
		"127.0.0.1:0": false, "[::1]:8080": false, "localhost:0": false, "127.1.2.3:1": false,
		":8080": true, "0.0.0.0:0": true, "[::]:0": true, "10.0.0.1:80": true, "example.com:80": true, "localhost.evil.example:1": true,
	} {
		for _, key := range []bool{false, true} {
			o := &Options{Listen: listen}
			if key {
				o.CertFile, o.KeyFile = "c", "k"
			}
			if err := o.Validate(); (err == nil) != (others == key) {
				t.Errorf("--listen %s, with a key %t: %v", listen, key, err)
			}
		}
	}
	for name, o := range map[string]*Options{
		"no port":         {Listen: "localhost"},
		"half a pair":     {Listen: ":1", CertFile: "c"},
		"the other half":  {Listen: ":1", KeyFile: "k"},
		"other clusters":  {Listen: ":1", CertFile: "c", KeyFile: "k", Contexts: []string{"b"}},
		"a pair for none": {Listen: "127.0.0.1:0", KeyFile: "k"},
	} {
		if err := o.Validate(); cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// writeCertificate writes a certificate for 127.0.0.1 and its key.
func writeCertificate(t *testing.T) (certFile, keyFile string, roots *x509.CertPool) {
	t.Helper()
	s := httptest.NewTLSServer(nil) // which has one
	defer s.Close()
	secret, err := x509.MarshalPKCS8PrivateKey(s.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: s.Certificate().Raw}, keyFile: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots = x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return certFile, keyFile, roots
}

// openToOthers runs the command where others reach it. The client is a browser that has not signed in.
func openToOthers(t *testing.T, uses Uses, s *apitest.Server) (client *http.Client, page *url.URL) {
	t.Helper()
	o := &Options{Uses: uses, Namespace: "ns", Listen: ":0", Access: clusters.Access{Kubeconfig: filepath.Join(t.TempDir(), "config")}}
	config := fmt.Sprintf("{current-context: a, clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {token: token-of-the-page}}], contexts: [{name: a, context: {cluster: c, user: u}}]}", s.URL)
	if err := os.WriteFile(o.Kubeconfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var roots *x509.CertPool
	o.CertFile, o.KeyFile, roots = writeCertificate(t)
	out, printed := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- o.Run(t.Context(), &cli.Output{Stdout: printed, Stderr: io.Discard, Format: "table"}) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, address, _ := strings.Cut(line, "https://")
	address, _, _ = strings.Cut(address, "/")
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	jar, _ := cookiejar.New(nil)
	client = &http.Client{Jar: jar, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}}
	t.Cleanup(client.CloseIdleConnections)
	return client, &url.URL{Scheme: "https", Host: "127.0.0.1:" + port, Path: "/"}
}

// browse is what the page answers to a browser.
func browse(t *testing.T, client *http.Client, at *url.URL, form url.Values) (code int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at.String(), nil)
	if form != nil {
		r, err = http.NewRequestWithContext(t.Context(), http.MethodPost, at.String(), strings.NewReader(form.Encode()))
	}
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.Header.Set("Accept", "text/html")
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil || response.ProtoMajor != 2 || response.Header.Get("Content-Security-Policy") == "" {
		t.Fatalf("%s %v, %v, %v", at, response.Proto, response.Header, err)
	}
	return response.StatusCode, string(data)
}

// Others see the page once they have shown who they are, follow it, and ask with their own token.
func TestOthers(t *testing.T) {
	t.Parallel()
	s := apitest.New()
	t.Cleanup(s.Close)
	s.Put(apitest.Parse(t, clusterObject("alpha")))
	asked := make(chan Question, 9)
	uses := noUses()
	uses.Explain = func(_ context.Context, q Question) ([]byte, error) {
		asked <- q
		return nil, fmt.Errorf("read it: %w", apierrors.NewForbidden(clusters.ClusterResource().GroupResource(), "x", nil))
	}
	client, at := openToOthers(t, uses, s)
	if code, text := browse(t, client, at, nil); code != http.StatusUnauthorized || strings.Contains(text, "alpha") || !strings.Contains(text, `action="/signin"`) {
		t.Fatalf("a stranger gets %d\n%s", code, text)
	}
	if code, text := browse(t, client, at.JoinPath("signin"), url.Values{"token": {"wrong"}}); code != http.StatusUnauthorized || strings.Contains(text, "alpha") {
		t.Fatalf("with a wrong token: %d\n%s", code, text)
	}
	if code, text := browse(t, client, at.JoinPath("page.css"), nil); code != http.StatusOK {
		t.Fatalf("what the form needs: %d\n%s", code, text)
	}
	s.Deny("watch clusters")
	if code, text := browse(t, client, at.JoinPath("signin"), url.Values{"token": {"token-of-ann"}}); code != http.StatusForbidden || !strings.Contains(text, "cannot watch resource") {
		t.Fatalf("without a right: %d\n%s", code, text)
	}
	s.Deny("")
	for code, text := browse(t, client, at.JoinPath("signin"), url.Values{"token": {"token-of-ann"}}); !strings.Contains(text, "alpha"); code, text = browse(t, client, at, nil) {
		if code != http.StatusOK || !strings.Contains(text, `action="/signout"`) {
			t.Fatalf("ann gets %d\n%s", code, text)
		}
		runtime.Gosched() // until the page has read alpha
	}
	next := follow(t, client, at.JoinPath("events").String())
	s.Put(apitest.Parse(t, clusterObject("beta")))
	for seen := false; !seen; {
		_, pieces := next()
		seen = mentions(pieces, "beta")
	}
	why := at.JoinPath("why")
	why.RawQuery = "kind=secret&object=shop/x"
	if code, text := browse(t, client, why, nil); code != http.StatusForbidden || !strings.Contains(text, "read it: ") {
		t.Errorf("a question about what ann may not read: %d\n%s", code, text)
	}
	if q := <-asked; q.Token != "token-of-ann" || q.As != "" || q.Context != "a" {
		t.Errorf("the question is asked as %+v", q.Access)
	}
	browse(t, client, at.JoinPath("signout"), url.Values{})
	if code, text := browse(t, client, at, nil); code != http.StatusUnauthorized || strings.Contains(text, "alpha") {
		t.Errorf("after signing out: %d\n%s", code, text)
	}
}

// The page works as soon as it has read the cluster once; a probe needs no token for that.
func TestProbes(t *testing.T) {
	t.Parallel()
	s := apitest.New()
	t.Cleanup(s.Close)
	s.Set("resourcesyncrules", "")
	client, at := openToOthers(t, noUses(), s)
	probe := func(name string) int {
		response, err := client.Get(at.JoinPath(name).String())
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	if ready := probe("readyz"); ready != http.StatusServiceUnavailable {
		t.Errorf("ready: %d", ready)
	}
	s.Set("", "")
	for start := time.Now(); probe("readyz") != http.StatusOK; {
		if time.Since(start) > time.Minute {
			t.Fatal("it is never ready")
		}
	}
}

// Who announces the body of a request and sends none is hung up on, whatever they ask for; and so is who asks for nothing, for half of
// something, or for nothing more.
func TestBodiesThatDoNotCome(t *testing.T) {
	t.Parallel()
	s := apitest.New()
	t.Cleanup(s.Close)
	_, at := openToOthers(t, noUses(), s)
	var all sync.WaitGroup
	said := []string{"", "GET /page.css HTTP/1.1\r\nHost: " + at.Host, "GET /page.css HTTP/1.1\r\nHost: " + at.Host + "\r\n\r\n"}
	for _, asked := range []string{"GET /readyz", "GET /page.css", "POST /", "POST /signin", "POST /signout"} {
		said = append(said, fmt.Sprintf("%s HTTP/1.1\r\nHost: %s\r\nContent-Length: 9\r\n\r\n", asked, at.Host))
	}
	for _, text := range said {
		all.Go(func() {
			dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}} //nolint:gosec // of this test
			conn, err := dialer.DialContext(t.Context(), "tcp", at.Host)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
			fmt.Fprint(conn, text)
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%q: still there after a minute", text)
			}
		})
	}
	all.Wait()
}

// Of connections only so many are open at a time; the next one waits until one has ended, and is served then.
func TestConnectionsOfOthersAreBounded(t *testing.T) {
	t.Parallel()
	s := apitest.New()
	t.Cleanup(s.Close)
	_, at := openToOthers(t, noUses(), s)
	var open []net.Conn
	for range connections {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", at.Host)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		open = append(open, conn)
	}
	began, served := time.Now(), make(chan error, 1)
	go func() {
		dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}} //nolint:gosec // of this test
		conn, err := dialer.DialContext(t.Context(), "tcp", at.Host)
		if err == nil {
			err = conn.Close()
		}
		served <- err
	}()
	select {
	case err := <-served:
		if time.Since(began) < bodyTimeout/2 { // after that the server ends those that say nothing
			t.Errorf("one more than %d is served: %v", connections, err)
		}
		return
	case <-time.After(200 * time.Millisecond):
	}
	if err := open[0].Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-served:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("one has ended, and the next is not served")
	}
}

// A model is rendered once for all who look at it in the same way.
func TestSheetsAreShared(t *testing.T) {
	t.Parallel()
	s := &sheets{press: newPress()}
	m := view.Of([]view.Held{group(3, 3)}, nil)
	first, err := s.of(m, view.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	again, _ := s.of(m, view.Filter{})
	if reflect.ValueOf(first.sheet).Pointer() != reflect.ValueOf(again.sheet).Pointer() || first.named != first.tag() {
		t.Error("it is rendered twice")
	}
	for i := range 3 * maxSheets {
		if _, err := s.of(m, view.Filter{Text: fmt.Sprint(i)}); err != nil || len(s.made) > maxSheets {
			t.Fatalf("%d are kept: %v", len(s.made), err)
		}
	}
	if _, err := s.of(view.Of([]view.Held{group(1, 1)}, nil), view.Filter{}); err != nil || len(s.made) != 1 {
		t.Errorf("%d are kept of a model that is not shown any more: %v", len(s.made), err)
	}
}

// Nobody is answered with what the page itself may read.
func TestQuestionsNeedAVisitor(t *testing.T) {
	t.Parallel()
	s := &site{others: true, asked: Question{Access: clusters.Access{As: "somebody"}}}
	if q, err := s.questionOf(t.Context()); err == nil {
		t.Errorf("asked as %+v", q.Access)
	}
}

// deadlines is an answer that keeps the deadlines that it gets.
type deadlines struct {
	*httptest.ResponseRecorder

	set []time.Time
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.set = append(d.set, at)
	return nil
}

// A stream that waits for news has no deadline: over HTTP/2 it would end it.
func TestEventsHaveADeadlineEach(t *testing.T) {
	t.Parallel()
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	if err := send(w, []byte("x")); err != nil || len(w.set) != 2 || w.set[0].IsZero() || !w.set[1].IsZero() {
		t.Errorf("deadlines %v, %v", w.set, err)
	}
}
