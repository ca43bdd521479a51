// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registryapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	view "github.com/roster-mesh/roster/kube/api/registry/v1alpha1"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/kube/client/informers/externalversions"
	"github.com/roster-mesh/roster/kube/client/versioned"
)

func names(list *v1alpha1.ClusterList) string {
	if list == nil {
		return ""
	}
	out := make([]string, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, list.Items[i].Name)
	}
	return strings.Join(out, " ")
}

// rest is a client for any path, of the administrator.
func (f *front) rest(t *testing.T) rest.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(f.as(""))
	if err != nil {
		t.Fatal(err)
	}
	return client.Discovery().RESTClient()
}

// grant gives a caller rules until the test ends, in place of those that he had by this name.
func (f *front) grant(t *testing.T, caller string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	ctx, roles, bindings := t.Context(), f.Kube.RbacV1().ClusterRoles(), f.Kube.RbacV1().ClusterRoleBindings()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "test-" + caller}, Rules: rules}
	if _, err := roles.Get(ctx, role.Name, metav1.GetOptions{}); err == nil {
		if _, err := roles.Update(ctx, role, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		return
	}
	if _, err := roles.Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := bindings.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: caller}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		if err := errors.Join(bindings.Delete(ctx, role.Name, metav1.DeleteOptions{}), roles.Delete(ctx, role.Name, metav1.DeleteOptions{})); err != nil {
			t.Error(err)
		}
	})
}

func clusters(names []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"clusters", "clusters/status"}, Verbs: verbs, ResourceNames: names}
}

func groups(names []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{view.GroupName}, Resources: []string{"clustergroups"}, Verbs: verbs, ResourceNames: names}
}

// listed is what a caller's list has.
func (f *front) listed(t *testing.T, caller string) []string {
	t.Helper()
	list, err := f.shown(t, caller).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for i := range list.Items {
		out = append(out, list.Items[i].Name)
	}
	return out
}

// sees waits until a caller's list is what it should be: his rights may be known some seconds later.
func (f *front) sees(t *testing.T, caller string, want ...string) {
	t.Helper()
	slices.Sort(want)
	eventually(t, fmt.Sprintf("%s sees %v", caller, want), func(context.Context) error {
		if got := f.listed(t, caller); !slices.Equal(got, want) {
			return fmt.Errorf("he sees %v", got)
		}
		return nil
	})
}

