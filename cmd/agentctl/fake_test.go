// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sort"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// apiServer answers the few requests that agentctl makes, over HTTP, so that the real client is
// tested. What a real API server does beyond them is tested in e2e.
type apiServer struct {
	*httptest.Server

	mu      sync.Mutex
	objects map[string]*unstructured.Unstructured // by path
	version int
	noCRDs  bool
	// agent plays the agent: it sees each Cluster that is written and may set its status.
	agent func(cluster *unstructured.Unstructured)
	// writes are the requests that were not reads.
	writes []string
}

func newAPIServer() *apiServer {
	s := &apiServer{objects: map[string]*unstructured.Unstructured{}, agent: func(*unstructured.Unstructured) {}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	return s
}

const clustersPath = "/apis/clusterregistry.k8s.cisco.com/v1alpha1/clusters"

func collection(u *unstructured.Unstructured) string {
	switch u.GetKind() {
	case "Cluster":
		return clustersPath
	case "Secret":
		return "/api/v1/namespaces/" + u.GetNamespace() + "/secrets"
	default:
		return "/api/v1/namespaces"
	}
}

func (s *apiServer) put(u *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(u)
}

func (s *apiServer) store(u *unstructured.Unstructured) {
	s.version++
	u.SetResourceVersion(strconv.Itoa(s.version))
	if u.GetUID() == "" {
		u.SetUID("made-here")
	}
	s.objects[collection(u)+"/"+u.GetName()] = u
}

func (s *apiServer) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.noCRDs && strings.HasPrefix(r.URL.Path, clustersPath) {
		status(w, http.StatusNotFound, "NotFound", "the server could not find the requested resource")
		return
	}
	if r.Method != http.MethodGet {
		s.writes = append(s.writes, r.Method+" "+r.URL.Path)
	}
	switch r.Method {
	case http.MethodGet:
		s.read(w, r.URL.Path)
	case http.MethodPost:
		s.write(w, r, func(u *unstructured.Unstructured, there bool) bool {
			if there {
				status(w, http.StatusConflict, "AlreadyExists", u.GetName()+" already exists")
			}
			return !there
		})
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

func (s *apiServer) read(w http.ResponseWriter, path string) {
	if path == clustersPath {
		list := map[string]any{"apiVersion": "clusterregistry.k8s.cisco.com/v1alpha1", "kind": "ClusterList", "metadata": map[string]any{}}
		items := []any{}
		var names []string
		for p := range s.objects {
			if strings.HasPrefix(p, clustersPath+"/") {
				names = append(names, p)
			}
		}
		sort.Sort(sort.Reverse(sort.StringSlice(names))) // agentctl sorts by itself
		for _, p := range names {
			items = append(items, s.objects[p].Object)
		}
		list["items"] = items
		answer(w, http.StatusOK, list)
		return
	}
	u, found := s.objects[path]
	if !found {
		status(w, http.StatusNotFound, "NotFound", path+" not found")
		return
	}
	answer(w, http.StatusOK, u.Object)
}

func (s *apiServer) write(w http.ResponseWriter, r *http.Request, check func(u *unstructured.Unstructured, there bool) bool) {
	u := &unstructured.Unstructured{}
	if err := json.NewDecoder(r.Body).Decode(&u.Object); err != nil {
		status(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	_, there := s.objects[collection(u)+"/"+u.GetName()]
	if !check(u, there) {
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

// says is an agent that gives every Cluster it sees one condition.
func says(kind, value, reason, message string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		u.Object["status"] = map[string]any{"conditions": []any{map[string]any{
			"type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": "2026-01-02T03:04:05Z",
		}}}
	}
}

func (s *apiServer) dump() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintln(strings.Join(s.writes, "\n"))
}
