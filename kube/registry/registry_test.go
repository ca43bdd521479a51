// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	view "github.com/roster-mesh/roster/kube/api/registry/v1alpha1"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// A view that is written back as it was read changes nothing.
func TestWriteOfWhatWasRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		have := stored().Draw(t, "stored")
		before, v := have.DeepCopy(), FromCluster(have)
		got := toCluster(t, have, v)
		same(t, "the Cluster", before, got)
		same(t, "the Cluster, by its status", before, ToClusterStatus(have, v, at(9)))
		same(t, "what was read", before, have)
	})
}

// A view reads as it was written, apart from what is not stored. A caBundle may show once the entry goes that had
// another one.
func TestReadOfWhatWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		have := stored().Draw(t, "stored")
		v := edited(t, have)
		before := v.DeepCopy()
		got := FromCluster(ToClusterStatus(toCluster(t, have, v), v, at(9)))
		same(t, "what was written", before, v)
		if v.Spec.KubernetesAPIEndpoints.CABundle == nil {
			got.Spec.KubernetesAPIEndpoints.CABundle = nil
		}
		if v.Spec.AuthInfo.Controller == nil && have.Spec.AuthInfo.Controller != nil {
			got.Spec.AuthInfo.Controller = nil // it may show the Secret that was behind it
		}
		for i := range v.Status.Conditions {
			c := &v.Status.Conditions[i]
			c.LastHeartbeatTime = metav1.Time{}
			if c.Reason == "" {
				c.Reason = ReasonNotStated
			}
			if c.LastTransitionTime.IsZero() {
				c.LastTransitionTime = got.Status.Conditions[i].LastTransitionTime
			}
		}
		same(t, "the view", v, got)
	})
}

// Whatever is written through the view, what only the stored form has survives.
func TestStoredFormSurvives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		have := stored().Draw(t, "stored")
		shown, v := FromCluster(have), edited(t, have)
		got := toCluster(t, have, v)

		if got.Spec.ClusterID != have.Spec.ClusterID || got.UID != have.UID || got.ResourceVersion != have.ResourceVersion {
			t.Errorf("identity: %+v", got)
		}
		same(t, "mesh", have.Spec.Mesh, got.Spec.Mesh)
		same(t, "status", have.Status, got.Status)
		same(t, "the API server's managedFields", have.ManagedFields, got.ManagedFields)
		was, is := shown.Spec.AuthInfo.Controller, v.Spec.AuthInfo.Controller
		if cmp.Equal(was, is) || is != nil && is.Kind != kindSecret || is == nil && was.Kind != kindSecret {
			same(t, "secretRef", have.Spec.AuthInfo.SecretRef, got.Spec.AuthInfo.SecretRef)
		}
		if cmp.Equal(was, is) {
			same(t, "controller", have.Spec.AuthInfo.Controller, got.Spec.AuthInfo.Controller)
		}
		// Of each address, the entries that stay are the first ones that there were.
		sameCA := cmp.Equal(shown.Spec.KubernetesAPIEndpoints.CABundle, v.Spec.KubernetesAPIEndpoints.CABundle)
		left := slices.Clone(have.Spec.KubernetesAPIEndpoints)
		for _, e := range got.Spec.KubernetesAPIEndpoints[:len(v.Spec.KubernetesAPIEndpoints.ServerEndpoints)] {
			i := slices.IndexFunc(left, func(h v1alpha1.KubernetesAPIEndpoint) bool { return endpointView(&h) == endpointView(&e) })
			if i < 0 {
				continue
			}
			if e.ClientNetwork != left[i].ClientNetwork || sameCA && !cmp.Equal(e.CABundle, left[i].CABundle) {
				t.Errorf("endpoint %+v was %+v", e, left[i])
			}
			left = slices.Delete(left, i, i+1)
		}

		status := ToClusterStatus(have, v, at(9))
		same(t, "the spec, by a write of the status", have.Spec, status.Spec)
		same(t, "the metadata, by a write of the status", have.ObjectMeta, status.ObjectMeta)
		for _, c := range status.Status.Conditions {
			for _, old := range have.Status.Conditions {
				if c.Type == old.Type && c.ObservedGeneration != old.ObservedGeneration {
					t.Errorf("condition %+v was %+v", c, old)
				}
			}
		}
		status.Status.Conditions = have.Status.Conditions
		same(t, "the rest of the status", have.Status, status.Status)
	})
}

