// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// AdminKubeconfig is for people: it can be copied elsewhere.
func (d *Dir) AdminKubeconfig() string { return d.Path("admin.kubeconfig") }

// AgentKubeconfig is for the agent on this machine. It names the files of its certificate, which a client reads again
// when they are renewed.
func (d *Dir) AgentKubeconfig() string { return d.Path("agent.kubeconfig") }

// WriteKubeconfigs writes both kubeconfigs, for the server at an address such as https://127.0.0.1:6443. Their contexts
// have the name of the cluster, so that the files of several clusters can be used together.
func (d *Dir) WriteKubeconfigs(address string) error {
	ca, err := os.ReadFile(d.CAFile())
	if err != nil {
		return err
	}
	admin, err := os.ReadFile(d.PairFile(Admin))
	if err != nil {
		return err
	}
	return errors.Join(
		d.writeKubeconfig(d.AdminKubeconfig(), address, ca, &clientcmdapi.AuthInfo{ClientCertificateData: admin, ClientKeyData: admin}),
		d.writeKubeconfig(d.AgentKubeconfig(), address, ca, &clientcmdapi.AuthInfo{ClientCertificate: d.PairFile(Agent), ClientKey: d.PairFile(Agent)}),
	)
}

func (d *Dir) writeKubeconfig(path, address string, ca []byte, user *clientcmdapi.AuthInfo) error {
	name := cmp.Or(d.name, "standalone")
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: address, CertificateAuthorityData: ca}
	config.AuthInfos[name] = user
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	data, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, data) {
		return nil
	}
	return WriteFile(path, data)
}

// encryption is an EncryptionConfiguration with one key.
const encryption = `# Secrets are encrypted in etcd with this key, which protects backups of etcd that are made without it. Who can read
# this directory can read the Secrets.
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - secretbox:
      keys:
      - name: key1
        secret: %s
  - identity: {}
`

// EnsureEncryption returns the path of the file that says how Secrets are encrypted in etcd. The first call makes the key.
func (d *Dir) EnsureEncryption() (string, error) {
	path := d.Path("encryption.yaml")
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	for _, later := range []string{d.Path("etcd"), d.AdminKubeconfig()} { // what a start makes after the key
		if _, err := os.Stat(later); err == nil {
			return "", fmt.Errorf("%s is missing, and without its key the Secrets in etcd cannot be read: take it from a backup, or name the file that was used with --encryption-provider-config", path)
		}
	}
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return "", err
	}
	return path, WriteFile(path, fmt.Appendf(nil, encryption, base64.StdEncoding.EncodeToString(key)))
}
