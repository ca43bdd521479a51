// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registryapi

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/client/versioned"
)

// testDirect: who comes to the server directly may ask for Clusters if he may ask the API server in front for them.
func (f *front) testDirect(t *testing.T) {
	if f.direct == "" {
		t.Skip("nothing is in front of a standalone API server")
	}
	ctx, bindings := t.Context(), f.Kube.RbacV1().ClusterRoleBindings()
	const name = "cluster-registry-api-caller"
	token, err := f.Token(ctx, harness.Namespace, "cluster-registry-api")
	if err != nil {
		t.Fatal(err)
	}
	client, err := versioned.NewForConfig(&rest.Config{Host: f.direct, BearerToken: token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		t.Fatal(err)
	}
	list := func(ctx context.Context) error {
		_, err := client.RegistryV1alpha1().Clusters().List(ctx, metav1.ListOptions{})
		return err
	}
	if err := list(ctx); err != nil {
		t.Errorf("one of the callers: %v", err)
	}
	callers := func(ctx context.Context, group string) {
		patch := fmt.Sprintf(`[{"op":"replace","path":"/subjects/0/name","value":%q}]`, group)
		if _, err := bindings.Patch(ctx, name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		callers(ctx, "system:authenticated")
		if _, err := harness.Wait(ctx, "the callers are let through again", within, func(ctx context.Context) error {
			_, err := f.shown(t, "nobody").List(ctx, metav1.ListOptions{})
			return err
		}); err != nil {
			t.Error(err)
		}
	})
	callers(ctx, "fleet")
	eventually(t, "he is refused when he is none of the callers", func(ctx context.Context) error {
		if err := list(ctx); !apierrors.IsForbidden(err) {
			return errNotYet
		}
		return nil
	})
}
