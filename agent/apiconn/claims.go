// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package apiconn

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Claims are what a kubeconfig's token says of itself. They are not verified: the API server that gets the token does that.
type Claims struct {
	Subject    string `json:"sub"`
	Kubernetes struct {
		Secret struct { // that it is bound to
			UID string `json:"uid"`
		} `json:"secret"`
	} `json:"kubernetes.io"`
}

// ClaimsOf returns the claims of the token in a kubeconfig, none if there is no token that has any.
func ClaimsOf(kubeconfig []byte) (claims Claims) {
	config, err := kube.ParseKubeconfig(kubeconfig)
	if err != nil {
		return claims
	}
	if parts := strings.Split(config.BearerToken, "."); len(parts) == 3 {
		if raw, err := base64.RawURLEncoding.DecodeString(parts[1]); err == nil {
			_ = json.Unmarshal(raw, &claims) // what cannot be read says nothing
		}
	}
	return claims
}

// Narrow reports whether a token is of the account of swapped tokens: with that, only the registry can be read.
func (c Claims) Narrow() bool {
	return strings.HasPrefix(c.Subject, accountPrefix) && strings.HasSuffix(c.Subject, v1alpha1.PrivateNamespace("")+":"+v1alpha1.SwapAccount)
}

// Of reports whether a token is of a ServiceAccount.
func (c Claims) Of(namespace, account string) bool {
	return c.Subject == accountPrefix+namespace+":"+account
}

const accountPrefix = "system:serviceaccount:"
