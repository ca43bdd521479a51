// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/engine/quota"
)

const (
	floodObjects = 32
	floodSize    = 700 << 10 // of each, before base64
	floodRounds  = 60        // at most
	// overhead is what an object has beside its data, and what is written of it by who does not count it: managedFields.
	overhead = 1.1
	// underWay is how many copies are written at a time: so many more may be, as the quota is used up.
	underWay = 16
)

// TestFloodOfAMember: a hostile member has large Secrets, and changes them and its own Cluster object as fast as it can. What
// reaches the API server of another is bounded, also where that one's agent was killed just before; a change of a third member
// arrives meanwhile, and when the flood is over everything is as at its source.
func TestFloodOfAMember(t *testing.T) {
	r := newRoom(t)
	label := func(value string) { kubectl(t, r.beta, "label", "--overwrite", "cluster", r.beta.Name, "tier"+value) }
	label("=flooded")
	t.Cleanup(func() { label("-") })
	if err := r.floodOnce(lasting(t), 0); err != nil {
		t.Fatal(err)
	}
	gamma, err := r.gamma.ID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	copies := arriving(t, r.beta, harness.Secrets(), r.name, metav1.ListOptions{LabelSelector: v1alpha1.LabelOwnerClusterID + "=" + gamma})
	allowed := restartedTwice(t, r.beta, func() { // so it needs the Secrets when it has least
		r.rule(t, r.beta, "flood", "groupVersionKind: {version: v1, kind: Secret}, targets: {matchLabels: {tier: flooded}}, rules: [{"+forLabel("flood")+"}]")
	})
	last := r.flood(t, func() {
		eventually(t, "the rule says who is slowed", afterFault, r.ruleSays(r.beta, "flood", "False", "because of cluster gamma"))
		put(t, r.alpha, harness.Secrets(), r.object(harness.Secrets(), "honest", "flood", "1"))
		eventually(t, "a change of another cluster is there", afterFault, copied(r.beta, r.alpha, harness.Secrets(), r.name, "honest", "1"))
	})
	check := func(what string) {
		t.Helper()
		got, most := float64(copies.Load()), allowed()+underWay*floodSize*4/3
		t.Logf("%s: %.1f MiB of copies have reached beta, %.1f are allowed", what, got/(1<<20), most/(1<<20))
		if got > overhead*most {
			t.Errorf("%s: %.0f bytes of copies have reached beta, want at most %.0f", what, got, most)
		}
	}
	check("as the flood ends")
	eventually(t, "the newest of every Secret is there", 2*afterFault, func(ctx context.Context) error {
		for i := range floodObjects {
			u, err := get(ctx, r.beta, harness.Secrets(), r.name, floodName(i))
			if err != nil {
				return err
			}
			if n := u.GetAnnotations()["n"]; n != fmt.Sprint(last) {
				return fmt.Errorf("%s is number %s of %d", floodName(i), n, last)
			}
		}
		return nil
	})
	check("in the end")
	eventually(t, "the rule is content", afterFault, r.ruleSays(r.beta, "flood", "True", ""))

	t.Run("Cluster", func(t *testing.T) { floodOfACluster(t, r) })
}

func floodName(i int) string { return fmt.Sprintf("flood-%02d", i) }

// flood changes the Secrets of gamma again and again during meanwhile, and returns the number of the last change.
func (r *room) flood(t *testing.T, meanwhile func()) int {
	t.Helper()
	var enough atomic.Bool
	last, done := 0, make(chan error, 1)
	go func() {
		for n := 1; n < floodRounds && !enough.Load(); n++ {
			if err := r.floodOnce(lasting(t), n); err != nil {
				done <- err
				return
			}
			last = n
		}
		done <- nil
	}()
	end := sync.OnceFunc(func() {
		enough.Store(true)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	defer end()
	meanwhile()
	end()
	return last
}

// floodOnce writes every Secret once, several at a time, with content that cannot be compressed.
func (r *room) floodOnce(ctx context.Context, n int) error {
	var writers errgroup.Group
	writers.SetLimit(4)
	for i := range floodObjects {
		writers.Go(func() error {
			data := make([]byte, floodSize)
			if _, err := rand.NewChaCha8([32]byte{byte(i), byte(n)}).Read(data); err != nil {
				return err
			}
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: floodName(i), Labels: map[string]string{"for": "flood"}, Annotations: map[string]string{"n": fmt.Sprint(n)}},
				Data:       map[string][]byte{"v": data},
			}
			client := r.gamma.Kube.CoreV1().Secrets(r.name)
			if n == 0 {
				_, err := client.Create(ctx, secret, metav1.CreateOptions{})
				return err
			}
			_, err := client.Update(ctx, secret, metav1.UpdateOptions{})
			return err
		})
	}
	return writers.Wait()
}

