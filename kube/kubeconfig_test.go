// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// keyPair makes a self-signed certificate and its key, in PEM.
func keyPair(t testing.TB) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pemOf(der), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

// document is a kubeconfig as nested maps, which tests can change.
func document(ca []byte) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "x",
		"contexts": []any{map[string]any{"name": "x", "context": map[string]any{"cluster": "c", "user": "u"}}},
		"clusters": []any{map[string]any{"name": "c", "cluster": map[string]any{
			"server": "https://10.0.0.1:6443", "certificate-authority-data": base64.StdEncoding.EncodeToString(ca),
		}}},
		"users": []any{map[string]any{"name": "u", "user": map[string]any{"token": "s3cret"}}},
	}
}

func inner(doc map[string]any, list, field string) map[string]any {
	return doc[list].([]any)[0].(map[string]any)[field].(map[string]any)
}

func marshal(t testing.TB, doc any) []byte {
	t.Helper()
	data, err := yaml.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestParseKubeconfig(t *testing.T) {
	ca, _ := keyPair(t)
	cfg, err := ParseKubeconfig(marshal(t, document(ca)))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Host != "https://10.0.0.1:6443" || cfg.BearerToken != "s3cret" || string(cfg.CAData) != string(ca) {
		t.Errorf("read %s", cfg)
	}
	if cfg.QPS != -1 || !strings.HasPrefix(cfg.UserAgent, "roster-agent/") {
		t.Errorf("without the defaults: QPS %v, user agent %q", cfg.QPS, cfg.UserAgent)
	}
}

func TestParseKubeconfigTakesAClientCertificate(t *testing.T) {
	ca, key := keyPair(t)
	doc := document(ca)
	user := inner(doc, "users", "user")
	delete(user, "token")
	user["client-certificate-data"] = base64.StdEncoding.EncodeToString(ca)
	user["client-key-data"] = base64.StdEncoding.EncodeToString(key)
	if _, err := ParseKubeconfig(marshal(t, doc)); err != nil {
		t.Fatal(err)
	}
	user["client-key-data"] = base64.StdEncoding.EncodeToString([]byte("n0nsense"))
	if _, err := ParseKubeconfig(marshal(t, doc)); err == nil || strings.Contains(err.Error(), "n0nsense") {
		t.Fatalf("error %v for a key that does not parse", err)
	}
}

func TestParseKubeconfigRefuses(t *testing.T) {
	ca, _ := keyPair(t)
	const content = "h0stile"
	cluster := func(doc map[string]any) map[string]any { return inner(doc, "clusters", "cluster") }
	user := func(doc map[string]any) map[string]any { return inner(doc, "users", "user") }
	twice := func(list string) func(map[string]any) {
		return func(doc map[string]any) { doc[list] = append(doc[list].([]any), doc[list].([]any)[0]) }
	}
	for field, breakIt := range map[string]func(doc map[string]any){
		"current-context":            func(doc map[string]any) { delete(doc, "current-context") },
		"contexts":                   func(doc map[string]any) { doc["current-context"] = content },
		"contexts: must have the c":  twice("contexts"),
		"clusters":                   func(doc map[string]any) { delete(doc, "clusters") },
		"clusters: must have the":    twice("clusters"),
		"users":                      func(doc map[string]any) { delete(doc, "users") },
		"users: must have the user":  twice("users"),
		"server":                     func(doc map[string]any) { cluster(doc)["server"] = "http://" + content },
		"server: must be":            func(doc map[string]any) { cluster(doc)["server"] = "" },
		"server: must not hold a u":  func(doc map[string]any) { cluster(doc)["server"] = "https://a:" + content + "@b" },
		"server: must start":         func(doc map[string]any) { cluster(doc)["server"] = content + ":6443" },
		"server: must not hold a q":  func(doc map[string]any) { cluster(doc)["server"] = "https://b?" + content },
		"insecure-skip-tls-verify":   func(doc map[string]any) { cluster(doc)["insecure-skip-tls-verify"] = true },
		"proxy-url":                  func(doc map[string]any) { cluster(doc)["proxy-url"] = "http://" + content },
		"certificate-authority":      func(doc map[string]any) { cluster(doc)["certificate-authority"] = "/" + content },
		"certificate-authority-data": func(doc map[string]any) { delete(cluster(doc), "certificate-authority-data") },
		"certificate-authority-data: must be PEM": func(doc map[string]any) {
			cluster(doc)["certificate-authority-data"] = base64.StdEncoding.EncodeToString([]byte(content))
		},
		"tls-server-name":           func(doc map[string]any) { cluster(doc)["tls-server-name"] = "a b" + content },
		"exec":                      func(doc map[string]any) { user(doc)["exec"] = map[string]any{"command": content} },
		"auth-provider":             func(doc map[string]any) { user(doc)["auth-provider"] = map[string]any{"name": content} },
		"tokenFile":                 func(doc map[string]any) { user(doc)["tokenFile"] = "/" + content },
		"client-certificate":        func(doc map[string]any) { user(doc)["client-certificate"] = "/" + content },
		"client-key":                func(doc map[string]any) { user(doc)["client-key"] = "/" + content },
		"username":                  func(doc map[string]any) { user(doc)["username"] = content },
		"as":                        func(doc map[string]any) { user(doc)["as"] = content },
		"as: must not":              func(doc map[string]any) { user(doc)["as-groups"] = []any{content} },
		"token":                     func(doc map[string]any) { user(doc)["token"] = content + "\r\nX-Header: y" },
		"users: the user":           func(doc map[string]any) { delete(user(doc), "token") },
		"users: the user of the cu": func(doc map[string]any) { user(doc)["client-key-data"] = "aGk=" },
	} {
		t.Run(field, func(t *testing.T) {
			doc := document(ca)
			breakIt(doc)
			_, err := ParseKubeconfig(marshal(t, doc))
			switch {
			case !errors.Is(err, ErrKubeconfig):
				t.Fatalf("error %v", err)
			case !strings.HasPrefix(err.Error(), ErrKubeconfig.Error()+": "+strings.SplitN(field, ":", 2)[0]+": "):
				t.Errorf("error %q does not name the field", err)
			case strings.Contains(err.Error(), content), strings.Contains(err.Error(), "s3cret"):
				t.Errorf("error %q repeats content", err)
			}
		})
	}
	for _, raw := range []string{"", "h0stile: [", "- 1", "\x00", strings.Repeat("a", MaxKubeconfig+1), `{"clusters": 1}`} {
		if _, err := ParseKubeconfig([]byte(raw)); !errors.Is(err, ErrKubeconfig) || strings.Contains(err.Error(), content) {
			t.Errorf("error %v for %.20q", err, raw)
		}
	}
}

func FuzzParseKubeconfig(f *testing.F) {
	ca, key := keyPair(f)
	f.Add(marshal(f, document(ca)))
	doc := document(ca)
	user := inner(doc, "users", "user")
	delete(user, "token")
	user["client-certificate-data"] = base64.StdEncoding.EncodeToString(ca)
	user["client-key-data"] = base64.StdEncoding.EncodeToString(key)
	f.Add(marshal(f, doc))
	f.Add([]byte("a: &a [*a]\nb: *a"))
	f.Add([]byte(`{"current-context":"x","contexts":[{"name":"x","context":null}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := ParseKubeconfig(data)
		if err != nil {
			if !errors.Is(err, ErrKubeconfig) || strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("error %q", err)
			}
			return
		}
		if !strings.HasPrefix(cfg.Host, "https://") || cfg.Insecure || len(cfg.CAData) == 0 || cfg.CAFile != "" ||
			cfg.BearerTokenFile != "" || cfg.ExecProvider != nil || cfg.AuthProvider != nil || cfg.Proxy != nil ||
			cfg.Impersonate.UserName != "" || (cfg.BearerToken == "") == (len(cfg.KeyData) == 0) {
			t.Fatalf("accepted %#v", cfg)
		}
		if _, err := NewClient(cfg); err != nil {
			t.Fatalf("accepted what cannot be used: %v", err)
		}
		KubeconfigValidity(data)
	})
}

func TestKubeconfigValidity(t *testing.T) {
	ca, _ := keyPair(t)
	token := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	}
	for claims, want := range map[string]int64{
		`{"iat":1893452400,"exp":1893456000}`: 1893456000, `{"exp":1893456000}`: 0, `{"iat":1893456000,"exp":1893456000}`: 0,
		`{}`: 0, `{"iat":1,"exp":-1}`: 0, `{"iat":1,"exp":"x"}`: 0, `nonsense`: 0, `{"iat":1,"exp":9e30}`: 0,
	} {
		doc := document(ca)
		inner(doc, "users", "user")["token"] = token(claims)
		from, until, ok := KubeconfigValidity(marshal(t, doc))
		if ok != (want > 0) || (ok && (until.Unix() != want || until.Sub(from) != time.Hour)) {
			t.Errorf("claims %s: %v %v %v", claims, from, until, ok)
		}
	}
	if _, _, ok := KubeconfigValidity([]byte("nonsense")); ok {
		t.Error("an expiry was read from nonsense")
	}
}

func TestPeerConfigChoosesTheEndpoint(t *testing.T) {
	ca, _ := keyPair(t)
	other, _ := keyPair(t)
	kubeconfig := marshal(t, document(ca))
	endpoint := func(network, address string) v1alpha1.KubernetesAPIEndpoint {
		return v1alpha1.KubernetesAPIEndpoint{ClientNetwork: network, ServerAddress: address}
	}
	inRange := func(cidr, address string) v1alpha1.KubernetesAPIEndpoint {
		return v1alpha1.KubernetesAPIEndpoint{ClientCIDR: cidr, ServerAddress: address}
	}
	for name, test := range map[string]struct {
		endpoints []v1alpha1.KubernetesAPIEndpoint
		want      string
	}{
		"none":                {nil, "https://10.0.0.1:6443"},
		"other network":       {[]v1alpha1.KubernetesAPIEndpoint{endpoint("b", "x")}, "https://10.0.0.1:6443"},
		"no network":          {[]v1alpha1.KubernetesAPIEndpoint{endpoint("", "x:1"), endpoint("b", "y")}, "https://x:1"},
		"this network":        {[]v1alpha1.KubernetesAPIEndpoint{endpoint("", "x"), endpoint("a", "https://y:2/z")}, "https://y:2/z"},
		"some clients":        {[]v1alpha1.KubernetesAPIEndpoint{inRange("10.0.0.0/8", "x")}, "https://10.0.0.1:6443"},
		"all clients":         {[]v1alpha1.KubernetesAPIEndpoint{inRange("10.0.0.0/8", "x"), inRange("0.0.0.0/0", "y"), inRange("::/0", "z")}, "https://y"},
		"that of the agent":   {[]v1alpha1.KubernetesAPIEndpoint{inRange("0.0.0.0/0", "y"), endpoint("", "x"), endpoint("", "z")}, "https://x"},
		"some of the network": {[]v1alpha1.KubernetesAPIEndpoint{{ClientNetwork: "a", ClientCIDR: "10.0.0.0/8", ServerAddress: "x"}}, "https://x"},
		"ipv6":                {[]v1alpha1.KubernetesAPIEndpoint{endpoint("a", "fd00::1")}, "https://[fd00::1]"},
		"ipv6 with port":      {[]v1alpha1.KubernetesAPIEndpoint{endpoint("a", "[fd00::1]:6443")}, "https://[fd00::1]:6443"},
		"no address":          {[]v1alpha1.KubernetesAPIEndpoint{endpoint("a", "")}, "https://10.0.0.1:6443"},
		"http":                {[]v1alpha1.KubernetesAPIEndpoint{endpoint("a", "http://y")}, ""},
		"file":                {[]v1alpha1.KubernetesAPIEndpoint{endpoint("a", "file:///etc")}, ""},
		"credentials in it":   {[]v1alpha1.KubernetesAPIEndpoint{endpoint("a", "https://u:h0stile@y")}, ""},
		"nonsense":            {[]v1alpha1.KubernetesAPIEndpoint{endpoint("a", "h0stile y")}, ""},
		"nonsense port":       {[]v1alpha1.KubernetesAPIEndpoint{endpoint("a", "y:h0stile")}, ""},
		"CA":                  {[]v1alpha1.KubernetesAPIEndpoint{{CABundle: other}}, "https://10.0.0.1:6443"},
		"CA that is not PEM":  {[]v1alpha1.KubernetesAPIEndpoint{{CABundle: []byte("h0stile")}}, ""},
		"CA with a key in it": {[]v1alpha1.KubernetesAPIEndpoint{{CABundle: append([]byte("-----BEGIN KEY-----\n-----END KEY-----\n"), ca...)}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := PeerConfig(kubeconfig, test.endpoints, true, "a")
			if test.want == "" {
				if err == nil || strings.Contains(err.Error(), "h0stile") || !strings.Contains(err.Error(), "kubernetesApiEndpoints") {
					t.Fatalf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if cfg.Host != test.want {
				t.Errorf("host %s, want %s", cfg.Host, test.want)
			}
			wantCA := ca
			if name == "CA" {
				wantCA = other
			}
			if string(cfg.CAData) != string(wantCA) {
				t.Error("another CA")
			}
			published, err := EndpointConfig(test.endpoints, "a")
			if err != nil || published.Host != strings.TrimPrefix(test.want, "https://10.0.0.1:6443") || (len(published.CAData) > 0) != (name == "CA") {
				t.Errorf("published %q: %v", published.Host, err)
			}
		})
	}
	if _, err := PeerConfig([]byte("x"), nil, true, "a"); !errors.Is(err, ErrKubeconfig) {
		t.Errorf("error %v", err)
	}
}

func FuzzPeerConfigEndpoint(f *testing.F) {
	ca, _ := keyPair(f)
	kubeconfig := marshal(f, document(ca))
	for _, address := range []string{"h", "h:1", "https://h:1/p", "fd00::1", "[fd00::1%25x]:1", "https://u:p@h", "http://h", "//h", "h?q#f"} {
		f.Add(address, ca)
	}
	f.Fuzz(func(t *testing.T, address string, bundle []byte) {
		cfg, err := PeerConfig(kubeconfig, []v1alpha1.KubernetesAPIEndpoint{{ServerAddress: address, CABundle: bundle}}, true, "a")
		if err != nil {
			return
		}
		u, err := url.Parse(cfg.Host)
		if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			t.Fatalf("accepted %q as %q", address, cfg.Host)
		}
		if _, err := rest.TLSConfigFor(cfg); err != nil {
			t.Fatalf("accepted a CA that cannot be used: %v", err)
		}
	})
}

func TestMarshalledKubeconfigParses(t *testing.T) {
	ca, _ := keyPair(t)
	data, err := marshalKubeconfig("first", Server{Address: "https://h:1", CABundle: ca, Name: "api"}, "tok")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := ParseKubeconfig(data)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(cfg.Host, " ", cfg.BearerToken, " ", cfg.ServerName)
	if got != "https://h:1 tok api" || !strings.Contains(string(data), "current-context: first") {
		t.Errorf("%s from\n%s", got, data)
	}
}
