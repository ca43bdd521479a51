// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The limits are those of the CRD of clusters.clusterregistry.k8s.cisco.com, so that what passes here can be stored.
const (
	maxEndpoints  = 64
	maxConditions = 32
	maxAddress    = 1024
	maxCABundle   = 262144 // in base64
	maxName       = 253
	maxNamespace  = 63
	maxReason     = 1024
	maxMessage    = 32768
)

// Validate returns what is wrong with a Cluster, of which old is the present state; nil for a new one. What has not
// changed is not judged: the other group may store what this one does not take.
func Validate(c, old *Cluster) field.ErrorList {
	meta := field.NewPath("metadata")
	errs := apivalidation.ValidateObjectMeta(&c.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, meta)
	if old == nil {
		old = &Cluster{}
	} else {
		errs = append(errs, apivalidation.ValidateObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta, meta)...)
	}
	spec := field.NewPath("spec")
	errs = append(errs, validateEndpoints(&c.Spec.KubernetesAPIEndpoints, &old.Spec.KubernetesAPIEndpoints, spec.Child("kubernetesApiEndpoints"))...)
	auth := spec.Child("authInfo")
	errs = append(errs, validateReference(c.Spec.AuthInfo.User, old.Spec.AuthInfo.User, auth.Child("user"))...)
	errs = append(errs, validateReference(c.Spec.AuthInfo.Controller, old.Spec.AuthInfo.Controller, auth.Child("controller"))...)
	return append(errs, validateConditions(c.Status.Conditions, old.Status.Conditions, field.NewPath("status", "conditions"))...)
}

// Warnings are what the writer of a Cluster is told, though it is taken.
func Warnings(c, old *Cluster) []string {
	var out []string
	if slices.ContainsFunc(c.Status.Conditions, func(c ClusterCondition) bool { return !c.LastHeartbeatTime.IsZero() }) {
		out = append(out, "status.conditions[].lastHeartbeatTime is not stored")
	}
	ca := c.Spec.KubernetesAPIEndpoints.CABundle
	if block, _ := pem.Decode(ca); len(ca) > 0 && block == nil && (old == nil || !slices.Equal(ca, old.Spec.KubernetesAPIEndpoints.CABundle)) {
		out = append(out, "spec.kubernetesApiEndpoints.caBundle: agents use PEM certificates only")
	}
	return out
}

func validateEndpoints(e, old *KubernetesAPIEndpoints, path *field.Path) (errs field.ErrorList) {
	list := path.Child("serverEndpoints")
	if n := len(e.ServerEndpoints); n > maxEndpoints {
		errs = append(errs, field.TooMany(list, n, maxEndpoints))
	}
	for i, one := range e.ServerEndpoints {
		at := list.Index(i)
		if count(e.ServerEndpoints[:i], one) > 0 && count(e.ServerEndpoints, one) > count(old.ServerEndpoints, one) {
			errs = append(errs, field.Duplicate(at, field.OmitValueType{})) // an address that is refused may hold a password
			continue
		}
		if slices.Contains(old.ServerEndpoints, one) {
			continue
		}
		if one.ServerAddress == "" {
			errs = append(errs, field.Required(at.Child("serverAddress"), "an endpoint has an address"))
		}
		if one.ClientCIDR != "" {
			if _, _, err := net.ParseCIDR(one.ClientCIDR); err != nil {
				errs = append(errs, field.Invalid(at.Child("clientCIDR"), one.ClientCIDR, "must be a range of addresses, such as 10.0.0.0/8 or 2001:db8::/32"))
			}
		}
		if one.ServerAddress != "" {
			errs = append(errs, validateAddress(one.ServerAddress, at.Child("serverAddress"))...)
		}
	}
	if slices.Equal(e.CABundle, old.CABundle) {
		return errs
	}
	bundle := path.Child("caBundle")
	if base64.StdEncoding.EncodedLen(len(e.CABundle)) > maxCABundle {
		errs = append(errs, field.TooLong(bundle, "", base64.StdEncoding.DecodedLen(maxCABundle)))
	}
	// Bytes of any other kind are taken, as they always were; a key would be shown to everybody who reads the Cluster.
	for block, rest := pem.Decode(e.CABundle); block != nil; block, rest = pem.Decode(rest) {
		if strings.HasSuffix(block.Type, "PRIVATE KEY") {
			errs = append(errs, field.Forbidden(bundle, "must hold certificates, and no private key"))
		}
	}
	return errs
}

