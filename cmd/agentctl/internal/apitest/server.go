// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apitest is an API server for the tests of agentctl. It keeps objects in memory, and can be told to refuse. What a
// real one does beyond it is tested in e2e.
package apitest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// Server answers the few requests that agentctl makes, over HTTP, so that the real client is
// tested. What a real API server does beyond them is tested in e2e.
type Server struct {
	*httptest.Server

	mu      sync.Mutex
	objects map[string]*unstructured.Unstructured // by path
	version int
	noCRDs  bool
	// agent plays the agent: it sees each Cluster that is written and may set its status.
	agent func(cluster *unstructured.Unstructured)
	// forbidden is a part of the paths that nobody may use; refuses is why no write on trial is taken.
	forbidden, refuses string
	// denied is a right that no account has, ahead how much the clock is wrong.
	denied string
	ahead  time.Duration
	// watchers are those that follow the objects of a kind, by the path that they asked for.
	watchers map[chan event]string
	// made are the requests that were not reads, and not on trial.
	made []string
}

// New starts a server; the caller closes it.
func New() *Server {
	s := &Server{objects: map[string]*unstructured.Unstructured{}, watchers: map[chan event]string{}, agent: func(*unstructured.Unstructured) {}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.Serve))
	return s
}

const (
	registryPath = "/apis/clusterregistry.k8s.cisco.com/v1alpha1"
	clustersPath = registryPath + "/clusters"
)

// Put keeps an object.
func (s *Server) Put(u *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(u)
}

// Set says which part of paths nobody may use, and why no write on trial is taken; "" for neither.
func (s *Server) Set(forbidden, refuses string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forbidden, s.refuses = forbidden, refuses
}

func (s *Server) store(u *unstructured.Unstructured) {
	s.version++
	u.SetResourceVersion(strconv.Itoa(s.version))
	if u.GetUID() == "" {
		u.SetUID("made-here")
	}
	path, kind := collection(u), "ADDED"
	if s.objects[path+"/"+u.GetName()] != nil {
		kind = "MODIFIED"
	}
	s.objects[path+"/"+u.GetName()] = u
	for to, followed := range s.watchers {
		if followed == path {
			to <- event{kind, u.Object}
		}
	}
}

// Serve answers one request.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("watch") == "true" {
		s.watch(w, r)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.noCRDs && strings.HasPrefix(r.URL.Path, clustersPath) {
		status(w, http.StatusNotFound, "NotFound", "the server could not find the requested resource")
		return
	}
	if as := r.Header.Get("Impersonate-User"); as != "" && s.denied == "impersonate users" {
		status(w, http.StatusForbidden, "Forbidden", `users "`+as+`" is forbidden: you may not impersonate`)
		return
	}
	if discover(w, r.URL.Path) || s.review(w, r) {
		return
	}
	if s.forbidden != "" && strings.Contains(r.URL.Path, s.forbidden) {
		status(w, http.StatusForbidden, "Forbidden", "you may not read "+s.forbidden)
		return
	}
	if r.Method != http.MethodGet && r.URL.Query().Get("dryRun") == "" {
		s.made = append(s.made, r.Method+" "+r.URL.Path)
	}
	switch r.Method {
	case http.MethodGet:
		s.read(w, r)
	case http.MethodPost:
		s.write(w, r, func(u *unstructured.Unstructured, there bool) bool {
			if there {
				status(w, http.StatusConflict, "AlreadyExists", u.GetName()+" already exists")
			}
			return !there
		})
	case http.MethodDelete:
		if _, there := s.objects[r.URL.Path]; !there {
			status(w, http.StatusNotFound, "NotFound", r.URL.Path+" not found")
			return
		}
		var options struct{ DryRun []string } // which a DELETE has in its body
		_ = json.NewDecoder(r.Body).Decode(&options)
		if len(options.DryRun) == 0 {
			delete(s.objects, r.URL.Path)
		}
		answer(w, http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Success"})
	case http.MethodPut:
		s.write(w, r, func(u *unstructured.Unstructured, there bool) bool {
			old := s.objects[collection(u)+"/"+u.GetName()]
			same := there && old.GetResourceVersion() == u.GetResourceVersion()
			if !same {
				status(w, http.StatusConflict, "Conflict", "the object has been modified")
			}
			return same
		})
	}
}

