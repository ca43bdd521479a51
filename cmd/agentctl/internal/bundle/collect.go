// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/fleet"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// collector asks members, several at the same time.
type collector struct {
	namespace string // of the agents
	timeout   time.Duration
	kept      atomic.Int64 // bytes of the archive so far

	mu     sync.Mutex
	asking map[string]bool
}

func (c *collector) begin(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asking[name] = true
}

func (c *collector) end(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.asking, name)
}

// names are those that are asked now.
func (c *collector) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.asking))
}

// member is what was collected of one member.
type member struct {
	files   []string
	data    []byte // a part of the archive
	notes   []string
	missing []gap
	server  string // version of its API server
}

// question is a member that is being asked.
type question struct {
	*fleet.Member
	*part

	namespace string
	got       *member
}

// ask collects what one member has. It stops a little before it would be too late to say what there is.
func (c *collector) ask(ctx context.Context, m *fleet.Member) (*member, error) {
	c.begin(m.Name)
	defer c.end(m.Name)
	if len(validation.IsDNS1123Subdomain(m.Name)) > 0 && !m.Local {
		return nil, errors.New("no Cluster can have its name")
	}
	if c.kept.Load() > maxArchive {
		return nil, fmt.Errorf("the others take %d MiB already: leave out who says so much", maxArchive>>20)
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-c.timeout/10))
		defer cancel()
	}
	q := &question{m, newPart(folderOf(m)), c.namespace, &member{}}
	q.version(ctx)
	q.objects(ctx, "clusters", clusters.ClusterResource())
	q.objects(ctx, "rules", clusters.RuleResource())
	q.objects(ctx, "features", v1alpha1.SchemeGroupVersion.WithResource("clusterfeatures"))
	q.events(ctx)
	q.pods(ctx)
	var err error
	q.got.files = q.names
	if q.got.data, err = q.close(); err != nil {
		return nil, err
	}
	c.kept.Add(int64(len(q.got.data)))
	return q.got, nil
}

// folderOf is where the files of a member are.
func folderOf(m *fleet.Member) string {
	if len(validation.IsDNS1123Subdomain(m.Name)) > 0 {
		return "members/own/" // it is the context's name
	}
	return "members/" + m.Name + "/"
}

// put adds a file, or says why not.
func (q *question) put(name string, data []byte, err error) {
	if err == nil {
		err = q.add(name, data)
	}
	if err != nil {
		q.miss(name, err)
	}
}

func (q *question) miss(what string, err error) {
	q.got.missing = append(q.got.missing, gap{q.Name, what, clusters.Reason(err)})
}

func (q *question) note(format string, args ...any) {
	q.got.notes = append(q.got.notes, fmt.Sprintf(format, args...))
}

// version reads what the API server says of itself.
func (q *question) version(ctx context.Context) {
	data, err := fleet.Read(ctx, q.Member, "/version", nil)
	var said struct {
		GitVersion string `json:"gitVersion"`
		Platform   string `json:"platform"`
	}
	if err == nil && json.Unmarshal(data, &said) != nil {
		err = errors.New("the answer is no version") // the error would quote it
	}
	if err == nil {
		q.got.server = clusters.Bound(said.GitVersion)
		data, err = asJSON(said)
	}
	q.put("version.json", data, err)
}

// object is one of the registry's kinds.
type object struct{ unstructured.Unstructured }

// objects adds all objects of a kind, without what their API server keeps of who wrote what.
func (q *question) objects(ctx context.Context, name string, resource schema.GroupVersionResource) {
	all, err := fleet.List[object](ctx, q.Member, resource)
	items := make([]map[string]any, 0, len(all))
	for _, one := range all {
		unstructured.RemoveNestedField(one.Object, "metadata", "managedFields")
		unstructured.RemoveNestedField(one.Object, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
		withoutValues(one.Object)
		items = append(items, one.Object)
	}
	q.list(name+".json", items, err)
}

// withoutValues removes what a rule writes into copies, which may be Secrets.
func withoutValues(object map[string]any) {
	rules, _, _ := unstructured.NestedSlice(object, "spec", "rules")
	for _, one := range rules {
		rule, _ := one.(map[string]any)
		overrides, _, _ := unstructured.NestedSlice(rule, "mutations", "overrides")
		for _, o := range overrides {
			if override, ok := o.(map[string]any); ok && override["value"] != nil {
				override["value"] = removed
			}
		}
		if overrides != nil {
			_ = unstructured.SetNestedSlice(rule, overrides, "mutations", "overrides") // it has just been read from there
		}
		added, _, _ := unstructured.NestedMap(rule, "mutations", "annotations", "add")
		for name := range added {
			_ = unstructured.SetNestedField(rule, removed, "mutations", "annotations", "add", name)
		}
	}
	if rules != nil {
		_ = unstructured.SetNestedSlice(object, rules, "spec", "rules")
	}
}

// list adds objects as kubectl would print them.
func (q *question) list(name string, items any, err error) {
	var data []byte
	if err == nil {
		data, err = asJSON(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	}
	q.put(name, data, err)
}

// event is what is kept of an Event.
type event struct {
	Metadata struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Type           string `json:"type"`
	Reason         string `json:"reason"`
	Message        string `json:"message"`
	Count          int32  `json:"count,omitempty"`
	FirstTimestamp string `json:"firstTimestamp,omitempty"`
	LastTimestamp  string `json:"lastTimestamp,omitempty"`
	EventTime      string `json:"eventTime,omitempty"`
	InvolvedObject struct {
		APIVersion string `json:"apiVersion,omitempty"`
		Kind       string `json:"kind"`
		Namespace  string `json:"namespace,omitempty"`
		Name       string `json:"name"`
	} `json:"involvedObject"`
	ReportingComponent string `json:"reportingComponent,omitempty"`
	Source             struct {
		Component string `json:"component,omitempty"`
	} `json:"source"`
}

// GetName is the name of the event.
func (e *event) GetName() string { return e.Metadata.Name }

// events adds those of the agents' namespace, and those about the registry's objects, which are in no namespace: their events are in default.
func (q *question) events(ctx context.Context) {
	at := clusters.Core("events")
	all, err := fleet.ListIn[event](ctx, q.Member, at, syncrules.Scope{Namespace: q.namespace})
	q.list("events.json", all, err)
	about := syncrules.Scope{Namespace: "default", FieldSelector: "involvedObject.apiVersion=" + v1alpha1.SchemeGroupVersion.String()}
	all, err = fleet.ListIn[event](ctx, q.Member, at, about)
	q.list("events-registry.json", all, err)
}
