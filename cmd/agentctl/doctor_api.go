// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// checkAPI says which API servers do not answer, or answer with no.
func checkAPI(ctx context.Context, x *examination) []diagnosis {
	var out []diagnosis
	for _, p := range x.patients {
		if p.apiErr != nil {
			out = append(out, unreachable(p))
			continue
		}
		for what, err := range map[string]error{
			"its identity (namespace kube-system)": p.idErr, "Clusters": p.clustersErr, "ResourceSyncRules": p.rulesErr,
		} {
			if apierrors.IsForbidden(err) {
				out = append(out, diagnosis{
					Severity: isUnknown, Cluster: p.name(), Message: "you may not read " + what + ", so that much is not known: " + reasonOf(err),
					Fix: p.kubectl("auth", "whoami"),
				})
			} else if err != nil && !isNotInstalled(err) {
				out = append(out, diagnosis{Severity: isUnknown, Cluster: p.name(), Message: what + " cannot be read: " + reasonOf(err)})
			}
		}
		if p.clustersErr == nil && p.idErr == nil && p.local() == nil {
			out = append(out, diagnosis{
				Severity: isError, Cluster: p.name(), Message: cmp.Or(p.agentSays(ctx, x.namespace), "no agent has ever written its Cluster object here: it is not installed, or cannot start, which its log says"),
				Fix: x.agentLog(p),
			})
		}
	}
	return out
}

func unreachable(p *patient) diagnosis {
	var refused refusedError
	if errors.As(p.apiErr, &refused) && (refused.code == http.StatusUnauthorized || refused.code == http.StatusForbidden) {
		return diagnosis{
			Severity: isError, Cluster: p.name(), Message: fmt.Sprintf("the API server does not take this context's credential: %s", refused.text),
			Fix: p.kubectl("auth", "whoami"),
		}
	}
	return diagnosis{
		Severity: isUnknown, Cluster: p.name(), Message: "the API server does not answer here, so that nothing of this cluster is known: " + reasonOf(p.apiErr),
		Fix: p.kubectl("get", "--raw", "/readyz?verbose"),
	}
}
