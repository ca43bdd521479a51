// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// fleetCommands are the questions to the whole group about a rule, and the Secret of that name which it copies.
func fleetCommands(rule string) map[string][]string {
	return map[string][]string{
		"rules list":              {"rules", "list", rule, "--fleet"},
		"rules explain":           {"rules", "explain", rule, "--fleet"},
		"rules explain KIND NAME": {"rules", "explain", "secret", rule, "-n", harness.Namespace, "--fleet"},
		"status":                  {"status", "--fleet"},
	}
}

// asker is a user who may read the registry, one Secret of the agents' namespace and, by their names, the credentials of some members.
func asker(t *testing.T, c *harness.Cluster, secret string, members ...*harness.Cluster) {
	t.Helper()
	var names []string
	for _, m := range members {
		names = append(names, v1alpha1.IssuedSecret(clusterID(t, m)))
	}
	apply(t, c, fmt.Sprintf(`apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: asker}
rules:
- {apiGroups: [clusterregistry.k8s.cisco.com], resources: [clusters, resourcesyncrules, clusterfeatures], verbs: [get, list]}
- {apiGroups: [""], resources: [namespaces], resourceNames: [kube-system], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: asker}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: asker}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: asker, namespace: %[1]s}
rules: [{apiGroups: [""], resources: [secrets], resourceNames: ["%[2]s"], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: asker, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: asker}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: asker, namespace: %[3]s}
rules: [{apiGroups: [""], resources: [secrets], resourceNames: [%[4]s], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: asker, namespace: %[3]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: asker}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]
`, v1alpha1.PrivateNamespace(harness.Namespace), strings.Join(names, `", "`), harness.Namespace, secret))
}

// Every fleet command in a group of five: all answer; a person may not read one credential; one API server is stopped; both.
// Each member that cannot be asked is named with the reason, by exit code 6, and the others are shown.
func TestFleetOfFive(t *testing.T) {
	g := &group{Fleet: five(t)}
	one, four, last := g.Clusters[0], g.Clusters[3], g.Clusters[4]
	apply(t, one, rule("spread", "spread"))
	putSecret(t, one, "spread", "v")
	for _, c := range g.Clusters[1:] {
		eventually(t, "the Secret is in "+c.Name, afterFault, hasCopy(c, one, "spread", "v"))
	}
	asAdmin := func(args []string, more ...string) []string {
		return append(append([]string{}, args...), append(more, "--context", one.Name)...)
	}
	all := map[string][]string{
		"rules list":              {"RULE     KIND     CLUSTERS   READY   SYNCED   FROZEN   FAILED   CONFLICTS   WORST", "spread   Secret   5/5        5       4/4      0        0        0           -"},
		"rules explain":           {"in cluster one: synced", "in cluster two: synced", "in cluster five: synced", "0 clusters without the rule"},
		"rules explain KIND NAME": {"in one (this cluster): an object of its own", "in five: a copy, owned by one", "copies: 4 in sync, 0 to be written, 0 whose source is gone, 0 blocked, 0 not known"},
		"status":                  {"5 clusters, 0 of them unknown: healthy", "CLUSTER   HEALTH    CLUSTERS   RULES", "five      healthy   5/5        1/1"},
	}
	for what, args := range fleetCommands("spread") {
		eventually(t, what+" hears all, with the credentials of one", afterFault, g.asks(0, asAdmin(args), all[what]...))
		eventually(t, what+" hears all, with contexts", afterFault, g.asks(0, asAdmin(args, "--contexts", "two,three,four,five"), all[what]...))
	}

	bundle := []string{"bundle", "--force", "-o", filepath.Join(t.TempDir(), "roster.tgz")}
	eventually(t, "the bundle has all", afterFault, g.asks(0, asAdmin(bundle, "--contexts", "two,three,four,five"), "of 5 clusters"))

	// Jane may read the credentials of all but four, each by its name.
	asker(t, one, "spread", g.Clusters[1], g.Clusters[2], last)
	// One says unknown, and the one about an object not known.
	denied := `known: cluster four: its credential, Secret cluster-registry-private/` + v1alpha1.IssuedSecret(clusterID(t, four)) + ` here, cannot be read (`
	for what, args := range fleetCommands("spread") {
		eventually(t, what+" names whom Jane may not ask", afterFault, g.asks(6, asAdmin(args, "--as", "jane"), denied, "1 cluster of the group could not be asked: four"))
	}
	eventually(t, "her bundle has the others", afterFault, g.asks(6, asAdmin(bundle, "--as", "jane"), "of 4 clusters", denied, "1 cluster of the group could not be asked: four"))

	if err := last.StopAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := last.StartAPIServer(lasting(t)); err != nil {
			t.Error(err)
		}
	})
	for what, args := range fleetCommands("spread") {
		eventually(t, what+" names who is away", afterFault, g.asks(6, asAdmin(args), "known: cluster five: ", "1 cluster of the group could not be asked: five"))
		eventually(t, what+" names who is away, with contexts", afterFault, g.asks(6, asAdmin(args, "--contexts", "five,two"), "known: cluster five: ", "five"))
		eventually(t, what+" names both to Jane", afterFault, g.asks(6, asAdmin(args, "--as", "jane"), "known: cluster five: ", denied, "2 clusters of the group could not be asked: five, four"))
	}
	eventually(t, "the bundle names who is away", afterFault, g.asks(6, asAdmin(bundle, "--contexts", "two,three,four,five"), "of 4 clusters", "known: cluster five: "))
	eventually(t, "her bundle names both", afterFault, g.asks(6, asAdmin(bundle, "--as", "jane"), "of 3 clusters", "known: cluster five: ", denied, "2 clusters of the group could not be asked: five, four"))
	g.verifiesTheOthers(t)
	for _, flags := range [][]string{nil, {"-o", "wide"}} {
		eventually(t, "the others say what is wrong with them", afterFault, func(ctx context.Context) error {
			return g.asks(6, asAdmin([]string{"rules", "list", "--fleet"}, flags...), "spread   two ", "SourceUnreachable")(ctx)
		})
	}
}

