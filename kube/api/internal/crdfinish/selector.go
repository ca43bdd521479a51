// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

// Bounds of a label selector. They are generous for people and small enough for the API server's
// estimate of what a CEL rule over nested lists costs.
const (
	maxLabels       = 64
	maxRequirements = 32
	maxValues       = 128
	maxKey          = 317 // a DNS subdomain, a slash and a name
	maxLabelValue   = 63
)

// What Kubernetes takes as the key and the value of a label.
const (
	keyPattern   = `^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	valuePattern = `^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
)

// valuesByOperator says what metav1.LabelSelectorAsSelector would refuse later. It is a schema and no
// CEL rule: the API server multiplies the cost of a rule by the bounds of all the lists around it, and
// requirements are four lists deep.
func valuesByOperator() []any {
	return []any{
		map[string]any{
			"required": []any{"values"},
			"properties": map[string]any{
				"operator": map[string]any{"enum": []any{"In", "NotIn"}},
				"values":   map[string]any{"minItems": 1},
			},
		},
		map[string]any{
			"properties": map[string]any{
				"operator": map[string]any{"enum": []any{"Exists", "DoesNotExist"}},
				"values":   map[string]any{"maxItems": 0},
			},
		},
	}
}

// completeSelectors walks a schema and completes every label selector and every list of label
// selector requirements that it meets.
func completeSelectors(node any) {
	switch node := node.(type) {
	case []any:
		for _, child := range node {
			completeSelectors(child)
		}
	case map[string]any:
		if properties, ok := node["properties"].(map[string]any); ok {
			completeMatchLabels(properties)
			completeRequirement(node, properties)
		}
		for _, child := range node {
			completeSelectors(child)
		}
	}
}

// completeMatchLabels bounds the parts of a selector where our own markers have not.
func completeMatchLabels(properties map[string]any) {
	if labels, ok := properties["matchLabels"].(map[string]any); ok {
		labels["maxProperties"] = maxLabels
		if values, ok := labels["additionalProperties"].(map[string]any); ok {
			values["maxLength"], values["pattern"] = maxLabelValue, valuePattern
		}
	}
	if requirements, ok := properties["matchExpressions"].(map[string]any); ok {
		requirements["maxItems"] = maxRequirements
	}
}

// completeRequirement knows a requirement by its three fields. Those of annotations have their own
// type and bounds; only those of labels are held to the syntax of labels.
func completeRequirement(node, properties map[string]any) {
	key, isKey := properties["key"].(map[string]any)
	operator, isOperator := properties["operator"].(map[string]any)
	values, isValues := properties["values"].(map[string]any)
	if !isKey || !isOperator || !isValues {
		return
	}
	node["anyOf"] = valuesByOperator()
	if _, ours := operator["enum"]; ours {
		return
	}
	key["minLength"], key["maxLength"], key["pattern"] = 1, maxKey, keyPattern
	operator["enum"] = []any{"In", "NotIn", "Exists", "DoesNotExist"}
	values["maxItems"] = maxValues
	if items, ok := values["items"].(map[string]any); ok {
		items["maxLength"], items["pattern"] = maxLabelValue, valuePattern
	}
}
