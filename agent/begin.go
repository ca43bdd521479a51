// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
)

const (
	// beginFirst and beginMost bound the wait before another start: an answer to what a person mends should
	// not take long, and each start asks the API server for some twenty things.
	beginFirst = time.Second
	beginMost  = 30 * time.Second
	// reportTimeout bounds the report of a start that failed, which may have failed for the API server.
	reportTimeout = 5 * time.Second
)

// begin starts the agent. When that fails for what may be mended from outside and the agent is to keep trying, as in
// a pod, where an end would be a crash loop that says nothing, it stays not ready with the reason, and tries again.
func (a *Agent) begin(ctx context.Context, health *health) (*session, error) {
	said := ""
	for wait := beginFirst; ; wait = min(2*wait, beginMost) {
		s, err := a.start(ctx, health)
		if err == nil || !a.options.KeepTrying || ctx.Err() != nil {
			health.waitFor("")
			return s, err
		}
		line := startFailure(err)
		health.waitFor(line)
		if line != said {
			said = line
			a.log.Error("not ready", "error", line)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
		a.metrics = a.newMetrics() // those of the failed start belong to it
		health.serve(a.metrics)
	}
}

// startFailure is err in one line.
func startFailure(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// reportStart says in the status of this cluster's Cluster object, where there is one, why the agent that
// keeps trying does not start. That is worth one try: where it fails, the log and /readyz have the line.
func (s *session) reportStart(ctx context.Context, err error) {
	if !s.options.KeepTrying || s.clusterID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	if report := s.reportProblem(ctx, startFailure(err)); report != nil {
		s.log.Debug("the status of this cluster cannot be written", "error", report)
	}
}

func (s *session) reportProblem(ctx context.Context, line string) error {
	own, err := s.findOwnCluster(ctx)
	if err != nil || own == nil {
		return err
	}
	want, _ := clusterStatus(view{now: time.Now(), local: true, claims: 1, problem: line}, own.Status, own.Generation)
	if equality.Semantic.DeepEqual(own.Status, want) {
		return nil
	}
	update := own.DeepCopy()
	update.Status = want
	_, err = s.client.Clusters().ChangeStatus(ctx, own, update)
	return err
}