// verifiesTheOthers: verify measures who can be asked, and names by exit code 6 whose API server is stopped, and where a user may
// watch rules, but no Secrets.
func (g *group) verifiesTheOthers(t *testing.T) {
	t.Helper()
	one, two, three := g.Clusters[0], g.Clusters[1], g.Clusters[2]
	measured := func(unknown string, args ...string) {
		t.Helper()
		var said struct {
			Clusters []struct {
				Cluster       string
				DeleteSeconds *float64
			}
			Unknown []struct{ Cluster, Reason string }
		}
		out := g.expect(t, 6, append([]string{"verify", "--context", one.Name, "--timeout", "1m", "-o", "json"}, args...))
		if err := json.NewDecoder(strings.NewReader(out)).Decode(&said); err != nil { // after it is what stderr says
			t.Fatalf("%v:\n%s", err, out)
		}
		if len(said.Clusters) != 1 || said.Clusters[0].Cluster != two.Name || said.Clusters[0].DeleteSeconds == nil || len(said.Unknown) != 1 || !strings.HasPrefix(said.Unknown[0].Cluster+": "+said.Unknown[0].Reason, unknown) {
			t.Errorf("it is to measure two, and to say %q:\n%s", unknown, out)
		}
	}
	measured("of context five: ", "--peer-context", "two,five")

	for _, c := range []*harness.Cluster{one, two} {
		kubectl(t, c, "create", "clusterrolebinding", "vera", "--clusterrole=cluster-admin", "--user=vera")
	}
	kubectl(t, three, "create", "clusterrole", "vera", "--verb=get,list,watch", "--resource=resourcesyncrules.clusterregistry.k8s.cisco.com,clusters.clusterregistry.k8s.cisco.com")
	kubectl(t, three, "create", "clusterrolebinding", "vera", "--clusterrole=vera", "--user=vera")
	measured("of context three: you may not list secrets in namespace "+harness.Namespace, "--peer-context", "two,three", "--as", "vera")
}
