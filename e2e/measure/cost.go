// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/roster-mesh/roster/e2e/harness"
)

// bulk creates many objects at once in the last cluster and counts what arrives at the API server of the
// first. Nobody else writes there meanwhile.
func bulk(ctx context.Context, out io.Writer, fleet *harness.Fleet, s settings) error {
	source, target := fleet.Clusters[len(fleet.Clusters)-1], fleet.Clusters[0]
	copies, err := newEye(ctx, target)
	if err != nil {
		return err
	}
	before, err := readUsage(ctx, target)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := createMany(ctx, source, s.objects); err != nil {
		return err
	}
	created := time.Since(began)
	for i := range s.objects {
		if _, err := copies.await(ctx, watch.Added, fmt.Sprintf("many-%d", i)); err != nil {
			return fmt.Errorf("copy many-%d in %s: %w", i, target.Name, err)
		}
	}
	copied := time.Since(began)
	after, err := readUsage(ctx, target)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%d Secrets of 1 KiB at once in %s: created in %.2f s (%.0f a second), all in %s after %.2f s (%.0f a second)\n",
		s.objects, source.Name, created.Seconds(), float64(s.objects)/created.Seconds(), target.Name, copied.Seconds(), float64(s.objects)/copied.Seconds())
	fmt.Fprintf(out, "  requests per object at the API server of %s: %s\n", target.Name, after.requests.minus(before.requests).over(float64(s.objects)))
	fmt.Fprintf(out, "  agent of %s: %.2f s of CPU per 1,000 copies, %d MiB resident afterwards\n", target.Name,
		(after.cpu-before.cpu).Seconds()/float64(s.objects)*1000, after.memory>>20)
	return nil
}

func createMany(ctx context.Context, c *harness.Cluster, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := range n {
		group.Go(func() error {
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("many-%d", i), Labels: map[string]string{"measured": "yes"}},
				StringData: map[string]string{"v": strings.Repeat("x", 1024)},
			}
			_, err := c.Kube.CoreV1().Secrets(harness.Namespace).Create(ctx, secret, metav1.CreateOptions{})
			return err
		})
	}
	return group.Wait()
}

// idle watches agents while nothing changes.
func idle(ctx context.Context, out io.Writer, fleet *harness.Fleet, s settings) error {
	if err := settled(ctx, fleet); err != nil {
		return err
	}
	before := make([]usage, len(fleet.Clusters))
	for i, c := range fleet.Clusters {
		var err error
		if before[i], err = readUsage(ctx, c); err != nil {
			return err
		}
	}
	timer := time.NewTimer(s.idle)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	fmt.Fprintf(out, "\nidle for %s\n", s.idle)
	minutes := s.idle.Minutes()
	for i, c := range fleet.Clusters {
		after, err := readUsage(ctx, c)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "  agent of %s: %d MiB resident, %.2f s of CPU per minute; requests per minute at its API server: %s\n", c.Name,
			after.memory>>20, (after.cpu-before[i].cpu).Seconds()/minutes, after.requests.minus(before[i].requests).over(minutes))
	}
	return nil
}

// settled waits until no agent has written anything for a while: statuses of rules follow their copies.
func settled(ctx context.Context, fleet *harness.Fleet) error {
	_, err := harness.Wait(ctx, "agents at rest", time.Minute, func(ctx context.Context) error {
		for _, c := range fleet.Clusters {
			before, err := readUsage(ctx, c)
			if err != nil {
				return err
			}
			if err := harness.Stays(ctx, "rest", time.Second, func(context.Context) error { return nil }); err != nil {
				return err
			}
			after, err := readUsage(ctx, c)
			if err != nil {
				return err
			}
			if len(after.requests.minus(before.requests).writes()) > 0 {
				return fmt.Errorf("%s is written to", c.Name)
			}
		}
		return nil
	})
	return err
}
