// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind, namespace, name := route(r.URL.Path)
	q := r.URL.Query()
	verb := map[string]string{"POST": "create", "PUT": "update", "DELETE": "delete", "GET": "get"}[r.Method]
	if r.Method == http.MethodGet && name == "" {
		verb = "list"
	}
	if q.Get("watch") == "true" {
		verb = "watch"
		if q.Get("sendInitialEvents") == "true" {
			verb = "stream"
		}
	}
	body, _ := io.ReadAll(r.Body)
	body = inJSON(body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	a.mu.Lock()
	if kind != "" {
		a.requests = append(a.requests, verb)
		a.bodies = append(a.bodies, string(body))
	} else {
		a.requests = append(a.requests, r.URL.Path)
	}
	code, widgets, noWatchList, definitions := a.deny[verb], a.widgets, a.noWatchList, a.definitions
	hook := a.hook
	a.mu.Unlock()
	if hook != nil && hook(verb) {
		panic(http.ErrAbortHandler)
	}
	switch {
	case kind == "Widget" && !widgets, kind == "" && r.URL.Path == "/apis/example.com/v1" && !widgets:
		http.Error(w, "404 page not found", http.StatusNotFound)
	case kind == "CustomResourceDefinition" && !definitions:
		writeStatus(w, refusal(http.StatusForbidden))
	case kind == "":
		a.other(w, r)
	case code != 0:
		writeStatus(w, refusal(code))
	case verb == "stream" && noWatchList:
		writeStatus(w, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil))
	case verb == "stream", verb == "watch":
		a.serveWatch(w, r, kind, namespace)
	case verb == "list":
		a.serveList(w, r, kind, namespace)
	default:
		a.serveObject(w, verb, kind, namespace, name, body)
	}
}

// route parses /api/v1/namespaces/NS/secrets/NAME, and the paths of other kinds.
func route(path string) (kind, namespace, name string) {
	rest, ok := strings.CutPrefix(path, "/api/v1/")
	if !ok {
		rest, ok = strings.CutPrefix(path, "/apis/example.com/v1/")
	}
	if !ok {
		rest, ok = strings.CutPrefix(path, "/apis/apiextensions.k8s.io/v1/")
	}
	parts := strings.Split(rest, "/")
	if !ok || rest == "" {
		return "", "", ""
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		namespace, parts = parts[1], parts[2:]
	}
	kind = map[string]string{"secrets": "Secret", "nodes": "Node", "widgets": "Widget", "customresourcedefinitions": "CustomResourceDefinition", "namespaces": "Namespace"}[parts[0]]
	if len(parts) > 1 {
		name = parts[1]
	}
	if len(parts) > 2 {
		return "", "", ""
	}
	return kind, namespace, name
}

