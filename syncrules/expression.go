// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	goyaml "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/others"
)

// expression is the compiled value of an override.
type expression struct {
	constant any      // the value for every object, if program is nil
	program  *program // nil for text without {{ }}
	parse    bool
	reading
}

// rendering is what the values of one copy are computed from.
type rendering struct {
	source   *unstructured.Unstructured
	in       Input
	meter    *meter
	secret   bool           // the source is a Secret: no error may contain values of it
	clusters map[string]any // .Cluster and .LocalCluster, after the first use
	places   *rendering     // see forPlaces
}

func newRendering(source *unstructured.Unstructured, in Input) *rendering {
	gvk := source.GroupVersionKind()
	return &rendering{source: source, in: in, meter: &meter{left: budget}, secret: gvk.Group == "" && gvk.Kind == "Secret"}
}

// forPlaces is what names and namespaces are computed from. They are told to more people than may read Secrets, in statuses
// and as Namespaces, so for a Secret it lacks all that the Secret holds.
func (x *rendering) forPlaces() *rendering {
	if x.secret && x.places == nil {
		x.places = &rendering{source: withoutContent(x.source), in: x.in, meter: x.meter, secret: true}
	}
	return cmp.Or(x.places, x)
}

// withoutContent is a Secret without what it holds, also in the annotations in which tools store what they applied.
func withoutContent(secret *unstructured.Unstructured) *unstructured.Unstructured {
	out := maps.Clone(secret.Object)
	delete(out, "data")
	delete(out, "stringData")
	if metadata, ok := out["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			annotations = maps.Clone(annotations)
			maps.DeleteFunc(annotations, func(k string, v any) bool { return others.Tracks(k, textOf(v)) })
			metadata["annotations"] = annotations
		}
		out["metadata"] = metadata
	}
	return &unstructured.Unstructured{Object: out}
}

// value computes the expression for an object. The caller owns the result.
func (e *expression) value(x *rendering) (any, error) {
	if e.program == nil {
		return runtime.DeepCopyJSONValue(e.constant), x.meter.tree(e.constant)
	}
	text, err := e.program.execute(x)
	if err != nil || !e.parse {
		return text, err
	}
	if err := x.meter.product(len(text), costYAML); err != nil {
		return nil, err
	}
	v, err := parseYAML(text)
	switch {
	case err != nil && x.secret:
		return nil, errors.New("the value is not usable YAML")
	case err != nil:
		return nil, err
	}
	return v, x.meter.tree(v)
}

// constantText returns the text that is the value for every object, if the expression is constant.
func (e *expression) constantText() (string, bool) {
	text, ok := e.constant.(string)
	return text, ok && e.program == nil
}

func (c *compiler) expression(path *field.Path, o *v1alpha1.Override) expression {
	out := expression{parse: o.ParseValue, constant: o.Value}
	c.values += len(o.Value)
	switch {
	case len(o.Value) > maxValue:
		c.add(field.TooLong(path, "", maxValue))
	case c.values > maxValues: // Compile reports it
	case strings.Contains(o.Value, "{{"):
		p, errs := c.template(o.Value)
		for _, err := range errs {
			c.invalid(path, err)
		}
		if len(errs) == 0 {
			out.program, out.reading = p, p.reading
		}
	case o.ParseValue:
		if c.yaml += len(o.Value); c.yaml > 2*maxYAML {
			c.invalid(path, fmt.Errorf("the values of a rule that are read as YAML must have at most %d bytes together", 2*maxYAML))
			break
		}
		v, err := parseYAML(o.Value)
		if err != nil {
			c.invalid(path, err)
		}
		out.constant = v
	}
	return out
}

// costYAML is what a byte of parsed YAML costs.
const costYAML = 64

// maxYAML is how many bytes a text that is parsed as YAML may have.
const maxYAML = 128 << 10

var errAlias = errors.New("anchors and aliases are not supported")

// parseYAML parses a value as in a manifest, into the types that JSON has in the rest of an object.
func parseYAML(text string) (any, error) {
	if len(text) > maxYAML {
		return nil, fmt.Errorf("YAML must have at most %d bytes", maxYAML)
	}
	if strings.Contains(text, "*") && strings.Contains(text, "&") {
		// A few lines of aliases of aliases expand to more than fits in memory.
		var node goyaml.Node
		if err := goyaml.Unmarshal([]byte(text), &node); err != nil {
			return nil, err
		}
		if hasAlias(&node) {
			return nil, errAlias
		}
	}
	data, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, err
	}
	var out any
	if err := utiljson.Unmarshal(data, &out); err != nil {
		return nil, err
	}
	if !smaller(out, maxCopy) {
		return nil, errSize
	}
	return out, nil
}

func hasAlias(node *goyaml.Node) bool {
	return node.Kind == goyaml.AliasNode || slices.ContainsFunc(node.Content, hasAlias)
}

func asInt(v any) (int, bool) {
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return int(r.Int()), true
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return int(min(r.Uint(), 1<<62)), true //nolint:gosec // bounded
	default:
		return 0, false
	}
}
