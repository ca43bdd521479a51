// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import "slices"

// Finding is something that is wrong, as doctor finds it.
type Finding struct {
	Check, Severity string
	Cluster         string // that must be fixed
	Message         string
	Fix             string // a command line
	Reason          string // of a rule's condition
}

// Task is a finding as the page shows it.
type Task struct {
	ID, Topic string
	Mark      Mark
	Finding
}

// topics are what checks are called on the page.
func topics() map[string]string {
	return map[string]string{"members": "cluster", "rbac": "missing right", "restore": "confirmation", "orphans": "orphans", "rules": "rule"}
}

// mostTasks is how many are shown of each list.
const mostTasks = 50

// unhealthyMember tells a finding about a member that is not reached, or has problems.
func (f Finding) unhealthyMember() bool { return f.Check == "members" && f.Severity != "warning" }

// sorted tells what waits for a person from members that are unhealthy, which the drawing is about.
func sorted(found []Finding) (waiting, unhealthy []Task) {
	unreached := slices.ContainsFunc(found, Finding.unhealthyMember)
	for _, f := range found {
		if unreached && f.Reason == "SourceUnreachable" {
			continue // until that cluster is reached, which has its task
		}
		t := Task{ID: idOf("t", f.Check+"\n"+f.Cluster+"\n"+f.Message+"\n"+f.Fix), Topic: topics()[f.Check], Mark: Bad, Finding: f}
		t.Message = Brief(f.Message)
		if f.Severity != "error" {
			t.Mark = Unknown
		}
		list := &waiting
		if f.unhealthyMember() {
			list = &unhealthy
		}
		if !slices.ContainsFunc(*list, func(other Task) bool { return other.ID == t.ID }) {
			*list = append(*list, t)
		}
	}
	return waiting, unhealthy
}

// Tasks is a list as the page shows it.
type Tasks struct {
	Shown   []Task
	More    int
	Nothing string // what an empty list says
}

func taskList(all []Task, nothing string) Tasks {
	n := min(len(all), mostTasks)
	return Tasks{all[:n], len(all) - n, nothing}
}
