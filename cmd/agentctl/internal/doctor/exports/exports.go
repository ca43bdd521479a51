// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package exports finds the Secrets that agentctl export wrote for other tools, and whose credential ends.
package exports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/kube/exported"
)

const (
	// mostSecrets is how many are looked at.
	mostSecrets = 1000
	// secretRequests is how many are read at a time.
	secretRequests = 16
	// accept asks for the metadata of objects alone.
	accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
)

// Ending is one Secret, or why it is not known which there are.
type Ending struct {
	Unknown      bool
	Message, Fix string
}

// Find finds them in the cluster of a client, which lists these members. now is the time there. The metadata of those with the
// label is asked for, and then each by its name. Who may not list Secrets of all namespaces, as agents may not, is told of none: these
// are not about the group, and whoever exported them may. kubectl makes a command line.
func Find(ctx context.Context, c *clusters.Client, members []*v1alpha1.Cluster, now time.Time, kubectl func(...string) string) []Ending {
	found, err := list(ctx, c)
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return []Ending{{Unknown: true, Message: "the Secrets that agentctl export wrote cannot be listed: " + clusters.Reason(err)}}
	}
	var out []Ending
	if found.Continue != "" {
		out = append(out, Ending{Unknown: true, Message: fmt.Sprintf("there are more than %d Secrets that agentctl export wrote: the others were not looked at", mostSecrets)})
	}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(secretRequests)
	for i := range found.Items {
		group.Go(func() error {
			if e := look(ctx, c, &found.Items[i], members, now, kubectl); e != nil {
				mu.Lock()
				defer mu.Unlock()
				out = append(out, *e)
			}
			return nil
		})
	}
	_ = group.Wait() // no error is returned
	return out
}

func list(ctx context.Context, c *clusters.Client) (*metav1.PartialObjectMetadataList, error) {
	data, err := c.Requests.Get().AbsPath("/api/v1/secrets").SetHeader("Accept", accept).
		Param("labelSelector", v1alpha1.LabelExportedFor).Param("limit", fmt.Sprint(mostSecrets)).Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	var out metav1.PartialObjectMetadataList
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, errors.New("the answer of the API server is no list") // it may quote a Secret
	}
	return &out, nil
}

// look returns what is wrong with one Secret; nil for nothing.
func look(ctx context.Context, c *clusters.Client, of *metav1.PartialObjectMetadata, members []*v1alpha1.Cluster, now time.Time, kubectl func(...string) string) *Ending {
	name := of.Namespace + "/" + of.Name
	u, err := c.Secrets(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	var secret kube.Secret
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &secret)
	}
	if err != nil {
		return &Ending{Unknown: true, Message: fmt.Sprintf("the exported Secret %s cannot be read: %s", name, clusters.Reason(err))}
	}
	format := exported.Format(secret.Labels[v1alpha1.LabelExportedFor])
	from, until, ok := format.Validity(secret.Data)
	if !ok { // empty, a certificate, or a token that does not say how long it lives
		return nil
	}
	left := until.Sub(now)
	when := "ends in " + duration.HumanDuration(left)
	if left <= 0 {
		when = "ended " + duration.HumanDuration(-left) + " ago"
	}
	about := fmt.Sprintf("the credential in Secret %s, exported for %s, %s", name, format, when)
	_, asks := secret.Annotations[v1alpha1.AnnotationRenewCredentialOf]
	if !asks && !format.Reads(secret.Data) { // the agent would replace it by one that cannot do the same
		return &Ending{
			Message: about + ", and is not one that an agent issues: only who made its account can renew it",
			Fix:     kubectl("-n", secret.Namespace, "describe", "secret", secret.Name),
		}
	}
	if !asks {
		return &Ending{
			Message: about + ", and nobody renews it: the agent does in the namespaces of the chart value renew.namespaces, if the Secret asks for it",
			Fix:     kubectl("-n", secret.Namespace, "annotate", "secret", secret.Name, v1alpha1.AnnotationRenewCredentialOf+"="+nameOf(secret.Annotations[v1alpha1.AnnotationExportedClusterID], members)),
		}
	}
	if left > until.Sub(from)/10 {
		return nil
	}
	return &Ending{
		Message: about + ", and should have been renewed before: does the chart value renew.namespaces name its namespace, and what do its events say?",
		Fix:     kubectl("-n", secret.Namespace, "describe", "secret", secret.Name),
	}
}

// nameOf is the name of a cluster; a word to replace where it is not known.
func nameOf(id string, members []*v1alpha1.Cluster) string {
	for _, c := range members {
		if id != "" && string(c.Spec.ClusterID) == id {
			return c.Name
		}
	}
	return "CLUSTER"
}