// restartedTwice kills the agent and starts it twice. Then its accounts have what has come back between the two starts, and
// at least a small part: so a test need not write 128 MiB. Before the second start it calls before. It returns how many bytes
// one cluster may have written since.
func restartedTwice(t *testing.T, c *harness.Cluster, before func()) (allowed func() float64) {
	t.Helper()
	restart := func(before func()) (began time.Time) {
		if err := c.KillAgent(); err != nil {
			t.Fatal(err)
		}
		before()
		began = time.Now()
		if err := c.StartAgent(t.Context()); err != nil {
			t.Fatal(err)
		}
		return began
	}
	first := restart(func() {})
	second := restart(before)
	between := time.Since(first) + 2*time.Second // it is recorded in seconds
	limits := quota.DefaultLimits().AfterRestart(between)
	return func() float64 { return limits.Bytes.First + limits.Bytes.PerSecond*time.Since(second).Seconds() }
}

// arriving counts the bytes of every state of some objects, from now on.
func arriving(t *testing.T, c *harness.Cluster, gvr schema.GroupVersionResource, namespace string, of metav1.ListOptions) *atomic.Int64 {
	t.Helper()
	client, total := c.Dynamic.Resource(gvr).Namespace(namespace), &atomic.Int64{}
	list, err := client.List(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	of.ResourceVersion = list.GetResourceVersion()
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(lasting(t))
	t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			stream, err := client.Watch(ctx, of)
			if err != nil {
				if ctx.Err() == nil {
					t.Errorf("watch %s: %v", gvr.Resource, err)
				}
				return
			}
			for event := range stream.ResultChan() {
				u, ok := event.Object.(*unstructured.Unstructured)
				if ctx.Err() != nil {
					return
				}
				if !ok {
					t.Errorf("watch %s: %v", gvr.Resource, event.Object)
					return
				}
				of.ResourceVersion = u.GetResourceVersion()
				if data, err := json.Marshal(u.Object); err == nil && event.Type != watch.Deleted {
					total.Add(int64(len(data)))
				}
			}
		}
	}()
	return total
}

// floodOfACluster is the same with the Cluster object of gamma.
func floodOfACluster(t *testing.T, r *room) {
	const size, changes = 200 << 10, 100
	allowed := restartedTwice(t, r.beta, func() {})
	r.eventuallyWhole(t, afterFault)
	arrived := arriving(t, r.beta, harness.Clusters(), "", metav1.ListOptions{FieldSelector: "metadata.name=gamma"})
	change := func(n string) error {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"example.com/flood":%q,"example.com/n":%q}}}`, strings.Repeat(n[len(n)-1:], size), n)
		_, err := r.gamma.Dynamic.Resource(harness.Clusters()).Patch(lasting(t), r.gamma.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	t.Cleanup(func() {
		kubectl(t, r.gamma, "annotate", "cluster", "gamma", "example.com/flood-", "example.com/n-")
		r.eventuallyWhole(t, afterFault)
	})
	var writers errgroup.Group
	writers.SetLimit(4)
	for n := range changes {
		writers.Go(func() error { return change(fmt.Sprint(n)) })
	}
	if err := errors.Join(writers.Wait(), change("last")); err != nil {
		t.Fatal(err)
	}
	kubectl(t, r.alpha, "annotate", "--overwrite", "cluster", "alpha", "example.com/honest=yes")
	t.Cleanup(func() { kubectl(t, r.alpha, "annotate", "cluster", "alpha", "example.com/honest-") })
	annotated := func(of, key, value string) func(context.Context) error {
		return func(ctx context.Context) error {
			u, err := get(ctx, r.beta, harness.Clusters(), "", of)
			if err == nil && u.GetAnnotations()[key] != value {
				err = fmt.Errorf("%s of cluster %s is %q", key, of, u.GetAnnotations()[key])
			}
			return err
		}
	}
	eventually(t, "the change of another cluster is there", afterFault, annotated("alpha", "example.com/honest", "yes"))
	eventually(t, "the last change of gamma is there", afterFault, annotated("gamma", "example.com/n", "last"))
	// Its status, which is another version of the whole object, has a quarter beside.
	got, most := float64(arrived.Load()), 1.25*allowed()+2*size
	t.Logf("%.1f MiB of %d changes have reached beta, %.1f are allowed", got/(1<<20), changes, most/(1<<20))
	if got > overhead*most {
		t.Errorf("%.0f bytes of Clusters have reached beta, want at most %.0f", got, most)
	}
}
