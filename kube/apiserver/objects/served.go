// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	chart "github.com/roster-mesh/roster/charts/agent"
)

// servedWithin is how long a try waits for what has been written to be served.
const servedWithin = 5 * time.Second

// awaitKinds returns when the kinds of the CRDs can be discovered.
func awaitKinds(ctx context.Context, kinds discovery.DiscoveryInterface) error {
	crds, err := chart.CRDs()
	if err != nil {
		return err
	}
	return poll(ctx, "the kinds of Roster's CRDs can be discovered", func(context.Context) (bool, error) {
		_, lists, err := kinds.ServerGroupsAndResources()
		if err != nil && !discovery.IsGroupDiscoveryFailedError(err) { // one of another group may never be served
			return false, err
		}
		found := 0
		for _, list := range lists {
			for _, resource := range list.APIResources {
				if slices.ContainsFunc(crds, func(crd *unstructured.Unstructured) bool {
					return crd.GetName() == resource.Name+"."+strings.Split(list.GroupVersion, "/")[0]
				}) {
					found++
				}
			}
		}
		return found == len(crds), nil
	})
}

// consent is a policy that warns, and powerful what it warns of. It and its binding are applied last, and the API server learns of
// policies, and of bindings, in the order in which they are written: when it is in force, all are.
const (
	consent  = "cluster-registry-controller-consent"
	powerful = `{"apiVersion":"clusterregistry.k8s.cisco.com/v1alpha1","kind":"ResourceSyncRule","metadata":{"name":%q},"spec":{
		"groupVersionKind":{"group":"rbac.authorization.k8s.io","version":"v1","kind":"Role"},"rules":[{"match":[{"namespaces":["default"]}]}]}}`
)

// Enforced says whether the policies that Apply has written are in force: the API server takes them up once in a second. It asks
// with a request that changes nothing, an apply: the API server keeps one that creates waiting for two seconds while the CRD is new.
// When something else refuses that, nothing can be said, and the answer is yes; when there is no answer, it is no.
func Enforced(ctx context.Context, client rest.Interface) bool {
	var said warnings
	name := "roster-apiserver-asks-" + strings.ToLower(rand.Text()) // of a rule that is there the policy may say nothing
	err := client.Patch(types.ApplyPatchType).AbsPath("/apis/clusterregistry.k8s.cisco.com/v1alpha1/resourcesyncrules", name).
		Param("dryRun", metav1.DryRunAll).Param("fieldManager", fieldManager).
		WarningHandlerWithContext(&said).Body(fmt.Appendf(nil, powerful, name)).Do(ctx).Error()
	switch {
	case err == nil:
		return strings.Contains(strings.Join(said, " "), consent)
	case apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		return false
	default:
		return true
	}
}

// warnings keeps the texts of warnings.
type warnings []string

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	*w = append(*w, text)
}

// poll returns when done says so. After a time it returns an error, with the last one of done, so that somebody reads it.
func poll(ctx context.Context, what string, done func(context.Context) (bool, error)) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, servedWithin, true, func(ctx context.Context) (ok bool, _ error) {
		ok, last = done(ctx)
		return ok, nil
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("waited for %s until %s: %w", servedWithin, what, errors.Join(err, last))
	}
	return err
}

// awaitWatches returns when the kinds of the CRDs can be watched. What serves a kind is begun by the first request for it, and
// clients whose requests come meanwhile, such as the agent's, are told to come back in a second.
func awaitWatches(ctx context.Context, kinds discovery.DiscoveryInterface) error {
	crds, err := chart.CRDs()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, crd := range crds {
		path, err := pathOf(crd)
		if err != nil {
			return err
		}
		group.Go(func() error {
			return poll(ctx, path+" can be watched", func(ctx context.Context) (bool, error) {
				stream, err := kinds.RESTClient().Get().AbsPath(path).Param("watch", "true").MaxRetries(0).Stream(ctx)
				if err != nil {
					return false, err
				}
				return true, stream.Close()
			})
		})
	}
	return group.Wait()
}

// isNew is how long the API server keeps who creates an object waiting once the kind is established, so that the other API servers
// of the cluster may learn of it (apiextensions-apiserver, customresource_handler.go).
const isNew = 2 * time.Second

// settle spares the first objects of Roster's kinds that wait, the agent's own Cluster above all. It is for the first start of a cluster,
// whose only server serves the kinds by now. What cannot be written is left alone: the wait is over by itself.
func settle(ctx context.Context, client dynamic.Interface) {
	crds, err := chart.CRDs()
	if err != nil {
		return
	}
	var group errgroup.Group
	for _, crd := range crds {
		of := resourceOf(client, crd)
		group.Go(func() error {
			return retry.RetryOnConflict(retry.DefaultRetry, func() error { // its controllers write the status, too
				live, err := of.Get(ctx, crd.GetName(), metav1.GetOptions{})
				if err != nil || !backdate(live, time.Now().Add(-isNew)) {
					return err
				}
				_, err = of.UpdateStatus(ctx, live, metav1.UpdateOptions{FieldManager: fieldManager})
				return err
			})
		})
	}
	_ = group.Wait()
}

// backdate says that a CRD was established at a time, if that was later. It returns whether it was.
func backdate(crd *unstructured.Unstructured, at time.Time) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		if condition["type"] != "Established" || condition["status"] != "True" {
			continue
		}
		text, _ := condition["lastTransitionTime"].(string)
		if since, err := time.Parse(time.RFC3339, text); err != nil || !since.After(at) {
			return false
		}
		condition["lastTransitionTime"] = at.UTC().Format(time.RFC3339)
		return unstructured.SetNestedSlice(crd.Object, conditions, "status", "conditions") == nil
	}
	return false
}

// pathOf is where the API server serves the kind of a CRD.
func pathOf(crd *unstructured.Unstructured) (string, error) {
	group, _, err := unstructured.NestedString(crd.Object, "spec", "group")
	if err != nil {
		return "", err
	}
	plural, _, err := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	if err != nil {
		return "", err
	}
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil || len(versions) == 0 {
		return "", fmt.Errorf("CRD %s has no versions: %w", crd.GetName(), err)
	}
	version, _ := versions[0].(map[string]any)
	return fmt.Sprintf("/apis/%s/%s/%s", group, version["name"], plural), nil
}
