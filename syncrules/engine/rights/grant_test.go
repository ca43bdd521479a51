// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

// What a peer calls a kind must not reach a shell.
func TestGrantTakesNoWordOfAPeer(t *testing.T) {
	for _, l := range []Lack{
		{Resource: schema.GroupResource{Group: "example.com", Resource: "x}' ; reboot; '"}},
		{Resource: schema.GroupResource{Group: "'$(reboot)'", Resource: "things"}},
		ofSecrets("system:serviceaccount:a'; reboot:b", "a"), ofSecrets("system:serviceaccount:a:b'; reboot", "a"),
		ofSecrets("'; reboot", "a"), ofSecrets("", "a", "b'; reboot"),
	} {
		if text := l.there(Read(), "n") + l.here(Write(), "n"); strings.Contains(text, "reboot") {
			t.Error(text)
		}
	}
	if text := ofSecrets("", "a").there(Read(), "n"); !strings.HasPrefix(text, "; grant it there with: kubectl apply") {
		t.Error(text)
	}
}

func ofSecrets(user string, namespaces ...string) Lack {
	return Lack{Resource: schema.GroupResource{Resource: "secrets"}, Verbs: Read(), Namespaces: namespaces, User: user}
}

// granted is what a text would have a person apply, nothing where it has no command.
func granted(t *testing.T, text string) (objects []map[string]any) {
	t.Helper()
	_, command, found := strings.Cut(text, "kubectl apply -f - <<< ")
	if !found {
		return nil
	}
	if !regexp.MustCompile(`^'[^']+'$`).MatchString(command) {
		t.Fatalf("no shell would take this as one word: %s", command)
	}
	var list struct {
		Kind  string
		Items []map[string]any
	}
	var one map[string]any
	if err := yaml.Unmarshal([]byte(strings.Trim(command, "'")), &list); err != nil {
		t.Fatal(err)
	}
	if list.Kind == "List" {
		return list.Items
	}
	if err := yaml.Unmarshal([]byte(strings.Trim(command, "'")), &one); err != nil {
		t.Fatal(err)
	}
	return []map[string]any{one}
}

// Nothing that is suggested lets the others read the Secrets of all namespaces, nor does it name one that may hold a private
// key, whatever rules ask for.
func TestNoGrantIncludesAPrivateKey(t *testing.T) {
	scopes := map[string][]string{
		"all": nil, "one": {"shop"}, "private": {"n-private"}, "that of a peer": {"shop", "far-private"}, "many": manyNamespaces(),
	}
	secrets := schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	for name, namespaces := range scopes {
		for _, reviewed := range scopes {
			var asked []place.Scope
			for _, namespace := range namespaces {
				asked = append(asked, place.Scope{GVK: secrets, Namespace: namespace})
			}
			if namespaces == nil {
				asked = []place.Scope{{GVK: secrets}}
			}
			for _, user := range []string{"", "admin", "system:serviceaccount:far-readers:reader-x", "system:serviceaccount:far-private:swap"} {
				l := ofSecrets(user, reviewed...).within(asked, secrets)
				there, here := l.there(Read(), "n"), l.here(Write(), "n")
				for _, o := range append(granted(t, there), granted(t, here)...) {
					text := fmt.Sprint(o)
					if strings.Contains(text, v1alpha1.LabelReaderAggregated) || o["kind"] == "ClusterRole" && (len(l.Namespaces) > 0 || namespaces != nil) {
						t.Errorf("%s, reviewed %v: %s", name, reviewed, text)
					}
					if namespace, _ := o["metadata"].(map[string]any)["namespace"].(string); strings.HasSuffix(namespace, "-private") {
						t.Errorf("%s, reviewed %v: %s", name, reviewed, text)
					}
				}
				if namespaces == nil && len(granted(t, there)) > 0 {
					t.Errorf("all namespaces: %s", there)
				}
			}
		}
	}
	if text := Hint(secrets, "there", v1alpha1.LabelReaderAggregated); strings.Contains(text, "ClusterRole") {
		t.Error(text)
	}
}

func manyNamespaces() (out []string) {
	for i := range 16 {
		out = append(out, fmt.Sprintf("%s%02d", strings.Repeat("n", 61), i))
	}
	return out
}

// The subjects are those that the API server knows, else those of the chart.
func TestWhoIsGranted(t *testing.T) {
	group, local := "Group system:serviceaccounts:%s-readers", "ServiceAccount %s"
	for user, want := range map[string][2]string{
		"": {fmt.Sprintf(group, "n"), fmt.Sprintf(local, "n/"+v1alpha1.DefaultServiceAccount)},
		"system:serviceaccount:far-readers:reader-x": {fmt.Sprintf(group, "far"), fmt.Sprintf(local, "far-readers/reader-x")},
		"system:serviceaccount:far-private:swap":     {fmt.Sprintf(group, "far"), fmt.Sprintf(local, "far-private/swap")},
		"system:serviceaccount:far:other":            {fmt.Sprintf(local, "far/other"), fmt.Sprintf(local, "far/other")},
	} {
		l := ofSecrets(user, "123", "true")
		for i, text := range []string{l.there(Read(), "n"), l.here(append(Write(), UpdateStatus), "n")} {
			objects := granted(t, text)
			if len(objects) != 4 || objects[0]["kind"] != "Role" || objects[3]["kind"] != "RoleBinding" || fmt.Sprint(objects[3]["metadata"].(map[string]any)["namespace"]) != "true" {
				t.Fatalf("user %q: %v", user, objects)
			}
			subject := objects[3]["subjects"].([]any)[0].(map[string]any)
			got := fmt.Sprint(subject["kind"], " ", subject["name"])
			if namespace, ok := subject["namespace"]; ok {
				got = fmt.Sprint(subject["kind"], " ", namespace, "/", subject["name"])
			}
			if got != want[i] {
				t.Errorf("user %q: %s, want %s", user, got, want[i])
			}
		}
	}
}

// A condition has room for the whole command, of as many namespaces as fit.
func TestGrantFitsACondition(t *testing.T) {
	secrets := schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	r := New(Options{Namespace: "n"})
	key := Key{Cluster: "beta", GVK: secrets}
	r.reviews[key] = &review{verbs: Read(), lack: ofSecrets("system:serviceaccount:"+strings.Repeat("a", 63)+":"+strings.Repeat("b", 253), manyNamespaces()...)}
	text := r.There("beta", strings.Repeat("c", 253), place.Scope{GVK: secrets, Namespace: manyNamespaces()[0]})
	if problem.Bounded(text, problem.MaxMessage) != text || len(granted(t, text)) < 4 || !strings.Contains(text, "of the 16 namespaces") {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	r.reviews[key].lack = ofSecrets("", "a", "b", "c", "d", "e")
	if text = r.There("beta", "beta", place.Scope{GVK: secrets, Namespace: "a"}); len(granted(t, text)) != 10 || strings.Contains(text, "of the") {
		t.Error(text)
	}
}
