// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	chart "github.com/roster-mesh/roster/charts/agent"
)

// rightsTable is one row for each right.
func rightsTable(rights chart.Rights) string {
	var b strings.Builder
	b.WriteString("| who | where | may | what | why |\n|---|---|---|---|---|\n")
	for _, who := range []struct {
		name   string
		places chart.Places
	}{
		{"agent", rights.Agent},
		{"readers", rights.Reader},
		{"swapped credential", rights.Swapped},
		{"upgrade of CRDs", rights.CRDs},
		{"registry API, with `registry.enabled`", rights.Registry},
		{"`registry.callers`", rights.Caller},
		{"page, with `ui.enabled`", rights.UI},
		{"whom you bind to `cluster-registry-ui-visitor`", rights.Visitor},
	} {
		for _, place := range []struct {
			name   string
			rights []chart.Right
		}{
			{"cluster", who.places.Cluster},
			{"NAMESPACE", who.places.Own},
			{"NAMESPACE-private", who.places.Private},
			{"NAMESPACE-readers", who.places.Readers},
			{"default", who.places.Default},
			{"`publish.namespace`", who.places.Publish},
			{"each of `renew.namespaces`", who.places.Renew},
		} {
			for _, right := range place.rights {
				fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", who.name, place.name, strings.Join(right.Verbs, ", "), what(right), cell(why(right)))
			}
		}
	}
	return b.String()
}

func what(right chart.Right) string {
	text := strings.Join(right.Resources, ", ")
	if group := right.APIGroups[0]; group != "" {
		text += " (" + group + ")"
	}
	if len(right.ResourceNames) > 0 {
		text += " named " + strings.Join(right.ResourceNames, ", ")
	}
	return cell(text)
}

func why(right chart.Right) string {
	switch right.When {
	case "":
		return right.Why
	case "mesh.service":
		return right.Why + " With `mesh.service.type` LoadBalancer or NodePort."
	}
	return right.Why + " With `" + right.When + "`."
}
