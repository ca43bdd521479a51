// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
	"context"
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
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/lint"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// How a difference was found.
const (
	byServer = "server" // a dry run of the write
	byRender = "render" // the rendered copy alone: defaults and admission are not in it
)

// compare shows what a write would change: by a dry run where the user may do that, else by the rendered copy.
func (q *inquiry) compare(ctx context.Context, out *copyReport, local *unstructured.Unstructured, d syncrules.Decision, to *reached, hide redaction) {
	wanted := d.Object
	out.DiffBy = byRender
	switch {
	case !q.dryRun:
		out.DiffNote = "no dry run was asked for"
	case !to.mayWrite:
		out.DiffNote = "no dry run: give --peer-context " + to.name + "=CONTEXT to have its API server say what it would make of it"
	default:
		answer, err := dryRun(ctx, to.api, d)
		switch {
		case err == nil:
			wanted, out.DiffBy = answer, byServer
		case namespaceMissing(err) && q.createsNamespace(out.Rules):
			out.DiffNote = "no dry run: namespace " + d.Object.GetNamespace() + " does not exist and would be created first"
		case namespaceMissing(err):
			out.State, out.Reason = stateBlocked, "namespace "+d.Object.GetNamespace()+" does not exist; create it, or set createNamespace in the rule"
		case apierrors.IsForbidden(err) && !isRefusal(err):
			out.DiffNote = "no dry run: you may not write it: " + hide.error(err)
		default:
			out.State, out.Reason = stateBlocked, "the API server would refuse it: "+hide.error(err)
		}
	}
	text, err := unifiedDiff(local, wanted, hide)
	if err != nil {
		out.DiffNote = "cannot be shown: " + err.Error()
		return
	}
	if out.Diff = text; text == "" && out.State == statePending && out.DiffBy == byServer {
		// The server makes of it what is there already: an agent finds that out with one write, and writes no more.
		out.State, out.Reason = stateInSync, "the API server would not change it"
	}
}

func namespaceMissing(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) &&
		status.Status().Details != nil && status.Status().Details.Kind == "namespaces"
}

func (q *inquiry) createsNamespace(rules []string) bool {
	return slices.ContainsFunc(rules, func(name string) bool {
		r := q.rule(name)
		return r != nil && r.compiled != nil && r.compiled.CreatesNamespace()
	})
}

// isRefusal tells what a policy or webhook says no to from a missing right.
func isRefusal(err error) bool {
	text := err.Error()
	return strings.Contains(text, "admission webhook") || strings.Contains(text, "ValidatingAdmissionPolicy") || strings.Contains(text, "exceeded quota")
}

// dryRun asks the API server what it would make of a write, which it does not keep.
func dryRun(ctx context.Context, r *clusters.Reader, d syncrules.Decision) (*unstructured.Unstructured, error) {
	objects, err := r.Objects(ctx, d.Object.GroupVersionKind(), d.Object.GetNamespace())
	if err != nil {
		return nil, err
	}
	all := []string{metav1.DryRunAll}
	update := metav1.UpdateOptions{DryRun: all, FieldManager: "roster"}
	switch d.Action {
	case syncrules.Create:
		return objects.Create(ctx, d.Object, metav1.CreateOptions{DryRun: all, FieldManager: "roster"})
	case syncrules.UpdateStatus:
		answer, err := objects.UpdateStatus(ctx, d.Object, update)
		if !apierrors.IsNotFound(err) {
			return answer, err
		}
		// The kind has no status subresource: its status is a field like others.
	default:
	}
	return objects.Update(ctx, d.Object, update)
}

// unifiedDiff is empty where nothing differs but what servers keep for themselves.
func unifiedDiff(there, wanted *unstructured.Unstructured, hide redaction) (string, error) {
	before, err := shown(there, hide)
	if err != nil {
		return "", err
	}
	after, err := shown(wanted, hide)
	if err != nil || bytes.Equal(before, after) {
		return "", err
	}
	text := diff.Diff("there", before, "wanted", after)
	// The first line repeats the names.
	_, text, _ = bytes.Cut(text, []byte("\n"))
	return string(text), nil
}

// shown is an object as a difference shows it.
func shown(obj *unstructured.Unstructured, hide redaction) ([]byte, error) {
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
	hide.object(obj)
	return yaml.Marshal(obj.Object)
}

// redaction keeps what Secrets hold off the screen. A rule may carry it anywhere, also into another kind; so as
// soon as a Secret is at either end, every value is replaced, but for what can be seen of the source's metadata
// and what agents write.
type redaction struct {
	on   bool
	open map[string]bool // labels, annotations and types that are no secret: of the sources, or said by a rule
	key  []byte
}

func (q *inquiry) redaction(facts syncrules.Facts, d syncrules.Decision, offers []*offer) redaction {
	r := redaction{open: map[string]bool{}, key: make([]byte, 32)}
	_, _ = rand.Read(r.key) // never fails
	look := func(obj *unstructured.Unstructured) {
		if obj != nil && lint.IsSecret(obj.GroupVersionKind()) {
			r.on = true
		}
	}
	look(facts.Local)
	look(d.Object)
	if facts.Local != nil && syncrules.IsCopy(facts.Local) && lint.IsSecret(syncrules.Source(facts.Local).GroupVersionKind) {
		r.on = true
	}
	for _, o := range offers {
		look(o.obj)
		kind, _, _ := unstructured.NestedString(o.obj.Object, "type")
		r.show(map[string]string{"type": kind})
		r.show(o.obj.GetLabels())
		r.show(o.obj.GetAnnotations())
		for _, name := range o.names {
			for _, rule := range q.rule(name).api.Spec.Rules {
				if m := rule.Mutations.Labels; m != nil {
					r.show(m.Add)
				}
				if m := rule.Mutations.Annotations; m != nil {
					r.show(m.Add)
				}
			}
		}
	}
	return r
}

func (r redaction) show(set map[string]string) {
	for k, v := range set {
		r.open[k+"="+v] = true
	}
}

// object replaces the values of an object by their sizes and hashes.
func (r redaction) object(obj *unstructured.Unstructured) {
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
			if lint.IsSecret(obj.GroupVersionKind()) {
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

func (r redaction) value(v any) any {
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
func (r redaction) hash(v any) string {
	data := []byte(fmt.Sprint(v))
	sum := hmac.New(sha256.New, r.key)
	_, _ = sum.Write(data) // never fails
	return fmt.Sprintf("<%d bytes, hash %x>", len(data), sum.Sum(nil)[:4])
}

// error is what an API server says of a write; of a Secret only what it is about, since the text may repeat it.
func (r redaction) error(err error) string {
	if !r.on {
		return clusters.Reason(err)
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return "the request failed"
	}
	s := status.Status()
	if s.Reason == metav1.StatusReasonNotFound || s.Reason == metav1.StatusReasonForbidden && !isRefusal(err) {
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

// withoutValues takes what a Secret holds out of a text.
func withoutValues(text string, secret *unstructured.Unstructured) string {
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
	return withoutTexts(text, values)
}

// withoutTexts takes texts out of another one.
func withoutTexts(text string, values []string) string {
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
