// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import "slices"

// Finding is something that is wrong, as doctor finds it.
type Finding struct {
	Check, Severity string
	Cluster         string // that must be fixed
	Message         string
	Fix             string // a command line
}

// task is a finding as the page shows it.
type task struct {
	ID, Topic string
	Mark      mark
	Finding
}

// topics are what checks are called on the page.
func topics() map[string]string {
	return map[string]string{"members": "cluster", "rbac": "missing right", "restore": "confirmation", "orphans": "orphans", "rules": "rule"}
}

// mostTasks is how many are shown of each list.
const mostTasks = 50

// sorted tells what waits for a person from members that are unhealthy, which the drawing is about.
func sorted(found []Finding) (waiting, unhealthy []task) {
	for _, f := range found {
		t := task{ID: idOf("t", f.Check+"\n"+f.Cluster+"\n"+f.Message+"\n"+f.Fix), Topic: topics()[f.Check], Mark: bad, Finding: f}
		t.Message = brief(f.Message)
		if f.Severity != "error" {
			t.Mark = unknown
		}
		list := &waiting
		if f.Check == "members" && f.Severity != "warning" {
			list = &unhealthy
		}
		if !slices.ContainsFunc(*list, func(other task) bool { return other.ID == t.ID }) {
			*list = append(*list, t)
		}
	}
	return waiting, unhealthy
}

// shownTasks is a list as the page shows it.
type shownTasks struct {
	Shown   []task
	More    int
	Nothing string // what an empty list says
}

func taskList(all []task, nothing string) shownTasks {
	n := min(len(all), mostTasks)
	return shownTasks{all[:n], len(all) - n, nothing}
}
