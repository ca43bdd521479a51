// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func valid() *Cluster {
	return &Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "1"},
		Spec: ClusterSpec{
			KubernetesAPIEndpoints: KubernetesAPIEndpoints{
				ServerEndpoints: []ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: "100.0.0.0"}},
				CABundle:        []byte("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"),
			},
			AuthInfo: AuthInfo{User: &ObjectReference{Kind: "Secret", Name: "u", Namespace: "n"}, Controller: &ObjectReference{Kind: "Secret", Name: "c"}},
		},
		Status: ClusterStatus{Conditions: []ClusterCondition{{Type: ClusterOK, Status: "True"}, {Type: "example.com/Mine", Status: "Unknown", Reason: "R", Message: "m"}}},
	}
}

// What is wrong is named by its field, and is left alone where it was there before.
func TestValidate(t *testing.T) {
	endpoint := func(cidr, address string) func(*Cluster) {
		return func(c *Cluster) {
			c.Spec.KubernetesAPIEndpoints.ServerEndpoints = append(c.Spec.KubernetesAPIEndpoints.ServerEndpoints, ServerAddressByClientCIDR{cidr, address})
		}
	}
	condition := func(condition ClusterCondition) func(*Cluster) {
		return func(c *Cluster) { c.Status.Conditions = append(c.Status.Conditions, condition) }
	}
	const first, second = "spec.kubernetesApiEndpoints.serverEndpoints[1].", "status.conditions[2]."
	for name, test := range map[string]struct {
		change func(*Cluster)
		want   string // the field; "" when it is taken
		fixed  bool   // it is refused where it was there before, too
	}{
		"as it is":           {func(*Cluster) {}, "", false},
		"empty":              {func(c *Cluster) { *c = Cluster{ObjectMeta: c.ObjectMeta} }, "", false},
		"name":               {func(c *Cluster) { c.Name = "A_b" }, "metadata.name", true},
		"namespace":          {func(c *Cluster) { c.Namespace = "n" }, "metadata.namespace", true},
		"label":              {func(c *Cluster) { c.Labels = map[string]string{"a b": ""} }, "metadata.labels", true},
		"CIDR":               {endpoint("10.0.0.0", "a"), first + "clientCIDR", false},
		"CIDR of no network": {endpoint("10.0.0.0/33", "a"), first + "clientCIDR", false},
		"CIDR, v6":           {endpoint("2001:db8::/32", "a"), "", false},
		"CIDR alone":         {endpoint("10.0.0.0/8", ""), first + "serverAddress", false},
		"twice":              {endpoint("0.0.0.0/0", "100.0.0.0"), "spec.kubernetesApiEndpoints.serverEndpoints[1]", false},
		"two of an address":  {endpoint("10.0.0.0/8", "100.0.0.0"), "", false},
		"nothing":            {endpoint("", ""), first + "serverAddress", false},
		"host":               {endpoint("", "API.example.com."), "", false},
		"host and port":      {endpoint("", "api.example.com:6443"), "", false},
		"IPv6":               {endpoint("", "2001:db8::1"), "", false},
		"IPv6 and port":      {endpoint("", "[2001:db8::1]:6443"), "", false},
		"URL":                {endpoint("", "https://api.example.com:6443/path"), "", false},
		"http":               {endpoint("", "http://api.example.com"), first + "serverAddress", false},
		"space":              {endpoint("", "a b"), first + "serverAddress", false},
		"port":               {endpoint("", "a:x"), first + "serverAddress", false},
		"port 0":             {endpoint("", "a:0"), first + "serverAddress", false},
		"no port":            {endpoint("", "a:"), first + "serverAddress", false},
		"underscore":         {endpoint("", "a_b:1"), first + "serverAddress", false},
		"password":           {endpoint("", "https://u:h0stile@a"), first + "serverAddress", false},
		"query":              {endpoint("", "https://a?x"), first + "serverAddress", false},
		"long address":       {endpoint("", strings.Repeat("a", 1025)), first + "serverAddress", false},
		"many endpoints": {func(c *Cluster) {
			c.Spec.KubernetesAPIEndpoints.ServerEndpoints = slices.Repeat(c.Spec.KubernetesAPIEndpoints.ServerEndpoints, 65)
		}, "spec.kubernetesApiEndpoints.serverEndpoints", true},
		"bytes":          {func(c *Cluster) { c.Spec.KubernetesAPIEndpoints.CABundle = []byte{1, 2, 3} }, "", false},
		"the most bytes": {func(c *Cluster) { c.Spec.KubernetesAPIEndpoints.CABundle = make([]byte, 196608) }, "", false},
		"many bytes":     {func(c *Cluster) { c.Spec.KubernetesAPIEndpoints.CABundle = make([]byte, 196609) }, "spec.kubernetesApiEndpoints.caBundle", false},
		"key": {func(c *Cluster) {
			c.Spec.KubernetesAPIEndpoints.CABundle = append(c.Spec.KubernetesAPIEndpoints.CABundle, privateKey()...)
		}, "spec.kubernetesApiEndpoints.caBundle", false},
		"user without a name":    {func(c *Cluster) { c.Spec.AuthInfo.User.Name = "" }, "spec.authInfo.user.name", false},
		"controller of no kind":  {func(c *Cluster) { c.Spec.AuthInfo.Controller.Kind = "" }, "spec.authInfo.controller.kind", false},
		"long namespace":         {func(c *Cluster) { c.Spec.AuthInfo.Controller.Namespace = strings.Repeat("n", 64) }, "spec.authInfo.controller.namespace", false},
		"condition of no type":   {condition(ClusterCondition{Status: "True"}), second + "type", false},
		"condition twice":        {condition(ClusterCondition{Type: ClusterOK, Status: "False"}), second + "type", true},
		"condition, status":      {condition(ClusterCondition{Type: "X", Status: "Maybe"}), second + "status", false},
		"condition, reason":      {condition(ClusterCondition{Type: "X", Status: "True", Reason: "two words"}), second + "reason", false},
		"condition, long reason": {condition(ClusterCondition{Type: "X", Status: "True", Reason: strings.Repeat("r", 1025)}), second + "reason", false},
		"condition, message":     {condition(ClusterCondition{Type: "X", Status: "True", Message: strings.Repeat("m", 32769)}), second + "message", false},
		"many conditions":        {func(c *Cluster) { c.Status.Conditions = make([]ClusterCondition, 33) }, "status.conditions", true},
	} {
		t.Run(name, func(t *testing.T) {
			c := valid()
			test.change(c)
			for kind, errs := range map[string][]string{"new": fields(c, nil), "changed": fields(c, valid())} {
				if (test.want == "") != (len(errs) == 0) || test.want != "" && !slices.Contains(errs, test.want) {
					t.Errorf("%s: refused for %q, want %q", kind, errs, test.want)
				}
			}
			if errs := fields(c, c.DeepCopy()); (len(errs) > 0) != test.fixed {
				t.Errorf("unchanged: refused for %q", errs)
			}
		})
	}
	other := valid()
	other.Name = "b"
	if errs := fields(other, valid()); !slices.Contains(errs, "metadata.name") {
		t.Errorf("a name may be changed: %q", errs)
	}
	// An error repeats no password.
	c := valid()
	endpoint("", "https://u:h0stile@a")(c)
	if err := Validate(c, nil).ToAggregate(); strings.Contains(err.Error(), "h0stile") {
		t.Error(err)
	}
}

