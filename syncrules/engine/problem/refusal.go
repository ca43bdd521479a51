// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package problem

import (
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// tooLarge covers the limits of API servers on requests, of etcd on values, and of single kinds on their data.
func tooLarge(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	s := status.Status()
	if apierrors.IsRequestEntityTooLargeError(err) ||
		strings.Contains(s.Message, "request is too large") || strings.Contains(s.Message, "message larger than max") {
		return true
	}
	if s.Details == nil || !apierrors.IsInvalid(err) {
		return false
	}
	return slices.ContainsFunc(s.Details.Causes, func(c metav1.StatusCause) bool {
		return c.Type == metav1.CauseTypeTooLong && (c.Field == "" || c.Field == "data")
	})
}

// admissionName is who, of what a cluster's own people have set up, did not let a copy in; "" if none did.
func admissionName(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return ""
	}
	message := strings.TrimPrefix(status.Status().Message, "Internal error occurred: ")
	if _, rest, ok := strings.Cut(message, " is forbidden: "); ok {
		message = rest
	}
	if strings.HasPrefix(message, "violates PodSecurity") {
		return "PodSecurity"
	}
	for before, after := range map[string]string{
		`admission webhook "`: `" denied`, `failed calling webhook "`: `"`, `ValidatingAdmissionPolicy '`: `' with binding`,
	} {
		rest, begins := strings.CutPrefix(message, before)
		name, _, ends := strings.Cut(rest, after)
		if begins && ends && len(name) <= validation.DNS1123SubdomainMaxLength {
			return strings.TrimPrefix(before, "failed calling ") + name + before[len(before)-1:]
		}
	}
	return ""
}

// Immutability is what an error says of fields that cannot be changed.
type Immutability uint8

const (
	Mutable Immutability = iota // of none
	Partly                      // and of something else
	Wholly
)

// Immutable looks for what API servers say of an update that would change what cannot be changed.
func Immutable(err error) Immutability {
	var status apierrors.APIStatus
	if err == nil || !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		return Mutable
	}
	s := status.Status()
	if s.Details == nil || len(s.Details.Causes) == 0 {
		return Mutable
	}
	n := 0
	for _, c := range s.Details.Causes {
		for _, said := range []string{
			"immutable", "may not change once set", "may not change fields", "can not be unset", "cannot be changed",
			"updates to statefulset spec for fields other than", "updates to the spec are forbidden",
		} {
			if strings.Contains(c.Message, said) {
				n++
				break
			}
		}
	}
	switch n {
	case 0:
		return Mutable
	case len(s.Details.Causes):
		return Wholly
	}
	return Partly
}
