// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// maxProblems is how many problems the status shows.
const maxProblems = 3

// Problems are what is wrong with this cluster, for the status of its Cluster object. The zero value has none.
type Problems struct {
	changed atomic.Pointer[func()]

	mu     sync.Mutex
	byPart map[string]string
}

// Watch sets the function that is called whenever a problem appears, changes or ends.
func (p *Problems) Watch(changed func()) { p.changed.Store(&changed) }

// Reporter returns Set for one part.
func (p *Problems) Reporter(part string) func(error) error {
	return func(err error) error { return p.Set(part, err) }
}

// Set records the problem of a part; nil clears it. It returns err, so that the caller can return it.
func (p *Problems) Set(part string, err error) error {
	message := ""
	if err != nil {
		message = err.Error()
	}
	p.mu.Lock()
	differs := p.byPart[part] != message
	if p.byPart == nil {
		p.byPart = map[string]string{}
	}
	if p.byPart[part] = message; message == "" {
		delete(p.byPart, part)
	}
	p.mu.Unlock()
	if changed := p.changed.Load(); differs && changed != nil {
		(*changed)()
	}
	return err
}

// String is the problems in one line, "" for none. The line is bounded.
func (p *Problems) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for _, part := range slices.Sorted(maps.Keys(p.byPart)) {
		all = append(all, p.byPart[part])
	}
	if more := len(all) - maxProblems; more > 0 { // the length of a status message is bounded
		all = append(all[:maxProblems], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, "; ")
}
