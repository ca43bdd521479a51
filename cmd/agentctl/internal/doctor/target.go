// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// target is a cluster that is looked at, and what was read of it. Each of its parts may be missing, and the
// error beside it says why.
type target struct {
	client *clusters.Client

	apiErr    error // no answer, or a refusal
	offset    time.Duration
	roundTrip time.Duration // how long the answer took, by which offset may be wrong

	id    string
	idErr error

	clusters    []*v1alpha1.Cluster // those with a clusterID
	clustersErr error
	rules       []*v1alpha1.ResourceSyncRule
	rulesErr    error
}

// read reads what several checks need.
func (x *inspection) read(ctx context.Context) {
	var wg sync.WaitGroup
	for _, t := range x.targets {
		wg.Go(func() { t.read(ctx) })
	}
	wg.Wait()
}

func (t *target) read(ctx context.Context) {
	if t.apiErr = t.readVersion(ctx); t.apiErr != nil {
		t.idErr, t.clustersErr, t.rulesErr = t.apiErr, t.apiErr, t.apiErr
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { t.id, t.idErr = t.client.ClusterID(ctx) })
	wg.Go(func() { t.clusters, t.clustersErr = t.client.Members(ctx) })
	wg.Go(func() { t.rules, t.rulesErr = t.client.Rules(ctx) })
	wg.Wait()
}

// readVersion asks for what every API server tells, and hears from the header what time it is there.
func (t *target) readVersion(ctx context.Context) error {
	start := time.Now()
	answer, body, err := t.fetch(ctx, "version")
	if err != nil {
		return err
	}
	t.roundTrip = time.Since(start)
	if answer.StatusCode != http.StatusOK {
		var status struct {
			Message string `json:"message"`
		}
		_ = json.Unmarshal(body, &status) // only for a better message
		return refusedError{answer.StatusCode, strings.TrimSpace(answer.Status + ": " + status.Message)}
	}
	there, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return nil //nolint:nilerr // the clock check says that it is not known
	}
	// The header has whole seconds: on average it is half a second old when it is written.
	t.offset = there.Add(500 * time.Millisecond).Sub(start.Add(t.roundTrip / 2))
	if t.offset == 0 {
		t.offset = time.Nanosecond // 0 is for not known
	}
	return nil
}

// fetch gets a path of the API server, and reads so much of the answer that a person would, too.
func (t *target) fetch(ctx context.Context, path string) (*http.Response, []byte, error) {
	base, _, err := rest.DefaultServerUrlFor(t.client.Config)
	if err != nil {
		return nil, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath(path).String(), nil)
	if err != nil {
		return nil, nil, err
	}
	answer, err := t.client.HTTP.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	return answer, body, err
}

// refusedError is an answer of an API server that is not what was asked for.
type refusedError struct {
	code int
	text string
}

func (e refusedError) Error() string { return e.text }

// local is the Cluster object of the target itself, as far as it is known.
func (t *target) local() *v1alpha1.Cluster {
	for _, c := range t.clusters {
		if t.id != "" && string(c.Spec.ClusterID) == t.id {
			return c
		}
	}
	return nil
}

// name is what people call the target.
func (t *target) name() string {
	if c := t.local(); c != nil {
		return c.Name
	}
	return t.client.Context
}

// isPeer tells a Cluster object of another cluster that nobody has switched off.
func (t *target) isPeer(c *v1alpha1.Cluster) bool {
	_, disabled := c.Annotations[v1alpha1.AnnotationClusterDisabled]
	return string(c.Spec.ClusterID) != t.id && !disabled
}

// find is the target with a clusterID, or nil.
func (x *inspection) find(id string) *target {
	for _, t := range x.targets {
		if t.id != "" && t.id == id {
			return t
		}
	}
	return nil
}
