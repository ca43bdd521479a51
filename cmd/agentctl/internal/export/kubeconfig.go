// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"fmt"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api/v1"
)

// asKubeconfig has a cluster, a user and a context for each member, all of its name. A user is empty without a credential.
// Nobody is the current context unless alone: a command that forgets --context must not reach a cluster by chance.
func asKubeconfig(members []*member, network string) (any, *file) {
	config, f := &clientcmdapi.Config{APIVersion: "v1", Kind: "Config"}, &file{}
	for _, m := range members {
		access, err := m.access(network)
		if err != nil {
			f.leaveOut(m, err)
			continue
		}
		f.clusters++
		if m.credential != nil {
			f.credentials++
		}
		config.Clusters = append(config.Clusters, clientcmdapi.NamedCluster{Name: m.name, Cluster: clientcmdapi.Cluster{
			Server: access.Host, TLSServerName: access.ServerName, CertificateAuthorityData: access.CAData, DisableCompression: access.DisableCompression,
		}})
		config.AuthInfos = append(config.AuthInfos, clientcmdapi.NamedAuthInfo{Name: m.name, AuthInfo: clientcmdapi.AuthInfo{
			Token: access.BearerToken, ClientCertificateData: access.CertData, ClientKeyData: access.KeyData,
		}})
		config.Contexts = append(config.Contexts, clientcmdapi.NamedContext{Name: m.name, Context: clientcmdapi.Context{Cluster: m.name, AuthInfo: m.name}})
	}
	if len(members) == 1 && f.clusters == 1 {
		config.CurrentContext = members[0].name
	}
	return config, f
}

func (f *file) leaveOut(m *member, why error) {
	f.lacks = append(f.lacks, fmt.Sprintf("cluster %s is left out: %s", m.name, why))
}
