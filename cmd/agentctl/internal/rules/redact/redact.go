// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redact keeps what Secrets hold off the screen: in differences between objects, in errors, and in other texts.
package redact

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Redaction keeps what Secrets hold off the screen. A rule may carry it anywhere, also into another kind; so as
// soon as a Secret is at either end, every value is replaced, but for what can be seen of the source's metadata
// and what agents write.
type Redaction struct {
	on   bool
	open map[string]bool // labels, annotations and types that are no secret: of the sources, or said by a rule
	key  []byte
}

// New returns a Redaction that shows everything, until it is told of a Secret.
func New() *Redaction {
	r := &Redaction{open: map[string]bool{}, key: make([]byte, 32)}
	_, _ = rand.Read(r.key) // never fails
	return r
}

// Look says what is at an end of the copy. From a Secret on, values are replaced; nil is nothing.
func (r *Redaction) Look(obj *unstructured.Unstructured) {
	if obj != nil && clusters.IsSecret(obj.GroupVersionKind()) {
		r.on = true
	}
}

// Secret says that a Secret is at an end of the copy.
func (r *Redaction) Secret() { r.on = true }

// Diff is a unified diff between two objects; either may be nil. It is empty where nothing differs but what servers keep
// for themselves.
func (r *Redaction) Diff(there, wanted *unstructured.Unstructured) (string, error) {
	before, err := r.shown(there)
	if err != nil {
		return "", err
	}
	after, err := r.shown(wanted)
	if err != nil || bytes.Equal(before, after) {
		return "", err
	}
	text := diff.Diff("there", before, "wanted", after)
	// The first line repeats the names.
	_, text, _ = bytes.Cut(text, []byte("\n"))
	return string(text), nil
}

// shown is an object as a difference shows it.
func (r *Redaction) shown(obj *unstructured.Unstructured) ([]byte, error) {
	if obj == nil {
		return nil, nil
	}
	obj = obj.DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink"} {
		unstructured.RemoveNestedField(obj.Object, "metadata", field)
	}
	annotations := obj.GetAnnotations()
	for key := range annotations {
		if strings.Contains(key, "last-applied") { // repeats the object, values included
			delete(annotations, key)
		}
	}
	if obj.SetAnnotations(annotations); len(annotations) == 0 {
		unstructured.RemoveNestedField(obj.Object, "metadata", "annotations")
	}
	r.object(obj)
	return yaml.Marshal(obj.Object)
}

// Allow shows labels, annotations or a type, of the sources or said by a rule, as they are.
func (r *Redaction) Allow(set map[string]string) {
	for k, v := range set {
		r.open[k+"="+v] = true
	}
}

// object replaces the values of an object by their sizes and hashes.
func (r *Redaction) object(obj *unstructured.Unstructured) {
	if !r.on {
		return
	}
	for k, v := range obj.Object {
		switch k {
		case "apiVersion", "kind", "immutable":
		case "type":
			if text, ok := v.(string); !ok || !r.open["type="+text] {
				obj.Object[k] = r.value(v)
			}
		case "metadata":
			for _, field := range []string{"labels", "annotations"} {
				set, found, err := unstructured.NestedStringMap(obj.Object, k, field)
				if !found || err != nil {
					continue
				}
				for key, value := range set {
					if !r.open[key+"="+value] && !strings.HasPrefix(key, v1alpha1.Prefix) {
						set[key] = r.hash(value)
					}
				}
				_ = unstructured.SetNestedStringMap(obj.Object, set, k, field) // the parents are maps: they were read
			}
		case "data":
			if clusters.IsSecret(obj.GroupVersionKind()) {
				v = decoded(v)
			}
			obj.Object[k] = r.value(v)
		default:
			obj.Object[k] = r.value(v)
		}
	}
}

// decoded is the data of a Secret as it is meant, so that the sizes are those that people know.
func decoded(data any) any {
	set, _ := data.(map[string]any)
	for k, v := range set {
		text, _ := v.(string)
		if raw, err := base64.StdEncoding.DecodeString(text); text != "" && err == nil {
			set[k] = string(raw)
		}
	}
	return data
}

func (r *Redaction) value(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = r.value(v[k])
		}
		return v
	case []any:
		for i := range v {
			v[i] = r.value(v[i])
		}
		return v
	case nil:
		return nil
	}
	return r.hash(v)
}

// hash stands for a value: equal ones look the same within one run, and no run says anything about the value
// to who has a list of guesses.
func (r *Redaction) hash(v any) string {
	data := []byte(fmt.Sprint(v))
	sum := hmac.New(sha256.New, r.key)
	_, _ = sum.Write(data) // never fails
	return fmt.Sprintf("<%d bytes, hash %x>", len(data), sum.Sum(nil)[:4])
}

// Error is what an API server says of a write; of a Secret only what it is about, since the text may repeat it.
func (r *Redaction) Error(err error) string {
	if !r.on {
		return clusters.Reason(err)
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return "the request failed"
	}
	s := status.Status()
	if s.Reason == metav1.StatusReasonNotFound || s.Reason == metav1.StatusReasonForbidden && !IsRefusal(err) {
		return clusters.Reason(err) // about names and rights alone
	}
	parts := []string{string(s.Reason)}
	if s.Details != nil {
		for _, cause := range s.Details.Causes {
			parts = append(parts, cause.Field+" ("+string(cause.Type)+")")
		}
	}
	return strings.Join(parts, " ")
}

// Values takes what a Secret holds out of a text.
func Values(text string, secret *unstructured.Unstructured) string {
	var values []string
	for _, field := range []string{"data", "stringData"} {
		set, _, _ := unstructured.NestedMap(secret.Object, field)
		for _, v := range set {
			encoded := fmt.Sprint(v)
			values = append(values, encoded)
			if raw, err := base64.StdEncoding.DecodeString(encoded); err == nil {
				quoted, err := json.Marshal(string(raw))
				values = append(values, string(raw))
				if err == nil {
					values = append(values, strings.Trim(string(quoted), `"`))
				}
			}
		}
	}
	return Texts(text, values)
}

// Texts takes texts out of another one.
func Texts(text string, values []string) string {
	values = slices.SortedFunc(slices.Values(values), func(a, b string) int { return len(b) - len(a) })
	for _, v := range values {
		switch v = cli.OneLine(v); {
		case v == "":
		case len(v) < 4: // as a word of its own, or nothing of the text would be left
			text = regexp.MustCompile(`\b`+regexp.QuoteMeta(v)+`\b`).ReplaceAllString(text, "<hidden>")
		default:
			text = strings.ReplaceAll(text, v, "<hidden>")
		}
	}
	return text
}

// IsRefusal tells what a policy or webhook says no to from a missing right.
func IsRefusal(err error) bool {
	text := err.Error()
	return strings.Contains(text, "admission webhook") || strings.Contains(text, "ValidatingAdmissionPolicy") || strings.Contains(text, "exceeded quota")
}
