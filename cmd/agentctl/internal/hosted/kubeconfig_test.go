// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package hosted

import (
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/pki"
)

func authority(t *testing.T) pki.Pair {
	t.Helper()
	ca, err := pki.New(pki.Authority(pki.AuthorityName), nil, time.Now(), pki.AuthorityLife)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// put writes the context of a registry, with a new certificate.
func put(t *testing.T, k contexts, name, address string, ca pki.Pair) (string, error) {
	t.Helper()
	admin, err := administrator(ca)
	if err != nil {
		t.Fatal(err)
	}
	return k.write(name, address, ca.CertPEM(), admin)
}

func load(t *testing.T, path string) *clientcmdapi.Config {
	t.Helper()
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

const others = `apiVersion: v1
kind: Config
current-context: work
clusters: [{name: work, cluster: {server: "https://work.example", certificate-authority: ca.crt}}, {name: half, cluster: {server: "https://half.example"}}]
users: [{name: work, user: {token: secret}}]
contexts: [{name: work, context: {cluster: work, user: work}}]
`

// A context is written beside those of others, which stay as they are; written again with a new certificate, and taken out.
// What has its name and another CA is not touched.
func TestContexts(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(others), 0o600); err != nil {
		t.Fatal(err)
	}
	before := load(t, file)
	k := (&Place{Access: clusters.Access{Kubeconfig: file}}).contexts("")
	ca := authority(t)
	var first []byte
	for range 2 {
		at, err := put(t, k, "eu", "https://192.0.2.1", ca)
		if err != nil || at != file {
			t.Fatalf("written to %s: %v", at, err)
		}
		config := load(t, file)
		user := config.AuthInfos["eu"]
		if string(user.ClientCertificateData) == string(first) {
			t.Error("the certificate is the same as before")
		}
		first = user.ClientCertificateData
		if _, err := tls.X509KeyPair(user.ClientCertificateData, user.ClientKeyData); err != nil {
			t.Error(err)
		}
		if config.CurrentContext != "work" || config.Clusters["eu"].Server != "https://192.0.2.1" || config.Clusters["work"].CertificateAuthority != "ca.crt" {
			t.Errorf("the kubeconfig is %+v", config)
		}
	}
	for _, name := range []string{"eu", "work", "half"} {
		if _, err := put(t, k, name, "https://192.0.2.2", authority(t)); !errors.Is(err, errTaken) {
			t.Errorf("%s is written over: %v", name, err)
		}
		if err := k.remove(name, authority(t).CertPEM()); !errors.Is(err, errTaken) {
			t.Errorf("%s of another registry is removed: %v", name, err)
		}
		if _, _, err := k.load(name, nil); !errors.Is(err, errTaken) {
			t.Errorf("%s of a registry whose CA is not known: %v", name, err)
		}
	}
	if err := k.remove("eu", ca.CertPEM()); err != nil {
		t.Fatal(err)
	}
	after := load(t, file)
	if len(after.Clusters) != len(before.Clusters) || len(after.AuthInfos) != 1 || len(after.Contexts) != 1 || after.CurrentContext != "work" {
		t.Errorf("what is left is %+v", after)
	}
}

// While another program holds kubectl's lock nothing is written, and the file is named.
func TestContextsAreLocked(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file+".lock", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := put(t, (&Place{Access: clusters.Access{Kubeconfig: file}}).contexts(""), "eu", "https://192.0.2.1", authority(t))
	if err == nil || !strings.Contains(err.Error(), "another program changes the kubeconfig now") || !strings.Contains(err.Error(), file+".lock") {
		t.Errorf("with a lock: %v", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("it was written")
	}
}

// A file of its own is only its owner's, also when it was there before, and leads to the registry by itself.
func TestContextInFileOfItsOwn(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "own")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	ca := authority(t)
	for range 2 {
		if _, err := put(t, (&Place{}).contexts(file), "eu", "https://192.0.2.1", ca); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 || load(t, file).CurrentContext != "eu" {
			t.Errorf("it has mode %o and current context %q", info.Mode().Perm(), load(t, file).CurrentContext)
		}
	}
}
