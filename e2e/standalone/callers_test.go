// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// as returns a client with a token in place of the administrator's certificate; without a token, it is nobody's.
func (s *server) as(t *testing.T, token string) *kubernetes.Clientset {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(s.dir, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	config = rest.AnonymousClientConfig(config)
	config.BearerToken, config.QPS = token, -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// named is a condition: the caller with the token is known by this name; an empty one is that of nobody.
func (s *server) named(t *testing.T, token, want string) func(context.Context) error {
	t.Helper()
	client := s.as(t, token)
	return func(ctx context.Context) error {
		review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		switch {
		case apierrors.IsUnauthorized(err):
			err = nil
		case err != nil:
			return err
		}
		if got := review.Status.UserInfo.Username; got != want {
			return fmt.Errorf("the caller is %q, not %q", got, want)
		}
		return nil
	}
}

func now(t *testing.T, what string, condition func(context.Context) error) {
	t.Helper()
	if err := condition(t.Context()); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// write writes a file of a test, as an editor does: in place.
func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// issuer is an OpenID Connect provider.
type issuer struct {
	*httptest.Server

	key *rsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{key: key}
	answer := func(w http.ResponseWriter, value any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(value)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"}})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"keys": []any{map[string]string{
			"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "one",
			"n": segment(key.N.Bytes()), "e": segment(big.NewInt(int64(key.E)).Bytes()),
		}}})
	})
	i.Server = httptest.NewTLSServer(mux)
	t.Cleanup(i.Close)
	return i
}

func segment(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// token is one for jane of group developers, with what is changed in it.
func (i *issuer) token(t *testing.T, key *rsa.PrivateKey, changes map[string]any) string {
	t.Helper()
	claims := map[string]any{
		"iss": i.URL, "aud": "roster", "sub": "jane", "groups": []string{"developers"},
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	maps.Copy(claims, changes)
	body, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	text := segment([]byte(`{"alg":"RS256","kid":"one"}`)) + "." + segment(body)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + segment(signature)
}

// config is an AuthenticationConfiguration.
func (i *issuer) config(prefix string) string {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})
	return fmt.Sprintf(`apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer:
    url: %s
    audiences: [roster]
    certificateAuthority: %q
  claimMappings:
    username: {claim: sub, prefix: %q}
    groups: {claim: groups, prefix: %q}
`, i.URL, ca, prefix, prefix)
}

// TestOpenIDConnect: callers with a token of the issuer have the name and the rights that it gives them, others are nobody; the
// file may change, and the issuer be down, while the server runs.
func TestOpenIDConnect(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	file := write(t, filepath.Join(t.TempDir(), "authentication.yaml"), i.config("oidc:"))
	s := start(t, filepath.Join(t.TempDir(), "d"), "--authentication-config", file)
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	good := i.token(t, i.key, nil)
	eventually(t, "jane is known", s.named(t, good, "oidc:jane"))
	for what, token := range map[string]string{
		"for somebody else": i.token(t, i.key, map[string]any{"aud": "others"}),
		"that has expired":  i.token(t, i.key, map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}),
		"of another issuer": i.token(t, i.key, map[string]any{"iss": "https://issuer.example.com"}),
		"of another key":    i.token(t, other, nil),
		"that is changed":   good[:len(good)-8] + "AAAAAAAA",
	} {
		now(t, "a token "+what, s.named(t, token, ""))
	}

	read := func(ctx context.Context) error {
		_, err := s.as(t, good).CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		return err
	}
	if err := read(t.Context()); !apierrors.IsForbidden(err) {
		t.Errorf("jane, who has no rights, reads: %v", err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "developers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "oidc:developers"}},
	}
	if _, err := s.kubernetes(t).RbacV1().RoleBindings("default").Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "jane has the rights of her group", read)

	write(t, file, "nonsense")
	now(t, "with a file that is wrong the old one counts", s.named(t, good, "oidc:jane"))
	write(t, file, i.config("people:"))
	eventually(t, "the file is read again", s.named(t, good, "people:jane"))

	i.Close()
	now(t, "without the issuer its keys are known", s.named(t, good, "people:jane"))
	s = start(t, filepath.Join(t.TempDir(), "d"), "--authentication-config", file)
	now(t, "a server that starts without the issuer knows nobody by it", s.named(t, good, ""))
	if _, err := s.kubernetes(t).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error("and the administrator by his certificate: ", err)
	}
}

// authorization is an AuthorizationConfiguration with a webhook before RBAC.
func authorization(kubeconfig, whenDown string) string {
	return fmt.Sprintf(`apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: test
  webhook:
    timeout: 3s
    authorizedTTL: 1ms
    unauthorizedTTL: 1ms
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: %s
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: %s}
    matchConditions: [{expression: "request.user.startsWith('u-')"}]
- type: RBAC
  name: rbac
`, whenDown, kubeconfig)
}

