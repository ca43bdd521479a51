// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"fmt"
	"time"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/fleet"
)

// result is what the command prints. Its JSON is stable: fields are only ever added.
type result struct {
	Source    string          `json:"source"`
	ClusterID string          `json:"clusterID"`
	Namespace string          `json:"namespace"`
	Kind      string          `json:"kind"`
	Name      string          `json:"name,omitempty"` // of the object and its rule, which are gone by now
	DryRun    bool            `json:"dryRun"`
	Clusters  []*timing       `json:"clusters"`
	Unknown   []fleet.Unknown `json:"unknown"` // clusters that could not be asked
	Removed   []string        `json:"removed"` // canaries that earlier runs had left
}

// timing is how long the steps took to one cluster, in seconds; nil where that has not happened.
type timing struct {
	Cluster   string   `json:"cluster"`
	ClusterID string   `json:"clusterID"`
	Context   string   `json:"context"`
	Rule      *float64 `json:"ruleSeconds,omitempty"` // from the creation of the rule until it is in force there
	Create    *float64 `json:"createSeconds,omitempty"`
	Update    *float64 `json:"updateSeconds,omitempty"`
	Delete    *float64 `json:"deleteSeconds,omitempty"`
	Message   string   `json:"message,omitempty"` // what did not happen in time
}

func (r *result) print(out *cli.Output) error {
	if !out.ForPeople() {
		return out.Document(r)
	}
	w := cli.Printable{To: out.Stdout}
	verb := "deleted"
	if r.DryRun {
		verb = "would delete"
	}
	for _, name := range r.Removed {
		fmt.Fprintf(w, "%s what an earlier run has left: %s\n", verb, name)
	}
	fleet.Print(out, r.Unknown)
	if r.DryRun && r.Name != "" {
		for _, t := range r.Clusters {
			fmt.Fprintf(w, "would copy a %s of namespace %s from cluster %s to cluster %s\n", r.Kind, r.Namespace, r.Source, t.Cluster)
		}
		return nil
	}
	if len(r.Clusters) == 0 {
		return nil
	}
	var rows [][]string
	for _, t := range r.Clusters {
		rows = append(rows, []string{t.Cluster, seconds(t.Rule), seconds(t.Create), seconds(t.Update), seconds(t.Delete), t.Message})
	}
	return cli.PrintTable(out.Stdout, []string{"CLUSTER", "RULE", "CREATE", "UPDATE", "DELETE", "MESSAGE"}, rows)
}

func seconds(n *float64) string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf("%.3fs", *n)
}

// answer is the exit code.
func (r *result) answer(timeout time.Duration) error {
	if err := fleet.Incomplete(r.Unknown); err != nil {
		return err
	}
	late := &cli.TimeoutError{Text: fmt.Sprintf("not all happened within %s for each step:", timeout)}
	for _, t := range r.Clusters {
		if t.Message != "" {
			late.Missing = append(late.Missing, t.Cluster+": "+t.Message)
		}
	}
	if len(late.Missing) > 0 {
		return late
	}
	return nil
}
