// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package exported is how other tools want the credential for a cluster in a Secret. agentctl export writes such Secrets, and
// the agent renews those that ask for it.
package exported

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Format is the tool that a Secret is for: a format of agentctl export, and a value of v1alpha1.LabelExportedFor.
type Format string

const (
	// ArgoCD is a cluster Secret of Argo CD:
	// https://argo-cd.readthedocs.io/en/stable/operator-manual/declarative-setup/#clusters
	ArgoCD Format = "argocd"
	// Flux is for spec.kubeConfig.secretRef of a Kustomization or HelmRelease:
	// https://fluxcd.io/flux/components/kustomize/kustomizations/#kubeconfig-remote-clusters
	Flux Format = "flux"
	// Runtime is for the kubeconfig provider of multicluster-runtime, which finds the Secrets by their label:
	// https://github.com/kubernetes-sigs/multicluster-runtime/tree/main/providers/kubeconfig
	Runtime Format = "multicluster-runtime"
)

// Formats are all formats.
func Formats() []Format { return []Format{ArgoCD, Flux, Runtime} }

// Known reports whether f is one of them.
func (f Format) Known() bool { return slices.Contains(Formats(), f) }

// SecretName is the name of the Secret of a cluster.
func (f Format) SecretName(cluster string) (string, error) {
	name := cluster
	switch f {
	case ArgoCD:
		name = "cluster-" + cluster
	case Flux:
		name = cluster + "-kubeconfig"
	case Runtime:
	}
	if len(name) > validation.DNS1123SubdomainMaxLength {
		return "", fmt.Errorf("a Secret cannot have the name %s: it is longer than %d characters", name, validation.DNS1123SubdomainMaxLength)
	}
	return name, nil
}

// Labels are the labels by which the tool finds its Secrets.
func (f Format) Labels() map[string]string {
	switch f {
	case ArgoCD:
		return map[string]string{"argocd.argoproj.io/secret-type": "cluster"}
	case Runtime:
		return map[string]string{"sigs.k8s.io/multicluster-runtime-kubeconfig": "true"}
	case Flux:
	}
	return nil
}

// Keys of the data of Secrets.
const (
	argoName   = "name"
	argoServer = "server"
	argoConfig = "config"
)

// argoAccess is the key config of a cluster Secret of Argo CD, as far as it is used.
type argoAccess struct {
	BearerToken string  `json:"bearerToken,omitempty"`
	TLS         argoTLS `json:"tlsClientConfig"`
}

type argoTLS struct {
	Insecure   bool   `json:"insecure"`
	ServerName string `json:"serverName,omitempty"`
	CAData     []byte `json:"caData,omitempty"`
	CertData   []byte `json:"certData,omitempty"`
	KeyData    []byte `json:"keyData,omitempty"`
}

// kubeconfigKey is the key of the kubeconfig, in formats that have one.
func (f Format) kubeconfigKey() string {
	if f == Flux {
		return "value"
	}
	return "kubeconfig"
}

// Data is what a Secret of this format holds for a cluster: its address, its CA and the credential.
func (f Format) Data(cluster string, access *rest.Config) (map[string][]byte, error) {
	if f == ArgoCD {
		config, err := json.Marshal(argoAccess{access.BearerToken, argoTLS{
			ServerName: access.ServerName, CAData: access.CAData, CertData: access.CertData, KeyData: access.KeyData,
		}})
		return map[string][]byte{argoName: []byte(cluster), argoServer: []byte(access.Host), argoConfig: config}, err
	}
	config := clientcmdapi.Config{APIVersion: "v1", Kind: "Config", CurrentContext: cluster}
	AddContext(&config, cluster, access)
	kubeconfig, err := yaml.Marshal(config)
	return map[string][]byte{f.kubeconfigKey(): kubeconfig}, err
}

// IsGiven reports whether a key that a Secret has is the user's: the name that Argo CD shows for a cluster.
func (f Format) IsGiven(key string) bool { return f == ArgoCD && key == argoName }

// Validity returns from when until when the credential in the data of a Secret is valid, as kube.KubeconfigValidity does.
func (f Format) Validity(data map[string][]byte) (from, until time.Time, ok bool) {
	return kube.KubeconfigValidity(f.kubeconfig(data))
}

// Reads reports whether the token in the data of a Secret is that of an account that agents make for each other, which only
// reads. Its claims are not verified.
func (f Format) Reads(data map[string][]byte) bool {
	config, err := kube.ParseKubeconfig(f.kubeconfig(data))
	if err != nil {
		return false
	}
	parts := strings.Split(config.BearerToken, ".")
	if len(parts) != 3 {
		return false
	}
	var claims struct {
		Subject string `json:"sub"`
	}
	if raw, err := base64.RawURLEncoding.DecodeString(parts[1]); err != nil || json.Unmarshal(raw, &claims) != nil {
		return false
	}
	name, is := strings.CutPrefix(claims.Subject, "system:serviceaccount:")
	namespace, account, _ := strings.Cut(name, ":")
	switch {
	case !is:
		return false
	case strings.HasSuffix(namespace, v1alpha1.ReadersNamespace("")):
		return account == v1alpha1.LegacySwapAccount || strings.HasPrefix(account, v1alpha1.ReaderAccount(""))
	}
	return strings.HasSuffix(namespace, v1alpha1.PrivateNamespace("")) && account == v1alpha1.SwapAccount
}

// kubeconfig is what is in the data of a Secret, as one; nil if that is nothing.
func (f Format) kubeconfig(data map[string][]byte) []byte {
	if f != ArgoCD {
		return data[f.kubeconfigKey()]
	}
	var held argoAccess
	if len(data[argoConfig]) > kube.MaxKubeconfig || json.Unmarshal(data[argoConfig], &held) != nil {
		return nil
	}
	same, err := Flux.Data("cluster", &rest.Config{
		Host: string(data[argoServer]), BearerToken: held.BearerToken,
		TLSClientConfig: rest.TLSClientConfig{ServerName: held.TLS.ServerName, CAData: held.TLS.CAData},
	})
	if err != nil {
		return nil
	}
	return same[Flux.kubeconfigKey()]
}

// AddContext adds a cluster, a user and a context of one name to a kubeconfig.
func AddContext(config *clientcmdapi.Config, name string, access *rest.Config) {
	config.Clusters = append(config.Clusters, clientcmdapi.NamedCluster{Name: name, Cluster: clientcmdapi.Cluster{
		Server: access.Host, TLSServerName: access.ServerName, CertificateAuthorityData: access.CAData, DisableCompression: access.DisableCompression,
	}})
	config.AuthInfos = append(config.AuthInfos, clientcmdapi.NamedAuthInfo{Name: name, AuthInfo: clientcmdapi.AuthInfo{
		Token: access.BearerToken, ClientCertificateData: access.CertData, ClientKeyData: access.KeyData,
	}})
	config.Contexts = append(config.Contexts, clientcmdapi.NamedContext{Name: name, Context: clientcmdapi.Context{Cluster: name, AuthInfo: name}})
}
