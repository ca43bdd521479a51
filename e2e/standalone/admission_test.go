// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// TestReadyWhateverUsersDo: what users make of the server's own objects, or beside them, does not keep it from being ready
// after a restart. What cannot be merged is made what it should be.
func TestReadyWhateverUsersDo(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d")
	s := start(t, dir)
	ctx, client := t.Context(), s.kubernetes(t)

	bindings := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	const consent = "cluster-registry-controller-consent"
	if _, err := bindings.Patch(ctx, consent, types.MergePatchType, []byte(`{"spec":{"validationActions":["Deny"]}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	const controller = "cluster-registry-controller"
	roles := client.RbacV1().ClusterRoleBindings()
	bound, err := roles.Get(ctx, controller, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := roles.Delete(ctx, controller, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	other := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: controller}, Subjects: bound.Subjects, RoleRef: bound.RoleRef}
	other.RoleRef.Name = "view"
	if _, err := roles.Create(ctx, other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	service := `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.nowhere.example.com"},"spec":{
		"group":"nowhere.example.com","version":"v1","groupPriorityMinimum":1000,"versionPriority":10,"insecureSkipTLSVerify":true,
		"service":{"namespace":"default","name":"nowhere"}}}`
	err = client.CoreV1().RESTClient().Post().AbsPath("/apis/apiregistration.k8s.io/v1/apiservices").
		SetHeader("Content-Type", "application/json").Body([]byte(service)).Do(ctx).Error()
	if err != nil {
		t.Fatal(err)
	}

	_ = s.Signal(syscall.SIGTERM, within)
	s = start(t, dir)
	client = s.kubernetes(t)
	binding, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Get(ctx, consent, metav1.GetOptions{})
	if err != nil || !slices.Equal(binding.Spec.ValidationActions, []admissionv1.ValidationAction{admissionv1.Warn}) {
		t.Errorf("the binding has %v, %v", binding.Spec.ValidationActions, err)
	}
	got, err := client.RbacV1().ClusterRoleBindings().Get(ctx, controller, metav1.GetOptions{})
	if err != nil || got.RoleRef != bound.RoleRef {
		t.Errorf("the binding is to %v, %v", got.RoleRef, err)
	}

	// A policy that never warns, and a webhook that nobody answers: both stay, and the server serves.
	quiet := `{"spec":{"matchResources":{"objectSelector":{"matchLabels":{"never":"there"}}}}}`
	if _, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Patch(ctx, consent, types.MergePatchType, []byte(quiet), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	hook := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "nobody"}, Webhooks: []admissionv1.ValidatingWebhook{{
		Name: "nobody.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionv1.SideEffectClassNone),
		ClientConfig: admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:9/")},
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.OperationAll},
			Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*"}},
		}},
	}}}
	if _, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, hook, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_ = s.Signal(syscall.SIGTERM, within)
	s = start(t, dir)
	if _, err := s.kubernetes(t).CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if said := s.stderr.String(); !strings.Contains(said, "serving, although something") || !strings.Contains(said, "nobody.example.com") {
		t.Errorf("it says %s", said)
	}
}