// testPages: chunks of a list belong to one version; who does not see everything gets one, without the names of others.
func (f *front) testPages(t *testing.T) {
	for _, name := range []string{"page-a", "page-b", "page-c"} {
		f.make(t, cluster(name, ""))
	}
	f.grant(t, "pages", clusters([]string{"page-c"}, "get"))
	f.sees(t, "pages", "page-c")
	first, err := f.shown(t, "").List(t.Context(), metav1.ListOptions{Limit: 2})
	if err != nil || len(first.Items) != 2 || first.Continue == "" || first.RemainingItemCount != nil {
		t.Fatalf("%+v, %v", first, err)
	}
	second, err := f.shown(t, "").List(t.Context(), metav1.ListOptions{Limit: 2, Continue: first.Continue})
	if err != nil || len(second.Items) != 1 || second.ResourceVersion != first.ResourceVersion {
		t.Errorf("%+v, %v", second, err)
	}
	one, err := f.shown(t, "pages").List(t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil || len(one.Items) != 1 || one.Items[0].Name != "page-c" || one.Continue != "" {
		t.Errorf("%+v, %v", one, err)
	}
	if none, err := f.shown(t, "nobody").List(t.Context(), metav1.ListOptions{Limit: 1}); err != nil || len(none.Items) != 0 || none.Continue != "" || none.ResourceVersion == "" {
		t.Errorf("%+v, %v", none, err)
	}
}

// testGroups: a right to a group is one to what is in it, and into another group it takes both.
func (f *front) testGroups(t *testing.T) {
	ctx, client := t.Context(), f.shown(t, "keeper")
	f.grant(t, "keeper", groups([]string{"blue"}, "get", "update"), groups([]string{"green"}, "get"))
	f.make(t, cluster("group-blue", "blue"))
	f.make(t, cluster("group-green", "green"))
	f.make(t, cluster("group-red", "red"))
	f.sees(t, "keeper", "group-blue", "group-green")
	label := func(name, group string) error {
		_, err := client.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"labels":{"clusterregistry.k8s.io/cluster-group":`+group+`}}}`), metav1.PatchOptions{})
		return err
	}
	if _, err := client.Patch(ctx, "group-blue", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("in a group that he may update: %v", err)
	}
	for what, err := range map[string]error{
		"out of his group":     label("group-blue", "null"),
		"into a foreign group": label("group-blue", `"green"`),
		"of a group he reads":  label("group-green", `"blue"`),
		"delete there":         client.Delete(ctx, "group-green", metav1.DeleteOptions{}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// Hidden and missing are the same.
	_, hidden := client.Get(ctx, "group-red", metav1.GetOptions{})
	_, missing := client.Get(ctx, "group-xxx", metav1.GetOptions{})
	if !apierrors.IsNotFound(hidden) || strings.ReplaceAll(hidden.Error(), "red", "xxx") != missing.Error() {
		t.Errorf("hidden: %v; missing: %v", hidden, missing)
	}
	hidden, missing = label("group-red", `"blue"`), label("group-xxx", `"blue"`)
	if !apierrors.IsNotFound(hidden) || strings.ReplaceAll(hidden.Error(), "red", "xxx") != missing.Error() {
		t.Errorf("patch of a hidden: %v; of a missing: %v", hidden, missing)
	}
	hidden, missing = client.Delete(ctx, "group-red", metav1.DeleteOptions{}), client.Delete(ctx, "group-xxx", metav1.DeleteOptions{})
	if !apierrors.IsNotFound(hidden) || strings.ReplaceAll(hidden.Error(), "red", "xxx") != missing.Error() {
		t.Errorf("delete of a hidden: %v; of a missing: %v", hidden, missing)
	}
	if _, err := client.Create(ctx, cluster("group-red", "blue"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("create of a taken name: %v", err)
	}
	f.removed(t, "group-new")
	if _, err := client.Create(ctx, cluster("group-new", "blue"), metav1.CreateOptions{}); err != nil {
		t.Errorf("create in his group: %v", err)
	}
	if _, err := client.Create(ctx, cluster("group-no", ""), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("create in no group: %v", err)
	}
	if err := client.Delete(ctx, "group-new", metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete in his group: %v", err)
	}
}

// testProtected: what agents act on takes a right to the stored Cluster.
func (f *front) testProtected(t *testing.T) {
	ctx := t.Context()
	f.grant(t, "group-writer", groups([]string{"guarded"}, "get", "update"))
	f.make(t, cluster("guarded", "guarded"))
	f.sees(t, "group-writer", "guarded")
	patch := func(caller, body string) error {
		_, err := f.shown(t, caller).Patch(ctx, "guarded", types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	remove := `{"metadata":{"annotations":{"local.cluster-registry.k8s.cisco.com/remove":"key"}}}`
	credential := `{"spec":{"authInfo":{"controller":{"kind":"Secret","name":"credential","namespace":"cluster-registry"}}}}`
	address := `{"spec":{"kubernetesApiEndpoints":{"serverEndpoints":[{"serverAddress":"attacker.example.com"}]}}}`
	for what, body := range map[string]string{"removal": remove, "a credential": credential} {
		if err := patch("group-writer", body); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := patch("", credential); err != nil {
		t.Error(err)
	}
	if err := patch("group-writer", address); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "kubernetesApiEndpoints") {
		t.Errorf("the address that a credential is sent to: %v", err)
	}
	if err := patch("", address); err != nil {
		t.Error(err)
	}
}

// testRightsChange: a watch ends with 410 when its caller sees more or less, and another one goes on.
func (f *front) testRightsChange(t *testing.T) {
	ctx := t.Context()
	f.make(t, cluster("rights-a", ""))
	f.make(t, cluster("rights-b", ""))
	f.grant(t, "changing", clusters([]string{"rights-a"}, "get"))
	f.grant(t, "constant", clusters([]string{"rights-a"}, "get"))
	f.sees(t, "changing", "rights-a")
	f.sees(t, "constant", "rights-a")
	constant, err := f.shown(t, "constant").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer constant.Stop()
	for _, now := range [][]string{{"rights-a", "rights-b"}, {"rights-b"}} {
		w, err := f.shown(t, "changing").Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		f.grant(t, "changing", clusters(now, "get"))
		began := time.Now()
		status := ended(t, w)
		if status.Code != http.StatusGone {
			t.Errorf("the watch ended with %+v", status)
		}
		if took := time.Since(began); took > rightsWithin {
			t.Errorf("the watch ended after %s", took)
		}
		if got := f.listed(t, "changing"); !slices.Equal(got, now) {
			t.Errorf("after 410 he sees %v, of %v", got, now)
		}
	}
	if e := <-constant.ResultChan(); e.Type != watch.Added {
		t.Errorf("the other watch: %s %v", e.Type, e.Object)
	}
	select {
	case e, ok := <-constant.ResultChan():
		t.Errorf("the other watch: %v %v", e, ok)
	default:
	}
}

// ended returns the error that ends a watch.
func ended(t *testing.T, w watch.Interface) *metav1.Status {
	t.Helper()
	defer w.Stop()
	deadline := time.After(within)
	for {
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				t.Fatal("the watch ended without an error")
			}
			if status, is := e.Object.(*metav1.Status); is {
				return status
			}
		case <-deadline:
			t.Fatal("the watch goes on")
		}
	}
}

// testInformer: client-go's informers, which stream their list where the API server can, follow.
func (f *front) testInformer(t *testing.T) {
	client, err := versioned.NewForConfig(f.as(""))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	factory := externalversions.NewSharedInformerFactory(client, 0)
	defer factory.Shutdown()
	defer stop()
	informer := factory.Registry().V1alpha1().Clusters()
	synced := informer.Informer().HasSynced
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), synced) {
		t.Fatal("it has not synced")
	}
	f.make(t, cluster("informed", ""))
	eventually(t, "the informer has a new Cluster", func(context.Context) error {
		_, err := informer.Lister().Get("informed")
		return err
	})
	if err := f.shown(t, "").Delete(ctx, "informed", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "and not when it is gone", func(context.Context) error {
		if _, err := informer.Lister().Get("informed"); !apierrors.IsNotFound(err) {
			return errNotYet
		}
		return nil
	})
}

// testForgedHeaders: only the API server in front is believed who the caller is.
func (f *front) testForgedHeaders(t *testing.T) {
	if f.direct == "" {
		t.Skip("nothing is in front of a standalone API server")
	}
	f.make(t, cluster("forged", ""))
	config, err := rest.TLSConfigFor(f.Config)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(user, group string, certificate bool) (status int, body string) {
		t.Helper()
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // who is asked does not matter here
		defer transport.CloseIdleConnections()
		if certificate {
			transport.TLSClientConfig.Certificates, transport.TLSClientConfig.GetClientCertificate = config.Certificates, config.GetClientCertificate
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.direct+"/apis/clusterregistry.k8s.io/v1alpha1/clusters", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Remote-User", user)
		request.Header.Set("X-Remote-Group", group)
		response, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(text)
	}
	if status, body := ask("admin", "system:masters", false); status != http.StatusForbidden && status != http.StatusUnauthorized {
		t.Errorf("headers without a certificate: %d %s", status, body)
	}
	// The administrator's certificate is of the same CA as the API server's, and he stays who he is.
	if status, body := ask("nobody", "system:authenticated", true); status != http.StatusOK || !strings.Contains(body, `"forged"`) {
		t.Errorf("headers with another certificate: %d %s", status, body)
	}
}
