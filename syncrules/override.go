// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cppforlife/go-patch/patch"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// ErrOverride is returned when an override does not fit an object. It is an ErrSource, since it may fit other objects.
var ErrOverride = fmt.Errorf("%w: an override does not fit it", ErrSource)

// The errors of overrides. None of them contains values of the object, which may be a Secret.
var (
	errPath      = errors.New("the path does not exist")
	errNoList    = fmt.Errorf("%w: an index needs a list", errPath)
	errNoItem    = fmt.Errorf("%w: the list has no such item", errPath)
	errNotText   = errors.New("the value must be a string")
	errNotMap    = errors.New("the value must be a map of strings")
	errName      = errors.New("the value is not the name of an object")
	errNamespace = errors.New("the value is not the name of a namespace")
	errMark      = errors.New("a label or annotation that is managed by the agent cannot be set")
	errSize      = errors.New("the copy is too large")
)

// The limits of overrides. Those that the CRD has, too, are the same there.
const (
	maxOverrides = 128
	maxPath      = 1024
	maxTokens    = 64
	maxValue     = 256 << 10
	maxCopy      = 2 << 20 // bytes; more than an API server accepts
)

// part is the part of an object that an override changes.
type part uint8

const (
	partContent part = iota
	partName
	partNamespace
	partLabels
	partAnnotations
)

// override is a compiled v1alpha1.Override.
type override struct {
	at     string // the path of the override in the rule
	path   string
	tokens []patch.Token // without the root
	remove bool
	part   part
	expression
}

func (o *override) failed(r *Rule, err error) error {
	return fmt.Errorf("%w: rule %s, %s, path %s: %w", ErrOverride, r.name, o.at, o.path, err)
}

// apply changes the content of a copy. Overrides of its name and namespace are applied by target.
func (o *override) apply(object map[string]any, r *Rule, x *rendering) error {
	if o.part == partName || o.part == partNamespace {
		return nil
	}
	var err error
	if o.remove {
		_, err = removeAt(object, o.tokens, x.meter)
	} else {
		var v any
		if v, err = o.value(x); err == nil {
			_, err = replaceAt(object, o.tokens, v, x.meter)
		}
	}
	if err == nil {
		err = o.checkMetadata(object)
	}
	if err != nil {
		return o.failed(r, err)
	}
	return nil
}

// checkMetadata checks that labels and annotations are still valid, and have none that are managed by the agent.
func (o *override) checkMetadata(object map[string]any) error {
	var name string
	switch o.part {
	case partLabels:
		name = "labels"
	case partAnnotations:
		name = "annotations"
	default:
		return nil
	}
	metadata, _ := object["metadata"].(map[string]any)
	values, ok := metadata[name].(map[string]any)
	if !ok {
		if metadata[name] != nil {
			return errNotMap
		}
		delete(metadata, name)
		return nil
	}
	texts := make(map[string]string, len(values))
	for k, v := range values {
		text, ok := v.(string)
		if !ok {
			return errNotMap
		}
		if isReserved(k) {
			return errMark
		}
		texts[k] = text
	}
	if o.part == partLabels && len(metavalidation.ValidateLabels(texts, nil)) > 0 {
		return errors.New("the result is not a valid set of labels")
	}
	if o.part == partAnnotations && len(apivalidation.ValidateAnnotations(texts, nil)) > 0 {
		return errors.New("the result is not a valid set of annotations")
	}
	return nil
}

func (c *compiler) override(at *field.Path, o *v1alpha1.Override, syncStatus bool) override {
	out := override{at: at.String(), path: o.Path, remove: o.Mode() == v1alpha1.OverrideRemove}
	if mode := o.Mode(); mode != v1alpha1.OverrideReplace && mode != v1alpha1.OverrideRemove {
		c.add(field.NotSupported(at.Child("type"), mode, []v1alpha1.OverrideType{v1alpha1.OverrideReplace, v1alpha1.OverrideRemove}))
	}
	if tokens, err := parsePath(o.Path, out.remove); err != nil {
		c.invalid(at.Child("path"), err)
	} else {
		out.tokens = tokens
		var msg string
		if out.part, msg = partOf(tokens, out.remove, syncStatus); msg != "" {
			c.add(field.Forbidden(at.Child("path"), msg))
		}
	}
	if !out.remove {
		out.expression = c.expression(at.Child("value"), o)
		c.constantPlace(at.Child("value"), &out)
	}
	return out
}

