// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package offlocal

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
)

func TestLocalAddresses(t *testing.T) {
	for _, a := range []string{
		"127.0.0.1", "127.9.9.9", "0.0.0.0", "0.1.2.3", "169.254.169.254", "224.0.0.1", "::1", "::", "fe80::1", "fe80::1%eth0", "ff02::1", "ff01::1",
		"::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::",
	} {
		if !isLocal(netip.MustParseAddr(a)) || !isLocalName(a) {
			t.Errorf("%s is dialled", a)
		}
	}
	for _, a := range []string{"10.0.0.1", "192.168.1.1", "203.0.113.7", "fd00::1", "2001:db8::1", "64:ff9b::cb00:7107", "2002:cb00:7107::", "::ffff:10.0.0.1"} {
		if isLocal(netip.MustParseAddr(a)) || isLocalName(a) {
			t.Errorf("%s is not dialled", a)
		}
	}
	for name, want := range map[string]bool{"localhost": true, "LOCALHOST.": true, "a.localhost": true, "localhost.example": false, "example": false} {
		if isLocalName(name) != want {
			t.Errorf("%s is a local name: %t", name, !want)
		}
	}
}

// Whatever the text of an address, the connection is refused by where it would lead.
func TestLocalAddressesAreNotDialled(t *testing.T) {
	var conns atomic.Int32
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	server.StartTLS()
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "127.1.2.3"} {
		config := &rest.Config{Host: "https://" + host + ":" + port, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
		KeepOff(config)
		if err := get(t, config); !errors.Is(err, ErrAddress) {
			t.Errorf("%s: %v", host, err)
		}
	}
	if conns.Load() > 0 {
		t.Errorf("%d connections", conns.Load())
	}
}

// A proxy may be at a local address, and resolves the names; what is known to be local is not asked of it.
func TestLocalAddressesBehindProxy(t *testing.T) {
	asked := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Host
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer server.Close()
	through, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"169.254.169.254", "localhost", "203.0.113.7:6443"} {
		config := &rest.Config{Host: "https://" + host}
		keepOff(config, http.ProxyURL(through))
		if err := get(t, config); err == nil {
			t.Errorf("%s answers", host)
		}
	}
	if got := <-asked; got != "203.0.113.7:6443" || len(asked) > 0 {
		t.Errorf("the proxy is asked for %s, and %d more", got, len(asked))
	}
	if got := addressOf(&url.URL{Scheme: "http", Host: "proxy.example"}); got != "proxy.example:80" {
		t.Errorf("the proxy is %s", got)
	}
}

// get asks the server of a configuration for something.
func get(t *testing.T, config *rest.Config) error {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}
