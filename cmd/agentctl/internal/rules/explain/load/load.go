// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package load finds out whether a rule with targetNamespaces that is not in force yet would make too many copies, by the same
// count as an agent. It is for one goroutine.
package load

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/fanout"
	"github.com/roster-mesh/roster/syncrules/packed"
)

// Count is what one rule puts into each of its namespaces. One that is nil finds nothing too much.
type Count struct {
	rule       *syncrules.Rule
	loads      map[string]fanout.Load // by the clusterID of the source
	namespaces map[string]int         // how many it selects, by the clusterID of the target
}

// New returns a count of nothing, and nil for a rule without targetNamespaces.
func New(rule *syncrules.Rule) *Count {
	if rule == nil || rule.FanOut() == nil {
		return nil
	}
	return &Count{rule, map[string]fanout.Load{}, map[string]int{}}
}

// TooManyError is returned for a rule that makes no copies, since they would be too many.
type TooManyError string

func (e TooManyError) Error() string { return string(e) }

// Add counts an object of a cluster, as agents keep it, if the rule selects it.
func (c *Count) Add(from string, obj *unstructured.Unstructured) {
	if why, held := syncrules.Obstacle(obj); !c.rule.Match(obj) || why != "" && !held {
		return
	}
	kept := obj.DeepCopy()
	if !c.rule.ReadsContent() {
		syncrules.Trim(kept)
	}
	if data, err := packed.Pack(kept); err == nil {
		c.loads[from] = c.loads[from].Plus(fanout.Load{Objects: 1, Bytes: int64(len(data))})
	}
}

// Excess is what the agent of a cluster would say of the objects of another one, if they are too much. The namespaces of the
// former are asked for once; while they are not known, nothing is.
func (c *Count) Excess(from, to string, namespaces func() (map[string]*fanout.Namespace, error)) string {
	if c == nil || c.loads[from].Objects == 0 {
		return ""
	}
	if _, known := c.namespaces[to]; !known {
		all, err := namespaces()
		if err != nil {
			return ""
		}
		n := 0
		for _, ns := range all {
			if c.rule.FanOut().Weigh(ns) == fanout.Yes {
				n++
			}
		}
		c.namespaces[to] = n
	}
	return c.loads[from].TooMany(c.rule.Name(), c.namespaces[to])
}
