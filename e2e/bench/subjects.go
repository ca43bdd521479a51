// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// resourceInterface is client-go's, by a shorter name.
type resourceInterface = dynamic.ResourceInterface

// object is a value of a generated type.
type object interface {
	runtime.Object
	metav1.Object
}

// subject is one kind of object that is written, with the marks that a copy has.
type subject struct {
	name     string
	resource schema.GroupVersionResource
	make     func(name string, generation int) object
	change   func(generation int) string // the part of a merge patch that makes it the next generation
	client   func(*rest.Config) (rest.Interface, error)
}

func subjects() []subject {
	core := func(cfg *rest.Config) (rest.Interface, error) {
		c, err := kubernetes.NewForConfig(cfg)
		return c.CoreV1().RESTClient(), err
	}
	apps := func(cfg *rest.Config) (rest.Interface, error) {
		c, err := kubernetes.NewForConfig(cfg)
		return c.AppsV1().RESTClient(), err
	}
	return []subject{
		{
			name: "Secret of 1 KiB", resource: corev1.SchemeGroupVersion.WithResource("secrets"), make: secretOf, client: core,
			change: func(g int) string {
				return fmt.Sprintf(`"data":{"v":%q}`, base64.StdEncoding.EncodeToString(text(g, 1024)))
			},
		},
		{
			name: "ConfigMap of 100 KiB", resource: corev1.SchemeGroupVersion.WithResource("configmaps"), make: configMapOf, client: core,
			change: func(g int) string { return fmt.Sprintf(`"data":{"0":%q}`, text(g, 10<<10)) },
		},
		{
			name: "Deployment", resource: appsv1.SchemeGroupVersion.WithResource("deployments"), make: deploymentOf, client: apps,
			change: func(g int) string {
				return fmt.Sprintf(`"spec":{"template":{"metadata":{"annotations":{"generation":"%d"}}}}`, g)
			},
		},
	}
}

// text of a size differs from one generation to the next.
func text(generation, size int) []byte {
	head := fmt.Sprintf("%d:", generation)
	return []byte(head + strings.Repeat("x", size-len(head)))
}

func metaOf(name string) metav1.ObjectMeta {
	const owner = "0b4e9d0e-5b5c-4a3c-8d9a-3a7f0d6f4a11"
	return metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"app": "bench", "example.com/owner": owner},
		Annotations: map[string]string{"example.com/owner": owner, "example.com/rule": "bench", "example.com/fields": "a1b2c3d4e5f60718"},
	}
}

func secretOf(name string, generation int) object {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metaOf(name), Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{"v": text(generation, 1024)},
	}
}

func configMapOf(name string, generation int) object {
	data := map[string]string{"0": string(text(generation, 10<<10))}
	for i := 1; i < 10; i++ {
		data[fmt.Sprint(i)] = string(text(0, 10<<10))
	}
	return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metaOf(name), Data: data}
}

func deploymentOf(name string, generation int) object {
	none := int32(0) // so that nothing but the API server has to do with it
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: metaOf(name),
		Spec: appsv1.DeploymentSpec{
			Replicas: &none, Paused: true, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"generation": fmt.Sprint(generation)}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "main", Image: "registry.example.com/main:1", Ports: []corev1.ContainerPort{{ContainerPort: 8080}},
					Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}},
				}, {Name: "side", Image: "registry.example.com/side:1"}}},
			},
		},
	}
}