// asPlace returns a value as a name or a namespace. The error does not contain the value, which may be from the content of
// a Secret.
func (o *override) asPlace(v any) (string, error) {
	text, ok := v.(string)
	switch {
	case !ok:
		return "", errNotText
	case o.part == partNamespace && len(validation.IsDNS1123Label(text)) > 0:
		return "", errNamespace
	case o.part == partName && (text == "" || len(text) > validation.DNS1123SubdomainMaxLength || len(content.IsPathSegmentName(text)) > 0):
		return "", errName // some kinds allow fewer names: then the API server refuses the copy
	}
	return text, nil
}

// constantPlace checks a name or namespace that is the same for every object.
func (c *compiler) constantPlace(at *field.Path, o *override) {
	if o.program != nil || o.part != partName && o.part != partNamespace {
		return
	}
	if _, err := o.asPlace(o.constant); err != nil {
		c.invalid(at, err)
	}
}

// parsePath parses a path, and checks all that can be checked without an object.
func parsePath(text string, remove bool) ([]patch.Token, error) {
	switch {
	case text == "":
		return nil, errors.New("must be given")
	case len(text) > maxPath:
		return nil, fmt.Errorf("must have at most %d characters", maxPath)
	case !strings.HasPrefix(text, "/"):
		return nil, errors.New("must start with /")
	}
	pointer, err := patch.NewPointerFromString(text)
	if err != nil {
		return nil, err
	}
	tokens := pointer.Tokens()[1:]
	if len(tokens) > maxTokens {
		return nil, fmt.Errorf("must have at most %d parts", maxTokens)
	}
	for i, t := range tokens {
		if err := checkToken(t, tokens[i+1:], remove); err != nil {
			return nil, fmt.Errorf("part %d: %w", i+1, err)
		}
	}
	return tokens, nil
}

// checkToken refuses parts that are invalid for every object.
func checkToken(token patch.Token, rest []patch.Token, remove bool) error {
	var modifiers []patch.Modifier
	switch t := token.(type) {
	case patch.KeyToken:
		if t.Key == "" {
			return errors.New("must not be empty")
		}
		if _, ok := emptyFor(rest); t.Optional && !remove && !ok {
			return errors.New("what is optional cannot be followed by an index")
		}
	case patch.AfterLastIndexToken:
		if remove {
			return errors.New("there is nothing after the last item to remove")
		}
	case patch.IndexToken:
		modifiers = t.Modifiers
	case patch.MatchingIndexToken:
		if t.Key == "" {
			return errors.New("must have the form name=value")
		}
		modifiers = t.Modifiers
	}
	for i, m := range modifiers {
		switch m.(type) {
		case patch.BeforeModifier, patch.AfterModifier:
			if remove || len(rest) > 0 || i < len(modifiers)-1 {
				return errors.New(":before and :after insert: they can only end the path of a replace")
			}
		}
	}
	return nil
}

// partOf returns the part of an object that a path is in, or why it cannot be changed.
func partOf(tokens []patch.Token, remove, syncStatus bool) (part, string) {
	switch top := keyAt(tokens, 0); top {
	case "":
		return 0, "must start with the name of a field"
	case "apiVersion", "kind":
		return 0, "use mutations.groupVersionKind to change the kind"
	case "status":
		if !syncStatus {
			return 0, "a copy has a status only with mutations.syncStatus"
		}
		return partContent, ""
	case "metadata":
	default:
		return partContent, ""
	}
	switch name := keyAt(tokens, 1); {
	case name == "name" && len(tokens) == 2 && remove:
		return 0, "an object must have a name"
	case name == "name" && len(tokens) == 2:
		return partName, ""
	case name == "namespace" && len(tokens) == 2:
		return partNamespace, ""
	case name == "labels":
		return partLabels, markAt(tokens)
	case name == "annotations":
		return partAnnotations, markAt(tokens)
	}
	return 0, "of the metadata only name, namespace, labels and annotations can be changed"
}

// markAt returns why a label or annotation cannot be changed, "" if it can.
func markAt(tokens []patch.Token) string {
	if isReserved(keyAt(tokens, 2)) {
		return "is managed by the agent"
	}
	return ""
}

// keyAt returns the name of the field at part i of a path; "" if that is not a field.
func keyAt(tokens []patch.Token, i int) string {
	if i < len(tokens) {
		if t, ok := tokens[i].(patch.KeyToken); ok {
			return t.Key
		}
	}
	return ""
}

// reads says whether what is true for any override.
func (c *clause) reads(what func(*override) bool) bool {
	return slices.ContainsFunc(c.overrides, func(o override) bool { return what(&o) })
}
