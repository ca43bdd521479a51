// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/fleet"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rights"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

const (
	// askWithin is how long a question may take why something has not happened.
	askWithin = 5 * time.Second
	// reasonsOfSources is how the reasons begin that agents give for a source that they do not watch.
	reasonsOfSources = "Source"
)

// site is a cluster that the canary is copied to.
type site struct {
	timing

	source     string            // ID of the cluster that has the canary
	client     *clusters.Client  // for questions
	watches    dynamic.Interface // without a bound in time
	rule, copy *track
	unknown    string // why nobody knows what is there
}

// track is what is seen of an object, by one reader.
type track struct {
	sights chan sight
	last   sight
	failed error // why it cannot be seen now
}

// sight is how an object was seen, and when; nil where it is not there.
type sight struct {
	object *unstructured.Unstructured
	at     time.Time // zero before anything was seen
	err    error     // why it could not be; all else is nothing then
}

// connect finds out which cluster a context leads to, and that it may be watched.
func connect(ctx context.Context, c *clusters.Client, o *Options) (*site, error) {
	watches, err := watchesOf(c)
	if err != nil {
		return nil, err
	}
	c, err = clusters.New(c.Context, clusters.Bounded(c.Config, fleet.MaxAnswer))
	if err != nil {
		return nil, err
	}
	lacks, err := rights.Missing(ctx, c, append(rights.Of(clusters.RuleResource(), "", "list", "watch"), rights.Of(resourceOf(o.Kind), o.Namespace, "list", "watch")...))
	if err != nil {
		return nil, err
	}
	if len(lacks) > 0 {
		return nil, errors.New("you may not " + strings.Join(lacks, ", "))
	}
	local, err := c.Local(ctx)
	if err != nil {
		return nil, err
	}
	return &site{
		timing: timing{Cluster: local.GetName(), ClusterID: clusters.IDOf(local), Context: c.Context},
		client: c, watches: watches, rule: &track{sights: make(chan sight, 1)}, copy: &track{sights: make(chan sight, 1)},
	}, nil
}

// watchesOf is for requests that end when they are over, or their context is.
func watchesOf(c *clusters.Client) (dynamic.Interface, error) {
	config := clusters.BoundedInSize(c.Config)
	config.Timeout = 0
	requests, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	requests.CheckRedirect = c.HTTP.CheckRedirect
	return dynamic.NewForConfigAndClient(config, requests)
}

// follow watches an object until ctx ends. A watch ends by itself now and then.
func follow(ctx context.Context, objects dynamic.ResourceInterface, name string, to chan<- sight) {
	for ctx.Err() == nil {
		if err := watchOnce(ctx, objects, name, to); err != nil {
			tell(ctx, to, sight{err: err})
		}
		select {
		case <-ctx.Done():
		case <-time.After(cli.WaitPeriod):
		}
	}
}

func tell(ctx context.Context, to chan<- sight, s sight) {
	select {
	case to <- s:
	case <-ctx.Done():
	}
}

func watchOnce(ctx context.Context, objects dynamic.ResourceInterface, name string, to chan<- sight) error {
	saw := func(u *unstructured.Unstructured) { tell(ctx, to, sight{object: u, at: time.Now()}) }
	only := metav1.ListOptions{FieldSelector: "metadata.name=" + name}
	listing, cancel := context.WithTimeout(ctx, askWithin)
	list, err := objects.List(listing, only)
	cancel()
	if err != nil {
		return err
	}
	var there *unstructured.Unstructured
	for i := range list.Items {
		if list.Items[i].GetName() == name {
			there = &list.Items[i]
		}
	}
	saw(there)
	only.ResourceVersion = list.GetResourceVersion()
	w, err := objects.Watch(ctx, only)
	if err != nil {
		return err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		u, ok := e.Object.(*unstructured.Unstructured)
		switch {
		case e.Type == watch.Bookmark:
		case e.Type == watch.Error:
			return apierrors.FromObject(e.Object)
		case !ok || u.GetName() != name:
			return errors.New("the watch tells of something else")
		case e.Type == watch.Deleted:
			saw(nil)
		default:
			saw(u)
		}
	}
	return nil
}

// await reads sights until one is as wanted, and returns when that was.
func (t *track) await(ctx context.Context, wanted func(*unstructured.Unstructured) bool) (time.Time, bool) {
	for t.last.at.IsZero() || !wanted(t.last.object) {
		select {
		case <-ctx.Done():
			return time.Time{}, false
		case s := <-t.sights:
			if t.failed = s.err; s.err == nil {
				t.last = s
			}
		}
	}
	return t.last.at, true
}

// missed says that something has not happened there, or that nobody knows whether it has.
func (s *site) missed(ctx context.Context, t *track, late, name string) {
	if t.failed != nil {
		s.unknown = clusters.Reason(t.failed)
		s.Message = "it cannot be watched: " + s.unknown
		return
	}
	s.Message = late + s.because(ctx, name)
}

// inForce says that the agent there obeys the rule as it is, of what the cluster with this ID has. A rule that is not ready for
// the sake of another source alone is in force: the canary is in none of these.
func inForce(u *unstructured.Unstructured, source string) bool {
	ready, sources := readiness(u)
	if ready.Status == string(metav1.ConditionTrue) {
		return true
	}
	return strings.HasPrefix(ready.Reason, reasonsOfSources) && slices.ContainsFunc(sources, func(s v1alpha1.SourceStatus) bool { return string(s.ClusterID) == source && s.Watching })
}

// gone says that there is no such object.
func gone(u *unstructured.Unstructured) bool { return u == nil }

// readiness is what the agent there says of the rule, and of each source.
func readiness(u *unstructured.Unstructured) (clusters.Readiness, []v1alpha1.SourceStatus) {
	var rule v1alpha1.ResourceSyncRule
	if u == nil || runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &rule) != nil {
		return clusters.Readiness{Reason: "Missing", Message: "the rule has not come"}, nil
	}
	_, ready, _ := clusters.RuleHealth(&rule)
	return ready, rule.Status.Sources
}

// because is why something did not happen there, as far as the rule tells; "" if it does not.
func (s *site) because(ctx context.Context, name string) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWithin)
	defer cancel()
	rule, err := s.client.Dynamic.Resource(clusters.RuleResource()).Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return ": " + clusters.Reason(err)
	}
	if inForce(rule, s.source) {
		return ""
	}
	ready, _ := readiness(rule)
	return ": " + clusters.Bound(ready.Reason+": "+ready.Message)
}
