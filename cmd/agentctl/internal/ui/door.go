// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"crypto/rand"
	"crypto/subtle"
	"net"
	"net/http"
	"sync"
)

// cookieName is the name of the cookie of the browser that was let in.
const cookieName = "roster"

// door lets in one browser, by a link that is printed once.
//
// The token stands in the fragment of the link: no server, no log and no Referer gets it. A history may keep it, so it is
// taken once; the browser gets a cookie for it. A cookie goes to every port of its host, also to what others serve on this
// machine. So it is bound to a path that nobody else knows to ask for.
type door struct {
	hosts  []string // what a browser may call this server: another name is one that somebody rebound to this machine
	path   string   // what is served is below it
	cookie string
	press  *press

	mu    sync.Mutex
	token string // "" once it was taken
}

func newDoor(address string, p *press) *door {
	d := &door{press: p, hosts: []string{address}, path: "/" + rand.Text() + "/", cookie: rand.Text(), token: rand.Text()}
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		d.hosts = append(d.hosts, net.JoinHostPort("localhost", port))
	}
	if port == "80" { // which browsers leave out
		d.hosts = append(d.hosts, host, "localhost")
	}
	return d
}

// link is what is printed.
func (d *door) link() string { return "http://" + d.hosts[0] + d.path + "#" + d.token }

// guard checks every request before inside sees it.
func (d *door) guard(inside http.Handler) http.Handler {
	login := http.NewCrossOriginProtection().Handler(http.HandlerFunc(d.login))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protect(w.Header())
		origin, known := r.Header.Get("Origin"), false
		for _, host := range d.hosts {
			known = known || r.Host == host && (origin == "" || origin == "http://"+host)
		}
		switch {
		case !known:
			http.Error(w, "this is not the address of the page, or another page asks", http.StatusForbidden)
		case r.Method == http.MethodPost && r.URL.Path == d.path+"login":
			login.ServeHTTP(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			http.Error(w, "the page is only read", http.StatusMethodNotAllowed)
		case d.knows(r), isAsset(r.URL.Path, d.path):
			inside.ServeHTTP(w, r)
		case r.URL.Path == d.path:
			d.refuse(w, "")
		default:
			http.Error(w, "open the link that agentctl ui has printed", http.StatusUnauthorized)
		}
	})
}

// protect forbids the browser whatever the page does not need.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer, the login's own Origin would be "null"
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// knows tells the browser that was let in.
func (d *door) knows(r *http.Request) bool {
	for _, c := range r.CookiesNamed(cookieName) {
		if same(c.Value, d.cookie) {
			return true
		}
	}
	return false
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// login takes the token, once.
func (d *door) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	token := r.PostFormValue("token")
	d.mu.Lock()
	used, right := d.token == "", d.token != "" && same(token, d.token)
	if right {
		d.token = ""
	}
	d.mu.Unlock()
	switch {
	case right:
		http.SetCookie(w, &http.Cookie{Name: cookieName, Value: d.cookie, Path: d.path, HttpOnly: true, SameSite: http.SameSiteStrictMode})
		http.Redirect(w, r, d.path, http.StatusSeeOther)
	case used:
		d.refuse(w, "The link was used already. It opens one browser; for another one, start agentctl ui again.")
	default:
		d.refuse(w, "This is not the token of the link.")
	}
}

// refuse answers with a form for the token, which the script fills from the link.
func (d *door) refuse(w http.ResponseWriter, why string) {
	d.press.answer(w, http.StatusUnauthorized, "login", why)
}
