// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

const rosterAPI = "/apis/clusterregistry.k8s.cisco.com/v1alpha1/"

// warnings keeps what the API server warns of.
type warnings []string

func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	*w = append(*w, text)
}

// makeCluster creates a Cluster object of the one clusterID that these tests have.
func makeCluster(t *testing.T, client rest.Interface, name string) error {
	t.Helper()
	body := fmt.Sprintf(`{"apiVersion":%q,"kind":"Cluster","metadata":{"name":%q},"spec":{"clusterID":"8f6b1a0e-63f4-4a0c-8ad5-000000000001"}}`, v1alpha1.SchemeGroupVersion, name)
	return client.Post().AbsPath(rosterAPI+"clusters").SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(t.Context()).Error()
}

// TestReadyWithPolicies: who is told that the server is ready finds its admission policies in force, after the first start and
// after each that follows, with params of a CRD's kind, too.
func TestReadyWithPolicies(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d")
	s := start(t, dir)
	client, warned := s.kubernetes(t).CoreV1().RESTClient(), &warnings{}
	body := fmt.Sprintf(`{"apiVersion":%q,"kind":"ResourceSyncRule","metadata":{"name":"roles"},"spec":{`+
		`"groupVersionKind":{"group":"rbac.authorization.k8s.io","version":"v1","kind":"Role"},"rules":[{"match":[{"namespaces":["shop"]}]}]}}`, v1alpha1.SchemeGroupVersion)
	err := client.Post().AbsPath(rosterAPI+"resourcesyncrules").Param("dryRun", "All").SetHeader("Content-Type", "application/json").
		WarningHandlerWithContext(warned).Body([]byte(body)).Do(t.Context()).Error()
	if err != nil || !strings.Contains(strings.Join(*warned, " "), "this cluster writes no copies of Role.rbac.authorization.k8s.io") {
		t.Errorf("a rule that this cluster will not obey, right after the first start: %v, warnings %q", err, *warned)
	}
	if err := makeCluster(t, client, "first"); err != nil {
		t.Fatal(err)
	}
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL} {
		_ = s.Signal(signal, within)
		s = start(t, dir)
		err := makeCluster(t, s.kubernetes(t).CoreV1().RESTClient(), "second")
		if err == nil || !strings.Contains(err.Error(), "Cluster first has this clusterID already") {
			t.Fatalf("another object of this cluster, right after the start that followed %v: %v", signal, err)
		}
	}
}
