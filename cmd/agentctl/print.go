// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// printDocument writes v as JSON or YAML.
func printDocument(w io.Writer, format string, v any) error {
	if format == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	}
	data, err := yaml.Marshal(v)
	if err != nil {
		return fmt.Errorf("print as yaml: %w", err)
	}
	_, err = w.Write(data)
	return err
}

// printTable writes columns that line up; an empty cell is a dash, so that a line always has as many
// words as columns until the last one.
func printTable(w io.Writer, header []string, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			if cell = oneLine(cell); cell == "" {
				cell = "-"
			}
			cells[i] = cell
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	return tw.Flush()
}

// printDryRun says what a swap would write. As documents it includes the credentials: that is what
// the user asked to see.
func printDryRun(w io.Writer, format string, pastes [2]*paste) error {
	if format == "table" {
		for _, p := range pastes {
			verb := "would be created"
			if p.rewrite {
				verb = "would be written again"
			}
			if p.settled {
				verb = "is there and works, it would be left as it is"
			}
			fmt.Fprintf(w, "context %s: %s %s\n", p.to.Context, describe(p.secret), verb)
			fmt.Fprintf(w, "context %s: %s %s\n", p.to.Context, describe(p.cluster), verb)
		}
		return nil
	}
	type target struct {
		Context string `json:"context"`
		Objects []any  `json:"objects"`
	}
	var out []target
	for _, p := range pastes {
		t := target{Context: p.to.Context, Objects: []any{}}
		if !p.settled {
			for _, obj := range []*unstructured.Unstructured{p.secret, p.cluster} {
				t.Objects = append(t.Objects, obj.Object)
			}
		}
		out = append(out, t)
	}
	return printDocument(w, format, out)
}

// printJoined is the result for a program; a person has seen the progress.
func printJoined(w io.Writer, format string, halves [2]*half, took time.Duration) error {
	if format == "table" {
		return nil
	}
	type member struct {
		Name      string `json:"name"`
		ClusterID string `json:"clusterID"`
		Context   string `json:"context"`
	}
	out := struct {
		Clusters []member `json:"clusters"`
		Synced   bool     `json:"synced"`
		Seconds  float64  `json:"seconds"`
	}{Synced: true, Seconds: took.Round(time.Millisecond).Seconds()}
	for _, h := range halves {
		out.Clusters = append(out.Clusters, member{h.name(), h.id(), h.from.Context})
	}
	return printDocument(w, format, out)
}
