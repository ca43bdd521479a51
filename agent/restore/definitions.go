// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
)

// definitionOf names the CRD of what is published.
func definitionOf(kind replica.Kind) string {
	switch kind {
	case replica.KindRule:
		return "resourcesyncrules." + v1alpha1.GroupName
	case replica.KindFeature:
		return "clusterfeatures." + v1alpha1.GroupName
	case replica.KindCluster: // is made again, and not published as deleted
	}
	return ""
}

// ProveDeleted returns nil when an object of this kind, which was seen to be gone, was deleted by itself: its CRD stands,
// and so stood when it went. Otherwise there is a freeze, or the error says why it is not known.
func (g *Gate) ProveDeleted(ctx context.Context, kind replica.Kind) error {
	name := definitionOf(kind)
	if name == "" || g.Frozen() {
		return nil
	}
	crd, err := g.options.Definition(ctx, name)
	switch {
	case errors.Is(err, kube.ErrForbidden) && g.uid(name) == "":
		return nil // it never had the right: its API server's word counts
	case err != nil:
		return fmt.Errorf("read CRD %s: %w", name, err)
	case crd == nil || crd.DeletionTimestamp != nil || !g.stands(name, crd.UID):
		g.logDeleted(name)
		g.Freeze()
	}
	return nil
}

// ProveListed begins a freeze when a CRD does not stand, or is another one, after its objects were listed: one that stands
// now stood then. It returns when that is known.
func (g *Gate) ProveListed(ctx context.Context) {
	for wait := loop.RetryFirst; ctx.Err() == nil; wait = min(2*wait, loop.RetryMost) {
		now, err := g.readDefinitions(ctx)
		if name := g.replaced(now); name != "" {
			g.logDeleted(name)
			g.Freeze()
		}
		if err == nil {
			return
		}
		g.options.Log.Warn("waiting for the local API server to tell of its CRDs", "error", err)
		loop.Sleep(ctx, wait)
	}
}

func (g *Gate) logDeleted(name string) {
	g.options.Log.Error("a CRD was deleted, and with it all objects of its kind", "crd", name)
}

// replaced is one of these CRDs that is not the one that was there; "" for none.
func (g *Gate) replaced(now map[string]types.UID) string {
	for _, kind := range [...]replica.Kind{replica.KindRule, replica.KindFeature} {
		name := definitionOf(kind)
		if uid, read := now[name]; read && !g.stands(name, uid) {
			return name
		}
	}
	return ""
}

// readDefinitions are the CRDs of what is published: "" for one that does not stand, and what was known of one that may
// not be read.
func (g *Gate) readDefinitions(ctx context.Context) (map[string]types.UID, error) {
	uids := map[string]types.UID{}
	for _, kind := range [...]replica.Kind{replica.KindRule, replica.KindFeature} {
		name := definitionOf(kind)
		crd, err := g.options.Definition(ctx, name)
		switch {
		case errors.Is(err, kube.ErrForbidden):
			uids[name] = g.uid(name)
		case err != nil:
			return nil, fmt.Errorf("read CRD %s: %w", name, err)
		case crd == nil || crd.DeletionTimestamp != nil:
			uids[name] = ""
		default:
			uids[name] = crd.UID
		}
	}
	return uids, nil
}

func (g *Gate) uid(name string) types.UID {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.uids[name]
}

// stands says whether a CRD may be the one that was there.
func (g *Gate) stands(name string, uid types.UID) bool {
	known := g.uid(name)
	return known == "" || known == uid
}

func (g *Gate) setDefinitions(uids map[string]types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.uids = uids
}
