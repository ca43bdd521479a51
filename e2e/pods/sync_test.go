// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// running is a rule at work: the first cluster writes Secrets without a pause, the others keep copies.
type running struct {
	lab  *lab
	name string

	endWriting, endWatching context.CancelFunc
	writer, watchers        sync.WaitGroup

	mu      sync.Mutex
	last    map[string]string // the value that each source was given last
	deleted []string          // copies that were seen to go
	err     error
}

const (
	syncedSecrets = 20
	writeEvery    = 100 * time.Millisecond
)

// startSync makes a rule and its sources, waits for the copies, and goes on writing until settle. It ends with the test.
func startSync(t *testing.T, l *lab, name string) *running {
	t.Helper()
	_, err := l.Clusters[0].Apply(shared.ctx, fmt.Sprintf(`apiVersion: clusterregistry.k8s.cisco.com/v1alpha1
kind: ResourceSyncRule
metadata: {name: %[1]s}
spec:
  groupVersionKind: {version: v1, kind: Secret}
  rules:
  - match:
    - namespaces: [%[2]s]
      labels: [{matchLabels: {test: %[1]s}}]
`, name, harness.Namespace))
	must(t, err)
	r := &running{lab: l, name: name, last: map[string]string{}}
	writing, endWriting := context.WithCancel(shared.ctx)
	watching, endWatching := context.WithCancel(shared.ctx)
	r.endWriting, r.endWatching = endWriting, endWatching
	t.Cleanup(func() { r.stop(); r.remove(t) })
	for i := range syncedSecrets {
		must(t, r.write(writing, i, "first"))
	}
	eventually(t, "all copies of "+name, within, r.whole)
	for _, m := range l.members()[1:] {
		r.watchers.Go(func() { r.watch(watching, m) })
	}
	r.writer.Go(func() { r.writeOn(writing) })
	return r
}

func (r *running) writeOn(ctx context.Context) {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// The first cluster's own API server may be away; what was not written is not expected.
		if err := r.write(ctx, i%syncedSecrets, fmt.Sprint(i)); apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			r.fail(err)
			return
		}
	}
}

func (r *running) write(ctx context.Context, i int, value string) error {
	name := fmt.Sprintf("%s-%d", r.name, i)
	secrets := r.lab.Clusters[0].Kube.CoreV1().Secrets(harness.Namespace)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"test": r.name}},
		Data:       map[string][]byte{"v": []byte(value)},
	}
	// A write that has begun is not cut short by the end of the writing.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, err := secrets.Update(ctx, secret, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.last[name] = value
	} else {
		delete(r.last, name) // it may have been written, or not
	}
	return err
}

// watch notes every copy that goes.
func (r *running) watch(ctx context.Context, m *member) {
	only := metav1.ListOptions{LabelSelector: "test=" + r.name}
	for ctx.Err() == nil {
		stream, err := m.Kube.CoreV1().Secrets(harness.Namespace).Watch(ctx, only)
		if err != nil {
			time.Sleep(writeEvery) // its API server may be away
			continue
		}
		for event := range stream.ResultChan() {
			if event.Type != watch.Deleted {
				continue
			}
			if s, ok := event.Object.(*corev1.Secret); ok {
				r.mu.Lock()
				r.deleted = append(r.deleted, s.Name+" in "+m.Name)
				r.mu.Unlock()
			}
		}
	}
}

func (r *running) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = errors.Join(r.err, err)
}

// whole: each copy has the value that its source has.
func (r *running) whole(ctx context.Context) error {
	only := metav1.ListOptions{LabelSelector: "test=" + r.name}
	var sources map[string]string
	for i, m := range r.lab.members() {
		list, err := m.Kube.CoreV1().Secrets(harness.Namespace).List(ctx, only)
		if err != nil {
			return err
		}
		values := map[string]string{}
		for _, s := range list.Items {
			if i > 0 && s.Annotations[v1alpha1.AnnotationOwnerClusterID] == "" {
				return fmt.Errorf("%s in %s is not marked as a copy", s.Name, m.Name)
			}
			values[s.Name] = string(s.Data["v"])
		}
		if i == 0 {
			sources = values
			continue
		}
		for name, want := range sources {
			if got, found := values[name]; !found || got != want {
				return fmt.Errorf("%s in %s is %q (there: %v), its source %q", name, m.Name, got, found, want)
			}
		}
		if len(values) != len(sources) {
			return fmt.Errorf("%s has %d copies of %d sources", m.Name, len(values), len(sources))
		}
	}
	return nil
}

// settle ends the writing and checks that nothing was lost: no source, no last value, and no copy on the way.
func (r *running) settle(t *testing.T, limit time.Duration) {
	t.Helper()
	r.endWriting()
	r.writer.Wait()
	eventually(t, "every copy as its source", limit, r.whole)
	r.stop()
	for name, want := range r.last {
		s, err := r.lab.Clusters[0].Kube.CoreV1().Secrets(harness.Namespace).Get(shared.ctx, name, metav1.GetOptions{})
		must(t, err)
		if got := string(s.Data["v"]); got != want {
			t.Errorf("the source %s is %q; what was written last is %q", name, got, want)
		}
	}
	if len(r.deleted) > 0 {
		t.Errorf("copies were deleted on the way: %v", r.deleted)
	}
	must(t, r.err)
}

func (r *running) stop() {
	r.endWriting()
	r.endWatching()
	r.writer.Wait()
	r.watchers.Wait()
}

func (r *running) remove(t *testing.T) {
	t.Helper()
	if t.Failed() {
		return // it is what the failure is about
	}
	_, err := r.lab.Clusters[0].Kubectl(shared.ctx, "-n", harness.Namespace, "delete", "secret", "-l", "test="+r.name)
	must(t, err)
	for _, m := range r.lab.members()[1:] {
		eventually(t, "copies of "+r.name+" gone from "+m.Name, within, func(ctx context.Context) error {
			list, err := m.Kube.CoreV1().Secrets(harness.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "test=" + r.name})
			if err == nil && len(list.Items) > 0 {
				err = fmt.Errorf("%d are there", len(list.Items))
			}
			return err
		})
	}
	_, err = r.lab.Clusters[0].Kubectl(shared.ctx, "delete", "resourcesyncrule", r.name)
	must(t, err)
}

func gone(ctx context.Context, m *member, secret string) error {
	_, err := m.Kube.CoreV1().Secrets(harness.Namespace).Get(ctx, secret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("%s is in %s", secret, m.Name)
	}
	return err
}

func (m *member) httpGet(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 4<<20))
	return string(body), err
}

// lost says which copies were seen to go.
func (r *running) lost() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.deleted) > 0 {
		return fmt.Errorf("copies were deleted: %v", r.deleted)
	}
	return nil
}
