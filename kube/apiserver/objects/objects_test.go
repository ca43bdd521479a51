// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"slices"
	"testing"
)

// What an object needs comes before it, and nothing that needs nodes is among them.
func TestOrder(t *testing.T) {
	t.Parallel()
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	order := []string{"Namespace", "CustomResourceDefinition"}
	last, namespaces := 0, map[string]bool{"default": true}
	for _, object := range all {
		at := slices.Index(order, object.GetKind())
		if at < 0 {
			at = len(order)
		}
		if at < last {
			t.Errorf("%s %s comes late", object.GetKind(), object.GetName())
		}
		last = at
		if object.GetKind() == "Namespace" {
			namespaces[object.GetName()] = true
		}
		if ns := object.GetNamespace(); ns != "" && !namespaces[ns] {
			t.Errorf("%s %s is in namespace %s, which is not made", object.GetKind(), object.GetName(), ns)
		}
		switch object.GetKind() {
		case "Namespace", "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
			"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
		default:
			t.Errorf("%s %s is not served", object.GetKind(), object.GetName())
		}
	}
	if !namespaces[Namespace] {
		t.Errorf("namespace %s is not made", Namespace)
	}
}

// The agent's certificate is for the account that the chart binds its rights to.
func TestAgentUser(t *testing.T) {
	t.Parallel()
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range all {
		if object.GetKind() == "ServiceAccount" && AgentUser == "system:serviceaccount:"+object.GetNamespace()+":"+object.GetName() {
			return
		}
	}
	t.Errorf("there is no account for %s", AgentUser)
}

// Enforced goes by the binding that comes last: when that is in force, all are.
func TestConsentIsLast(t *testing.T) {
	t.Parallel()
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	if last := all[len(all)-1]; last.GetKind() != "ValidatingAdmissionPolicyBinding" || last.GetName() != consent {
		t.Errorf("the last one is %s %s", last.GetKind(), last.GetName())
	}
}
