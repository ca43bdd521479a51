// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package consent

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/others"
)

// ErrNeeded is returned when a copy would give power over the cluster that it is written to, and this cluster does not
// allow that.
var ErrNeeded = errors.New("needs this cluster's consent")

// Policy lists what rules may do in this cluster although it gives power over it. If only Namespace is set, nothing of
// that kind is allowed. Entries are compared as text: there are no wildcards, and no way to allow everything.
type Policy struct {
	// Namespace is the agent's. It takes no copies of workloads; its -private and -readers namespaces take no copies at all.
	Namespace string
	// Kinds give power and are allowed: Kind.group (ClusterRole.rbac.authorization.k8s.io), Node, or a group for all of its
	// kinds. SecretTypes hold credentials and are allowed, as sources and as copies. SecretsAs are the kinds that Secrets
	// may become. Namespaces are closed and take copies nevertheless.
	Kinds, SecretTypes, SecretsAs, Namespaces []string
}

//nolint:gochecknoglobals // a constant
var secret = schema.GroupKind{Kind: "Secret"}

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
func (p Policy) Check() error {
	var errs []error
	bad := func(value, entry, want string) {
		errs = append(errs, fmt.Errorf("consent.allow.%s: %q is not %s", value, entry, want))
	}
	for _, entry := range p.Kinds {
		kind, group, _ := strings.Cut(entry, ".")
		if !givesPower(entry) && entry != "Node" && (!givesPower(group) || kind == "" || strings.ToLower(kind) == kind) {
			bad("kinds", entry, "a kind that gives power, like ClusterRole.rbac.authorization.k8s.io, a group of such kinds, or Node; other kinds need no consent")
		}
	}
	for _, entry := range p.SecretTypes {
		if !holdsCredential(entry) {
			bad("secretTypes", entry, "a type of Secrets that hold credentials; other types need no consent")
		}
	}
	for _, entry := range p.SecretsAs {
		kind, group, grouped := strings.Cut(entry, ".")
		if !isKind(kind) || grouped && len(validation.IsDNS1123Subdomain(group)) > 0 || entry == secret.Kind {
			bad("secretsAs", entry, "a kind that Secrets could become, like ConfigMap or Widget.example.com")
		}
	}
	for _, entry := range p.Namespaces {
		if len(apivalidation.ValidateNamespaceName(entry, false)) > 0 || !p.closed(entry, schema.GroupKind{Kind: "Pod"}) {
			bad("namespaces", entry, "a namespace that is closed to copies; others need no consent")
		}
	}
	return errors.Join(errs...)
}

// isKind says whether text can be the name of a kind.
func isKind(text string) bool {
	return len(text) <= validation.DNS1123LabelMaxLength && strings.ToLower(text[:min(1, len(text))]) != text[:min(1, len(text))] &&
		len(validation.IsDNS1123Label(strings.ToLower(text))) == 0
}

// RefuseKind returns an error if all copies of a kind are refused, whatever the object is.
func (p Policy) RefuseKind(gvk schema.GroupVersionKind) error {
	named := gvk.GroupKind().String()
	node := gvk.GroupKind() == (schema.GroupKind{Kind: "Node"})
	if !node && !givesPower(gvk.Group) || slices.Contains(p.Kinds, named) || gvk.Group != "" && slices.Contains(p.Kinds, gvk.Group) {
		return nil
	}
	return refuse(named+" gives power over the cluster", "kinds", named)
}

// RefuseAs returns an error if objects of a kind must not become copies of another kind, whatever the object is.
func (p Policy) RefuseAs(from, to schema.GroupKind) error {
	if named := to.String(); from == secret && to != secret && !slices.Contains(p.SecretsAs, named) {
		return refuse("mutations.groupVersionKind turns Secrets into "+named+", which more people may read", "secretsAs", named)
	}
	return nil
}

