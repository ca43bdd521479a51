// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/e2e/harness"
)

const (
	// blocks of so many requests take turns, so that the API server's CPU can be told for each.
	block       = 100
	writeRounds = 4
	manager     = "bench"
)

// method is one way to write: its creates and its updates.
type method struct {
	name string
	do   func(*written, context.Context) error
	// creates and updates say what the method can do; an object that one creates, it updates.
	creates, updates bool
}

// written is one object under one method.
type written struct {
	w          *writer
	name       string
	generation int
	last       *unstructured.Unstructured // as the API server returned it
}

// writer is one kind under one method.
type writer struct {
	c       *harness.Cluster
	subject subject
	method  method
	typed   rest.Interface // speaks protobuf
	objects []*written
	results map[bool]*tally // of creates (true) and updates
}

// tally is what requests took.
type tally struct {
	times          []time.Duration
	server, client time.Duration // CPU
}

// compareWrites measures ways to write to one API server that nobody else uses.
func compareWrites(ctx context.Context, out, progress io.Writer) (err error) {
	bin, err := harness.FindBinaries()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "roster-bench-")
	if err != nil {
		return err
	}
	fmt.Fprintln(progress, "control plane")
	fleet, err := harness.Up(ctx, harness.Options{Binaries: bin, Dir: filepath.Join(dir, "fleet"), Names: []string{"c1"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fleet.Close(), os.RemoveAll(dir)) }()
	c := fleet.Clusters[0]
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "kind\trequest\tp50 ms\tp99 ms\tAPI server's CPU ms\tclient's CPU ms\tbytes\tof them managedFields\n")
	for _, s := range subjects() {
		fmt.Fprintln(progress, s.name)
		writers, err := newWriters(c, s)
		if err != nil {
			return err
		}
		for round := range writeRounds {
			for _, create := range []bool{true, false} {
				for i := range writers {
					if err := writers[(i+round)%len(writers)].block(ctx, create); err != nil {
						return fmt.Errorf("%s: %w", s.name, err)
					}
				}
			}
		}
		for _, create := range []bool{true, false} {
			for _, w := range writers {
				if err := w.print(table, create); err != nil {
					return err
				}
			}
		}
	}
	return table.Flush()
}

func newWriters(c *harness.Cluster, s subject) ([]*writer, error) {
	cfg := rest.CopyConfig(c.Config)
	cfg.ContentType = runtime.ContentTypeProtobuf
	typed, err := s.client(cfg)
	if err != nil {
		return nil, err
	}
	var out []*writer
	for _, m := range methods() {
		out = append(out, &writer{c: c, subject: s, method: m, typed: typed, results: map[bool]*tally{true: {}, false: {}}})
	}
	return out, nil
}

func methods() []method {
	return []method{
		{name: "create / update", do: (*written).replace, creates: true, updates: true},
		{name: "create / update, protobuf", do: (*written).replaceTyped, creates: true, updates: true},
		{name: "server-side apply", do: (*written).apply, creates: true, updates: true},
		{name: "create / merge patch", do: (*written).merge, updates: true},
	}
}

// block creates objects, or updates those that were created last.
func (w *writer) block(ctx context.Context, create bool) error {
	if create {
		w.objects = w.objects[:0]
		for range block {
			w.objects = append(w.objects, &written{w: w, name: fmt.Sprintf("w-%d", time.Now().UnixNano())})
		}
	}
	r := w.results[create]
	server, err := serverCPU(ctx, w.c)
	if err != nil {
		return err
	}
	client := ownCPU()
	for _, o := range w.objects {
		do := w.method.do
		if create && !w.method.creates {
			do = (*written).replace
		}
		o.generation++
		began := time.Now()
		if err := do(o, ctx); err != nil {
			return fmt.Errorf("%s: %w", w.method.name, err)
		}
		r.times = append(r.times, time.Since(began))
	}
	r.client += ownCPU() - client
	after, err := serverCPU(ctx, w.c)
	r.server += after - server
	return err
}

