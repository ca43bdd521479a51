// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package objects is what a standalone API server has from its first start: the namespaces, CRDs, rights and admission
// policies that the chart brings to any other cluster.
package objects

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	chart "github.com/roster-mesh/roster/charts/agent"
	"github.com/roster-mesh/roster/kube/api/crdversion"
)

// Namespace is where the agent's own objects are, and AgentUser is who it is there.
const (
	Namespace = "cluster-registry"
	AgentUser = "system:serviceaccount:" + Namespace + ":cluster-registry-controller"
)

const (
	fieldManager          = "roster-apiserver"
	admissionregistration = "admissionregistration.k8s.io"
	kindCRD               = "CustomResourceDefinition"
	labelVersion          = "app.kubernetes.io/version"
)

// WritesAtOnce is how many of the server's own objects are written at a time: etcd writes them to disk together.
const WritesAtOnce = 16

// rendered is what the chart brings.
//
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
//
// A CRD that is too old to be replaced stays, and everything else is applied. The error is then crdversion.ErrSkipped.
// Objects that a newer version of this program has applied stay as they are, and the error is ErrNewer: that is a server that
// starts again while its group is being upgraded. To try again is of no use with either.
func Apply(ctx context.Context, client dynamic.Interface, kinds discovery.DiscoveryInterface) error {
	all, err := All()
	if err != nil {
		return err
	}
	first, theirs, err := appliedByNewer(ctx, client, all)
	if err != nil {
		return err
	}
	var stages [5][]func(context.Context) error
	tooOld := make(chan error, len(all))
	for _, object := range all {
		if theirs != "" && object.GetKind() != kindCRD { // CRDs have a version of their own
			continue
		}
		at := stage(object)
		stages[at] = append(stages[at], func(ctx context.Context) error {
			err := apply(ctx, resourceOf(client, object), object)
			if err != nil {
				err = fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
			}
			if errors.Is(err, crdversion.ErrSkipped) {
				tooOld <- err
				return nil
			}
			return err
		})
	}
	// A policy whose params are of a kind that is not served yet is not evaluated: it comes, in the next stage, when they are.
	stages[2] = append(stages[2],
		func(ctx context.Context) error { return awaitKinds(ctx, kinds) },
		func(ctx context.Context) error { return awaitWatches(ctx, kinds) })
	if first {
		stages[3] = append(stages[3], func(ctx context.Context) error { settle(ctx, client); return nil })
	}
	for _, tasks := range stages {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(WritesAtOnce)
		for _, task := range tasks {
			group.Go(func() error { return task(ctx) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	select {
	case err := <-tooOld: // of several, which say the same
		return err
	default:
	}
	if theirs != "" {
		return fmt.Errorf("%w: %s", ErrNewer, theirs)
	}
	return nil
}

// ErrNewer says that the objects are those of a newer version.
var ErrNewer = errors.New("a newer version of roster-apiserver has applied its objects")

// appliedByNewer returns the version that has applied the objects, if it is newer than this one; first is whether none has applied
// them all. What is applied last tells: where the other was cut off before, this one may apply its own, and the other does it again.
func appliedByNewer(ctx context.Context, client dynamic.Interface, all []*unstructured.Unstructured) (first bool, newest string, err error) {
	last := all[len(all)-1]
	live, err := resourceOf(client, last).Get(ctx, last.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, "", nil
	}
	if err != nil {
		return false, "", fmt.Errorf("get %s %s: %w", last.GetKind(), last.GetName(), err)
	}
	if newer(live, last) {
		return false, live.GetLabels()[labelVersion], nil
	}
	return false, "", nil
}

func resourceOf(client dynamic.Interface, object *unstructured.Unstructured) dynamic.ResourceInterface {
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	return client.Resource(resource).Namespace(object.GetNamespace())
}

// apply keeps what others have added to an object, unless the two together are invalid. What is of a newer version stays.
func apply(ctx context.Context, client dynamic.ResourceInterface, object *unstructured.Unstructured) error {
	if object.GetKind() == kindCRD {
		replaces, err := replacesCRD(ctx, client, object)
		if err != nil || !replaces {
			return err
		}
	} else {
		live, err := client.Get(ctx, object.GetName(), metav1.GetOptions{})
		switch {
		case err == nil && newer(live, object):
			return nil
		case err == nil: // a newer server may write it meanwhile
			object = object.DeepCopy()
			object.SetResourceVersion(live.GetResourceVersion())
		case !apierrors.IsNotFound(err):
			return err
		}
	}
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
	object = object.DeepCopy()
	object.SetResourceVersion("")
	_, err = client.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}

// newer says whether an object is of a newer version than another. One on which somebody has written something else is not.
func newer(live, than *unstructured.Unstructured) bool {
	ours, err := version.ParseSemantic(than.GetLabels()[labelVersion])
	if err != nil {
		return false
	}
	theirs, err := version.ParseSemantic(live.GetLabels()[labelVersion])
	return err == nil && ours.LessThan(theirs)
}

// replacesCRD says whether a CRD is not there, or older. Errors: crdversion.ErrSkipped.
func replacesCRD(ctx context.Context, client dynamic.ResourceInterface, crd *unstructured.Unstructured) (bool, error) {
	live, err := client.Get(ctx, crd.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, err
	}
	return crdversion.Replaces(live.GetAnnotations(), crd.GetAnnotations())
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
	case gvk.Kind == kindCRD:
		return 1
	case gvk.Group == admissionregistration && object.GetName() == consent:
		return 4 // Enforced goes by it
	case gvk.Group == admissionregistration:
		return 3
	default:
		return 2
	}
}
