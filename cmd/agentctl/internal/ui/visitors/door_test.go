// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package visitors

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// registry plays the API server: it knows tokens by their users, and those users that lack a right.
type registry struct {
	mu      sync.Mutex
	users   map[string]string
	refused map[string]string
	away    bool
	takes   time.Duration
	asked   int
	at      int // a time, now and at most
	most    int
}

func (r *registry) Ask(ctx context.Context, token string) (string, error) {
	r.mu.Lock()
	r.asked++
	r.at++
	r.most = max(r.most, r.at)
	takes := r.takes
	r.mu.Unlock()
	if takes > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(takes):
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at--
	user, known := r.users[token]
	switch {
	case r.away || ctx.Err() != nil:
		return "", errors.New("connection refused")
	case !known:
		return "", refuse(http.StatusUnauthorized, "not known")
	case r.refused[user] != "":
		return "", refuse(http.StatusForbidden, "%s", r.refused[user])
	}
	return user, nil
}

func (r *registry) change(f func(*registry)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r)
}

func (r *registry) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

func newRegistry() *registry {
	return &registry{users: map[string]string{"ann-token": "ann", "bob-token": "bob"}, refused: map[string]string{}}
}

// guarded is a door with one page, which says who sees it, and one that stays open.
func guarded(r *registry) http.Handler {
	return New(r).Guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, _ := Of(r.Context())
		if r.URL.Path == "/events" {
			<-r.Context().Done()
		}
		fmt.Fprintf(w, "seen by %s with %s", v.Name, v.Token)
	}), func(path string) bool { return path == "/page.css" }, func(w http.ResponseWriter, r *RefusalError) {
		w.WriteHeader(r.Code)
		fmt.Fprint(w, "the form: ", r.Text)
	})
}

const host = "roster.example.com"

// request is one as a browser on the page sends it.
func request(ctx context.Context, method, path, token string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, method, "https://"+host+path, nil)
	if method == http.MethodPost {
		r = httptest.NewRequestWithContext(ctx, method, "https://"+host+path, strings.NewReader(url.Values{"token": {token}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "https://"+host)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	} else if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	r.Header.Set("Accept", "text/html")
	return r
}

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func want(t *testing.T, what string, got *httptest.ResponseRecorder, code int, texts ...string) {
	t.Helper()
	if got.Code != code {
		t.Errorf("%s: %d, want %d: %s", what, got.Code, code, got.Body)
	}
	for _, text := range texts {
		if !strings.Contains(got.Body.String(), text) {
			t.Errorf("%s: no %q in %q", what, text, got.Body)
		}
	}
}

// signIn is the cookie that a token is taken for.
func signIn(t *testing.T, h http.Handler, token string) *http.Cookie {
	t.Helper()
	got := serve(h, request(t.Context(), http.MethodPost, SignInPath, token))
	cookies := got.Result().Cookies()
	if got.Code != http.StatusSeeOther || len(cookies) != 1 {
		t.Fatalf("signing in: %d, cookies %v", got.Code, cookies)
	}
	return cookies[0]
}

func with(r *http.Request, c *http.Cookie) *http.Request {
	r.AddCookie(c)
	return r
}

func TestForm(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	r.refused["bob"] = "bob may not"
	h := guarded(r)
	got := serve(h, request(t.Context(), http.MethodGet, "/", ""))
	want(t, "without a token", got, http.StatusUnauthorized, "the form: ")
	if got.Header().Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("header %v", got.Header())
	}
	want(t, "what the form needs", serve(h, request(t.Context(), http.MethodGet, "/page.css", "")), http.StatusOK)
	for token, code := range map[string]int{"wrong": 401, "": 401, "<b>": 401, strings.Repeat("x", maxToken+1): 401, strings.Repeat("x", maxForm): 400, "bob-token": 403} {
		got := serve(h, request(t.Context(), http.MethodPost, SignInPath, token))
		want(t, fmt.Sprintf("a form with %.20q", token), got, code, "the form: ")
		if cookies := got.Result().Cookies(); len(cookies) > 0 {
			t.Errorf("%.20q got %v", token, cookies)
		}
	}
	c := signIn(t, h, "ann-token")
	if !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || !strings.HasPrefix(c.Name, "__Host-") || strings.Contains(c.Value, "ann") {
		t.Errorf("cookie %+v", c)
	}
	want(t, "with the cookie", serve(h, with(request(t.Context(), http.MethodGet, "/", ""), c)), http.StatusOK, "seen by ann with ann-token")
	if again := signIn(t, h, "ann-token"); again.Value == c.Value {
		t.Error("two sessions have one cookie")
	}
	out := serve(h, with(request(t.Context(), http.MethodPost, SignOutPath, ""), c))
	if cookies := out.Result().Cookies(); out.Code != http.StatusSeeOther || len(cookies) != 1 || cookies[0].MaxAge >= 0 {
		t.Errorf("signing out: %d, %v", out.Code, cookies)
	}
	want(t, "after signing out", serve(h, with(request(t.Context(), http.MethodGet, "/", ""), c)), http.StatusUnauthorized, "has ended")
}

