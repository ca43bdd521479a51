// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// ErrConsent is returned when a copy would give power over the cluster that it is written to, and this cluster does not
// allow that.
var ErrConsent = errors.New("needs this cluster's consent")

// Consent lists what rules may write in this cluster although it gives power over it. If only Namespace is set, nothing of
// that kind is allowed. Entries are compared as text: there are no wildcards, and no way to allow everything.
type Consent struct {
	// Namespace is the agent's. It takes no copies of workloads; its -private and -readers namespaces take no copies at all.
	Namespace string
	// Kinds give power and are allowed: Kind.group (ClusterRole.rbac.authorization.k8s.io), Node, or a group for all of its
	// kinds. SecretTypes hold credentials and are allowed. Namespaces are closed and take copies nevertheless.
	Kinds, SecretTypes, Namespaces []string
}

// givesPower says whether objects of an API group give power over the cluster that they are in.
func givesPower(group string) bool {
	switch group {
	case "rbac.authorization.k8s.io", "admissionregistration.k8s.io", "apiextensions.k8s.io",
		"apiregistration.k8s.io", "certificates.k8s.io":
		return true
	}
	return false
}

// holdsCredential says whether Secrets of a type hold a credential. A copied ServiceAccount token Secret would even be
// filled in by this cluster's controller, and could then be read back by the cluster that sent it.
func holdsCredential(secretType string) bool {
	switch secretType {
	case "kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token", "helm.sh/release.v1", v1alpha1.SecretType:
		return true
	}
	return false
}

// Check returns an error for each entry that has no effect, which must be a mistake. Each error names the chart value.
func (c Consent) Check() error {
	var errs []error
	bad := func(value, entry, want string) {
		errs = append(errs, fmt.Errorf("consent.allow.%s: %q is not %s", value, entry, want))
	}
	for _, entry := range c.Kinds {
		kind, group, _ := strings.Cut(entry, ".")
		if !givesPower(entry) && entry != "Node" && (!givesPower(group) || kind == "" || strings.ToLower(kind) == kind) {
			bad("kinds", entry, "a kind that gives power, like ClusterRole.rbac.authorization.k8s.io, a group of such kinds, or Node; other kinds need no consent")
		}
	}
	for _, entry := range c.SecretTypes {
		if !holdsCredential(entry) {
			bad("secretTypes", entry, "a type of Secrets that hold credentials; other types need no consent")
		}
	}
	for _, entry := range c.Namespaces {
		if len(apivalidation.ValidateNamespaceName(entry, false)) > 0 || !c.closed(entry, schema.GroupKind{Kind: "Pod"}) {
			bad("namespaces", entry, "a namespace that is closed to copies; others need no consent")
		}
	}
	return errors.Join(errs...)
}

// RefuseKind returns an error if all copies of a kind are refused, whatever the object is.
func (c Consent) RefuseKind(gvk schema.GroupVersionKind) error {
	named := gvk.GroupKind().String()
	node := gvk.GroupKind() == (schema.GroupKind{Kind: "Node"})
	if !node && !givesPower(gvk.Group) || slices.Contains(c.Kinds, named) || gvk.Group != "" && slices.Contains(c.Kinds, gvk.Group) {
		return nil
	}
	return refuse(named+" gives power over the cluster", "kinds", named)
}

// Refuse returns an error if a rendered copy needs consent and has none. It must be called after all mutations.
func (c Consent) Refuse(desired *unstructured.Unstructured) error {
	gvk := desired.GroupVersionKind()
	if err := c.RefuseKind(gvk); err != nil {
		return err
	}
	namespace := desired.GetNamespace()
	if gvk.GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
		namespace = desired.GetName()
	}
	if c.closed(namespace, gvk.GroupKind()) && !slices.Contains(c.Namespaces, namespace) {
		why := "namespace " + namespace + " takes no copies"
		if namespace == c.Namespace {
			why += " of workloads, which could run as the agent"
		}
		return refuse(why, "namespaces", namespace)
	}
	if gvk.GroupKind() != (schema.GroupKind{Kind: "Secret"}) {
		return nil
	}
	kind, _, _ := unstructured.NestedString(desired.Object, "type")
	if holdsCredential(kind) && !slices.Contains(c.SecretTypes, kind) {
		return refuse("Secrets of type "+kind+" hold credentials", "secretTypes", kind)
	}
	return nil
}

// refuse makes an error that names the chart value to set.
func refuse(why, value, entry string) error {
	return fmt.Errorf("%w: %s; to allow it here add %q to the chart value consent.allow.%s", ErrConsent, why, entry, value)
}

// closed says whether a namespace takes no copies of a kind. A pod in the agent's own namespace could run as the agent.
func (c Consent) closed(namespace string, kind schema.GroupKind) bool {
	return strings.HasPrefix(namespace, "kube-") || c.Namespace != "" &&
		(namespace == v1alpha1.PrivateNamespace(c.Namespace) || namespace == v1alpha1.ReadersNamespace(c.Namespace) ||
			namespace == c.Namespace && runsPods(kind))
}

// runsPods says whether objects of a kind are pods or create pods.
func runsPods(kind schema.GroupKind) bool {
	switch kind.Group {
	case "apps", "batch":
		return true
	case "":
		return kind.Kind == "Pod" || kind.Kind == "ReplicationController"
	}
	return false
}
