// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/fleet"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// askWithin is how long a question may take why something has not happened.
const askWithin = 5 * time.Second

// site is a cluster that the canary is copied to.
type site struct {
	timing

	client     *clusters.Client
	rule, copy *track
}

// track is what is seen of an object, by one reader.
type track struct {
	sights chan sight
	last   sight
}

// sight is how an object was seen, and when; nil where it is not there.
type sight struct {
	object *unstructured.Unstructured
	at     time.Time // zero before anything was seen
}

// connect finds out which cluster a context leads to.
func connect(ctx context.Context, c *clusters.Client) (*site, error) {
	c, err := clusters.New(c.Context, clusters.Bounded(c.Config, fleet.MaxAnswer))
	if err != nil {
		return nil, err
	}
	local, err := c.Local(ctx)
	if err != nil {
		return nil, err
	}
	return &site{
		timing: timing{Cluster: local.GetName(), ClusterID: clusters.IDOf(local), Context: c.Context},
		client: c, rule: &track{sights: make(chan sight, 1)}, copy: &track{sights: make(chan sight, 1)},
	}, nil
}

// follow watches an object until ctx ends. A watch ends by itself now and then, at the latest when a request may take no longer.
func follow(ctx context.Context, objects dynamic.ResourceInterface, name string, to chan<- sight) {
	for ctx.Err() == nil {
		watchOnce(ctx, objects, name, to)
		select {
		case <-ctx.Done():
		case <-time.After(cli.WaitPeriod):
		}
	}
}

func watchOnce(ctx context.Context, objects dynamic.ResourceInterface, name string, to chan<- sight) {
	tell := func(u *unstructured.Unstructured) {
		select {
		case to <- sight{u, time.Now()}:
		case <-ctx.Done():
		}
	}
	only := metav1.ListOptions{FieldSelector: "metadata.name=" + name}
	list, err := objects.List(ctx, only)
	if err != nil {
		return
	}
	var there *unstructured.Unstructured
	for i := range list.Items {
		if list.Items[i].GetName() == name {
			there = &list.Items[i]
		}
	}
	tell(there)
	only.ResourceVersion = list.GetResourceVersion()
	w, err := objects.Watch(ctx, only)
	if err != nil {
		return
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		u, ok := e.Object.(*unstructured.Unstructured)
		switch {
		case e.Type == watch.Bookmark:
		case !ok || e.Type == watch.Error || u.GetName() != name:
			return
		case e.Type == watch.Deleted:
			tell(nil)
		default:
			tell(u)
		}
	}
}

// await reads sights until one is as wanted, and returns when that was.
func (t *track) await(ctx context.Context, wanted func(*unstructured.Unstructured) bool) (time.Time, bool) {
	for t.last.at.IsZero() || !wanted(t.last.object) {
		select {
		case <-ctx.Done():
			return time.Time{}, false
		case t.last = <-t.sights:
		}
	}
	return t.last.at, true
}

// inForce says that the agent there obeys the rule as it is.
func inForce(u *unstructured.Unstructured) bool {
	return readiness(u).Status == string(metav1.ConditionTrue)
}

// gone says that there is no such object.
func gone(u *unstructured.Unstructured) bool { return u == nil }

// readiness is what the agent there says of the rule.
func readiness(u *unstructured.Unstructured) clusters.Readiness {
	var rule v1alpha1.ResourceSyncRule
	if u == nil || runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &rule) != nil {
		return clusters.Readiness{Reason: "Missing", Message: "the rule has not come"}
	}
	_, ready, _ := clusters.RuleHealth(&rule)
	return ready
}

// because is why something did not happen there, as far as the rule tells; "" if it does not.
func (s *site) because(ctx context.Context, name string) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWithin)
	defer cancel()
	rule, err := s.client.Dynamic.Resource(clusters.RuleResource()).Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return ": " + clusters.Reason(err)
	}
	ready := readiness(rule)
	if ready.Status == string(metav1.ConditionTrue) {
		return ""
	}
	return ": " + clusters.Bound(ready.Reason+": "+ready.Message)
}
