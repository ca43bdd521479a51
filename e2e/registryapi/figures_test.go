// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registryapi

import (
	"context"
	"crypto/rand"
	"encoding/pem"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/kube/client/versioned"
)

var figures = flag.Bool("figures", false, "measure the registry API beside the stored Clusters of the same API server; the machine must have nothing else to do")

// many is how many Clusters a list has.
const many = 1000

// measure prints what the registry API costs over the stored Clusters. Both take turns, request by request, each as often the
// first of two, and the first tenth of each does not count. Answers are read and not decoded. A get is asked for so often that 45
// are slower than its p99: a handful would be those that met a collection of garbage somewhere.
func (f *front) measure(t *testing.T) {
	if !*figures {
		t.Skip("it takes minutes and a machine that has nothing else to do: make bench-registry")
	}
	ctx := t.Context()
	admin, err := versioned.NewForConfig(f.as(""))
	if err != nil {
		t.Fatal(err)
	}
	f.grant(t, "two", clusters([]string{"figure-0007", "figure-0008"}, "get"))
	two, err := versioned.NewForConfig(f.as("two"))
	if err != nil {
		t.Fatal(err)
	}
	f.fill(t, admin)
	f.sees(t, "two", "figure-0007", "figure-0008")
	behind, view, viewOfTwo := admin.ClusterRegistryV1alpha1().RESTClient(), admin.RegistryV1alpha1().RESTClient(), two.RegistryV1alpha1().RESTClient()

	get := func(c rest.Interface) func(int) error {
		return func(i int) error {
			_, err := c.Get().Resource("clusters").Name(fmt.Sprintf("figure-%04d", i%many)).DoRaw(ctx)
			return err
		}
	}
	list := func(c rest.Interface) func(int) error {
		return func(int) error {
			_, err := c.Get().Resource("clusters").DoRaw(ctx)
			return err
		}
	}
	create := func(c rest.Interface, group, kind string) func(int) error {
		return func(i int) error {
			body := fmt.Sprintf(`{"apiVersion":"%s/v1alpha1","kind":"Cluster","metadata":{"name":"made-%s-%04d"},"spec":{}}`, group, kind, i)
			_, err := c.Post().Resource("clusters").SetHeader("Content-Type", "application/json").Body([]byte(body)).DoRaw(ctx)
			return err
		}
	}
	for _, figure := range []struct {
		name         string
		n            int
		theirs, ours func(int) error
		budgets      map[int]float64 // of percentiles
	}{
		{"get", 5000, get(behind), get(view), map[int]float64{50: 0, 99: 2}},
		{"create", 600, create(behind, v1alpha1.GroupName, "stored-a"), create(view, "clusterregistry.k8s.io", "view-a"), map[int]float64{99: 2}},
		{"list of 1000, for all", 60, list(behind), list(view), map[int]float64{50: 1.5}},
		{"list of 1000, for two names", 60, list(behind), list(viewOfTwo), map[int]float64{50: 2}},
	} {
		theirs, ours := turns(t, figure.n, figure.theirs, figure.ours)
		for _, at := range slices.Sorted(maps.Keys(figure.budgets)) {
			a, b := percentile(theirs, at), percentile(ours, at)
			say(t, fmt.Sprintf("%s: p%d, over the stored form", figure.name, at), float64(b)/float64(a), figure.budgets[at], fmt.Sprintf("%.2f ms; %.2f ms", ms(b), ms(a)))
		}
		if figure.name == "create" {
			if err := admin.ClusterRegistryV1alpha1().Clusters().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
			f.fill(t, admin)
		}
	}
	if f.server == nil {
		return
	}
	pids, err := f.ServerPIDs()
	if err != nil {
		t.Fatal(err)
	}
	apiserver, err := harness.ReadMemory(pids["apiserver"])
	if err != nil {
		t.Fatal(err)
	}
	own, err := harness.ReadMemory(f.server.PID())
	if err != nil {
		t.Fatal(err)
	}
	say(t, "memory, over kube-apiserver", float64(own.Resident)/float64(apiserver.Resident), 0.4, fmt.Sprintf("%d MiB; %d MiB", own.Resident>>20, apiserver.Resident>>20))
}

// fill makes many Clusters.
func (f *front) fill(t *testing.T, client versioned.Interface) {
	t.Helper()
	var all errgroup.Group
	all.SetLimit(16)
	for i := range many {
		all.Go(func() error {
			c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("figure-%04d", i), Labels: map[string]string{"region": "eu", "stage": "prod"}}}
			c.Spec.KubernetesAPIEndpoints = []v1alpha1.KubernetesAPIEndpoint{{ServerAddress: fmt.Sprintf("https://figure-%04d.example.com:6443", i), CABundle: someCA()}}
			_, err := client.ClusterRegistryV1alpha1().Clusters().Create(t.Context(), c, metav1.CreateOptions{})
			return err
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.ClusterRegistryV1alpha1().Clusters().DeleteCollection(context.WithoutCancel(t.Context()), metav1.DeleteOptions{}, metav1.ListOptions{})
	})
}

// someCA is a CA bundle as it compresses: how well decides what a list costs on both sides.
func someCA() []byte {
	certificate := make([]byte, 860)
	_, _ = rand.Read(certificate) // never fails
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
}

// turns returns how long each request of two sides took.
func turns(t *testing.T, n int, theirs, ours func(int) error) (a, b []time.Duration) {
	t.Helper()
	for i := range n {
		sides := []struct {
			run  func(int) error
			took *[]time.Duration
		}{{theirs, &a}, {ours, &b}}
		if i%2 == 1 {
			slices.Reverse(sides)
		}
		for _, side := range sides {
			began := time.Now()
			if err := side.run(i); err != nil {
				t.Fatal(err)
			}
			if i >= n/10 {
				*side.took = append(*side.took, time.Since(began))
			}
		}
	}
	return a, b
}

func percentile(all []time.Duration, p int) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// say prints a figure. A budget of 0 is none.
func say(t *testing.T, name string, value, most float64, note string) {
	t.Helper()
	verdict := ""
	if most > 0 {
		verdict = fmt.Sprintf("budget %.1f PASS", most)
		if value > most {
			verdict = fmt.Sprintf("budget %.1f MISSED", most)
		}
	}
	kind := strings.Split(t.Name(), "/")[1]
	t.Logf("%-10s %-55s %5.2f × %-18s %s", kind, name, value, verdict, note)
}
