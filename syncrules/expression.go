// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// expression is the value of an override.
type expression struct {
	constant any // the value, where it is the same for every object

	readsClusters bool // of .Cluster or .LocalCluster
	readsContent  bool // of .Object what Trim takes away
}

// rendering is what the values of one copy are computed from.
type rendering struct {
	source *unstructured.Unstructured
	in     Input
	meter  *meter
}

func newRendering(source *unstructured.Unstructured, in Input) *rendering {
	return &rendering{source: source, in: in, meter: &meter{left: budget}}
}

// value is what the expression is for an object; the caller owns it.
func (e *expression) value(*rendering) (any, error) {
	return runtime.DeepCopyJSONValue(e.constant), nil
}

// constantText is the text that the expression is for every object.
func (e *expression) constantText() (string, bool) {
	text, ok := e.constant.(string)
	return text, ok
}

func (c *compiler) expression(path *field.Path, text string, parse bool) expression {
	if len(text) > maxValue {
		c.invalid(path, fmt.Errorf("must have at most %d characters", maxValue))
		return expression{}
	}
	if strings.Contains(text, "{{") || parse {
		c.unsupported(path)
	}
	return expression{constant: text}
}
