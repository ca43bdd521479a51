// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/doctor/exports"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// checkCredentials looks at the Secret that each Cluster object names: an agent renews its own, and those that
// it was issued, when a fifth of their life is left.
func checkCredentials(ctx context.Context, x *inspection) []Finding {
	var mu sync.Mutex
	var out []Finding
	var group errgroup.Group
	group.SetLimit(16)
	for _, t := range x.targets {
		for _, c := range t.clusters {
			if string(c.Spec.ClusterID) != t.id && !t.isPeer(c) {
				continue
			}
			group.Go(func() error {
				if d := x.checkCredential(ctx, t, c, x.issuerTime(t, c)); d != nil {
					mu.Lock()
					defer mu.Unlock()
					out = append(out, *d)
				}
				return nil
			})
		}
	}
	_ = group.Wait() // no error is returned
	return out
}

// issuerTime is what the time is at the API server that issued a credential: the life of a token is stated by that
// clock. Of one that was not asked, the other one tells as well as the clock here, or better.
func (x *inspection) issuerTime(t *target, c *v1alpha1.Cluster) time.Time {
	if issuer := x.find(string(c.Spec.ClusterID)); issuer != nil && issuer.offset != 0 {
		t = issuer
	}
	return time.Now().Add(t.offset)
}

func (x *inspection) checkCredential(ctx context.Context, t *target, c *v1alpha1.Cluster, now time.Time) *Finding {
	ref := c.Spec.AuthInfo.SecretRef
	if ref.Name == "" {
		return nil // none is kept for it, or checkMembers says that one is missing
	}
	name := ref.Namespace + "/" + ref.Name
	d := &Finding{Severity: Error, Cluster: t.name()}
	about, fix := "the credential that peers are given", x.restart(c)
	if string(c.Spec.ClusterID) != t.id {
		about, fix = "the credential for cluster "+c.Name, x.join(t, c)
	}
	d.Fix = fix
	secret, err := t.client.Secrets(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		d.Message = fmt.Sprintf("%s, Secret %s, is missing", about, name)
		return d
	case err != nil:
		return &Finding{Severity: Unknown, Cluster: t.name(), Message: fmt.Sprintf("%s, Secret %s, cannot be read: %s", about, name, clusters.Reason(err))}
	}
	kubeconfig, err := clusters.KubeconfigOf(secret)
	if err != nil {
		d.Message = fmt.Sprintf("%s, Secret %s: %s", about, name, clusters.Reason(err))
		return d
	}
	from, until, ok := kube.KubeconfigValidity(kubeconfig)
	left := until.Sub(now)
	switch {
	case !ok: // a certificate, or a token that does not say how long it lives: it is used until it is refused
		return nil
	case left <= 0:
		d.Message = fmt.Sprintf("%s, Secret %s, expired %s ago", about, name, duration.HumanDuration(-left))
	case left < until.Sub(from)/10:
		d.Severity = Warning
		d.Message = fmt.Sprintf("%s, Secret %s, expires in %s and should have been renewed before: is the agent running?", about, name, duration.HumanDuration(left))
	default:
		return nil
	}
	return d
}

// checkExports finds the credentials in Secrets for other tools that end.
func checkExports(ctx context.Context, x *inspection) (out []Finding) {
	for _, t := range x.targets {
		if t.apiErr != nil {
			continue
		}
		for _, e := range exports.Find(ctx, t.client, t.clusters, time.Now().Add(t.offset), t.kubectl) {
			d := Finding{Severity: Warning, Cluster: t.name(), Message: e.Message, Fix: e.Fix}
			if e.Unknown {
				d.Severity = Unknown
			}
			out = append(out, d)
		}
	}
	return out
}