func TestHeader(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	r.refused["bob"] = "bob may not"
	h := guarded(r)
	for range 10 {
		want(t, "with the header", serve(h, request(t.Context(), http.MethodGet, "/", "ann-token")), http.StatusOK, "seen by ann with ann-token")
	}
	if n := r.count(); n != 1 {
		t.Errorf("%d questions about a token that is known", n)
	}
	want(t, "a wrong token", serve(h, request(t.Context(), http.MethodGet, "/", "wrong")), http.StatusUnauthorized)
	want(t, "without a right", serve(h, request(t.Context(), http.MethodGet, "/", "bob-token")), http.StatusForbidden, "bob may not")
	program := request(t.Context(), http.MethodGet, "/events", "")
	program.Header.Set("Accept", "text/event-stream")
	if got := serve(h, program); got.Code != http.StatusUnauthorized || strings.Contains(got.Body.String(), "the form") {
		t.Errorf("what is no page is answered with one: %s", got.Body)
	}
}

// Another page gets nothing, and signs nobody in or out.
func TestOtherPages(t *testing.T) {
	t.Parallel()
	h := guarded(newRegistry())
	c := signIn(t, h, "ann-token")
	for name, change := range map[string]func(*http.Request){
		"other origin":       func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
		"without TLS":        func(r *http.Request) { r.Header.Set("Origin", "http://"+host) },
		"origin of a frame":  func(r *http.Request) { r.Header.Set("Origin", "null") },
		"same site, no more": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"cross-site": func(r *http.Request) {
			r.Header.Del("Origin")
			r.Header.Set("Sec-Fetch-Site", "cross-site")
		},
	} {
		for _, path := range []string{SignInPath, SignOutPath} {
			r := with(request(t.Context(), http.MethodPost, path, "ann-token"), c)
			change(r)
			got := serve(h, r)
			if want(t, name+" "+path, got, http.StatusForbidden); len(got.Result().Cookies()) > 0 {
				t.Errorf("%s %s: cookies %v", name, path, got.Result().Cookies())
			}
		}
	}
	r := with(request(t.Context(), http.MethodGet, "/", ""), c)
	r.Header.Set("Origin", "https://evil.example")
	want(t, "another page that reads", serve(h, r), http.StatusForbidden)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		want(t, method, serve(h, with(request(t.Context(), method, "/", ""), c)), http.StatusMethodNotAllowed)
	}
	want(t, "after all that", serve(h, with(request(t.Context(), http.MethodGet, "/", ""), c)), http.StatusOK)
}

// follow opens a stream, and says when it has ended.
func follow(t *testing.T, h http.Handler, c *http.Cookie) (ended func() bool) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		serve(h, with(request(t.Context(), http.MethodGet, "/events", ""), c))
	}()
	return func() bool {
		synctest.Wait()
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
}

func TestSignInAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := guarded(newRegistry())
		old := signIn(t, h, "ann-token")
		got := serve(h, with(request(t.Context(), http.MethodPost, SignInPath, "bob-token"), old))
		if cookies := got.Result().Cookies(); len(cookies) != 1 {
			t.Fatalf("%d cookies: %s", len(cookies), got.Body)
		}
		want(t, "with the cookie of before", serve(h, with(request(t.Context(), http.MethodGet, "/", ""), old)), http.StatusUnauthorized)
	})
}

func TestSessionsAreNotForever(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := guarded(newRegistry())
		c := signIn(t, h, "ann-token")
		ended := follow(t, h, c)
		time.Sleep(longest - time.Second)
		if ended() {
			t.Error("ended too soon")
		}
		time.Sleep(2 * time.Second)
		if !ended() {
			t.Error("it goes on")
		}
		want(t, "a page then", serve(h, with(request(t.Context(), http.MethodGet, "/", ""), c)), http.StatusUnauthorized)
		want(t, "a header then", serve(h, request(t.Context(), http.MethodGet, "/", "ann-token")), http.StatusOK)
		time.Sleep(longest)
		want(t, "a header that is as old", serve(h, request(t.Context(), http.MethodGet, "/", "ann-token")), http.StatusOK)
	})
}
