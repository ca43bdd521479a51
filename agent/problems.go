// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Parts of this cluster's own that can have a problem.
const (
	problemAddress    = "address"
	problemRestored   = "history"
	problemCredential = "credential"
	problemRemoval    = "removal"
	problemLeave      = "leave"
	problemRoom       = "room for " // + the object that cannot be published
)

// maxProblems is how many are shown.
const maxProblems = 3

// problems are what is wrong with this cluster's own part, for the status of its Cluster object.
type problems struct {
	changed func()

	mu     sync.Mutex
	byPart map[string]string
}

// set records or, with nil, clears the problem of a part. It returns err, for the caller to return.
func (p *problems) set(part string, err error) error {
	message := ""
	if err != nil {
		message = err.Error()
	}
	p.mu.Lock()
	news := p.byPart[part] != message
	if p.byPart == nil {
		p.byPart = map[string]string{}
	}
	if p.byPart[part] = message; message == "" {
		delete(p.byPart, part)
	}
	p.mu.Unlock()
	if news {
		p.changed()
	}
	return err
}

// String is the first problems in one line, "" for none.
func (p *problems) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for _, part := range slices.Sorted(maps.Keys(p.byPart)) {
		all = append(all, p.byPart[part])
	}
	if more := len(all) - maxProblems; more > 0 { // a status message has an end
		all = append(all[:maxProblems], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, "; ")
}
