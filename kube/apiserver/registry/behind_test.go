// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	clientrest "k8s.io/client-go/rest"

	view "github.com/roster-mesh/roster/kube/api/registry/v1alpha1"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/kube/apiserver/registry/rights"
)

// apiServer is the API server behind: it answers as a test says, and remembers what it is asked.
type apiServer struct {
	answer func(http.ResponseWriter, *http.Request)

	mu    sync.Mutex
	asked []string // paths with decoded queries
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s.mu.Lock()
	s.asked = append(s.asked, strings.TrimSpace(strings.Join([]string{r.Method, r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:], watching(q.Get("watch")), q.Get("labelSelector"), q.Get("fieldSelector")}, " ")))
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	s.answer(w, r)
}

func watching(value string) string {
	if value == "" {
		return "once"
	}
	return "watch"
}

// text answers with a status and a body.
func text(code int, body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}
}

const noClusters = `{"apiVersion":"clusterregistry.k8s.cisco.com/v1alpha1","kind":"ClusterList","metadata":{"resourceVersion":"150"},"items":[]}`

// roles are those of the caller, which the authorizer goes by.
type roles struct {
	names, groups []string
	version       string
	asked         func(string) // is told what the authorizer is asked about; may be nil
}

func (r roles) RulesFor(context.Context, user.Info) (out []rbacv1.PolicyRule, _ error) {
	if len(r.names) > 0 {
		out = append(out, rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"clusters"}, ResourceNames: r.names})
	}
	if len(r.groups) > 0 {
		out = append(out, rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{view.GroupName}, Resources: []string{"clustergroups"}, ResourceNames: r.groups})
	}
	return out, nil
}

func (r roles) Version() string { return r.version }

