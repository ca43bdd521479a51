// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

var (
	crashes = flag.Int("crashes", 12, "how often TestCrashesUnderLoad kills an agent")
	seed    = flag.Uint64("seed", 1, "which agents are killed under load, and when, and what is written meanwhile")
)

// loadLabel marks the Secrets of a load, which loadRule copies everywhere.
const loadLabel = "roster-e2e-load"

const loadRule = `apiVersion: clusterregistry.k8s.cisco.com/v1alpha1
kind: ResourceSyncRule
metadata: {name: load}
spec:
  groupVersionKind: {kind: Secret, version: v1}
  rules:
  - match:
    - labels: [{matchLabels: {` + loadLabel + `: "yes"}}]
      namespaces: [` + harness.Namespace + `]
`

// load is what one cluster owns: rules and Secrets of ten names each, with a value that changes.
type load struct {
	cluster *harness.Cluster
	random  *rand.Rand
	rules   map[string]string // name → value
	secrets map[string]string
}

// step makes, changes or deletes one object.
func (l *load) step(ctx context.Context, n int) error {
	name := fmt.Sprintf("load-%s-%d", l.cluster.Name, l.random.IntN(10))
	value := fmt.Sprint("v", n)
	gone := l.random.IntN(5) == 0
	if l.random.IntN(2) == 0 {
		if gone {
			delete(l.rules, name)
			return remove(ctx, l.cluster, harness.Rules(), "", name)
		}
		l.rules[name] = value
		return l.putRule(ctx, name, value)
	}
	if gone {
		delete(l.secrets, name)
		return remove(ctx, l.cluster, harness.Secrets(), harness.Namespace, name)
	}
	l.secrets[name] = value
	return l.putSecret(ctx, name, value)
}

func (l *load) putRule(ctx context.Context, name, value string) error {
	var u unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(rule(name, value)), &u.Object); err != nil {
		return err
	}
	rules := l.cluster.Dynamic.Resource(harness.Rules())
	_, err := rules.Create(ctx, &u, metav1.CreateOptions{})
	for apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		var have *unstructured.Unstructured
		if have, err = rules.Get(ctx, name, metav1.GetOptions{}); err == nil {
			have.Object["spec"] = u.Object["spec"]
			_, err = rules.Update(ctx, have, metav1.UpdateOptions{})
		}
	}
	return err
}

func (l *load) putSecret(ctx context.Context, name, value string) error {
	secrets := l.cluster.Kube.CoreV1().Secrets(harness.Namespace)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{loadLabel: "yes"}},
		Data:       map[string][]byte{"v": []byte(value)},
	}
	_, err := secrets.Create(ctx, secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	return err
}

// run works until stop is closed.
func (l *load) run(ctx context.Context, stop <-chan struct{}) error {
	pace := time.NewTicker(40 * time.Millisecond)
	defer pace.Stop()
	for n := 0; ; n++ {
		select {
		case <-stop:
			return nil
		case <-pace.C:
		}
		if err := l.step(ctx, n); err != nil {
			return fmt.Errorf("load in %s: %w", l.cluster.Name, err)
		}
	}
}

// audit compares all rules and Secrets of the load that a cluster has with what their owners made last.
func audit(ctx context.Context, at *harness.Cluster, loads []*load) error {
	rules, err := at.Dynamic.Resource(harness.Rules()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	secrets, err := at.Dynamic.Resource(harness.Secrets()).Namespace(harness.Namespace).List(ctx, metav1.ListOptions{LabelSelector: loadLabel})
	if err != nil {
		return err
	}
	want := map[string]string{}
	for _, l := range loads {
		id := ""
		if l.cluster != at {
			if id, err = l.cluster.ID(ctx); err != nil {
				return err
			}
		}
		for name, value := range l.rules {
			want["rule "+name] = value + " of " + id
		}
		for name, value := range l.secrets {
			want["secret "+name] = value + " of " + id
		}
	}
	got := map[string]string{}
	for i := range rules.Items {
		u := &rules.Items[i]
		if !strings.HasPrefix(u.GetName(), "load-") {
			continue
		}
		items, _, _ := unstructured.NestedSlice(u.Object, "spec", "rules")
		value := fmt.Sprint(items)
		for _, word := range strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune("[]: ", r) }) {
			if strings.HasPrefix(word, "v") && len(word) > 1 && word[1] >= '0' && word[1] <= '9' {
				value = word
			}
		}
		got["rule "+u.GetName()] = value + " of " + u.GetAnnotations()[v1alpha1.AnnotationOwnerClusterID]
	}
	for i := range secrets.Items {
		u := &secrets.Items[i]
		got["secret "+u.GetName()] = valueOf(u) + " of " + u.GetAnnotations()[v1alpha1.AnnotationOwnerClusterID]
	}
	var errs []error
	for name, is := range got {
		if should, ok := want[name]; !ok || is != should {
			errs = append(errs, fmt.Errorf("in %s: %s is %q, not %q", at.Name, name, is, should))
		}
	}
	for name, should := range want {
		if _, ok := got[name]; !ok {
			errs = append(errs, fmt.Errorf("in %s: %s, %q, is missing", at.Name, name, should))
		}
	}
	return errors.Join(errs...)
}