func TestWarnings(t *testing.T) {
	c := valid()
	if got := Warnings(c, nil); len(got) > 0 {
		t.Errorf("%q", got)
	}
	c.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(time.Unix(1, 0))
	c.Spec.KubernetesAPIEndpoints.CABundle = []byte{1}
	if got := Warnings(c, valid()); len(got) != 2 || !strings.Contains(got[0], "lastHeartbeatTime") || !strings.Contains(got[1], "caBundle") {
		t.Errorf("%q", got)
	}
	if got := Warnings(c, c.DeepCopy()); len(got) != 1 {
		t.Errorf("of what was there: %q", got)
	}
}

// A Cluster that says nothing is short, as its writer made it.
func TestJSON(t *testing.T) {
	got, err := json.Marshal(&Cluster{Status: ClusterStatus{Conditions: []ClusterCondition{{Type: ClusterOK, Status: "True"}}}})
	if err != nil || !bytes.Equal(got, []byte(`{"metadata":{},"status":{"conditions":[{"type":"OK","status":"True"}]}}`)) {
		t.Errorf("%s, %v", got, err)
	}
}

func fields(c, old *Cluster) (out []string) {
	for _, err := range Validate(c, old) {
		out = append(out, err.Field)
	}
	return out
}

func privateKey() []byte {
	return []byte("-----BEGIN EC PRIVATE KEY-----\nAA==\n-----END EC PRIVATE KEY-----\n")
}