func (r roles) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if r.asked != nil {
		r.asked(a.GetResource() + "/" + a.GetName())
	}
	granted := map[string][]string{v1alpha1.GroupName: r.names, view.GroupName: r.groups}[a.GetAPIGroup()]
	for _, name := range granted {
		if name == "*" || name == a.GetName() {
			return authorizer.DecisionAllow, "", nil
		}
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// serve returns a store in front of an API server, and the context of a caller.
func serve(t testing.TB, s *apiServer, r roles) (*store, context.Context) {
	t.Helper()
	behind := httptest.NewServer(s)
	t.Cleanup(behind.Close)
	clusters, lists, err := Clients(&clientrest.Config{Host: behind.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	may := rights.New(rights.Options{Authorizer: authorizer.AuthorizerFunc(r.Authorize), Roles: r})
	ctx := genericapirequest.WithUser(t.Context(), &user.DefaultInfo{Name: "somebody"})
	return &store{New(Options{Clusters: clusters, Lists: lists, Behind: "behind.example", Rights: may})}, ctx
}

// A watch goes on from a list only if what the caller sees is what he saw then.
func TestWatchAfterAChangeOfRights(t *testing.T) {
	t.Parallel()
	for version, gone := range map[string]bool{"99": true, "100": false, "1000": false, "": false, "0": false} {
		s, ctx := serve(t, &apiServer{answer: text(http.StatusOK, noClusters)}, roles{groups: []string{"prod"}, version: "100"})
		w, err := s.Watch(ctx, &internalversion.ListOptions{ResourceVersion: version})
		if gone != apierrors.IsResourceExpired(err) || !gone && err != nil {
			t.Errorf("from version %q: %v", version, err)
		}
		if err == nil {
			w.Stop()
		}
	}
	s, ctx := serve(t, &apiServer{answer: text(http.StatusOK, noClusters)}, roles{groups: []string{"prod"}, version: "100"})
	for _, version := range []string{"abc", "-1", "1.5"} {
		if _, err := s.Watch(ctx, &internalversion.ListOptions{ResourceVersion: version}); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), version) {
			t.Errorf("from version %q: %v", version, err)
		}
	}
}

// A list from a cache that is older than the last change of roles is one that no watch can go on from: a newer one is given.
func TestListAfterAChangeOfRights(t *testing.T) {
	t.Parallel()
	server := &apiServer{answer: func(w http.ResponseWriter, r *http.Request) {
		version := "150"
		if r.URL.Query().Get("resourceVersion") != "" {
			version = "90"
		}
		text(http.StatusOK, strings.ReplaceAll(noClusters, "150", version))(w, r)
	}}
	s, ctx := serve(t, server, roles{groups: []string{"prod"}, version: "100"})
	for _, tt := range []struct {
		version string
		match   metav1.ResourceVersionMatch
		want    string
	}{{"0", "", "150"}, {"80", "", "150"}, {"", "", "150"}, {"90", metav1.ResourceVersionMatchExact, "90"}} {
		got, err := s.List(ctx, &internalversion.ListOptions{ResourceVersion: tt.version, ResourceVersionMatch: tt.match})
		if err != nil {
			t.Fatal(err)
		}
		if list, ok := got.(*view.ClusterList); !ok || list.ResourceVersion != tt.want {
			t.Errorf("of version %q %s: %+v", tt.version, tt.match, got)
		}
	}
}

// The API server behind is asked for what is in the scope of the caller, and for nothing else where a selector can say that.
func TestWhatIsAskedBehind(t *testing.T) {
	t.Parallel()
	const group = "clusterregistry.k8s.io/cluster-group"
	for name, tt := range map[string]struct {
		roles       roles
		list, watch []string
	}{
		"nothing": {
			roles{},
			[]string{"GET clusters once team=a metadata.name!=x,metadata.name=roster-position"},
			[]string{"GET clusters watch team=a metadata.name!=x,metadata.name=roster-position"},
		},
		"one name": {
			roles{names: []string{"alpha"}},
			[]string{"GET clusters once team=a metadata.name!=x,metadata.name=alpha"},
			[]string{"GET clusters watch team=a metadata.name!=x,metadata.name=alpha"},
		},
		"groups": {
			roles{groups: []string{"prod", "test"}},
			[]string{"GET clusters once team=a," + group + " in (prod,test) metadata.name!=x"},
			[]string{"GET clusters watch team=a," + group + " in (prod,test) metadata.name!=x"},
		},
		"a name and a group": {
			roles{names: []string{"alpha"}, groups: []string{"prod"}},
			[]string{"GET clusters once team=a," + group + " in (prod) metadata.name!=x", "GET clusters once team=a metadata.name!=x,metadata.name=alpha"},
			[]string{"GET clusters once team=a," + group + " in (prod) metadata.name!=x", "GET clusters watch team=a metadata.name!=x"},
		},
	} {
		tt.roles.version = "100"
		selected := &internalversion.ListOptions{LabelSelector: labels.SelectorFromSet(labels.Set{"team": "a"}), FieldSelector: fields.OneTermNotEqualSelector("metadata.name", "x")}
		server := &apiServer{answer: text(http.StatusOK, noClusters)}
		s, ctx := serve(t, server, tt.roles)
		if _, err := s.List(ctx, selected); err != nil || !slices.Equal(server.asked, tt.list) {
			t.Errorf("%s: the list asked %q, %v", name, server.asked, err)
		}
		server.asked = nil
		selected.ResourceVersion = "150"
		w, err := s.Watch(ctx, selected)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		w.Stop()
		if !slices.Equal(server.asked, tt.watch) {
			t.Errorf("%s: the watch asked %q", name, server.asked)
		}
	}
}

// One Cluster that cannot be read is shown by its metadata, and changed by nobody; the others are shown as ever.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	const bad = `{"apiVersion":"clusterregistry.k8s.cisco.com/v1alpha1","kind":"Cluster","metadata":{"name":"bad","labels":{"clusterregistry.k8s.io/cluster-group":"prod"}},
		"spec":{"clusterID":"id"},"status":{"conditions":[{"type":"Ready","status":"True","reason":"R","lastTransitionTime":"2026-01-01t00:00:00Z"}]}}`
	const good = `{"metadata":{"name":"good","labels":{"clusterregistry.k8s.io/cluster-group":"prod"}},"spec":{"kubernetesApiEndpoints":[{"serverAddress":"a:1"}]}}`
	server := &apiServer{answer: func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/bad") {
			text(http.StatusOK, bad)(w, r)
			return
		}
		text(http.StatusOK, `{"kind":"ClusterList","metadata":{"resourceVersion":"150"},"items":[`+bad+`,`+good+`]}`)(w, r)
	}}
	s, ctx := serve(t, server, roles{groups: []string{"prod"}})
	got, err := s.List(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	list, ok := got.(*view.ClusterList)
	if !ok || list.ResourceVersion != "150" || len(list.Items) != 2 || list.Items[0].Name != "bad" || len(list.Items[1].Spec.KubernetesAPIEndpoints.ServerEndpoints) != 1 {
		t.Errorf("the list is %+v", got)
	}
	if one, err := s.Get(ctx, "bad", &metav1.GetOptions{}); err != nil {
		t.Errorf("get: %+v, %v", one, err)
	}
	_, _, err = s.Update(ctx, "bad", rest.DefaultUpdatedObjectInfo(&view.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "bad"}}), nil, nil, false, &metav1.UpdateOptions{})
	if !apierrors.IsInternalError(err) || strings.Contains(err.Error(), "2026") {
		t.Errorf("update: %v", err)
	}
	hidden, ctx := serve(t, server, roles{groups: []string{"test"}})
	if _, err := hidden.Get(ctx, "bad", &metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get of one that is hidden: %v", err)
	}
}

// After a restore of the API server behind, clients learn that their version is newer than what there is; and what is to be
// tried again is tried by them alone.
func TestVersionTooLarge(t *testing.T) {
	t.Parallel()
	server := &apiServer{answer: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "1")
		text(http.StatusGatewayTimeout, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"hidden","reason":"Timeout","code":504,
			"details":{"retryAfterSeconds":1,"causes":[{"reason":"ResourceVersionTooLarge","message":"hidden"}]}}`)(w, r)
	}}
	s, ctx := serve(t, server, roles{names: []string{"*"}, version: "100"})
	_, err := s.List(ctx, &internalversion.ListOptions{ResourceVersion: "150"})
	seconds, again := apierrors.SuggestsClientDelay(err)
	if !apierrors.IsTimeout(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) || !again || seconds != 1 || strings.Contains(err.Error(), "hidden") {
		t.Errorf("%#v", err)
	}
	if _, err := s.Watch(ctx, &internalversion.ListOptions{ResourceVersion: "150"}); !apierrors.IsTimeout(err) {
		t.Errorf("watch: %v", err)
	}
	if len(server.asked) != 2 {
		t.Errorf("asked %q", server.asked)
	}
}

