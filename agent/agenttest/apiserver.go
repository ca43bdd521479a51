// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agenttest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/kube"
)

// APIServer keeps objects in memory, by name alone: kind and namespace are ignored, and there are no conflicts.
type APIServer struct {
	// Put is called, if it is set, before an object is replaced.
	Put func(name string)

	mu      sync.Mutex
	objects map[string][]byte // as JSON
	largest int
	written int
	read    int
	failing int
	deleted []string
}

// NewAPIServer starts an empty server for the test, and returns a client of it.
func NewAPIServer(t *testing.T) (*APIServer, *kube.Client) {
	t.Helper()
	s := &APIServer{objects: map[string][]byte{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	client, err := kube.NewClient(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return s, client
}

// FailDeletes makes the next n deletes fail.
func (s *APIServer) FailDeletes(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = n
}

// Deleted returns the names that were deleted since the last call.
func (s *APIServer) Deleted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.deleted
	s.deleted = nil
	return out
}

// Writes is how many objects were created or replaced, and the size of the largest in bytes as it was sent.
func (s *APIServer) Writes() (n, largest int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written, s.largest
}

// Reads is how many objects were asked for.
func (s *APIServer) Reads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read
}

// Object returns an object as JSON, nil if there is none.
func (s *APIServer) Object(name string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[name]
}

// SetObject sets an object, as JSON; nil deletes it.
func (s *APIServer) SetObject(name string, object []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[name] = object; object == nil {
		delete(s.objects, name)
	}
}

// ServeHTTP implements http.Handler.
func (s *APIServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := path.Base(r.URL.Path)
	if r.Method == http.MethodPut && s.Put != nil {
		s.Put(name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch r.Method {
	case http.MethodPost, http.MethodPut:
		sent, _ := io.ReadAll(r.Body)
		body := asJSON(sent)
		var named struct{ Metadata struct{ Name string } }
		if err := json.Unmarshal(body, &named); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		s.largest = max(s.largest, len(sent))
		s.written++
		s.objects[named.Metadata.Name] = body
		_, _ = w.Write(body)
	case http.MethodDelete:
		if s.failing > 0 {
			s.failing--
			http.Error(w, "not now", http.StatusInternalServerError)
			return
		}
		s.deleted = append(s.deleted, name)
		if _, found := s.objects[name]; !found {
			answerNotFound(w)
			return
		}
		delete(s.objects, name)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Success"}`))
	default:
		s.read++
		if s.objects[name] == nil {
			answerNotFound(w)
			return
		}
		_, _ = w.Write(s.objects[name])
	}
}

func answerNotFound(w http.ResponseWriter) {
	w.WriteHeader(http.StatusNotFound)
	_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: 404})
}

// asJSON converts an object to JSON if it was sent as protobuf.
func asJSON(body []byte) []byte {
	if !bytes.HasPrefix(body, []byte("k8s\x00")) {
		return body
	}
	object, kind, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil
	}
	object.GetObjectKind().SetGroupVersionKind(*kind)
	data, err := json.Marshal(object)
	if err != nil {
		return nil
	}
	return data
}
