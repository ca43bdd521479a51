// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// checkCredentials looks at the Secret that each Cluster object names: an agent renews its own, and those that
// it was issued, when a fifth of their life is left.
func checkCredentials(ctx context.Context, x *examination) []diagnosis {
	var mu sync.Mutex
	var out []diagnosis
	var group errgroup.Group
	group.SetLimit(16)
	for _, p := range x.patients {
		for _, c := range p.clusters {
			if string(c.Spec.ClusterID) != p.id && !p.isPeer(c) {
				continue
			}
			group.Go(func() error {
				if d := x.checkCredential(ctx, p, c, x.issuerTime(p, c)); d != nil {
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
func (x *examination) issuerTime(p *patient, c *v1alpha1.Cluster) time.Time {
	if issuer := x.find(string(c.Spec.ClusterID)); issuer != nil && issuer.offset != 0 {
		p = issuer
	}
	return time.Now().Add(p.offset)
}

func (x *examination) checkCredential(ctx context.Context, p *patient, c *v1alpha1.Cluster, now time.Time) *diagnosis {
	ref := c.Spec.AuthInfo.SecretRef
	if ref.Name == "" {
		return nil // none is kept for it, or checkMembers says that one is missing
	}
	name := ref.Namespace + "/" + ref.Name
	d := &diagnosis{Severity: isError, Cluster: p.name()}
	about, fix := "the credential that peers are given", x.restart(c)
	if string(c.Spec.ClusterID) != p.id {
		about, fix = "the credential for cluster "+c.Name, x.join(p, c)
	}
	d.Fix = fix
	secret, err := p.side.client.Resource(coreResource("secrets")).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		d.Message = fmt.Sprintf("%s, Secret %s, is missing", about, name)
		return d
	case err != nil:
		return &diagnosis{Severity: isUnknown, Cluster: p.name(), Message: fmt.Sprintf("%s, Secret %s, cannot be read: %s", about, name, reasonOf(err))}
	}
	kubeconfig, err := kubeconfigOf(secret)
	if err != nil {
		d.Message = fmt.Sprintf("%s, Secret %s: %s", about, name, reasonOf(err))
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
		d.Severity = isWarning
		d.Message = fmt.Sprintf("%s, Secret %s, expires in %s and should have been renewed before: is the agent running?", about, name, duration.HumanDuration(left))
	default:
		return nil
	}
	return d
}