func (w *writer) print(out io.Writer, create bool) error {
	if create && !w.method.creates || !create && !w.method.updates {
		return nil
	}
	r, verb := w.results[create], "update: "
	if create {
		verb = "create: "
	}
	size := "" // of the object in JSON; protobuf is decoded to something else
	if last := w.objects[0].last; last.GetKind() != "" {
		whole, err := json.Marshal(last)
		if err != nil {
			return err
		}
		size = strconv.Itoa(len(whole))
	}
	fields, err := json.Marshal(w.objects[0].last.GetManagedFields())
	if err != nil {
		return err
	}
	n := float64(len(r.times))
	_, err = fmt.Fprintf(out, "%s\t%s\t%.2f\t%.2f\t%.2f\t%.2f\t%s\t%d\n", w.subject.name, verb+w.method.name, ms(percentile(r.times, 50)),
		ms(percentile(r.times, 99)), ms(r.server)/n, ms(r.client)/n, size, len(fields))
	return err
}

func (o *written) dynamic() resourceInterface {
	return o.w.c.Dynamic.Resource(o.w.subject.resource).Namespace(metav1.NamespaceDefault)
}

// desired is what the object should be, without anything that servers add.
func (o *written) desired() (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o.w.subject.make(o.name, o.generation))
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(u.Object, "status")
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	return u, nil
}

// replace is what agents do: a create, or an update on the condition of uid and resourceVersion.
func (o *written) replace(ctx context.Context) error {
	u, err := o.desired()
	if err != nil {
		return err
	}
	if o.last == nil {
		o.last, err = o.dynamic().Create(ctx, u, metav1.CreateOptions{FieldManager: manager})
		return err
	}
	u.SetUID(o.last.GetUID())
	u.SetResourceVersion(o.last.GetResourceVersion())
	o.last, err = o.dynamic().Update(ctx, u, metav1.UpdateOptions{FieldManager: manager})
	return err
}

// replaceTyped is the same in protobuf, which there is for built-in kinds only.
func (o *written) replaceTyped(ctx context.Context) error {
	object, out := o.w.subject.make(o.name, o.generation), o.w.subject.make("", 0)
	request := o.w.typed.Post()
	if o.last != nil {
		request = o.w.typed.Put().Name(o.name)
		object.SetUID(o.last.GetUID())
		object.SetResourceVersion(o.last.GetResourceVersion())
	}
	err := request.Namespace(metav1.NamespaceDefault).Resource(o.w.subject.resource.Resource).Param("fieldManager", manager).
		Body(object).Do(ctx).Into(out)
	if err != nil {
		return err
	}
	o.last = &unstructured.Unstructured{Object: map[string]any{}}
	o.last.SetUID(out.GetUID())
	o.last.SetResourceVersion(out.GetResourceVersion())
	o.last.SetManagedFields(out.GetManagedFields())
	return nil
}

// apply names the fields that are wanted. It is unconditional: with a resourceVersion it could not create.
func (o *written) apply(ctx context.Context) error {
	u, err := o.desired()
	if err != nil {
		return err
	}
	o.last, err = o.dynamic().Apply(ctx, o.name, u, metav1.ApplyOptions{FieldManager: manager, Force: true})
	return err
}

// merge sends what changed, on the condition of the resourceVersion.
func (o *written) merge(ctx context.Context) error {
	patch := o.w.subject.change(o.generation)
	metadata, _ := json.Marshal(map[string]any{"resourceVersion": o.last.GetResourceVersion(), "uid": o.last.GetUID()})
	patch = fmt.Sprintf(`{"metadata":%s,%s}`, metadata, patch)
	var err error
	o.last, err = o.dynamic().Patch(ctx, o.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: manager})
	return err
}

// serverCPU is what the API server's process has used.
func serverCPU(ctx context.Context, c *harness.Cluster) (time.Duration, error) {
	page, err := metricsPage(ctx, c)
	if err != nil {
		return 0, err
	}
	return cpuOf(page)
}

func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
