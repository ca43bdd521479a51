// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// ErrConsent is returned when a copy would give power over the cluster that it is written to, and this
// cluster has not agreed to that.
var ErrConsent = errors.New("needs this cluster's consent")

// Consent is what this cluster lets rules of others write. The zero value but for Namespace allows nothing
// of what gives power.
type Consent struct {
	// Namespace is the agent's; its -private and -readers namespaces are closed to copies.
	Namespace string
}

// RefuseKind says, before any object is seen, that copies of a whole kind are refused.
func (c Consent) RefuseKind(gvk schema.GroupVersionKind) error {
	switch gvk.Group {
	case "rbac.authorization.k8s.io", "admissionregistration.k8s.io", "apiextensions.k8s.io",
		"apiregistration.k8s.io", "certificates.k8s.io":
		return fmt.Errorf("%w: kinds of %s give power over the cluster", ErrConsent, gvk.Group)
	case "":
		if gvk.Kind == "Node" {
			return fmt.Errorf("%w: nodes are not copied", ErrConsent)
		}
	}
	return nil
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
	if c.closed(namespace) {
		return fmt.Errorf("%w: namespace %s takes no copies", ErrConsent, namespace)
	}
	if gvk.GroupKind() != (schema.GroupKind{Kind: "Secret"}) {
		return nil
	}
	kind, _, _ := unstructured.NestedString(desired.Object, "type")
	switch kind {
	// A copied token Secret would be filled by this cluster's controller and read back by its sender.
	case "kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token", "helm.sh/release.v1", v1alpha1.SecretType:
		return fmt.Errorf("%w: Secrets of type %s are not copied", ErrConsent, kind)
	}
	return nil
}

func (c Consent) closed(namespace string) bool {
	return strings.HasPrefix(namespace, "kube-") || c.Namespace != "" &&
		(namespace == v1alpha1.PrivateNamespace(c.Namespace) || namespace == v1alpha1.ReadersNamespace(c.Namespace))
}
