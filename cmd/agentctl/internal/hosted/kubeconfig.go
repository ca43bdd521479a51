// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package hosted

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/roster-mesh/roster/kube/pki"
)

// errTaken is returned when a kubeconfig has something else of the registry's name.
var errTaken = errors.New("the kubeconfig has a context, cluster or user of that name, which is not of this registry")

// contexts is the kubeconfig that has the context of a registry, or will have it. Changes are made under kubectl's own
// lock.
type contexts struct {
	*clientcmd.PathOptions

	out string // a file of its own; "" for what kubectl takes
}

// wayOut is how a context goes that no registry is left for, which alone tells that it is of one.
func (p *Place) wayOut() string {
	return fmt.Sprintf("`kubectl config delete-context %[1]s`, `delete-cluster %[1]s` and `delete-user %[1]s` take it out", p.Name)
}

func (p *Place) contexts(out string) contexts {
	access := clientcmd.NewDefaultPathOptions()
	access.LoadingRules.ExplicitPath = cmp.Or(out, p.Kubeconfig)
	return contexts{access, out}
}

// load reads the kubeconfig, and says whether it has the context of the registry with this CA. It returns errTaken where it
// has something else of that name.
func (k contexts) load(name string, ca []byte) (config *clientcmdapi.Config, has bool, err error) {
	if k.out != "" {
		if _, err := os.Stat(filepath.Dir(k.out)); err != nil {
			return nil, false, fmt.Errorf("--kubeconfig-out: %w", err)
		}
	}
	config, err = k.GetStartingConfig()
	if err != nil {
		return nil, false, fmt.Errorf("read kubeconfig: %w", err)
	}
	cluster, user, context := config.Clusters[name], config.AuthInfos[name], config.Contexts[name]
	switch {
	case cluster == nil && user == nil && context == nil:
		return config, false, nil
	case cluster == nil || len(ca) == 0 || !bytes.Equal(cluster.CertificateAuthorityData, ca),
		context != nil && (context.Cluster != name || context.AuthInfo != name):
		return nil, false, errTaken
	}
	return config, true, nil
}

// write puts the context of a registry into the kubeconfig, and returns the file that it is in.
func (k contexts) write(name, address string, ca []byte, admin pki.Pair) (file string, err error) {
	config, _, err := k.load(name, ca)
	if err != nil {
		return "", err
	}
	key, err := admin.KeyPEM()
	if err != nil {
		return "", err
	}
	cluster := &clientcmdapi.Cluster{Server: address, CertificateAuthorityData: ca}
	user := &clientcmdapi.AuthInfo{ClientCertificateData: admin.CertPEM(), ClientKeyData: key}
	file = k.GetDefaultFilename()
	if old := config.Clusters[name]; old != nil {
		cluster.LocationOfOrigin, file = old.LocationOfOrigin, old.LocationOfOrigin
	}
	if old := config.AuthInfos[name]; old != nil {
		user.LocationOfOrigin = old.LocationOfOrigin
	}
	config.Clusters[name], config.AuthInfos[name] = cluster, user
	if config.Contexts[name] == nil {
		config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	if k.out != "" {
		if err := private(k.out); err != nil {
			return "", fmt.Errorf("--kubeconfig-out: %w", err)
		}
		config.CurrentContext = cmp.Or(config.CurrentContext, name)
	}
	return file, k.modify(config)
}

// remove takes the context of the registry with this CA out of the kubeconfig.
func (k contexts) remove(name string, ca []byte) error {
	config, _, err := k.load(name, ca)
	if err != nil {
		return err
	}
	delete(config.Clusters, name)
	delete(config.AuthInfos, name)
	delete(config.Contexts, name)
	if config.CurrentContext == name {
		config.CurrentContext = ""
	}
	return k.modify(config)
}

func (k contexts) modify(config *clientcmdapi.Config) error {
	err := clientcmd.ModifyConfig(k, *config, false)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("another program changes the kubeconfig now: %w", err)
	}
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

// private makes a file one that only its owner reads, before there is a key in it.
func private(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Close())
}

// administrator makes the certificate of the context.
func administrator(ca pki.Pair) (pki.Pair, error) {
	return pki.New(pki.Client(pki.AdminUser, pki.AdminGroup), &ca, time.Now(), pki.LeafLife)
}

// access is what the context says, for this program's own request.
func access(address string, ca []byte, admin pki.Pair) (*rest.Config, error) {
	key, err := admin.KeyPEM()
	return &rest.Config{Host: address, TLSClientConfig: rest.TLSClientConfig{CAData: ca, CertData: admin.CertPEM(), KeyData: key}}, err
}
