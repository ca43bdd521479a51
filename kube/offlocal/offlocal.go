// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package offlocal keeps connections to addresses that other clusters name off those that lead to the own pod, to its node, or to what a
// cloud serves to each node.
package offlocal

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// ErrAddress is returned for an address of a peer that is not dialled from a pod, since it leads to the pod itself, to
// its node, or to what a cloud serves to each node, such as credentials.
var ErrAddress = errors.New("spec.kubernetesApiEndpoints (where it has none, the server of the kubeconfig) leads to a loopback or link-local address: a pod does not dial these; give one that leads to that cluster from here")

// KeepOff makes connections with a peer's configuration fail with ErrAddress where they would lead to a loopback
// or link-local address. That is decided for each connection, by the address that its name was resolved to: a peer could
// let a name lead elsewhere a moment later. Only the proxy of the environment, if it is used for that address, may have
// such an address; it resolves names by itself.
func KeepOff(config *rest.Config) {
	keepOff(config, utilnet.NewProxierWithNoProxyCIDR(http.ProxyFromEnvironment))
}

func keepOff(config *rest.Config, proxy func(*http.Request) (*url.URL, error)) {
	checked := Dialer(ErrAddress)
	config.Proxy = func(r *http.Request) (*url.URL, error) {
		through, err := proxy(r)
		if through != nil && isLocalName(r.URL.Hostname()) {
			return nil, ErrAddress
		}
		return through, err
	}
	proxyAddress := ""
	if u, err := url.Parse(config.Host); err == nil {
		if through, err := proxy(&http.Request{URL: u}); err == nil && through != nil {
			proxyAddress = addressOf(through)
		}
	}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == proxyAddress {
			return Dialer(nil).DialContext(ctx, network, address)
		}
		return checked.DialContext(ctx, network, address)
	}
}

// addressOf is the host:port of a proxy.
func addressOf(proxy *url.URL) string {
	port := proxy.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[proxy.Scheme]
	}
	return net.JoinHostPort(proxy.Hostname(), port)
}

// Dialer dials as package kube does. It fails with refusal, unless that is nil, where the address is a local one.
func Dialer(refusal error) *net.Dialer {
	d := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}
	if refusal != nil {
		d.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
			if at, err := netip.ParseAddrPort(address); err != nil || isLocal(at.Addr()) {
				return refusal
			}
			return nil
		}
	}
	return d
}

// isLocalName reports whether a host is a local address, or a name for one, as far as that can be told without resolving
// it.
func isLocalName(host string) bool {
	if at, err := netip.ParseAddr(host); err == nil {
		return isLocal(at)
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// isLocal reports whether an address is a loopback or link-local one, or the unspecified one, which leads to the loopback.
// An IPv6 address that carries an IPv4 one (RFC 4291, RFC 6052, RFC 3056) is taken for that one.
func isLocal(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() || a.IsInterfaceLocalMulticast() || a.IsUnspecified() {
		return true
	}
	raw := a.As16()
	switch {
	case a.Is4():
		return raw[12] == 0 // 0.0.0.0/8
	case netip.MustParsePrefix("::/96").Contains(a), netip.MustParsePrefix("64:ff9b::/96").Contains(a):
		return isLocal(netip.AddrFrom4([4]byte(raw[12:])))
	case netip.MustParsePrefix("2002::/16").Contains(a):
		return isLocal(netip.AddrFrom4([4]byte(raw[2:6])))
	}
	return false
}
