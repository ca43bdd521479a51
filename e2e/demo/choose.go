// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/e2e/harness"
)

func (s *story) toSome(ctx context.Context) error {
	s.step("Sync to a set of clusters")
	s.say("With this annotation the rule is no longer published: its copies stay until somebody deletes them, and")
	s.say("where it is deleted it stays deleted.")
	if err := s.kubectl(ctx, s.first, "annotate", "resourcesyncrule", "test-secret-sink",
		"cluster-registry.k8s.cisco.com/resource-sync-disabled=true"); err != nil {
		return err
	}
	if err := s.withdrawn(ctx); err != nil {
		return err
	}
	if err := s.kubectl(ctx, s.second, "delete", "resourcesyncrule", "test-secret-sink"); err != nil {
		return err
	}
	if err := s.kubectl(ctx, s.second, "-n", harness.Namespace, "delete", "secret", "test-secret"); err != nil {
		return err
	}
	return s.staysAway(ctx, s.second, object{harness.Rules(), "", "test-secret-sink"}, theSecret())
}

// withdrawn sees that the copy of the rule stays, for about as long as a person takes between two commands.
func (s *story) withdrawn(ctx context.Context) error {
	err := harness.Stays(ctx, "the copy of the rule stays in "+s.second.Name, quiet, func(ctx context.Context) error {
		_, err := s.second.Dynamic.Resource(harness.Rules()).Get(ctx, "test-secret-sink", metav1.GetOptions{})
		return err
	})
	if err != nil {
		return err
	}
	s.saw(quiet, "the copy of the rule is still in %s", s.second.Name)
	return nil
}

// object names one in a cluster.
type object struct {
	gvr             schema.GroupVersionResource
	namespace, name string
}

func theSecret() object { return object{harness.Secrets(), harness.Namespace, "test-secret"} }

func (s *story) staysAway(ctx context.Context, c *harness.Cluster, objects ...object) error {
	err := harness.Stays(ctx, "deleted in "+c.Name, quiet, func(ctx context.Context) error {
		for _, o := range objects {
			_, err := c.Dynamic.Resource(o.gvr).Namespace(o.namespace).Get(ctx, o.name, metav1.GetOptions{})
			if err == nil {
				return fmt.Errorf("%s %s is back", o.gvr.Resource, o.name)
			}
			if !apierrors.IsNotFound(err) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, o := range objects {
		s.saw(quiet, "%s stays deleted in %s", o.name, c.Name)
	}
	return nil
}

func (s *story) fromSome(ctx context.Context) error {
	s.step("Sync from a set of clusters")
	s.say("Now the rule takes copies only from clusters that have a certain ClusterFeature. None has it yet.")
	w, err := s.first.Watch(ctx, harness.Secrets(), harness.Namespace, "test-secret")
	if err != nil {
		return err
	}
	if err := s.kubectl(ctx, s.first, "patch", "resourcesyncrule", "test-secret-sink", "--type=merge", "-p",
		`{"spec":{"clusterFeatureMatch":[{"featureName":"test-secret-feature"}]}}`); err != nil {
		return err
	}
	if _, err := w.Until(ctx, "the copy is nobody's any more", within, orphaned); err != nil {
		return err
	}
	if err := s.kubectl(ctx, s.first, "-n", harness.Namespace, "delete", "secret", "test-secret"); err != nil {
		return err
	}
	if err := s.staysAway(ctx, s.first, theSecret()); err != nil {
		return err
	}
	if _, err := w.Until(ctx, "deleted", within, harness.Absent); err != nil {
		return err
	}
	features, err := s.third.Watch(ctx, harness.Features(), "", "test-secret-source")
	if err != nil {
		return err
	}
	if err := s.apply(ctx, s.third, harness.QuickstartFeature); err != nil {
		return err
	}
	feature, err := features.Until(ctx, "created", within, harness.Present)
	if err != nil {
		return err
	}
	seen, err := w.Until(ctx, "the copy", within, harness.Present)
	if err != nil {
		return err
	}
	s.saw(seen.At.Sub(feature.At), "the Secret is in %s again, as %s has the feature", s.first.Name, s.third.Name)
	if err := s.kubectl(ctx, s.first, "-n", harness.Namespace, "delete", "secret", "test-secret"); err != nil {
		return err
	}
	return s.sawAfter(ctx, w, "the deleted copy is back", harness.Absent, harness.Present)
}

func orphaned(u *unstructured.Unstructured) bool {
	if u == nil {
		return false
	}
	_, found := u.GetAnnotations()["cluster-registry.k8s.cisco.com/orphaned"]
	return found
}

func (s *story) crash(ctx context.Context) error {
	s.step("An agent crashes")
	s.say("It misses a change, and makes up for it when it is back.")
	if !s.kubernetes {
		s.say("Its API server ends with it, and is there again with all data when the agent is.")
	}
	w, err := s.first.Watch(ctx, harness.Secrets(), harness.Namespace, "test-secret")
	if err != nil {
		return err
	}
	killed := time.Now()
	s.command(fmt.Sprintf("kill -KILL %d    # the agent of %s", s.first.AgentPID(), s.first.Name), "")
	if err := s.first.KillAgent(); err != nil {
		return err
	}
	if err := s.kubectl(ctx, s.third, "-n", harness.Namespace, "patch", "secret", "test-secret", "-p", `{"stringData":{"missed":"yes"}}`); err != nil {
		return err
	}
	if err := s.serverEnded(ctx, killed); err != nil {
		return err
	}
	began := time.Now()
	s.command(agentRun(s.first.AgentFlags()), "")
	if err := s.first.LaunchAgent(); err != nil {
		return err
	}
	seen, err := w.Until(ctx, "the missed change", within, has("missed"))
	if err != nil {
		return err
	}
	s.saw(seen.At.Sub(began), "the missed change is in %s, counted from the agent's start", s.first.Name)
	return nil
}

// serverEnded waits for the API server that ends with the first cluster's agent.
func (s *story) serverEnded(ctx context.Context, killed time.Time) error {
	if s.kubernetes {
		return nil
	}
	_, err := harness.Wait(ctx, "the API server of "+s.first.Name+" ended", within, s.first.APIServerEnded)
	if err != nil {
		return err
	}
	s.saw(time.Since(killed), "its API server has ended, too")
	return nil
}

func (s *story) sourceDeleted(ctx context.Context) error {
	s.step("The source is deleted, and so are its copies")
	copies, err := s.first.Watch(ctx, harness.Secrets(), harness.Namespace, "test-secret")
	if err != nil {
		return err
	}
	source, err := s.third.Watch(ctx, harness.Secrets(), harness.Namespace, "test-secret")
	if err != nil {
		return err
	}
	if err := s.kubectl(ctx, s.third, "-n", harness.Namespace, "delete", "secret", "test-secret"); err != nil {
		return err
	}
	deleted, err := source.Until(ctx, "deleted", within, harness.Absent)
	if err != nil {
		return err
	}
	gone, err := copies.Until(ctx, "the copy is gone", within, harness.Absent)
	if err != nil {
		return err
	}
	s.saw(gone.At.Sub(deleted.At), "the copy in %s is gone", s.first.Name)
	return nil
}

func (s *story) result(ctx context.Context) error {
	s.step("The group")
	return s.agentctl(ctx, "--context", s.second.Name, "clusters")
}