func (a *api) other(w http.ResponseWriter, r *http.Request) {
	resources := map[string]string{
		"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[
			{"name":"secrets/x","kind":"Secret"},{"name":"secrets","kind":"Secret","namespaced":true},
			{"name":"nodes","kind":"Node"},{"name":"namespaces","kind":"Namespace"}]}`,
		"/apis/example.com/v1": `{"kind":"APIResourceList","groupVersion":"example.com/v1","resources":[
			{"name":"widgets","kind":"Widget","namespaced":true}]}`,
		"/version": `{"gitVersion":"v1.36.3"}`,
	}
	if body, ok := resources[r.URL.Path]; ok {
		if a.widgetsClusterScoped {
			body = strings.ReplaceAll(body, `"Widget","namespaced":true`, `"Widget"`)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
		return
	}
	if a.handle != nil {
		a.handle.ServeHTTP(w, r)
		return
	}
	http.NotFound(w, r)
}

// matchingLocked returns the objects of a kind in a namespace, sorted.
func (a *api) matchingLocked(kind, namespace string) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, k := range slices.Sorted(maps.Keys(a.objects)) {
		if strings.HasPrefix(k, kind+"/"+namespace) {
			out = append(out, a.objects[k])
		}
	}
	return out
}

// past returns the objects that a selector matched at a resourceVersion.
func (a *api) past(kind, namespace string, position int, selector fields.Selector) []*unstructured.Unstructured {
	a.mu.Lock()
	defer a.mu.Unlock()
	then := maps.Clone(a.stored)
	for _, c := range a.log {
		if c.rv <= position {
			then[key(c.obj)] = c.obj
			if c.event == "DELETED" {
				delete(then, key(c.obj))
			}
		}
	}
	var out []*unstructured.Unstructured
	for k, obj := range then {
		if strings.HasPrefix(k, kind+"/"+namespace) &&
			selector.Matches(fields.Set{"metadata.name": obj.GetName(), "metadata.namespace": obj.GetNamespace()}) {
			out = append(out, obj)
		}
	}
	return out
}

func (a *api) serveList(w http.ResponseWriter, r *http.Request, kind, namespace string) {
	if a.widgetsClusterScoped && strings.Contains(r.URL.Query().Get("fieldSelector"), "metadata.namespace") {
		writeStatus(w, apierrors.NewBadRequest("field label not supported: metadata.namespace"))
		return
	}
	position, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	selector := fields.ParseSelectorOrDie(r.URL.Query().Get("fieldSelector"))
	a.mu.Lock()
	items, rv := a.matchingLocked(kind, namespace), a.rv
	if a.nameSelectors == "refuses" && !selector.Empty() {
		a.mu.Unlock()
		writeStatus(w, apierrors.NewBadRequest("field label not supported: metadata.name"))
		return
	}
	if matching, _ := labels.Parse(r.URL.Query().Get("labelSelector")); matching != nil {
		items = slices.DeleteFunc(items, func(obj *unstructured.Unstructured) bool { return !matching.Matches(labels.Set(obj.GetLabels())) })
	}
	if a.nameSelectors == "" {
		items = slices.DeleteFunc(items, func(obj *unstructured.Unstructured) bool {
			return !selector.Matches(fields.Set{"metadata.name": obj.GetName(), "metadata.namespace": obj.GetNamespace()})
		})
	} else {
		selector = fields.Everything()
	}
	a.mu.Unlock()
	if r.URL.Query().Get("resourceVersionMatch") == "Exact" {
		if position < a.oldest {
			writeStatus(w, apierrors.NewResourceExpired("compacted"))
			return
		}
		items, rv = a.past(kind, namespace, position, selector), position
	}
	if position > rv {
		refusal := apierrors.NewTimeoutError("Too large resource version", 1)
		refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
		writeStatus(w, refusal)
		return
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	meta := map[string]any{"resourceVersion": strconv.Itoa(rv)}
	items = items[from:]
	if limit > 0 && len(items) > limit {
		items = items[:limit]
		meta["continue"] = strconv.Itoa(from + limit)
	}
	list := map[string]any{"apiVersion": apiVersion(kind), "kind": kind + "List", "metadata": meta, "items": []any{}}
	for _, obj := range items {
		list["items"] = append(list["items"].([]any), obj.Object)
	}
	writeJSON(w, http.StatusOK, list)
}

func (a *api) serveWatch(w http.ResponseWriter, r *http.Request, kind, namespace string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	send := func(event string, obj any) {
		_ = json.NewEncoder(w).Encode(map[string]any{"type": event, "object": obj})
	}
	position, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	a.mu.Lock()
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		for _, obj := range a.matchingLocked(kind, namespace) {
			send("ADDED", obj.Object)
		}
		position = a.rv
		send("BOOKMARK", map[string]any{"apiVersion": apiVersion(kind), "kind": kind, "metadata": map[string]any{
			"resourceVersion": strconv.Itoa(a.rv), "annotations": map[string]any{metav1.InitialEventsAnnotationKey: "true"},
		}})
	} else if position < a.oldest {
		status := apierrors.NewResourceExpired("too old resource version").Status()
		send("ERROR", status)
		a.mu.Unlock()
		return
	}
	for {
		for _, c := range a.log {
			if c.rv > position && strings.HasPrefix(key(c.obj), kind+"/"+namespace) {
				send(c.event, c.obj.Object)
			}
		}
		position = a.rv
		next := a.changed
		a.mu.Unlock()
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-next:
		}
		a.mu.Lock()
	}
}

func (a *api) serveObject(w http.ResponseWriter, verb, kind, namespace, name string, body []byte) {
	obj := &unstructured.Unstructured{}
	if verb == "create" || verb == "update" {
		if err := json.Unmarshal(body, &obj.Object); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		name = obj.GetName()
	}
	resource := schema.GroupResource{Resource: strings.ToLower(kind) + "s"}
	a.mu.Lock()
	old := a.objects[kind+"/"+namespace+"/"+name]
	a.mu.Unlock()
	switch {
	case verb == "create" && old != nil:
		writeStatus(w, apierrors.NewAlreadyExists(resource, name))
	case verb != "create" && old == nil:
		writeStatus(w, apierrors.NewNotFound(resource, name))
	case verb == "update" && obj.GetResourceVersion() != old.GetResourceVersion():
		writeStatus(w, apierrors.NewConflict(resource, name, io.EOF))
	case verb == "create", verb == "update":
		writeJSON(w, http.StatusOK, a.put(obj).Object)
	case verb == "delete":
		a.remove(old)
		writeJSON(w, http.StatusOK, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"})
	default:
		writeJSON(w, http.StatusOK, old.Object)
	}
}

func apiVersion(kind string) string {
	if kind == "Widget" {
		return "example.com/v1"
	}
	return "v1"
}

func refusal(code int) *apierrors.StatusError {
	switch code {
	case http.StatusForbidden:
		return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", fmt.Errorf("User \"u\" cannot list"))
	case http.StatusUnauthorized:
		return apierrors.NewUnauthorized("Unauthorized")
	}
	return apierrors.NewGenericServerResponse(code, "GET", schema.GroupResource{}, "", "", 3600, false)
}

func writeStatus(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	writeJSON(w, int(status.Code), status)
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

// inJSON is the body of a request in JSON, whatever it was encoded in.
func inJSON(body []byte) []byte {
	if !bytes.HasPrefix(body, []byte("k8s\x00")) {
		return body
	}
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		panic(err)
	}
	out, err := json.Marshal(obj)
	if err != nil {
		panic(err)
	}
	return out
}
