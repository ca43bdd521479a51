// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Command flux does for one Kustomization what Flux's kustomize-controller does, by the same libraries in the same order: it reads the
// Secret that spec.kubeConfig names, builds what is in a folder, and applies that to the cluster of the Secret, or deletes it there. It
// has no source and watches nothing. The controller itself requires modules that not every module proxy has.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/kustomize"
	flux "github.com/fluxcd/pkg/runtime/client"
	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/utils"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
)

func main() {
	if len(os.Args) != 5 || os.Args[1] != "apply" && os.Args[1] != "delete" {
		fmt.Fprintln(os.Stderr, "usage: flux apply|delete NAMESPACE NAME FOLDER")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], client.ObjectKey{Namespace: os.Args[2], Name: os.Args[3]}, os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "flux:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, verb string, key client.ObjectKey, folder string) error {
	here, err := connect()
	if err != nil {
		return err
	}
	var k kustomizev1.Kustomization
	if err := here.Get(ctx, key, &k); err != nil {
		return err
	}
	there, poller, err := flux.NewImpersonator(here, flux.WithKubeConfig(k.Spec.KubeConfig, flux.KubeConfigOptions{}, k.Namespace, nil)).GetClient(ctx)
	if err != nil {
		return err
	}
	objects, err := build(&k, folder)
	if err != nil {
		return err
	}
	manager := ssa.NewResourceManager(there, poller, ssa.Owner{Field: "kustomize-controller", Group: kustomizev1.GroupVersion.Group})
	manager.SetOwnerLabels(objects, k.Name, k.Namespace)
	if verb == "delete" {
		changes, err := manager.DeleteAll(ctx, objects, ssa.DefaultDeleteOptions())
		fmt.Println(changes)
		return err
	}
	changes, err := manager.ApplyAllStaged(ctx, objects, ssa.DefaultApplyOptions())
	if err != nil {
		return err
	}
	fmt.Println(changes)
	return manager.Wait(objects, ssa.DefaultWaitOptions())
}

// connect leads to the API server that KUBECONFIG names.
func connect() (client.Client, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, kustomizev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	access, err := config.GetConfig()
	if err != nil {
		return nil, err
	}
	return client.New(access, client.Options{Scheme: scheme})
}

// build returns the objects of a folder as the Kustomization wants them.
func build(k *kustomizev1.Kustomization, folder string) ([]*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(k)
	if err != nil {
		return nil, err
	}
	if _, err := kustomize.NewGenerator(folder, unstructured.Unstructured{Object: content}).WriteFile(folder); err != nil {
		return nil, err
	}
	resources, err := kustomize.SecureBuild(folder, folder, false)
	if err != nil {
		return nil, err
	}
	data, err := resources.AsYaml()
	if err != nil {
		return nil, err
	}
	return utils.ReadObjects(bytes.NewReader(data))
}
