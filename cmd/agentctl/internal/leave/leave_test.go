// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package leave

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/apitest"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]cli.Options{
		"--timeout must be more than 0, and is 0s":                              &Options{},
		"--timeout must be more than 0, and is -1s":                             &RemoveOptions{Name: "beta", Timeout: -time.Second},
		"remove needs the name of one cluster, as `agentctl clusters` lists it": &RemoveOptions{Timeout: time.Minute},
	} {
		if err := o.Validate(); err == nil || err.Error() != name || cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("want %q, got %v", name, err)
		}
	}
}

// A cluster that is alone has nothing to leave, and a dry run writes nothing.
func TestAlone(t *testing.T) {
	t.Parallel()
	s := apitest.New()
	defer s.Close()
	s.Put(apitest.Parse(t, "{apiVersion: v1, kind: Namespace, metadata: {name: kube-system, uid: id-alpha}}"))
	s.Put(apitest.Parse(t, "{apiVersion: clusterregistry.k8s.cisco.com/v1alpha1, kind: Cluster, metadata: {name: alpha}, spec: {clusterID: id-alpha}}"))
	s.Put(apitest.Parse(t, "{apiVersion: clusterregistry.k8s.cisco.com/v1alpha1, kind: Cluster, metadata: {name: listed}, spec: {}}")) // joins nothing
	path := filepath.Join(t.TempDir(), "kubeconfig")
	kubeconfig := `{apiVersion: v1, kind: Config, current-context: east, users: [], clusters: [{name: c, cluster: {server: "` + s.URL + `"}}], contexts: [{name: east, context: {cluster: c}}]}`
	if err := os.WriteFile(path, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	at := clusters.Access{Kubeconfig: path}
	for want, o := range map[string]cli.Options{
		`"note": "it was in no group"`: &Options{Access: at, Timeout: time.Minute},
		`"orphans": []`:                &Options{Access: at, Timeout: time.Minute, DryRun: true},
	} {
		var stdout, stderr bytes.Buffer
		if err := o.Run(t.Context(), &cli.Output{Stdout: &stdout, Stderr: &stderr, Format: "json"}); err != nil || !strings.Contains(stdout.String(), want) {
			t.Errorf("want %s, got %s (%s), %v", want, &stdout, &stderr, err)
		}
	}
	err := (&RemoveOptions{Access: at, Name: "beta", Timeout: time.Minute}).Run(t.Context(), &cli.Output{Format: "table"})
	if err == nil || err.Error() != `no cluster "beta" in context east; it lists: listed` || cli.ExitCode(err) != cli.ExitUsage {
		t.Error(err)
	}
	if writes := strings.TrimSpace(s.Writes()); writes != "" {
		t.Errorf("written: %s", writes)
	}
}

// TestRemoveSaysWhatBecomesOfAdmitted: a removal says in one change what becomes of those that the cluster had admitted, whatever
// an earlier attempt has left on the object.
func TestRemoveSaysWhatBecomesOfAdmitted(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]*RemoveOptions{"keep": {KeepAdmitted: true}, "with": {WithAdmitted: true}} {
		s := apitest.New()
		defer s.Close()
		s.Put(apitest.Parse(t, "{apiVersion: v1, kind: Namespace, metadata: {name: kube-system, uid: id-alpha}}"))
		s.Put(apitest.Parse(t, "{apiVersion: clusterregistry.k8s.cisco.com/v1alpha1, kind: Cluster, metadata: {name: alpha}, spec: {clusterID: id-alpha}}"))
		s.Put(apitest.Parse(t, `{apiVersion: clusterregistry.k8s.cisco.com/v1alpha1, kind: Cluster, metadata: {name: beta, annotations: {
			local.cluster-registry.k8s.cisco.com/remove-admitted: `+map[string]string{"keep": "with", "with": "keep"}[want]+`}},
			spec: {clusterID: id-beta, mesh: {publicKey: a2V5}}, status: {admittedBy: [id-alpha]}}`))
		var seen []map[string]string
		s.SetAgent(func(c *unstructured.Unstructured) { seen = append(seen, c.GetAnnotations()) })
		path := filepath.Join(t.TempDir(), "kubeconfig")
		kubeconfig := `{apiVersion: v1, kind: Config, current-context: east, users: [], clusters: [{name: c, cluster: {server: "` + s.URL + `"}}], contexts: [{name: east, context: {cluster: c}}]}`
		if err := os.WriteFile(path, []byte(kubeconfig), 0o600); err != nil {
			t.Fatal(err)
		}
		o.Access, o.Name, o.Timeout = clusters.Access{Kubeconfig: path}, "beta", time.Millisecond
		if err := o.Run(t.Context(), &cli.Output{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}, Format: "json"}); err == nil || !strings.Contains(err.Error(), "not everybody has confirmed it") {
			t.Fatal(err)
		}
		if len(seen) != 1 || seen[0][v1alpha1.AnnotationRemove] != "a2V5" || seen[0][v1alpha1.AnnotationRemoveAdmitted] != want {
			t.Errorf("%s: the object was written with %v", want, seen)
		}
	}
}

// TestBranchIsRemovedOneByOne: where the agent found the cluster removed by another member, what it had admitted is still there: each
// of those is removed by itself before the command says that they are.
func TestBranchIsRemovedOneByOne(t *testing.T) {
	t.Parallel()
	s := apitest.New()
	defer s.Close()
	s.Put(apitest.Parse(t, "{apiVersion: v1, kind: Namespace, metadata: {name: kube-system, uid: id-alpha}}"))
	s.Put(apitest.Parse(t, `{apiVersion: clusterregistry.k8s.cisco.com/v1alpha1, kind: Cluster, metadata: {name: alpha, uid: a}, spec: {clusterID: id-alpha},
		status: {conditions: [{type: RemovalsConfirmed, status: "True", reason: Confirmed, message: "", lastTransitionTime: "2026-01-02T03:04:05Z"}]}}`))
	for name, by := range map[string]string{"beta": "alpha", "gamma": "beta", "delta": "alpha"} {
		s.Put(apitest.Parse(t, `{apiVersion: clusterregistry.k8s.cisco.com/v1alpha1, kind: Cluster, metadata: {name: `+name+`, uid: `+name+`},
			spec: {clusterID: id-`+name+`, mesh: {publicKey: a2V5}}, status: {admittedBy: [id-`+by+`]}}`))
	}
	s.SetAgent(func(c *unstructured.Unstructured) {
		if _, asked := c.GetAnnotations()[v1alpha1.AnnotationRemove]; asked {
			c.SetUID("another one") // the object that was there is gone
		}
	})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	kubeconfig := `{apiVersion: v1, kind: Config, current-context: east, users: [], clusters: [{name: c, cluster: {server: "` + s.URL + `"}}], contexts: [{name: east, context: {cluster: c}}]}`
	if err := os.WriteFile(path, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	o := &RemoveOptions{Access: clusters.Access{Kubeconfig: path}, Name: "beta", Timeout: time.Minute, WithAdmitted: true}
	var stdout bytes.Buffer
	if err := o.Run(t.Context(), &cli.Output{Stdout: &stdout, Stderr: &bytes.Buffer{}, Format: "json"}); err != nil {
		t.Fatal(err)
	}
	if writes := s.Writes(); strings.Count(writes, "/clusters/beta") != 1 || strings.Count(writes, "/clusters/gamma") != 1 || strings.Contains(writes, "/clusters/delta") {
		t.Errorf("written: %s", writes)
	}
	if !strings.Contains(stdout.String(), `"gamma"`) {
		t.Errorf("it says %s", &stdout)
	}
}
