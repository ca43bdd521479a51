// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package objects is what a standalone API server has from its first start: the namespaces, CRDs, rights and admission
// policies that the chart brings to any other cluster.
package objects

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	chart "github.com/roster-mesh/roster/charts/agent"
)

// Namespace is where the agent's own objects are, and AgentUser is who it is there.
const (
	Namespace = "cluster-registry"
	AgentUser = "system:serviceaccount:" + Namespace + ":cluster-registry-controller"
)

const (
	fieldManager          = "roster-apiserver"
	admissionregistration = "admissionregistration.k8s.io"
	writesAtOnce          = 16
	// servedWithin is how long a try waits for what has been written to be served.
	servedWithin = 5 * time.Second
)

//go:embed objects.yaml
var rendered []byte

// All returns the objects in an order in which they can be applied.
func All() ([]*unstructured.Unstructured, error) {
	crds, err := chart.CRDs()
	if err != nil {
		return nil, err
	}
	all := slices.Clone(crds)
	for reader := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(rendered), 4096); ; {
		object := &unstructured.Unstructured{}
		err := reader.Decode(&object.Object)
		switch {
		case errors.Is(err, io.EOF):
			slices.SortStableFunc(all, func(a, b *unstructured.Unstructured) int { return stage(a) - stage(b) })
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("objects.yaml: %w", err)
		case len(object.Object) > 0:
			all = append(all, object)
		}
	}
}

// Apply makes the API server have the objects, and returns when it also serves the kinds that they define. An object that
// is as it should be is not written. What does not need each other is written at a time: etcd writes that to disk together.
func Apply(ctx context.Context, client dynamic.Interface, kinds discovery.DiscoveryInterface) error {
	all, err := All()
	if err != nil {
		return err
	}
	var stages [5][]func(context.Context) error
	for _, object := range all {
		at := stage(object)
		stages[at] = append(stages[at], func(ctx context.Context) error {
			if err := apply(ctx, resourceOf(client, object), object); err != nil {
				return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
			}
			return nil
		})
	}
	// A policy whose params are of a kind that is not served yet is not evaluated: it comes, in the next stage, when they are.
	stages[2] = append(stages[2],
		func(ctx context.Context) error { return awaitKinds(ctx, kinds) },
		func(ctx context.Context) error { return awaitWatches(ctx, kinds) })
	for _, tasks := range stages {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(writesAtOnce)
		for _, task := range tasks {
			group.Go(func() error { return task(ctx) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return nil
}

func resourceOf(client dynamic.Interface, object *unstructured.Unstructured) dynamic.ResourceInterface {
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	return client.Resource(resource).Namespace(object.GetNamespace())
}

// apply keeps what others have added to an object, unless the two together are invalid.
func apply(ctx context.Context, client dynamic.ResourceInterface, object *unstructured.Unstructured) error {
	_, err := client.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if !apierrors.IsInvalid(err) {
		return err
	}
	live, err := client.Get(ctx, object.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	whole := object.DeepCopy()
	whole.SetResourceVersion(live.GetResourceVersion())
	_, err = client.Update(ctx, whole, metav1.UpdateOptions{FieldManager: fieldManager})
	if !apierrors.IsInvalid(err) || !strings.HasSuffix(object.GetKind(), "RoleBinding") {
		return err
	}
	// The role of a binding cannot be changed.
	uid := live.GetUID()
	if err := client.Delete(ctx, object.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}); err != nil {
		return err
	}
	_, err = client.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}

// Present says whether all objects are there, whatever is in them.
func Present(ctx context.Context, client dynamic.Interface) bool {
	all, err := All()
	if err != nil {
		return false
	}
	for _, object := range all {
		if _, err := resourceOf(client, object).Get(ctx, object.GetName(), metav1.GetOptions{}); err != nil {
			return false
		}
	}
	return true
}

// stage is after which others an object is applied.
func stage(object *unstructured.Unstructured) int {
	switch gvk := object.GroupVersionKind(); {
	case gvk.Kind == "Namespace":
		return 0
	case gvk.Kind == "CustomResourceDefinition":
		return 1
	case gvk.Group == admissionregistration && object.GetName() == consent:
		return 4 // Enforced goes by it
	case gvk.Group == admissionregistration:
		return 3
	default:
		return 2
	}
}

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
