// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const referenceHead = `<!-- Generated from kube/api by kube/api/generate.sh. DO NOT EDIT. -->
# API reference

All kinds are cluster-scoped. The same text is in ` + "`kubectl explain KIND --recursive`" + `.
`

// writeReference renders one section for each kind, and in it one line for each field.
func writeReference(crds []apiextensionsv1.CustomResourceDefinition) []byte {
	var b bytes.Buffer
	b.WriteString(referenceHead)
	for _, crd := range crds {
		for _, version := range crd.Spec.Versions {
			schema := version.Schema.OpenAPIV3Schema
			fmt.Fprintf(&b, "\n## %s\n\n`%s/%s`, `kubectl get %s`", crd.Spec.Names.Kind, crd.Spec.Group, version.Name, crd.Spec.Names.Plural)
			for _, name := range crd.Spec.Names.ShortNames {
				fmt.Fprintf(&b, " or `%s`", name)
			}
			fmt.Fprintf(&b, "\n\n%s\n", paragraphs(schema.Description))
			for _, part := range []string{"spec", "status"} {
				fmt.Fprintf(&b, "\n### %s.%s\n\n| field | type | meaning |\n|---|---|---|\n", crd.Spec.Names.Kind, part)
				root := schema.Properties[part]
				writeFields(&b, "", &root)
				writeRules(&b, &root)
			}
		}
	}
	return b.Bytes()
}

func writeFields(b *bytes.Buffer, path string, schema *apiextensionsv1.JSONSchemaProps) {
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		field := schema.Properties[name]
		meaning := []string{sentence(field.Description)}
		if slices.Contains(schema.Required, name) {
			meaning = append(meaning, "Required.")
		}
		meaning = append(meaning, limits(&field)...)
		fmt.Fprintf(b, "| `%s%s` | %s | %s |\n", path, name, typeName(&field), strings.Join(meaning, " "))
		if name == "conditions" {
			continue // the shape of metav1.Condition is the same everywhere
		}
		below, inner := path+name+".", &field
		if field.Items != nil {
			below, inner = path+name+"[].", field.Items.Schema
		}
		writeFields(b, below, inner)
	}
}

// limits says what a value must meet, as far as the schema says it in a form that people read.
func limits(field *apiextensionsv1.JSONSchemaProps) []string {
	var out []string
	inner := field
	if field.MaxItems != nil {
		out = append(out, fmt.Sprintf("At most %d.", *field.MaxItems))
	}
	if field.Items != nil {
		inner = field.Items.Schema
	}
	if len(inner.Enum) > 0 {
		var values []string
		for _, value := range inner.Enum {
			values = append(values, "`"+strings.Trim(string(value.Raw), `"`)+"`")
		}
		out = append(out, "One of "+strings.Join(values, ", ")+".")
	}
	return out
}

// writeRules lists what the API server refuses, in the words that it uses.
func writeRules(b *bytes.Buffer, schema *apiextensionsv1.JSONSchemaProps) {
	messages := map[string]bool{}
	collectRules(schema, messages)
	if len(messages) == 0 {
		return
	}
	b.WriteString("\nRules at admission:\n\n")
	for _, message := range slices.Sorted(maps.Keys(messages)) {
		fmt.Fprintf(b, "- %s\n", message)
	}
}

func collectRules(schema *apiextensionsv1.JSONSchemaProps, messages map[string]bool) {
	for _, rule := range schema.XValidations {
		messages[rule.Message] = true
	}
	for _, field := range schema.Properties {
		collectRules(&field, messages)
	}
	if schema.Items != nil {
		collectRules(schema.Items.Schema, messages)
	}
}

func typeName(field *apiextensionsv1.JSONSchemaProps) string {
	switch {
	case field.XIntOrString:
		return "integer or string"
	case field.Items != nil:
		return "list of " + typeName(field.Items.Schema)
	case field.AdditionalProperties != nil:
		return "map of " + typeName(field.AdditionalProperties.Schema)
	case field.Format == "byte":
		return "bytes (base64)"
	case field.Format == "date-time":
		return "time"
	default:
		return field.Type
	}
}

// paragraphs undoes the line breaks of the source, but not those between paragraphs.
func paragraphs(text string) string {
	parts := strings.Split(text, "\n\n")
	for i := range parts {
		parts[i] = strings.Join(strings.Fields(parts[i]), " ")
	}
	return strings.Join(parts, "\n\n")
}

// sentence is a description in one line of a table, ending in a full stop.
func sentence(text string) string {
	line := strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
	if line != "" && !strings.HasSuffix(line, ".") {
		line += "."
	}
	return line
}
