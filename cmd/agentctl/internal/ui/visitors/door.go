// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package visitors

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	// cookieName has a prefix with which browsers take the cookie from this host alone, over TLS.
	cookieName = "__Host-roster"
	// SignInPath and SignOutPath are what forms are posted to. Nothing else is ever posted.
	SignInPath, SignOutPath = "/signin", "/signout"
	// maxToken bounds a token, and maxForm the form that it comes in, in bytes.
	maxToken, maxForm = 16 << 10, 32 << 10
	// answerTimeout bounds how long an answer to a visitor may take, but for streams, which set it anew with each event;
	// strangerTimeout that of one to anybody else.
	answerTimeout, strangerTimeout = 2 * time.Minute, 15 * time.Second
)

// RefusalError is why a visitor does not get a page.
type RefusalError struct {
	Code int // of HTTP
	Text string
}

func (r *RefusalError) Error() string { return r.Text }

func refuse(code int, format string, args ...any) error {
	return &RefusalError{code, fmt.Sprintf(format, args...)}
}

// Visitor is who asks for a page.
type Visitor struct {
	Name  string // of the user, as the API server knows it
	Token string // with which the API server answers them
	Form  bool   // they came by the form, and so can sign out
}

type visitorKey struct{}

// Of is the visitor that a request is from, by its context; false for one that no Door let in.
func Of(ctx context.Context) (Visitor, bool) {
	v, ok := ctx.Value(visitorKey{}).(Visitor)
	return v, ok
}

// Guard checks every request before inside sees it. What is public needs no token. The context that inside gets ends with the
// session. signIn answers with the page that has the form.
func (d *Door) Guard(inside http.Handler, public func(path string) bool, signIn func(w http.ResponseWriter, r *RefusalError)) http.Handler {
	no := func(w http.ResponseWriter, r *http.Request, err error) { answer(w, r, err, signIn) }
	posts := http.NewServeMux()
	posts.HandleFunc(SignInPath, func(w http.ResponseWriter, r *http.Request) {
		if err := d.signIn(w, r); err != nil {
			no(w, r, err)
			return
		}
		http.Redirect(w, r, "/", http.StatusSeeOther)
	})
	posts.HandleFunc(SignOutPath, func(w http.ResponseWriter, r *http.Request) {
		for _, c := range r.CookiesNamed(cookieName) {
			d.end(keyOf("cookie", c.Value))
		}
		http.SetCookie(w, cookie("", -1))
		http.Redirect(w, r, "/", http.StatusSeeOther)
	})
	posted := http.NewCrossOriginProtection().Handler(posts)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.SetWriteDeadline(time.Now().Add(strangerTimeout)) // what a server cannot do, as that of a test, no client abuses
		origin := r.Header.Get("Origin")
		switch {
		case origin != "" && origin != "https://"+r.Host:
			no(w, r, refuse(http.StatusForbidden, "another page asks, %.100q; a proxy in front must keep the header Host", origin))
		case r.Method == http.MethodPost && (r.URL.Path == SignInPath || r.URL.Path == SignOutPath):
			posted.ServeHTTP(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			no(w, r, refuse(http.StatusMethodNotAllowed, "the page is only read"))
		case public(r.URL.Path):
			inside.ServeHTTP(w, r)
		default:
			s, v, err := d.admit(r)
			if err != nil {
				no(w, r, err)
				return
			}
			defer d.finish(s)
			_ = control.SetWriteDeadline(time.Now().Add(answerTimeout))
			ctx, cancel := context.WithCancel(context.WithValue(r.Context(), visitorKey{}, v))
			defer cancel()
			go func() {
				defer cancel()
				d.attend(ctx, s)
			}()
			inside.ServeHTTP(w, r.WithContext(ctx))
		}
	})
}

// answer says no: to a browser that wants a page with the form, to others in one line.
func answer(w http.ResponseWriter, r *http.Request, err error, signIn func(w http.ResponseWriter, r *RefusalError)) {
	no, ok := errors.AsType[*RefusalError](err)
	if !ok {
		no = &RefusalError{http.StatusServiceUnavailable, err.Error()}
	}
	switch no.Code {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer") // which no browser asks its user about
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "15")
	}
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		http.Error(w, cmp.Or(no.Text, "A token of this cluster is needed."), no.Code)
		return
	}
	if no.Code == http.StatusServiceUnavailable && r.Method == http.MethodGet {
		w.Header().Set("Refresh", "15") // the browser tries again by itself
	}
	signIn(w, no)
}

// signIn takes the token of the form for a cookie.
func (d *Door) signIn(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return refuse(http.StatusBadRequest, "The form cannot be read, or has more than %d KiB.", maxForm>>10)
	}
	id := rand.Text()
	if _, err := d.enter(r.Context(), keyOf("cookie", id), strings.TrimSpace(r.PostFormValue("token")), true); err != nil {
		return err
	}
	for _, c := range r.CookiesNamed(cookieName) { // of who signs in again
		d.end(keyOf("cookie", c.Value))
	}
	http.SetCookie(w, cookie(id, 0))
	return nil
}

func cookie(value string, maxAge int) *http.Cookie {
	return &http.Cookie{Name: cookieName, Value: value, MaxAge: maxAge, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode}
}

// admit finds out who sends a request. It is to be finished.
func (d *Door) admit(r *http.Request) (*session, Visitor, error) {
	s, err := d.sessionOf(r)
	if err != nil {
		return nil, Visitor{}, err
	}
	if err := d.confirm(r.Context(), s); err != nil {
		return nil, Visitor{}, err
	}
	v, err := d.begin(s)
	return s, v, err
}

// sessionOf is the session that a request belongs to. One by a header begins with its first request.
func (d *Door) sessionOf(r *http.Request) (*session, error) {
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		token = strings.TrimSpace(token)
		key := keyOf("header", token)
		if s := d.find(key); s != nil {
			return s, nil
		}
		return d.enter(r.Context(), key, token, false)
	}
	cookies := r.CookiesNamed(cookieName)
	for _, c := range cookies {
		if s := d.find(keyOf("cookie", c.Value)); s != nil {
			return s, nil
		}
	}
	if len(cookies) > 0 {
		return nil, refuse(http.StatusUnauthorized, "Your session has ended. Sign in again.")
	}
	return nil, refuse(http.StatusUnauthorized, "") // whom the form is shown for the first time has done nothing wrong
}

// attend returns when a session has ended, or the context. Until then it asks about the visitor again in time.
func (d *Door) attend(ctx context.Context, s *session) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.ended:
			return
		case <-time.After(d.due(s)):
			age, _ := d.age(s)
			asked, cancel := context.WithTimeout(ctx, max(interval-age, 0)) // others may ask about it at the same time
			err := d.confirm(asked, s)
			cancel()
			if age, _ := d.age(s); err != nil && age >= interval {
				return
			}
		}
	}
}