// Whatever is written in the stored form, what only the view has survives.
func TestViewSurvives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		have, other := stored().Draw(t, "stored"), stored().Draw(t, "edit")
		before := FromCluster(have)
		next := have.DeepCopy() // what agents and people write there
		next.Spec.ClusterID, next.Spec.Mesh = other.Spec.ClusterID, other.Spec.Mesh
		next.Spec.AuthInfo.SecretRef = other.Spec.AuthInfo.SecretRef
		next.Labels, next.Finalizers = other.Labels, other.Finalizers
		if len(next.Spec.KubernetesAPIEndpoints) > 1 {
			next.Spec.KubernetesAPIEndpoints[0].ClientNetwork = "another"
		}
		next.Status.Version, next.Status.State = "v9", v1alpha1.ClusterStateFailed

		after := FromCluster(next)
		same(t, "managedFields", before.ManagedFields, after.ManagedFields)
		same(t, "endpoints", before.Spec.KubernetesAPIEndpoints, after.Spec.KubernetesAPIEndpoints)
		same(t, "user", before.Spec.AuthInfo.User, after.Spec.AuthInfo.User)
		same(t, "conditions", before.Status.Conditions, after.Status.Conditions)
		if have.Spec.AuthInfo.Controller != nil {
			same(t, "controller", before.Spec.AuthInfo.Controller, after.Spec.AuthInfo.Controller)
		}
		// A view that was read before that and is written after it changes nothing of what it does not show.
		next.Labels, next.Finalizers = have.Labels, have.Finalizers
		if have.Spec.AuthInfo.Controller == nil {
			next.Spec.AuthInfo.SecretRef = have.Spec.AuthInfo.SecretRef
		}
		same(t, "a write of what was read before", next, toCluster(t, next, before))
		same(t, "a write of the status that was read before", next, ToClusterStatus(next, before, at(9)))
	})
}

func TestFromCluster(t *testing.T) {
	c := &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{v1alpha1.AnnotationRegistryManagedFields: "not JSON"}},
		Spec: v1alpha1.ClusterSpec{
			ClusterID: "id",
			AuthInfo:  v1alpha1.AuthInfo{SecretRef: v1alpha1.NamespacedName{Name: "s", Namespace: "n"}},
			KubernetesAPIEndpoints: []v1alpha1.KubernetesAPIEndpoint{
				{ClientNetwork: "net", ServerAddress: "a:1", CABundle: []byte("x")}, {ClientCIDR: "10.0.0.0/8", ServerAddress: "b:1", CABundle: []byte("x")},
			},
		},
		Status: v1alpha1.ClusterStatus{Conditions: []metav1.Condition{{Type: "Ready", Status: "True", Reason: "R"}, {Type: "OK", Status: "False"}, {Type: "Mine"}}},
	}
	want := &view.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec: view.ClusterSpec{
			KubernetesAPIEndpoints: view.KubernetesAPIEndpoints{
				ServerEndpoints: []view.ServerAddressByClientCIDR{{ServerAddress: "a:1"}, {ClientCIDR: "10.0.0.0/8", ServerAddress: "b:1"}},
				CABundle:        []byte("x"),
			},
			AuthInfo: view.AuthInfo{Controller: &view.ObjectReference{Kind: "Secret", Name: "s", Namespace: "n"}},
		},
		Status: view.ClusterStatus{Conditions: []view.ClusterCondition{{Type: "OK", Status: "True", Reason: "R"}, {Type: "Ready", Status: "False"}, {Type: "Mine"}}},
	}
	same(t, "the view", want, FromCluster(c))
	c.Spec.KubernetesAPIEndpoints = c.Spec.KubernetesAPIEndpoints[:1]
	want.Spec.KubernetesAPIEndpoints.ServerEndpoints = want.Spec.KubernetesAPIEndpoints.ServerEndpoints[:1]
	same(t, "the view of one endpoint", want, FromCluster(c))
	c.Spec.KubernetesAPIEndpoints = append(c.Spec.KubernetesAPIEndpoints, v1alpha1.KubernetesAPIEndpoint{ServerAddress: "b:1"})
	if got := FromCluster(c).Spec.KubernetesAPIEndpoints.CABundle; got != nil {
		t.Errorf("a caBundle that not all have is shown: %s", got)
	}
}

