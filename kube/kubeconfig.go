// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"
)

// MaxKubeconfig bounds a kubeconfig that comes from a peer, in bytes.
const MaxKubeconfig = 64 << 10

// ErrKubeconfig is returned when an agent cannot use a kubeconfig. The message names the field and what it
// must be; it never contains the value of the field.
var ErrKubeconfig = errors.New("kubeconfig not usable")

func invalid(field, must string) error { return fmt.Errorf("%w: %s: %s", ErrKubeconfig, field, must) }

// ParseKubeconfig reads a kubeconfig of a peer, as from a swapped Secret. It accepts nothing that refers
// to files, runs commands or weakens TLS: the current context must have an https server with its CA
// inline, and a user with either a token or a client certificate, also inline. No exec plugins, auth
// providers, proxies or impersonation.
func ParseKubeconfig(data []byte) (*rest.Config, error) {
	if len(data) > MaxKubeconfig {
		return nil, invalid("document", fmt.Sprintf("must not be larger than %d KiB", MaxKubeconfig>>10))
	}
	var file clientcmdapi.Config
	if err := yaml.Unmarshal(data, &file); err != nil {
		return nil, invalid("document", "must be the YAML or JSON of a kubeconfig") // err quotes it
	}
	cluster, user, err := currentContext(&file)
	if err != nil {
		return nil, err
	}
	if err := checkCluster(cluster); err != nil {
		return nil, err
	}
	if err := checkUser(user); err != nil {
		return nil, err
	}
	return withDefaults(&rest.Config{
		Host:        cluster.Server,
		BearerToken: user.Token,
		TLSClientConfig: rest.TLSClientConfig{
			ServerName: cluster.TLSServerName,
			CAData:     cluster.CertificateAuthorityData,
			CertData:   user.ClientCertificateData,
			KeyData:    user.ClientKeyData,
		},
		DisableCompression: cluster.DisableCompression,
	}), nil
}

// currentContext finds the cluster and the user of the current context. A duplicate name is refused:
// programs differ in which one they use.
func currentContext(file *clientcmdapi.Config) (*clientcmdapi.Cluster, *clientcmdapi.AuthInfo, error) {
	if file.CurrentContext == "" {
		return nil, nil, invalid("current-context", "must name the context to use")
	}
	var context *clientcmdapi.Context
	for i := range file.Contexts {
		if c := &file.Contexts[i]; c.Name == file.CurrentContext {
			if context != nil {
				return nil, nil, invalid("contexts", "must have the current context once")
			}
			context = &c.Context
		}
	}
	if context == nil {
		return nil, nil, invalid("contexts", "must have the context that current-context names")
	}
	var cluster *clientcmdapi.Cluster
	for i := range file.Clusters {
		if c := &file.Clusters[i]; c.Name == context.Cluster {
			if cluster != nil {
				return nil, nil, invalid("clusters", "must have the cluster of the current context once")
			}
			cluster = &c.Cluster
		}
	}
	if cluster == nil {
		return nil, nil, invalid("clusters", "must have the cluster of the current context")
	}
	var user *clientcmdapi.AuthInfo
	for i := range file.AuthInfos {
		if u := &file.AuthInfos[i]; u.Name == context.AuthInfo {
			if user != nil {
				return nil, nil, invalid("users", "must have the user of the current context once")
			}
			user = &u.AuthInfo
		}
	}
	if user == nil {
		return nil, nil, invalid("users", "must have the user of the current context")
	}
	return cluster, user, nil
}

func checkCluster(c *clientcmdapi.Cluster) error {
	switch {
	case c.InsecureSkipTLSVerify:
		return invalid("insecure-skip-tls-verify", "must not be set; give the CA in certificate-authority-data")
	case c.ProxyURL != "":
		return invalid("proxy-url", "must not be set")
	case c.CertificateAuthority != "":
		return invalid("certificate-authority", "must not name a file; give the CA in certificate-authority-data")
	case len(c.CertificateAuthorityData) == 0:
		return invalid("certificate-authority-data", "must hold the CA of the API server")
	case !isCertificates(c.CertificateAuthorityData):
		return invalid("certificate-authority-data", "must be PEM certificates")
	case c.TLSServerName != "" && !isPrintable(c.TLSServerName, 253):
		return invalid("tls-server-name", "must be a host name")
	}
	if _, err := serverURL(c.Server); err != nil {
		return invalid("server", err.Error())
	}
	if !strings.HasPrefix(c.Server, "https://") {
		return invalid("server", "must start with https://")
	}
	return nil
}