// A server that does not serve the kind has said nothing about a Cluster.
func TestNotServed(t *testing.T) {
	t.Parallel()
	server := &apiServer{answer: func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "404 page not found", http.StatusNotFound) }}
	s, ctx := serve(t, server, roles{names: []string{"*"}})
	_, err := s.Get(ctx, "alpha", &metav1.GetOptions{})
	if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "install the CRDs") {
		t.Errorf("get: %v", err)
	}
	server.answer = func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch {
			http.Error(w, "404 page not found", http.StatusNotFound)
			return
		}
		text(http.StatusOK, `{"metadata":{"name":"alpha","resourceVersion":"1"}}`)(w, r)
	}
	changed := &view.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "alpha", Labels: map[string]string{"team": "a"}}}
	_, _, err = s.Update(ctx, "alpha", rest.DefaultUpdatedObjectInfo(changed), nil, nil, false, &metav1.UpdateOptions{})
	if !apierrors.IsServiceUnavailable(err) {
		t.Errorf("update: %v", err)
	}
}

// Of a Cluster that is hidden the same is asked as of one that is missing, and nothing where the caller has no group.
func TestHiddenAsMissing(t *testing.T) {
	t.Parallel()
	server := &apiServer{answer: func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/hidden") {
			text(http.StatusOK, `{"metadata":{"name":"hidden","labels":{"clusterregistry.k8s.io/cluster-group":"prod"}}}`)(w, r)
			return
		}
		text(http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"none","reason":"NotFound","code":404,"details":{"name":"missing","kind":"clusters","group":"clusterregistry.k8s.cisco.com"}}`)(w, r)
	}}
	reviews := map[string][]string{}
	for _, name := range []string{"hidden", "missing"} {
		asked := roles{groups: []string{"test"}, asked: func(of string) { reviews[name] = append(reviews[name], strings.ReplaceAll(of, name, "NAME")) }}
		s, ctx := serve(t, server, asked)
		if _, err := s.Get(ctx, name, &metav1.GetOptions{}); !apierrors.IsNotFound(err) || strings.Contains(err.Error(), "cisco") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !slices.Equal(reviews["hidden"], reviews["missing"]) || len(reviews["hidden"]) == 0 {
		t.Errorf("asked %v", reviews)
	}
	server.asked = nil
	s, ctx := serve(t, server, roles{})
	if _, err := s.Get(ctx, "hidden", &metav1.GetOptions{}); !apierrors.IsNotFound(err) || len(server.asked) > 0 {
		t.Errorf("without groups: %v, asked %q", err, server.asked)
	}
}

// A watch goes on after a Cluster that cannot be read: who sees it is told its metadata, and the others of theirs.
func TestUnreadableEvent(t *testing.T) {
	t.Parallel()
	event := func(kind, name, group, status string) string {
		return `{"type":"` + kind + `","object":{"kind":"Cluster","metadata":{"name":"` + name + `","labels":{"clusterregistry.k8s.io/cluster-group":"` + group + `"}},"status":` + status + "}}\n"
	}
	bad := `{"conditions":[{"type":"Ready","lastTransitionTime":"2026-01-01t00:00:00Z"}]}`
	server := &apiServer{answer: text(http.StatusOK, event("ADDED", "bad", "prod", bad)+event("MODIFIED", "hidden", "test", bad)+
		`{"type":"ADDED","object":{"metadata":{"name":5}}}`+event("ADDED", "good", "prod", "{}")+
		`{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"behind"}}`)}
	s, ctx := serve(t, server, roles{names: []string{"bad", "good"}, version: "100"})
	w, err := s.Watch(ctx, &internalversion.ListOptions{ResourceVersion: "150"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var got []string
	for e := range w.ResultChan() {
		switch object := e.Object.(type) {
		case *view.Cluster:
			got = append(got, string(e.Type)+" "+object.Name)
		case *metav1.Status:
			got = append(got, string(e.Type)+" "+string(object.Reason))
		}
	}
	if want := []string{"ADDED bad", "ADDED good", "ERROR Expired"}; !slices.Equal(got, want) {
		t.Errorf("the watch tells %q", got)
	}
}

// A write is sent once, whatever the API server behind says of when to try again: it may have been done.
func TestWritesAreSentOnce(t *testing.T) {
	t.Parallel()
	server := &apiServer{answer: func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			text(http.StatusOK, `{"metadata":{"name":"alpha","uid":"1","resourceVersion":"1"}}`)(w, r)
			return
		}
		w.Header().Set("Retry-After", "1")
		text(http.StatusGatewayTimeout, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"hidden","reason":"Timeout","code":504,"details":{"retryAfterSeconds":1}}`)(w, r)
	}}
	s, ctx := serve(t, server, roles{names: []string{"*"}})
	changed := &view.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "alpha", Labels: map[string]string{"team": "a"}}}
	for what, write := range map[string]func() error{
		"POST": func() error {
			_, err := s.Create(ctx, changed.DeepCopy(), nil, &metav1.CreateOptions{})
			return err
		},
		"PATCH": func() error {
			_, _, err := s.Update(ctx, "alpha", rest.DefaultUpdatedObjectInfo(changed.DeepCopy()), nil, nil, false, &metav1.UpdateOptions{})
			return err
		},
		"DELETE": func() error {
			_, _, err := s.Delete(ctx, "alpha", nil, &metav1.DeleteOptions{})
			return err
		},
	} {
		server.asked = nil
		if err := write(); !apierrors.IsTimeout(err) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", what, err)
		}
		sent := slices.DeleteFunc(server.asked, func(asked string) bool { return !strings.HasPrefix(asked, what) })
		if len(sent) != 1 {
			t.Errorf("%s: asked %q", what, sent)
		}
	}
}
