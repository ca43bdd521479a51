// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
)

// maxSwaps is how many swaps are made at a time.
const maxSwaps = 16

// swap is between the cluster that all join, which comes first, and one other.
type swap struct {
	sources [2]*swapSource
	targets [2]*swapTarget
}

// prepare reads all clusters and checks what can be checked of them, each with the first one and the others with each other.
func (o *Options) prepare(ctx context.Context, a *clusters.Client, peers []*clusters.Client) ([]*swap, error) {
	swaps := make([]*swap, len(peers))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxSwaps)
	for i, b := range peers {
		group.Go(func() (err error) {
			s := &swap{}
			s.sources, s.targets, err = o.prepareSwap(ctx, a, b)
			swaps[i] = s
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i, s := range swaps {
		for _, other := range swaps[:i] {
			if err := s.apart(other); err != nil {
				return nil, err
			}
		}
	}
	return swaps, nil
}

// apart refuses two newcomers that the first cluster cannot tell from each other.
func (s *swap) apart(other *swap) error {
	a, b := other.sources[1], s.sources[1]
	switch {
	case a.id() == b.id():
		return cli.Usagef("contexts %s and %s lead to one cluster (%s)", a.from.Context, b.from.Context, a.id())
	case other.targets[0].cluster.GetName() == s.targets[0].cluster.GetName():
		return fmt.Errorf("the clusters of contexts %s and %s are both called %s; reinstall one with another localCluster.name", a.from.Context, b.from.Context, b.name())
	case other.targets[0].secret.GetName() == s.targets[0].secret.GetName():
		return fmt.Errorf("the credentials of the clusters of contexts %s and %s are both called %s, and one would overwrite the other", a.from.Context, b.from.Context, b.secret.GetName())
	}
	return nil
}

// runAll makes all swaps at the same time. One that fails does not stop the others.
func (o *Options) runAll(ctx context.Context, swaps []*swap, progress cli.Progress) error {
	errs := make([]error, len(swaps))
	var running sync.WaitGroup
	slots := make(chan struct{}, maxSwaps)
	for i, s := range swaps {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			errs[i] = o.run(ctx, s, progress)
		})
	}
	running.Wait()
	return worst(errs)
}

func (o *Options) run(ctx context.Context, s *swap, progress cli.Progress) error {
	for _, t := range s.targets {
		err := t.apply(ctx, func(verb string, obj *unstructured.Unstructured) {
			progress("context %s: %s %s", t.to.Context, describe(obj), verb)
		})
		if err != nil {
			return err
		}
	}
	if err := awaitSynced(ctx, s.sources, s.targets, o.Timeout, progress); err != nil {
		return err
	}
	progress("joined: clusters %s and %s are synced", s.sources[0].name(), s.sources[1].name())
	return nil
}

// worst is what did not work, if anything; what was only not done in time counts where nothing else is wrong.
func worst(errs []error) error {
	var failed []error
	var late *cli.TimeoutError
	for _, err := range errs {
		one, ok := errors.AsType[*cli.TimeoutError](err)
		switch {
		case err == nil:
		case !ok:
			failed = append(failed, err)
		case late == nil:
			late = one
		default:
			late.Missing = append(late.Missing, one.Missing...)
		}
	}
	switch {
	case len(failed) > 0:
		return errors.Join(failed...)
	case late != nil:
		return late
	}
	return nil
}
