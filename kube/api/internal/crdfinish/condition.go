// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

// acceptHeartbeats lets conditions carry a lastHeartbeatTime. The existing controller writes one, and
// kubectl refuses to apply an object with a field that the schema does not know, although the status of
// such a paste is dropped.
func acceptHeartbeats(node any) {
	switch node := node.(type) {
	case []any:
		for _, child := range node {
			acceptHeartbeats(child)
		}
	case map[string]any:
		if properties, ok := node["properties"].(map[string]any); ok {
			if _, isCondition := properties["lastTransitionTime"]; isCondition {
				properties["lastHeartbeatTime"] = map[string]any{
					"description": "lastHeartbeatTime is accepted from manifests of other controllers and never written.",
					"type":        "string",
					"format":      "date-time",
				}
			}
		}
		for _, child := range node {
			acceptHeartbeats(child)
		}
	}
}