func count(all []ServerAddressByClientCIDR, one ServerAddressByClientCIDR) (n int) {
	for _, e := range all {
		if e == one {
			n++
		}
	}
	return n
}

// validateAddress takes a hostname, an IP, either with a port, and an https URL.
func validateAddress(address string, path *field.Path) field.ErrorList {
	if len(address) > maxAddress {
		return field.ErrorList{field.TooLong(path, "", maxAddress)}
	}
	text := address
	if !strings.Contains(address, "://") {
		if net.ParseIP(address) != nil && strings.Contains(address, ":") {
			text = "[" + address + "]"
		}
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || !isHost(u.Hostname()) || !isPort(u) {
		if err == nil && u.User != nil {
			address = "(with a user)" // and perhaps a password
		}
		return field.ErrorList{field.Invalid(path, address, "must be a hostname or an IP, either with or without a port, or an https URL")}
	}
	return nil
}

func isHost(host string) bool {
	return net.ParseIP(host) != nil || len(validation.IsDNS1123Subdomain(strings.ToLower(strings.TrimSuffix(host, ".")))) == 0
}

// isPort also takes a URL that has none, but not one that ends in a colon.
func isPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	port, err := strconv.Atoi(u.Port())
	return err == nil && len(validation.IsValidPortNum(port)) == 0
}

func validateReference(r, old *ObjectReference, path *field.Path) (errs field.ErrorList) {
	if r == nil || equality.Semantic.DeepEqual(r, old) {
		return nil
	}
	for _, part := range []struct {
		name, value string
		required    bool
		most        int
	}{
		{"kind", r.Kind, true, maxName}, {"name", r.Name, true, maxName}, {"namespace", r.Namespace, false, maxNamespace},
	} {
		if part.required && part.value == "" {
			errs = append(errs, field.Required(path.Child(part.name), "of the object that holds the credential"))
		}
		if len(part.value) > part.most {
			errs = append(errs, field.TooLong(path.Child(part.name), "", part.most))
		}
	}
	return errs
}

// reasonForm is that of metav1.Condition.
var reasonForm = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

func validateConditions(conditions, old []ClusterCondition, path *field.Path) (errs field.ErrorList) {
	if n := len(conditions); n > maxConditions {
		errs = append(errs, field.TooMany(path, n, maxConditions))
	}
	seen := map[ClusterConditionType]bool{}
	for i := range conditions {
		c, at := &conditions[i], path.Index(i)
		if seen[c.Type] {
			errs = append(errs, field.Duplicate(at.Child("type"), c.Type))
		}
		seen[c.Type] = true
		if slices.ContainsFunc(old, func(o ClusterCondition) bool { return equality.Semantic.DeepEqual(o, *c) }) {
			continue
		}
		for _, why := range validation.IsQualifiedName(string(c.Type)) {
			errs = append(errs, field.Invalid(at.Child("type"), c.Type, why))
		}
		if all := []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown}; !slices.Contains(all, c.Status) {
			errs = append(errs, field.NotSupported(at.Child("status"), c.Status, all))
		}
		if len(c.Reason) > maxReason {
			errs = append(errs, field.TooLong(at.Child("reason"), "", maxReason))
		} else if c.Reason != "" && !reasonForm.MatchString(c.Reason) {
			errs = append(errs, field.Invalid(at.Child("reason"), c.Reason, fmt.Sprintf("must be a word such as KubeletReady (%s)", reasonForm)))
		}
		if len(c.Message) > maxMessage {
			errs = append(errs, field.TooLong(at.Child("message"), "", maxMessage))
		}
	}
	return errs
}
