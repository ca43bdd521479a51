// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A credential is removed however a log has it, and what is around it stays.
func TestRedacted(t *testing.T) {
	t.Parallel()
	const body = "MHcCAQEEIBkeymaterial"
	long := base64.StdEncoding.EncodeToString([]byte("-----BEGIN EC PRIVATE KEY-----\n" + strings.Repeat(body+"\n", 9) + "-----END EC PRIVATE KEY-----\n"))
	for name, c := range map[string]struct{ text, want string }{
		"in lines with a prefix": {
			"before\n10:00Z -----BEGIN EC PRIVATE KEY-----\n10:01Z " + body + "\n10:02Z -----END EC PRIVATE KEY-----\nafter\n",
			"before\n10:00Z [removed]\nafter\n",
		},
		"without an end":        {"before\n-----BEGIN PRIVATE KEY-----\n" + body, "before\n[removed]"},
		"without a beginning":   {body + "\n-----END PRIVATE KEY-----\nafter\n", "[removed]\nafter\n"},
		"in base64":             {"data: " + long + " after", "data: [removed] after"},
		"in base64, in lines":   {"data: " + long[:76] + "\n" + long[76:152] + "\n" + long[152:] + "\nafter", "data: [removed]\nafter"},
		"a token":               {`token = "abc def" after`, "token = [removed] after"},
		"a token in YAML":       {"  token: abc\n  after", "  token: [removed]\n  after"},
		"in JSON within JSON":   {`said "{\"password\":\"abc\"}" after`, `said "{\"password\":[removed] after`},
		"a kubeconfig's key":    {"client-key-data: abc\nafter", "client-key-data: [removed]\nafter"},
		"the header of a JWT":   {"uses " + token + " after", "uses [removed] after"},
		"nothing of that kind":  {"the tokens are 3\n-----BEGIN CERTIFICATE-----\nx\n", "the tokens are 3\n-----BEGIN CERTIFICATE-----\nx\n"},
		"what has been removed": {"token: [removed]\n", "token: [removed]\n"},
	} {
		if got := string(withoutCredentials([]byte(c.text))); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A document stays one, whatever is removed from it.
func TestRedactedJSON(t *testing.T) {
	t.Parallel()
	document := map[string]any{
		"half": "x -----BEGIN PRIVATE KEY-----\nMHcC", "rest": "MHcC\n-----END PRIVATE KEY----- kept", "token": "MHcC", "inner": `{"password":"MHcC"}`,
		"list": []any{"kept", "bearer MHcCMHcC", 1}, "empty": map[string]any{"token": ""},
	}
	data, err := json.MarshalIndent(document, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	out := withoutCredentials(data)
	if err := json.Unmarshal(out, &got); err != nil || strings.Contains(string(out), "MHcC") || strings.Count(string(out), "kept") != 2 || len(got) != len(document) {
		t.Errorf("%v:\n%s", err, out)
	}
}

// A key whose beginning is before what is kept of a log is removed, too.
func TestKeyAtTheCut(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	at := "alpha/api/v1/namespaces/cluster-registry/pods/agent-0/log?previous=false"
	const body = "MHcCAQEEIB\n"
	g.answers[at] = func(w http.ResponseWriter) {
		fmt.Fprint(w, "-----BEGIN PRIVATE KEY-----\n"+strings.Repeat(body, 10)+"-----END PRIVATE KEY-----\n"+strings.Repeat("x", maxLog-60)+"\n")
	}
	o := g.options(t)
	if _, err := run(t.Context(), o); err == nil {
		t.Error("gamma is known")
	}
	_, content := unpack(t, o.File)
	if log := content["members/alpha/pods/agent-0/agent.log"]; strings.Contains(log, "MHcC") || !strings.Contains(log, "xxx") {
		t.Errorf("the log begins with %.100q", log)
	}
}

// What rules write into copies of Secrets is not in the file.
func TestValuesOfRules(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	g.say("alpha/apis/clusterregistry.k8s.cisco.com/v1alpha1/resourcesyncrules", list("ResourceSyncRule", `{"apiVersion":"clusterregistry.k8s.cisco.com/v1alpha1","kind":"ResourceSyncRule","metadata":{"name":"r"},"spec":{"rules":[
{"mutations":{"overrides":[{"path":"/data/x","type":"replace","value":"hidden"},{"path":"/data/y","type":"remove"}],"annotations":{"add":{"a.example/b":"hidden"},"remove":["c"]},"labels":{"add":{"l":"shown"}}}},{"match":[]}]}}`))
	o := g.options(t)
	if _, err := run(t.Context(), o); err == nil {
		t.Error("gamma is known")
	}
	_, content := unpack(t, o.File)
	text := content["members/alpha/rules.json"]
	if strings.Contains(text, "hidden") || strings.Count(text, removed) != 2 {
		t.Errorf("rules.json:\n%s", text)
	}
	for _, want := range []string{"/data/x", "/data/y", "a.example/b", "shown"} {
		if !strings.Contains(text, want) {
			t.Errorf("rules.json lacks %s:\n%s", want, text)
		}
	}
}