// RefuseSource returns an error if an object must not become a copy of a kind, whatever the rules make of it. It must be
// called before a copy is rendered: a Secret with a credential is no source, also where its copy would not look like one,
// nor is one of the namespaces in which agents keep theirs.
func (p Policy) RefuseSource(source *unstructured.Unstructured, to schema.GroupKind) error {
	if err := p.refuseType(source); err != nil {
		return err
	}
	if source.GroupVersionKind().GroupKind() == secret && p.agents(source.GetNamespace()) {
		return fmt.Errorf("%w: Secrets of namespace %s are the credentials of an agent; no chart value allows them", ErrNeeded, source.GetNamespace())
	}
	return p.RefuseAs(source.GroupVersionKind().GroupKind(), to)
}

// HoldsCredential says whether an object is a Secret of a type that holds credentials, whatever is allowed, or one that an
// agent keeps a credential in.
func HoldsCredential(obj *unstructured.Unstructured) bool {
	return obj.GroupVersionKind().GroupKind() == secret && (holdsCredential(typeOf(obj)) || isRenewed(obj))
}

// isRenewed says whether an object asks the agent of its cluster to keep a credential for another cluster in it.
func isRenewed(obj *unstructured.Unstructured) bool {
	_, asks := obj.GetAnnotations()[v1alpha1.AnnotationRenewCredentialOf]
	return asks
}

func typeOf(obj *unstructured.Unstructured) string {
	kind, _, _ := unstructured.NestedString(obj.Object, "type")
	return kind
}

// refuseType returns an error for a Secret that holds a credential.
func (p Policy) refuseType(obj *unstructured.Unstructured) error {
	if HoldsCredential(obj) && isRenewed(obj) {
		return fmt.Errorf("%w: the agent there keeps a credential in Secrets with the annotation %s; no chart value allows them", ErrNeeded, v1alpha1.AnnotationRenewCredentialOf)
	}
	if kind := typeOf(obj); HoldsCredential(obj) && !slices.Contains(p.SecretTypes, kind) {
		return refuse("Secrets of type "+kind+" hold credentials", "secretTypes", kind)
	}
	return nil
}

// Refuse returns an error if a rendered copy needs consent and has none. It must be called after all mutations, and
// RefuseSource before them.
func (p Policy) Refuse(desired *unstructured.Unstructured) error {
	gvk := desired.GroupVersionKind()
	if err := p.RefuseKind(gvk); err != nil {
		return err
	}
	namespace := desired.GetNamespace()
	if gvk.GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
		namespace = desired.GetName()
	}
	if p.closed(namespace, gvk.GroupKind()) && !slices.Contains(p.Namespaces, namespace) {
		why := "namespace " + namespace + " takes no copies"
		if namespace == p.Namespace {
			why += " of workloads, which could run as the agent"
		}
		return refuse(why, "namespaces", namespace)
	}
	if others.Native(gvk.Group, gvk.Kind, namespace, desired.GetName()) {
		return fmt.Errorf("%w: Kubernetes makes %s %s itself, which pods rely on; no chart value allows a copy in its place", ErrNeeded, gvk.Kind, desired.GetName())
	}
	return p.refuseType(desired)
}

// refuse makes an error that names the chart value to set.
func refuse(why, value, entry string) error {
	return fmt.Errorf("%w: %s; to allow it here add %q to the chart value consent.allow.%s", ErrNeeded, why, entry, value)
}

// closed says whether a namespace takes no copies of a kind. A pod in the agent's own namespace could run as the agent.
func (p Policy) closed(namespace string, kind schema.GroupKind) bool {
	return strings.HasPrefix(namespace, "kube-") || p.Namespace != "" &&
		(p.agents(namespace) || namespace == p.Namespace && runsPods(kind))
}

// agents says whether only the agent keeps something in a namespace. That of a peer may have another name, which is not known
// here; nearly all have the chart's.
func (p Policy) agents(namespace string) bool {
	return slices.ContainsFunc([]string{p.Namespace, v1alpha1.DefaultNamespace}, func(own string) bool {
		return own != "" && (namespace == v1alpha1.PrivateNamespace(own) || namespace == v1alpha1.ReadersNamespace(own))
	})
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