// Agents are killed again and again, at any moment, while rules and Secrets change in all clusters. In the end every
// cluster has what the owners have, and every agent has gone on in the epoch that it began in.
func TestCrashesUnderLoad(t *testing.T) {
	g := joined(t)
	random := rand.New(rand.NewPCG(*seed, 0))
	epochs := g.epochs(t)
	apply(t, g.alpha, loadRule)
	loads, end := g.startLoad(t, *seed)
	for range *crashes {
		c := g.Clusters[random.IntN(3)]
		if _, err := harness.Wait(t.Context(), "a moment", time.Minute, after(time.Duration(random.IntN(1500))*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(c.KillAgent(), c.LaunchAgent()); err != nil {
			t.Fatal(err)
		}
	}
	end()
	for _, c := range g.Clusters[:3] {
		eventually(t, c.Name+" has everything, and nothing else", 3*afterFault, func(ctx context.Context) error { return audit(ctx, c, loads) })
	}
	g.eventuallyWhole(t, afterFault)
	for name, epoch := range g.epochs(t) {
		if epoch != epochs[name] {
			t.Errorf("%s began in %s and is in %s", name, epochs[name], epoch)
		}
	}
}

// after is a condition that comes true with time alone.
func after(d time.Duration) func(context.Context) error {
	end := time.Now().Add(d)
	return func(context.Context) error {
		if time.Now().Before(end) {
			return errors.New("not yet")
		}
		return nil
	}
}

// epochs are those that the agents write in.
func (g *group) epochs(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, c := range g.Clusters[:3] {
		eventually(t, "agent "+c.Name+" tells its epoch", afterFault, func(ctx context.Context) error {
			page, err := c.AgentHTTP(ctx, "/metrics")
			if err != nil {
				return err
			}
			for line := range strings.Lines(page) {
				if strings.HasPrefix(line, "roster_replica_epoch_at_start ") {
					out[c.Name] = strings.TrimSpace(line)
					return nil
				}
			}
			return errors.New("no such metric")
		})
	}
	return out
}

// endLoad deletes what the load made, at its owners, and waits until it is gone everywhere.
func (g *group) endLoad(t *testing.T, loads []*load) {
	t.Helper()
	ctx := lasting(t)
	var errs []error
	for _, l := range loads {
		for name := range l.secrets {
			errs = append(errs, remove(ctx, l.cluster, harness.Secrets(), harness.Namespace, name))
		}
		for name := range l.rules {
			errs = append(errs, remove(ctx, l.cluster, harness.Rules(), "", name))
		}
		clear(l.secrets)
		clear(l.rules)
	}
	for _, c := range g.Clusters[:3] {
		_, err := harness.Wait(ctx, "the load is gone in "+c.Name, afterFault, func(ctx context.Context) error { return audit(ctx, c, loads) })
		errs = append(errs, err)
	}
	errs = append(errs, remove(ctx, g.alpha, harness.Rules(), "", "load"))
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

// startLoad has a load in each of the three clusters, which ends with the test at the latest.
func (g *group) startLoad(t *testing.T, seed uint64) (loads []*load, end func()) {
	t.Helper()
	stop := make(chan struct{})
	work, ctx := errgroup.WithContext(lasting(t))
	for i, c := range g.Clusters[:3] {
		l := &load{c, rand.New(rand.NewPCG(seed, uint64(i)+1)), map[string]string{}, map[string]string{}}
		loads = append(loads, l)
		work.Go(func() error { return l.run(ctx, stop) })
	}
	t.Cleanup(func() { g.endLoad(t, loads) })
	return loads, func() {
		t.Helper()
		close(stop)
		if err := work.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSwapOutlivesACrash: an agent is killed in the moment in which the object that was pasted becomes a copy of what its cluster publishes. From
// then on, only its record says that somebody swapped with that cluster here.
func TestSwapOutlivesACrash(t *testing.T) {
	g := strangers(t)
	if err := g.beta.RestartAgent(t.Context()); err != nil { // it has just recorded that nobody is pinned, and introductions would wait
		t.Fatal(err)
	}
	joined := make(chan error, 1)
	go func() {
		out, err := g.Agentctl(lasting(t), "join", "--context", "alpha", "--peer-context", "beta")
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, out)
		}
		joined <- err
	}()
	for began := time.Now(); ; {
		u, err := get(t.Context(), g.beta, harness.Clusters(), "", "alpha")
		if err == nil && syncrules.Owner(u) != "" {
			break
		}
		if time.Since(began) > afterFault {
			t.Fatal("alpha does not become a copy in beta: ", err)
		}
	}
	if err := g.beta.KillAgent(); err != nil {
		t.Fatal(err)
	}
	if err := g.beta.StartAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both are members", afterFault, listEachOther(g.alpha, g.beta))
	if err := <-joined; err != nil {
		t.Error(err)
	}
}
