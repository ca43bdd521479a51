// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"fmt"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api/v1"

	"github.com/roster-mesh/roster/kube/exported"
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
		exported.AddContext(config, m.name, access)
	}
	if len(members) == 1 && f.clusters == 1 {
		config.CurrentContext = members[0].name
	}
	return config, f
}

func (f *file) leaveOut(m *member, why error) {
	f.lacks = append(f.lacks, fmt.Sprintf("cluster %s is left out: %s", m.name, why))
}
