// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/e2e/harness"
)

// ruled has a rule of either policy, and a copy by each.
func (r *room) ruled(t *testing.T) {
	t.Helper()
	r.rule(t, r.alpha, "orphan", ofConfigMaps+"rules: [{"+forLabel("orphan")+"}]")
	r.rule(t, r.alpha, "delete", ofConfigMaps+"ruleDeletionPolicy: Delete, rules: [{"+forLabel("delete")+"}]")
	for _, name := range []string{"orphan", "delete"} {
		put(t, r.gamma, configMaps, r.object(configMaps, name, name, "one"))
		r.eventuallyCopied(t, configMaps, name, "one", r.alpha, r.beta)
	}
}

// What becomes of the copies of a rule that is deleted is what its ruleDeletionPolicy says, and orphans are
// not left behind silently.
func TestParityC04_RuleDeleted(t *testing.T) {
	r := newRoom(t)
	r.ruled(t)
	for _, name := range []string{"orphan", "delete"} {
		if err := remove(t.Context(), r.alpha, harness.Rules(), "", r.name+"-"+name); err != nil {
			t.Fatal(err)
		}
	}
	r.eventuallyGone(t, configMaps, "delete", r.alpha, r.beta)
	r.eventuallyOrphan(t, configMaps, "orphan", "one", r.alpha, r.beta)
	for _, c := range []*harness.Cluster{r.alpha, r.beta} {
		eventually(t, "an event in "+c.Name+" tells of the orphan", afterFault, func(ctx context.Context) error {
			events, err := c.Kube.CoreV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for _, e := range events.Items {
				if strings.Contains(strings.ToLower(e.Reason), "orphan") && strings.Contains(e.InvolvedObject.Name+" "+e.Message, r.name+"-orphan") {
					return nil
				}
			}
			return fmt.Errorf("none of %d events does", len(events.Items))
		})
	}
	// A rule of that name is the owner's rule again.
	r.rule(t, r.alpha, "orphan", ofConfigMaps+"rules: [{"+forLabel("orphan")+"}]")
	r.eventuallyCopied(t, configMaps, "orphan", "one", r.alpha, r.beta)
}

// A rule that is deleted while no agent of its cluster runs, and the disk of the last one is lost, is known by where its
// copies are.
func TestParityC04_RuleDeletedWithoutAnAgent(t *testing.T) {
	r := newRoom(t)
	r.ruled(t)
	without(t, r.alpha, func() {
		if err := os.RemoveAll(filepath.Join(r.alpha.Dir(), "data")); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"orphan", "delete"} {
			if err := remove(t.Context(), r.alpha, harness.Rules(), "", r.name+"-"+name); err != nil {
				t.Fatal(err)
			}
		}
	})
	r.eventuallyGone(t, configMaps, "delete", r.alpha, r.beta)
	r.eventuallyOrphan(t, configMaps, "orphan", "one", r.alpha, r.beta)
}
