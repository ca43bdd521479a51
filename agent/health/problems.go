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

// maxProblems is how many are shown.
const maxProblems = 3

// Problems are what is wrong with this cluster's own part, for the status of its Cluster object. The zero value has none.
type Problems struct {
	changed atomic.Pointer[func()]

	mu     sync.Mutex
	byPart map[string]string
}

// Watch has changed called, from here on, whenever there is another problem or one less.
func (p *Problems) Watch(changed func()) { p.changed.Store(&changed) }

// Of is where one part says what its problem is: the error, or nil for none. It returns the error.
func (p *Problems) Of(part string) func(error) error {
	return func(err error) error { return p.Set(part, err) }
}

// Set records or, with nil, clears the problem of a part. It returns err, for the caller to return.
func (p *Problems) Set(part string, err error) error {
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
	if changed := p.changed.Load(); news && changed != nil {
		(*changed)()
	}
	return err
}

// String is the first problems in one line, "" for none.
func (p *Problems) String() string {
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