// A new Cluster, and then one change after the other.
func TestToCluster(t *testing.T) {
	v := &view.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: view.ClusterSpec{
		KubernetesAPIEndpoints: view.KubernetesAPIEndpoints{CABundle: []byte("x")},
		AuthInfo:               view.AuthInfo{Controller: &view.ObjectReference{Kind: "Secret", Name: "s", Namespace: "n"}},
	}}
	c := toCluster(t, &v1alpha1.Cluster{}, v)
	want := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1alpha1.ClusterSpec{
		AuthInfo:               v1alpha1.AuthInfo{SecretRef: v1alpha1.NamespacedName{Name: "s", Namespace: "n"}},
		KubernetesAPIEndpoints: []v1alpha1.KubernetesAPIEndpoint{{CABundle: []byte("x")}},
	}}
	same(t, "the new one", want, c)
	same(t, "its view", v, FromCluster(c))

	v.Spec.KubernetesAPIEndpoints.ServerEndpoints = []view.ServerAddressByClientCIDR{{ServerAddress: "a:1"}}
	c = toCluster(t, c, v)
	same(t, "an address for the CA", []v1alpha1.KubernetesAPIEndpoint{{ServerAddress: "a:1", CABundle: []byte("x")}}, c.Spec.KubernetesAPIEndpoints)
	c.Spec.KubernetesAPIEndpoints[0].ClientNetwork = "net"
	v.Spec.KubernetesAPIEndpoints.ServerEndpoints = append([]view.ServerAddressByClientCIDR{{ServerAddress: "b:1"}}, v.Spec.KubernetesAPIEndpoints.ServerEndpoints...)
	v.Spec.KubernetesAPIEndpoints.CABundle = []byte("y")
	c = toCluster(t, c, v)
	same(t, "another address before it, and another CA", []v1alpha1.KubernetesAPIEndpoint{
		{ServerAddress: "b:1", CABundle: []byte("y")}, {ServerAddress: "a:1", ClientNetwork: "net", CABundle: []byte("y")},
	}, c.Spec.KubernetesAPIEndpoints)
}

// The Secret that the agent uses stays beside a controller of another kind, and is shown again when that goes.
func TestController(t *testing.T) {
	secret := func(name string) v1alpha1.NamespacedName { return v1alpha1.NamespacedName{Name: name, Namespace: "n"} }
	reference := func(kind, name string) *view.ObjectReference {
		return &view.ObjectReference{Kind: kind, Name: name, Namespace: "n"}
	}
	vault := func(name string) *v1alpha1.ObjectReference {
		return (*v1alpha1.ObjectReference)(reference("Vault", name))
	}
	for name, test := range map[string]struct {
		have  v1alpha1.AuthInfo
		write *view.ObjectReference
		want  v1alpha1.AuthInfo
		shown *view.ObjectReference
	}{
		"a Secret":             {v1alpha1.AuthInfo{}, reference("Secret", "s"), v1alpha1.AuthInfo{SecretRef: secret("s")}, reference("Secret", "s")},
		"another Secret":       {v1alpha1.AuthInfo{SecretRef: secret("s")}, reference("Secret", "t"), v1alpha1.AuthInfo{SecretRef: secret("t")}, reference("Secret", "t")},
		"no Secret":            {v1alpha1.AuthInfo{SecretRef: secret("s")}, nil, v1alpha1.AuthInfo{}, nil},
		"another kind":         {v1alpha1.AuthInfo{SecretRef: secret("s")}, reference("Vault", "v"), v1alpha1.AuthInfo{SecretRef: secret("s"), Controller: vault("v")}, reference("Vault", "v")},
		"the same kind":        {v1alpha1.AuthInfo{SecretRef: secret("s"), Controller: vault("v")}, reference("Vault", "w"), v1alpha1.AuthInfo{SecretRef: secret("s"), Controller: vault("w")}, reference("Vault", "w")},
		"none of another kind": {v1alpha1.AuthInfo{SecretRef: secret("s"), Controller: vault("v")}, nil, v1alpha1.AuthInfo{SecretRef: secret("s")}, reference("Secret", "s")},
		"a Secret in place":    {v1alpha1.AuthInfo{SecretRef: secret("s"), Controller: vault("v")}, reference("Secret", "t"), v1alpha1.AuthInfo{SecretRef: secret("t")}, reference("Secret", "t")},
	} {
		c := toCluster(t, &v1alpha1.Cluster{Spec: v1alpha1.ClusterSpec{AuthInfo: test.have}}, &view.Cluster{Spec: view.ClusterSpec{AuthInfo: view.AuthInfo{Controller: test.write}}})
		same(t, name, test.want, c.Spec.AuthInfo)
		same(t, name+", its view", test.shown, FromCluster(c).Spec.AuthInfo.Controller)
	}
}