func checkUser(u *clientcmdapi.AuthInfo) error {
	switch {
	case u.Exec != nil:
		return invalid("exec", "must not be set; commands are not run: give a token")
	case u.AuthProvider != nil:
		return invalid("auth-provider", "must not be set; give a token")
	case u.TokenFile != "":
		return invalid("tokenFile", "must not be set; give the token itself in token")
	case u.ClientCertificate != "":
		return invalid("client-certificate", "must not name a file; use client-certificate-data")
	case u.ClientKey != "":
		return invalid("client-key", "must not name a file; use client-key-data")
	case u.Username != "" || u.Password != "":
		return invalid("username", "must not be set; give a token")
	case u.Impersonate != "" || u.ImpersonateUID != "" || len(u.ImpersonateGroups) > 0 || len(u.ImpersonateUserExtra) > 0:
		return invalid("as", "must not be set; impersonation is not used")
	}
	certificate := len(u.ClientCertificateData) > 0 || len(u.ClientKeyData) > 0
	switch {
	case u.Token == "" && !certificate:
		return invalid("users", "the user of the current context must have a token")
	case u.Token != "" && certificate:
		return invalid("users", "the user of the current context must have a token or a client certificate, not both")
	case u.Token != "" && !isPrintable(u.Token, MaxKubeconfig):
		return invalid("token", "must be printable, without spaces")
	}
	if certificate {
		if _, err := tls.X509KeyPair(u.ClientCertificateData, u.ClientKeyData); err != nil {
			return invalid("client-certificate-data", "must be a PEM certificate with its key in client-key-data")
		}
	}
	return nil
}

// serverURL parses the address of an API server: a host, a host:port, or an https URL. The error says
// what it must be, and does not contain it.
func serverURL(address string) (*url.URL, error) {
	if len(address) > 1024 || !isPrintable(address, 1024) {
		return nil, errors.New("must be a host, a host:port or an https URL")
	}
	if !strings.Contains(address, "://") {
		if strings.Count(address, ":") > 1 && !strings.HasPrefix(address, "[") {
			address = "[" + address + "]" // a bare IPv6 address
		}
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.Opaque != "" {
		return nil, errors.New("must be a host, a host:port or an https URL")
	}
	switch {
	case u.Scheme != "https":
		return nil, errors.New("must start with https://")
	case u.User != nil:
		return nil, errors.New("must not hold a user or password")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return nil, errors.New("must not hold a query or fragment")
	}
	return u, nil
}

// isPrintable says whether s is printable ASCII without spaces, so that it can be used in an HTTP header and
// in a line of text.
func isPrintable(s string, limit int) bool {
	if s == "" || len(s) > limit {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// isCertificates says whether data is one or more valid PEM certificates, and nothing else.
func isCertificates(data []byte) bool {
	count := 0
	for block, rest := pem.Decode(data); ; block, rest = pem.Decode(rest) {
		if block == nil {
			return count > 0 && len(strings.TrimSpace(string(rest))) == 0
		}
		if block.Type != "CERTIFICATE" {
			return false
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return false
		}
		count++
	}
}

// KubeconfigValidity returns from when until when the token of a kubeconfig is valid, by its claims iat
// and exp. They are not verified: use them only to renew the token in time. ok is false when there is no
// token that has both.
func KubeconfigValidity(data []byte) (from, until time.Time, ok bool) {
	cfg, err := ParseKubeconfig(data)
	if err != nil {
		return time.Time{}, time.Time{}, false
	}
	parts := strings.Split(cfg.BearerToken, ".")
	if len(parts) != 3 {
		return time.Time{}, time.Time{}, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}, time.Time{}, false
	}
	var claims struct {
		Issued  int64 `json:"iat"`
		Expires int64 `json:"exp"`
	}
	if err := json.Unmarshal(raw, &claims); err != nil || claims.Issued <= 0 || claims.Expires <= claims.Issued || claims.Expires > 1<<40 {
		return time.Time{}, time.Time{}, false
	}
	return time.Unix(claims.Issued, 0), time.Unix(claims.Expires, 0), true
}
