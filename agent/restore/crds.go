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

// crdOf is the name of the CRD of a kind that this cluster publishes.
func crdOf(kind replica.Kind) string {
	switch kind {
	case replica.KindRule:
		return "resourcesyncrules." + v1alpha1.GroupName
	case replica.KindFeature:
		return "clusterfeatures." + v1alpha1.GroupName
	case replica.KindCluster: // is created again, and never published as deleted
	case replica.KindAdmission: // is no object
	}
	return ""
}

// ProveDeleted returns nil if a missing object of this kind was deleted by itself: its CRD is still there. If the CRD
// is gone or was replaced, it begins a freeze. The error says why that is not known.
func (g *Gate) ProveDeleted(ctx context.Context, kind replica.Kind) error {
	name := crdOf(kind)
	if name == "" || g.Frozen() {
		return nil
	}
	crd, err := g.options.ReadCRD(ctx, name)
	switch {
	case errors.Is(err, kube.ErrForbidden) && g.uid(name) == "":
		return nil // the agent never could read CRDs, so it trusts the API server
	case err != nil:
		return fmt.Errorf("read CRD %s: %w", name, err)
	case crd == nil || crd.DeletionTimestamp != nil || !g.unchanged(name, crd.UID):
		g.logDeleted(name)
		g.Freeze()
	}
	return nil
}

// ProveListed begins a freeze if a CRD is gone or was replaced after its objects were listed. It returns when that is
// known.
func (g *Gate) ProveListed(ctx context.Context) {
	for wait := loop.RetryFirst; ctx.Err() == nil; wait = min(2*wait, loop.RetryMax) {
		now, err := g.readCRDs(ctx)
		if name := g.replaced(now); name != "" {
			g.logDeleted(name)
			g.Freeze()
		}
		if err == nil {
			return
		}
		g.options.Log.Warn("waiting for the local API server to serve its CRDs", "error", err)
		loop.Sleep(ctx, wait)
	}
}

func (g *Gate) logDeleted(name string) {
	g.options.Log.Error("a CRD was deleted, and with it all objects of its kind", "crd", name)
}

// replaced is the name of a CRD that is gone or was replaced; "" if there is none.
func (g *Gate) replaced(now map[string]types.UID) string {
	for _, kind := range [...]replica.Kind{replica.KindRule, replica.KindFeature} {
		name := crdOf(kind)
		if uid, read := now[name]; read && !g.unchanged(name, uid) {
			return name
		}
	}
	return ""
}

// readCRDs reads the UIDs of the CRDs: "" for one that does not exist or is being deleted, and the known one for a CRD
// that the agent may not read.
func (g *Gate) readCRDs(ctx context.Context) (map[string]types.UID, error) {
	uids := map[string]types.UID{}
	for _, kind := range [...]replica.Kind{replica.KindRule, replica.KindFeature} {
		name := crdOf(kind)
		crd, err := g.options.ReadCRD(ctx, name)
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

// unchanged reports whether a CRD may be the one that was known before.
func (g *Gate) unchanged(name string, uid types.UID) bool {
	known := g.uid(name)
	return known == "" || known == uid
}

func (g *Gate) setCRDs(uids map[string]types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.uids = uids
}