// An address that is edited keeps the network whose clients use it, and its CA.
func TestEditedAddress(t *testing.T) {
	have := []v1alpha1.KubernetesAPIEndpoint{
		{ClientNetwork: "m", ServerAddress: "a:1", CABundle: []byte("x")}, {ServerAddress: "b:1"}, {ClientCIDR: "10.0.0.0/8", ClientNetwork: "n", ServerAddress: "c:1", CABundle: []byte("y")},
	}
	shown := func() []view.ServerAddressByClientCIDR { return endpointsView(have).ServerEndpoints }
	entry := func(of int, address string) v1alpha1.KubernetesAPIEndpoint {
		e := have[of]
		e.ServerAddress = address
		return e
	}
	for name, test := range map[string]struct {
		edit func([]view.ServerAddressByClientCIDR) []view.ServerAddressByClientCIDR
		want []v1alpha1.KubernetesAPIEndpoint
	}{
		"in its place": {func(e []view.ServerAddressByClientCIDR) []view.ServerAddressByClientCIDR {
			e[0].ServerAddress = "z:1"
			return e
		}, []v1alpha1.KubernetesAPIEndpoint{entry(0, "z:1"), have[1], have[2]}},
		"by its CIDR": {func(e []view.ServerAddressByClientCIDR) []view.ServerAddressByClientCIDR {
			e[2].ServerAddress = "z:1"
			return e[1:]
		}, []v1alpha1.KubernetesAPIEndpoint{have[1], entry(2, "z:1")}},
		"to that of another, which goes": {func(e []view.ServerAddressByClientCIDR) []view.ServerAddressByClientCIDR {
			e[0].ServerAddress = "b:1"
			return e[:1]
		}, []v1alpha1.KubernetesAPIEndpoint{have[1]}},
		"a new one": {func(e []view.ServerAddressByClientCIDR) []view.ServerAddressByClientCIDR {
			return append(e, view.ServerAddressByClientCIDR{ServerAddress: "z:1"})
		}, append(slices.Clone(have), v1alpha1.KubernetesAPIEndpoint{ServerAddress: "z:1"})},
	} {
		same(t, name, test.want, endpoints(have, view.KubernetesAPIEndpoints{ServerEndpoints: test.edit(shown())}))
	}
}

