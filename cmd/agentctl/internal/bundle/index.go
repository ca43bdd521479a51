// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"fmt"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/fleet"
)

// index says what is in the file. Its JSON is stable: fields are only ever added.
type index struct {
	Began     string          `json:"began"` // RFC 3339
	Context   string          `json:"context"`
	Namespace string          `json:"namespace"`
	Files     []string        `json:"files"` // but for this one
	Members   []memberEntry   `json:"members"`
	Missing   []gap           `json:"missing"` // what could not be collected, of those that were asked
	Unknown   []fleet.Unknown `json:"unknown"` // members that could not be asked
}

// memberEntry is a member that was asked.
type memberEntry struct {
	Name          string   `json:"name"`
	ClusterID     string   `json:"clusterID,omitempty"`
	AgentVersion  string   `json:"agentVersion,omitempty"` // as the own cluster has it
	ServerVersion string   `json:"serverVersion,omitempty"`
	Credential    string   `json:"credential"` // by which it was asked: own or issued
	Notes         []string `json:"notes,omitempty"`
}

// gap is something that is not in the file.
type gap struct {
	Cluster string `json:"cluster,omitempty"`
	What    string `json:"what"`
	Reason  string `json:"reason"`
}

func (x *index) miss(cluster, what string, err error) {
	x.Missing = append(x.Missing, gap{cluster, what, clusters.Reason(err)})
}

// pack makes the archive: the index, what other commands say, and the members in the order of their answers.
func (x *index) pack(own []document, answers []fleet.Answer[*member]) ([][]byte, error) {
	first, last := newPart(""), newPart("")
	x.Files, x.Members, x.Unknown = []string{}, []memberEntry{}, fleet.Unknowns(answers)
	commands := newPart("")
	for _, d := range own {
		err := d.err
		if err == nil {
			err = commands.add(d.name+".json", d.data)
		}
		if err != nil {
			x.miss("", "what "+d.name+" says", err)
		}
	}
	x.Files = append(x.Files, commands.names...)
	second, err := commands.close()
	if err != nil {
		return nil, err
	}
	archive := [][]byte{nil, second}
	for i := range answers {
		a := &answers[i]
		if a.Err != nil {
			continue
		}
		entry := memberEntry{Name: a.Name, ClusterID: a.ID, ServerVersion: a.Value.server, Credential: "issued", Notes: a.Value.notes}
		if a.Own {
			entry.Credential = "own"
		}
		if a.Cluster != nil {
			entry.AgentVersion = clusters.Bound(a.Cluster.Status.AgentVersion)
		}
		x.Members, x.Files, x.Missing = append(x.Members, entry), append(x.Files, a.Value.files...), append(x.Missing, a.Value.missing...)
		archive = append(archive, a.Value.data)
	}
	if x.Missing == nil {
		x.Missing = []gap{}
	}
	data, err := asJSON(x)
	if err == nil {
		err = first.add("index.json", data)
	}
	if err != nil {
		return nil, err
	}
	if archive[0], err = first.close(); err != nil {
		return nil, err
	}
	rest, err := last.end()
	return append(archive, rest), err
}

// print tells what is in the file, and what is not.
func (x *index) print(out *cli.Output, file string, archive [][]byte) {
	size := 0
	for _, part := range archive {
		size += len(part)
	}
	fmt.Fprintf(out.Stdout, "%s: %s of %s, %d KiB\n", file, cli.Plural(len(x.Files)+1, "file"), cli.Plural(len(x.Members), "cluster"), (size+1023)>>10)
	w := cli.Printable{To: out.Stdout}
	for _, g := range x.Missing {
		where := ""
		if g.Cluster != "" {
			where = "cluster " + g.Cluster + ": "
		}
		fmt.Fprintf(w, "missing: %s%s: %s\n", where, g.What, g.Reason)
	}
	fleet.Print(out, x.Unknown)
}

// answer is the exit code.
func (x *index) answer() error {
	if err := fleet.Incomplete(x.Unknown); err != nil {
		return err
	}
	if len(x.Missing) > 0 {
		return cli.Answerf(cli.ExitUnknown, "%s could not be collected: index.json tells which", cli.Plural(len(x.Missing), "part"))
	}
	return nil
}