// review answers what doctor asks of an API server itself; false when the path is about something else. denied is
// the one right, as verb and resource, that nobody has. token-of-USER is a token of USER.
func (s *Server) review(w http.ResponseWriter, r *http.Request) bool {
	var asked struct {
		Spec struct {
			Token              string
			ResourceAttributes struct{ Verb, Resource string }
		}
	}
	switch r.URL.Path {
	case "/apis/authentication.k8s.io/v1/tokenreviews":
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			panic(err)
		}
		user, known := strings.CutPrefix(asked.Spec.Token, "token-of-")
		answer(w, http.StatusCreated, map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": map[string]any{"authenticated": known, "user": map[string]any{"username": user}}})
	case "/version":
		w.Header().Set("Date", time.Now().Add(s.ahead).UTC().Format(http.TimeFormat))
		answer(w, http.StatusOK, map[string]any{"gitVersion": "v1.36.3"})
	case "/apis/authentication.k8s.io/v1/selfsubjectreviews":
		answer(w, http.StatusCreated, map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "status": map[string]any{"userInfo": map[string]any{"username": "admin"}}})
	case "/apis/authorization.k8s.io/v1/subjectaccessreviews", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			panic(err)
		}
		a := asked.Spec.ResourceAttributes
		answer(w, http.StatusCreated, map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "status": map[string]any{"allowed": s.denied != a.Verb+" "+a.Resource}})
	default:
		return false
	}
	return true
}

func (s *Server) read(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	for _, k := range kinds() {
		if strings.HasPrefix(path, k.path+"/") && strings.HasSuffix(path, "/"+k.Name) {
			s.list(w, r, k)
			return
		}
	}
	u, found := s.objects[path]
	if !found {
		status(w, http.StatusNotFound, "NotFound", path+" not found")
		return
	}
	answer(w, http.StatusOK, u.Object)
}

// list knows selectors by labels and by name, and pages.
func (s *Server) list(w http.ResponseWriter, r *http.Request, k kind) {
	var paths []string
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		status(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	for p, u := range s.objects {
		name, byName := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
		switch {
		case u.GetKind() != k.Kind, !strings.HasPrefix(p, r.URL.Path+"/") && r.URL.Path != k.path+"/"+k.Name,
			!selector.Matches(labels.Set(u.GetLabels())), byName && name != u.GetName():
		default:
			paths = append(paths, p)
		}
	}
	sort.Sort(sort.Reverse(sort.StringSlice(paths))) // agentctl sorts by itself
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	to, metadata := len(paths), map[string]any{}
	if limit, err := strconv.Atoi(r.URL.Query().Get("limit")); err == nil && from+limit < to {
		to = from + limit
		metadata["continue"] = strconv.Itoa(to)
	}
	items := []any{}
	for _, p := range paths[from:to] {
		items = append(items, s.objects[p].Object)
	}
	answer(w, http.StatusOK, map[string]any{
		"apiVersion": strings.TrimPrefix(strings.TrimPrefix(k.path, "/apis/"), "/api/"), "kind": k.Kind + "List", "metadata": metadata, "items": items,
	})
}

func (s *Server) write(w http.ResponseWriter, r *http.Request, check func(u *unstructured.Unstructured, there bool) bool) {
	u := &unstructured.Unstructured{}
	if err := json.NewDecoder(r.Body).Decode(&u.Object); err != nil {
		status(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	_, there := s.objects[collection(u)+"/"+u.GetName()]
	if !check(u, there) {
		return
	}
	if r.URL.Query().Get("dryRun") != "" {
		if s.refuses != "" {
			status(w, http.StatusUnprocessableEntity, "Invalid", s.refuses)
			return
		}
		unstructured.RemoveNestedField(u.Object, "data", "pruned") // as a server does with what its schema lacks
		answer(w, http.StatusOK, u.Object)
		return
	}
	if u.GetKind() == "Cluster" {
		s.agent(u)
	}
	s.store(u)
	answer(w, http.StatusOK, u.Object)
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		panic(err)
	}
}

func status(w http.ResponseWriter, code int, reason, message string) {
	answer(w, code, map[string]any{
		"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": code,
	})
}

// Says is an agent that gives every Cluster it sees one condition.
func Says(kind, value, reason, message string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		u.Object["status"] = map[string]any{"conditions": []any{map[string]any{
			"type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": "2026-01-02T03:04:05Z",
		}}}
	}
}

// Writes are the requests that were not reads, and not on trial, a line for each.
func (s *Server) Writes() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintln(strings.Join(s.made, "\n"))
}

// SetAgent has agent see each Cluster that is written from now on.
func (s *Server) SetAgent(agent func(cluster *unstructured.Unstructured)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.agent = agent
}

// Deny takes a right, as verb and resource, from all accounts.
func (s *Server) Deny(right string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied = right
}

// SetClock lets the clock be wrong.
func (s *Server) SetClock(ahead time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = ahead
}

// RemoveCRDs is as if the chart had not been installed.
func (s *Server) RemoveCRDs() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noCRDs = true
}

// Object is an object that is kept, by its path, or nil.
func (s *Server) Object(path string) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[path] == nil {
		return nil
	}
	return s.objects[path].DeepCopy()
}

// Parse reads an object that a test has as YAML.
func Parse(t interface {
	Helper()
	Fatal(args ...any)
}, text string,
) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}