func TestToClusterStatus(t *testing.T) {
	have := &v1alpha1.Cluster{Status: v1alpha1.ClusterStatus{State: "Ready", Conditions: []metav1.Condition{
		{Type: "Ready", Status: "True", Reason: "R", LastTransitionTime: at(1), ObservedGeneration: 3}, {Type: "Mine", Status: "True", Reason: "R", LastTransitionTime: at(1)},
	}}}
	v := &view.Cluster{Status: view.ClusterStatus{Conditions: []view.ClusterCondition{
		{Type: "OK", Status: "False", LastHeartbeatTime: at(5)}, {Type: "Mine", Status: "True"}, {Type: "New", Status: "Unknown", Reason: "X", LastTransitionTime: at(4)},
	}}}
	want := v1alpha1.ClusterStatus{State: "Ready", Conditions: []metav1.Condition{
		{Type: "Ready", Status: "False", Reason: "NotStated", LastTransitionTime: at(9), ObservedGeneration: 3},
		{Type: "Mine", Status: "True", Reason: "NotStated", LastTransitionTime: at(1)},
		{Type: "New", Status: "Unknown", Reason: "X", LastTransitionTime: at(4)},
	}}
	same(t, "the status", want, ToClusterStatus(have, v, at(9)).Status)

	// Where both are stored, each stays what it is.
	both := &v1alpha1.Cluster{Status: v1alpha1.ClusterStatus{Conditions: []metav1.Condition{
		{Type: "Ready", Status: "True", Reason: "R", LastTransitionTime: at(1)}, {Type: "OK", Status: "False", Reason: "S", LastTransitionTime: at(2)},
	}}}
	v = FromCluster(both).DeepCopy()
	same(t, "both", both, ToClusterStatus(both, v, at(9)))
	v.Status.Conditions[0].Status = "Unknown" // that of type OK
	both.Status.Conditions[0].Status = "Unknown"
	same(t, "OK was written", both, ToClusterStatus(both, v, at(9)))
}

// The managedFields of the view are kept where nobody sees them and nothing publishes them, and nobody forges them.
func TestManagedFields(t *testing.T) {
	fields := func(size int) []metav1.ManagedFieldsEntry {
		return []metav1.ManagedFieldsEntry{{
			Manager: "kubectl", Operation: "Apply", APIVersion: "clusterregistry.k8s.io/v1alpha1", Time: new(at(3)),
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:` + strings.Repeat("x", size) + `":{}}`),
		}}
	}
	v := &view.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "a", ManagedFields: fields(100), Annotations: map[string]string{
		v1alpha1.AnnotationRegistryManagedFields: "forged",
	}}}
	c := toCluster(t, &v1alpha1.Cluster{}, v)
	if c.ManagedFields != nil || len(c.Annotations) != 1 || !strings.HasPrefix(v1alpha1.AnnotationRegistryManagedFields, v1alpha1.LocalPrefix) {
		t.Errorf("stored as %+v", c.ObjectMeta)
	}
	got := FromCluster(c)
	same(t, "managedFields", fields(100), got.ManagedFields)
	if got.Annotations != nil {
		t.Errorf("shown: %v", got.Annotations)
	}
	v.ManagedFields = nil
	if c := toCluster(t, c, v); c.Annotations != nil {
		t.Errorf("kept: %v", c.Annotations)
	}
	v.ManagedFields = fields(MaxManagedFields)
	if _, err := ToCluster(c, v); !errors.Is(err, ErrManagedFields) {
		t.Errorf("too long: %v", err)
	}
	// What the API server would refuse in words about an annotation that nobody sees.
	v.ManagedFields, v.Annotations = fields(100), map[string]string{"note": strings.Repeat("x", 256<<10-300)}
	if _, err := ToCluster(c, v); !errors.Is(err, ErrManagedFields) || !strings.Contains(err.Error(), "metadata.annotations") {
		t.Errorf("beside long annotations: %v", err)
	}
	v.Annotations["note"] = v.Annotations["note"][:256<<10-500]
	if _, err := ToCluster(c, v); err != nil {
		t.Error(err)
	}
}

// An annotation that is not one of managedFields is none: every write of the view would fail over it.
func TestDamagedManagedFields(t *testing.T) {
	const good = `[{"manager":"m","operation":"Apply","apiVersion":"clusterregistry.k8s.io/v1alpha1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{}}}]`
	if got := decodeManagedFields(good); len(got) != 1 {
		t.Errorf("none of %s", good)
	}
	for _, damage := range [][2]string{{"[", ""}, {"Apply", "Guess"}, {`"FieldsV1"`, `"FieldsV2"`}, {"clusterregistry.k8s.io/v1alpha1", ""}, {"f:spec", "k:spec"}} {
		if text := strings.Replace(good, damage[0], damage[1], 1); decodeManagedFields(text) != nil {
			t.Errorf("taken: %s", text)
		}
	}
}