// TestAuthorizationWebhook: a webhook allows and refuses, RBAC decides what it leaves open, and --authorization-config says what
// holds when it is down, also when that file changes while the server runs.
func TestAuthorizationWebhook(t *testing.T) {
	t.Parallel()
	webhook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if a := review.Spec.ResourceAttributes; a != nil && a.Resource == "configmaps" {
			review.Status.Allowed, review.Status.Denied = review.Spec.User == "u-allowed", review.Spec.User == "u-refused"
			review.Status.Reason = "the webhook says so"
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	defer webhook.Close()
	etc := t.TempDir()
	kubeconfig := write(t, filepath.Join(etc, "webhook.kubeconfig"), fmt.Sprintf(
		`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"w","cluster":{"server":%q}}],"contexts":[{"name":"w","context":{"cluster":"w"}}],"current-context":"w"}`, webhook.URL))
	file := write(t, filepath.Join(etc, "authorization.yaml"), authorization(kubeconfig, "NoOpinion"))
	tokens := write(t, filepath.Join(etc, "tokens.csv"), "t-allowed,u-allowed,1\nt-refused,u-refused,2,\"readers\"\nt-open,u-open,3,\"readers\"\n")
	s := start(t, filepath.Join(t.TempDir(), "d"), "--authorization-config", file, "--token-auth-file", tokens)
	now(t, "a token of the file", s.named(t, "t-open", "u-open"))
	now(t, "a token of no file", s.named(t, "t-other", ""))
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "readers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "readers"}},
	}
	if _, err := s.kubernetes(t).RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	reads := func(token string, allowed bool) func(context.Context) error {
		client := s.as(t, token).CoreV1().ConfigMaps("default")
		return func(ctx context.Context) error {
			_, err := client.List(ctx, metav1.ListOptions{})
			refused := apierrors.IsForbidden(err) || apierrors.IsInternalError(err) // what it says when the webhook is down
			if allowed || err != nil && !refused {
				return err
			}
			if err == nil {
				return fmt.Errorf("%s may read", token)
			}
			return nil
		}
	}
	eventually(t, "RBAC decides what the webhook leaves open", reads("t-open", true))
	now(t, "the webhook allows", reads("t-allowed", true))
	now(t, "the webhook refuses what RBAC allows", reads("t-refused", false))

	webhook.Close()
	now(t, "without the webhook RBAC decides", reads("t-open", true))
	now(t, "without the webhook nobody is allowed by it", reads("t-allowed", false))
	write(t, file, authorization(kubeconfig, "Deny"))
	eventually(t, "with another file nothing is open without the webhook", reads("t-open", false))
	if _, err := s.kubernetes(t).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error("the administrator: ", err)
	}
}

// TestNobody: who shows nothing is told whether the server is well, and which version it has; and no more.
func TestNobody(t *testing.T) {
	t.Parallel()
	s := start(t, filepath.Join(t.TempDir(), "d"))
	nobody := s.as(t, "").RESTClient()
	for path, want := range map[string]int{
		"/healthz": 200, "/livez": 200, "/readyz": 200, "/version": 200,
		"/api": 403, "/apis": 403, "/openapi/v2": 403, "/openapi/v3": 403, "/metrics": 403, "/debug/pprof/": 403, "/logs/": 403,
		"/.well-known/openid-configuration": 403, "/openid/v1/jwks": 403,
		"/api/v1/namespaces": 403, "/api/v1/namespaces/kube-public/configmaps": 403, "/api/v1/secrets": 403,
		rosterAPI + "clusters": 403,
	} {
		var got int
		nobody.Get().AbsPath(path).Do(t.Context()).StatusCode(&got)
		if got != want {
			t.Errorf("%s answers nobody with %d, not %d", path, got, want)
		}
	}
	account := s.as(t, mint(t, s, "default", "default"))
	if _, err := account.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("an account without rights reads: %v", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(s.dir, "agent.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	config.Impersonate.UserName, config.Impersonate.Groups = "root", []string{"system:masters"}
	for _, what := range []string{"the agent as another", "the agent"} {
		if what == "the agent" {
			config.Impersonate = rest.ImpersonationConfig{}
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.CoreV1().Secrets("kube-system").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("%s reads Secrets of kube-system: %v", what, err)
		}
	}
}

// mint returns a token of an account, which is there a moment after its namespace.
func mint(t *testing.T, s *server, namespace, name string) string {
	t.Helper()
	client, token := s.kubernetes(t).CoreV1().ServiceAccounts(namespace), ""
	eventually(t, "a token of "+name, func(ctx context.Context) error {
		request, err := client.CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err == nil {
			token = request.Status.Token
		}
		return err
	})
	return strings.TrimSpace(token)
}
