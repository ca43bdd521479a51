// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

const address = "127.0.0.1:4321"

// visit is what the door answers to a request; change may make it another one than that of a good browser.
func visit(d *door, method, path, body string, change func(*http.Request)) *http.Response {
	r := httptest.NewRequest(method, "http://"+address+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://"+address)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	d.guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("inside")) })).ServeHTTP(w, r)
	return w.Result()
}

func login(d *door, token string, change func(*http.Request)) *http.Response {
	return visit(d, http.MethodPost, d.path+"login", url.Values{"token": {token}}.Encode(), change)
}

func TestDoorLetsOneBrowserIn(t *testing.T) {
	t.Parallel()
	d := newDoor(address, newPress())
	link, err := url.Parse(d.link())
	if err != nil || link.RawQuery != "" || strings.Contains(link.Path, link.Fragment) || len(link.Fragment) < 26 {
		t.Fatalf("the token is not in the fragment alone: %s, %v", d.link(), err)
	}
	for _, path := range []string{"/", d.path, d.path + "events", "/" + link.Fragment} {
		if r := visit(d, http.MethodGet, path, "", nil); r.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s without the cookie: %s", path, r.Status)
		}
	}
	if r := login(d, "WRONG", nil); r.StatusCode != http.StatusUnauthorized || len(r.Cookies()) > 0 {
		t.Errorf("wrong token: %s, cookies %v", r.Status, r.Cookies())
	}
	let := login(d, link.Fragment, nil)
	if let.StatusCode != http.StatusSeeOther || let.Header.Get("Location") != d.path || len(let.Cookies()) != 1 {
		t.Fatalf("right token: %s, cookies %v", let.Status, let.Cookies())
	}
	c := let.Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != d.path || c.Value == link.Fragment || c.MaxAge != 0 || !c.Expires.IsZero() {
		t.Errorf("cookie %+v", c)
	}
	if r := visit(d, http.MethodGet, d.path, "", func(r *http.Request) { r.AddCookie(c) }); r.StatusCode != http.StatusOK {
		t.Errorf("with the cookie: %s", r.Status)
	}
	if r := login(d, link.Fragment, nil); r.StatusCode != http.StatusUnauthorized || len(r.Cookies()) > 0 {
		t.Errorf("the same token once more: %s, cookies %v", r.Status, r.Cookies())
	}
}

// Nobody comes in by another name, as of a host that was bound to this machine, or on behalf of another page.
func TestDoorRefuses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*http.Request){
		"rebound host":        func(r *http.Request) { r.Host = "evil.example:4321" },
		"other port":          func(r *http.Request) { r.Host = "127.0.0.1:80" },
		"other origin":        func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") },
		"origin of a frame":   func(r *http.Request) { r.Header.Set("Origin", "null") },
		"other local page":    func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:8080") },
		"same site, no more":  func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"origin of localhost": func(r *http.Request) { r.Header.Set("Origin", "http://localhost:4321") },
	} {
		d := newDoor(address, newPress())
		if r := login(d, d.token, change); r.StatusCode != http.StatusForbidden || len(r.Cookies()) > 0 {
			t.Errorf("%s: %s, cookies %v", name, r.Status, r.Cookies())
		}
	}
	d := newDoor(address, newPress())
	by := func(r *http.Request) {
		r.AddCookie(&http.Cookie{Name: cookieName, Value: d.cookie})
		r.Header.Set("Origin", "http://evil.example")
	}
	if r := visit(d, http.MethodGet, d.path, "", by); r.StatusCode != http.StatusForbidden {
		t.Errorf("another page reads with the cookie: %s", r.Status)
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		if r := visit(d, method, d.path, "", nil); r.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: %s", method, r.Status)
		}
	}
	d = newDoor(address, newPress())
	if r := login(d, d.token, func(r *http.Request) { r.Host = "localhost:4321"; r.Header.Set("Origin", "http://localhost:4321") }); r.StatusCode != http.StatusSeeOther {
		t.Errorf("by the name localhost: %s", r.Status)
	}
}

// The page may load what this server has, and nothing else; no inline script or style would run.
func TestDoorProtects(t *testing.T) {
	t.Parallel()
	d := newDoor(address, newPress())
	policy := visit(d, http.MethodGet, d.path, "", nil).Header.Get("Content-Security-Policy")
	for part := range strings.SplitSeq(policy, "; ") {
		name, sources, _ := strings.Cut(part, " ")
		if sources != "'none'" && sources != "'self'" {
			t.Errorf("%s allows %s", name, sources)
		}
	}
	for _, name := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
		if !strings.Contains(policy, name) {
			t.Errorf("the policy lacks %s: %s", name, policy)
		}
	}
}
