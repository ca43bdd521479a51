// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package importing

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/apitest"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/documents"
)

const twoClusters = `
apiVersion: v1
kind: List
items:
- apiVersion: clusterregistry.k8s.cisco.com/v1alpha1
  kind: Cluster
  metadata: {name: beta, labels: {team: blue}}
  spec: {clusterID: id-beta}
- apiVersion: clusterregistry.k8s.cisco.com/v1alpha1
  kind: Cluster
  metadata: {name: gamma}
  spec: {clusterID: id-gamma}
`

// When the API server refuses what it took on trial, the error says how far it got, and another run does the rest.
func TestWriteFails(t *testing.T) {
	t.Parallel()
	s := apitest.New()
	defer s.Close()
	s.Put(apitest.Parse(t, "{apiVersion: v1, kind: Namespace, metadata: {name: kube-system, uid: id-alpha}}"))
	full := true
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if full && r.Method == http.MethodPost && r.URL.Query().Get("dryRun") == "" && bytes.Contains(body, []byte("gamma")) {
			http.Error(w, "the disk is full", http.StatusInsufficientStorage)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.Serve(w, r)
	}))
	defer proxy.Close()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	kubeconfig := `{apiVersion: v1, kind: Config, current-context: east, users: [], clusters: [{name: c, cluster: {server: "` + proxy.URL + `"}}], contexts: [{name: east, context: {cluster: c}}]}`
	if err := os.WriteFile(path, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func() (string, error) {
		var stdout bytes.Buffer
		o := &Options{Access: clusters.Access{Kubeconfig: path}, File: "-", Stdin: strings.NewReader(twoClusters), Namespace: "n"}
		err := o.Run(t.Context(), &cli.Output{Stdout: &stdout, Stderr: io.Discard, Format: "table"})
		return stdout.String(), err
	}
	out, err := run()
	if out != "context east: Cluster beta created\n" || err == nil || !strings.HasSuffix(err.Error(), "; 1 object was written before, and the command can be repeated") || !strings.HasPrefix(err.Error(), "context east: Cluster gamma: ") {
		t.Errorf("%q, %v", out, err)
	}
	full = false
	if out, err := run(); err != nil || out != "context east: Cluster beta unchanged\ncontext east: Cluster gamma created\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	if err := (&Options{}).Validate(); cli.ExitCode(err) != cli.ExitUsage {
		t.Error(err)
	}
}

// A cluster is written over the object that stands for it, whatever its name, and what is this cluster's own stays.
func TestPlan(t *testing.T) {
	t.Parallel()
	docs, err := documents.Read(strings.NewReader(twoClusters), []string{"-"})
	if err != nil {
		t.Fatal(err)
	}
	entries, wrong := decode(docs)
	if len(entries) != 2 || len(wrong) > 0 {
		t.Fatalf("%d entries, %v", len(entries), wrong)
	}
	here := &target{id: "id-alpha", namespace: "n", known: []unstructured.Unstructured{
		*apitest.Parse(t, `
apiVersion: clusterregistry.k8s.cisco.com/v1alpha1
kind: Cluster
metadata:
  name: beta-01234567
  labels: {cluster-registry.k8s.cisco.com/resource-owner-cluster-id: id-beta}
  annotations: {cluster-registry.k8s.cisco.com/resource-owner-cluster-id: id-beta}
spec: {clusterID: id-beta, authInfo: {secretRef: {name: peer, namespace: n-private}}}`),
	}}
	writes, wrong := here.plan(entries)
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	var got []map[string]any
	for _, w := range writes {
		got = append(got, w.object.Object)
	}
	want := []map[string]any{
		apitest.Parse(t, `
apiVersion: clusterregistry.k8s.cisco.com/v1alpha1
kind: Cluster
metadata: {name: beta-01234567}
spec: {clusterID: id-beta, authInfo: {secretRef: {name: peer, namespace: n-private}}}`).Object,
		apitest.Parse(t, `
apiVersion: clusterregistry.k8s.cisco.com/v1alpha1
kind: Cluster
metadata: {name: gamma}
spec: {clusterID: id-gamma}`).Object,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	large := strings.Replace(twoClusters, "{team: blue}", "{team: "+strings.Repeat("b", maxObject)+"}", 1)
	docs, err := documents.Read(strings.NewReader(large), []string{"-"})
	if err != nil {
		t.Fatal(err)
	}
	if _, wrong := decode(docs); len(wrong) != 1 || wrong[0] != (problem{"-", 5, "the object is larger than 1024 KiB"}) {
		t.Errorf("%d problems", len(wrong))
	}
	if _, err := documents.Split("f", make([]byte, documents.MaxFile+1)); err == nil {
		t.Error("a file of more than MaxFile was read")
	}
}

// FuzzDecode: no file makes import panic, and what it would write is Clusters and credentials in one namespace.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(twoClusters))
	f.Add([]byte(`{"kind":"List","items":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"beta","namespace":"n"},"type":"k8s.cisco.com/cluster-registry-secret","data":{"kubeconfig":"aA=="}},3]}`))
	f.Add([]byte("apiVersion: clusterregistry.k8s.cisco.com/v1alpha1\nkind: Cluster\nmetadata: {name: a}\nspec: {clusterID: 1, mesh: {publicKey: x}}\n---\na: &a [*a]\n"))
	f.Add([]byte("apiVersion: clusterregistry.k8s.cisco.com/v1alpha1\nkind: Cluster\nmetadata: []\nspec: \n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, err := documents.Split("f", data)
		if err != nil {
			return
		}
		entries, wrong := decode(docs)
		if len(wrong) > 0 {
			return
		}
		writes, _ := (&target{id: "id-alpha", namespace: "n"}).plan(entries)
		for _, w := range writes {
			kind, namespace := w.object.GetKind(), w.object.GetNamespace()
			if w.object.GetName() == "" || w.why == "" && (kind != "Cluster" || namespace != "") && (kind != "Secret" || namespace != "n") {
				t.Fatalf("%q would be written: %v", w.title(), w.object.Object)
			}
		}
	})
}
