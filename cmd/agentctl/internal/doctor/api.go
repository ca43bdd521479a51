// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
)

// checkAPI says which API servers do not answer, or answer with no.
func checkAPI(ctx context.Context, x *inspection) []Finding {
	var out []Finding
	for _, t := range x.targets {
		if t.apiErr != nil {
			out = append(out, unreachable(t))
			continue
		}
		for what, err := range map[string]error{
			"its identity (namespace kube-system)": t.idErr, "Clusters": t.clustersErr, "ResourceSyncRules": t.rulesErr,
		} {
			var notInstalled *clusters.NotInstalledError
			switch {
			case err == nil, errors.As(err, &notInstalled): // checkCRDs says the latter
			case apierrors.IsForbidden(err):
				out = append(out, Finding{
					Severity: Unknown, Cluster: t.name(), Message: "you may not read " + what + ", so that much is not known: " + clusters.Reason(err),
					Fix: t.kubectl("auth", "whoami"),
				})
			default:
				out = append(out, Finding{Severity: Unknown, Cluster: t.name(), Message: what + " cannot be read: " + clusters.Reason(err)})
			}
		}
		if t.clustersErr == nil && t.idErr == nil && t.local() == nil {
			out = append(out, Finding{
				Severity: Error, Cluster: t.name(), Message: cmp.Or(t.agentProblem(ctx, x.namespace), "no agent has ever written its Cluster object here: it is not installed, or cannot start, which its log says"),
				Fix: x.agentLog(t),
			})
		}
	}
	return out
}

func unreachable(t *target) Finding {
	var refused refusedError
	if errors.As(t.apiErr, &refused) && (refused.code == http.StatusUnauthorized || refused.code == http.StatusForbidden) {
		return Finding{
			Severity: Error, Cluster: t.name(), Message: fmt.Sprintf("the API server rejects this context's credential: %s", refused.text),
			Fix: t.kubectl("auth", "whoami"),
		}
	}
	return Finding{
		Severity: Unknown, Cluster: t.name(), Message: "the API server is unreachable from here, so nothing of this cluster is known: " + clusters.Reason(t.apiErr),
		Fix: t.kubectl("get", "--raw", "/readyz?verbose"),
	}
}
