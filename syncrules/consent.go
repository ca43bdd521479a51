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

// ErrConsent is returned when a copy would give power over the cluster that it is written to, and this
// cluster has not agreed to that.
var ErrConsent = errors.New("needs this cluster's consent")

// Consent is what this cluster lets rules of others write. The zero value but for Namespace allows nothing
// of what gives power. What it lists is compared letter by letter: there is no way to allow everything.
type Consent struct {
	// Namespace is the agent's, closed to workloads; its -private and -readers namespaces are closed to all copies.
	Namespace string
	// Kinds that give power and are allowed all the same: Kind.group (ClusterRole.rbac.authorization.k8s.io),
	// Node, or a group for all of its kinds.
	Kinds []string
	// SecretTypes that hold credentials, and Namespaces that are closed, and are allowed all the same.
	SecretTypes, Namespaces []string
}

// powers says whether kinds of a group give power over the cluster that they are in.
func powers(group string) bool {
	switch group {
	case "rbac.authorization.k8s.io", "admissionregistration.k8s.io", "apiextensions.k8s.io",
		"apiregistration.k8s.io", "certificates.k8s.io":
		return true
	}
	return false
}

// credential says whether Secrets of a type hold what lets somebody in. A copied ServiceAccount token Secret
// would even be filled by this cluster's controller and read back by its sender.
func credential(secretType string) bool {
	switch secretType {
	case "kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token", "helm.sh/release.v1", v1alpha1.SecretType:
		return true
	}
	return false
}

// Check finds what is listed and can never mean anything, which is a slip: each error names the chart value.
func (c Consent) Check() error {
	var errs []error
	bad := func(value, entry, want string) {
		errs = append(errs, fmt.Errorf("consent.allow.%s: %q is not %s", value, entry, want))
	}
	for _, entry := range c.Kinds {
		kind, group, _ := strings.Cut(entry, ".")
		if !powers(entry) && entry != "Node" && (!powers(group) || kind == "" || strings.ToLower(kind) == kind) {
			bad("kinds", entry, "a kind that gives power, like ClusterRole.rbac.authorization.k8s.io, a group of such kinds, or Node; other kinds need no consent")
		}
	}
	for _, entry := range c.SecretTypes {
		if !credential(entry) {
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

// RefuseKind says, before any object is seen, that copies of a whole kind are refused.
func (c Consent) RefuseKind(gvk schema.GroupVersionKind) error {
	named := gvk.GroupKind().String()
	node := gvk.GroupKind() == (schema.GroupKind{Kind: "Node"})
	if !node && !powers(gvk.Group) || slices.Contains(c.Kinds, named) || gvk.Group != "" && slices.Contains(c.Kinds, gvk.Group) {
		return nil
	}
	return refuse(named+" gives power over the cluster", "kinds", named)
}

// Refuse is asked about every rendered copy, after all mutations.
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
		return refuse("namespace "+namespace+" takes no copies"+c.which(namespace), "namespaces", namespace)
	}
	if gvk.GroupKind() != (schema.GroupKind{Kind: "Secret"}) {
		return nil
	}
	kind, _, _ := unstructured.NestedString(desired.Object, "type")
	if credential(kind) && !slices.Contains(c.SecretTypes, kind) {
		return refuse("Secrets of type "+kind+" hold credentials", "secretTypes", kind)
	}
	return nil
}

// refuse names the chart value to set, for whoever may.
func refuse(why, value, entry string) error {
	return fmt.Errorf("%w: %s; to allow it here add %q to the chart value consent.allow.%s", ErrConsent, why, entry, value)
}

// closed says whether a namespace takes no copies of a kind. In the agent's own a pod could run as the agent.
func (c Consent) closed(namespace string, kind schema.GroupKind) bool {
	return strings.HasPrefix(namespace, "kube-") || c.Namespace != "" &&
		(namespace == v1alpha1.PrivateNamespace(c.Namespace) || namespace == v1alpha1.ReadersNamespace(c.Namespace) ||
			namespace == c.Namespace && runsPods(kind))
}

func (c Consent) which(namespace string) string {
	if namespace == c.Namespace {
		return " of workloads, which could run as the agent"
	}
	return ""
}

// runsPods says whether objects of a kind are, or make, pods.
func runsPods(kind schema.GroupKind) bool {
	switch kind.Group {
	case "apps", "batch":
		return true
	case "":
		return kind.Kind == "Pod" || kind.Kind == "ReplicationController"
	}
	return false
}
