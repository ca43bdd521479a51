// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	chart "github.com/roster-mesh/roster/charts/agent"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Check says whether the chart, of this agent's version, was installed into namespace: the rights of the agent, and the
// CRDs. It writes nothing.
func Check(ctx context.Context, client *kube.Client, namespace string, log *slog.Logger) error {
	if err := checkRights(ctx, client, namespace); err != nil {
		return err
	}
	return checkDefinitions(ctx, client, log)
}

// checkRights names, in one line, the rights that a wrong identity lacks first: those that the chart gives its
// ServiceAccount.
func checkRights(ctx context.Context, client *kube.Client, namespace string) error {
	missing, err := client.MissingRights(ctx, kube.AgentRights(namespace))
	if errors.Is(err, kube.ErrKindUnknown) {
		return fmt.Errorf("the API server does not serve a kind that the agent keeps: install the CRDs of charts/agent first: %w", err)
	}
	if err != nil {
		return fmt.Errorf("review the agent's rights: %w", err)
	}
	if len(missing) > 0 {
		return fmt.Errorf("--namespace %s: this identity may not %s; %s", namespace, strings.Join(missing, ", "), remedy(namespace))
	}
	return nil
}

// ErrDefinitions is returned when the CRDs of the cluster and the agent do not go together.
var ErrDefinitions = errors.New("CRDs and agent do not go together")

// checkDefinitions says whether the cluster's CRDs and this agent go together. Nothing has been written yet: an API
// server drops the fields that its CRD does not know.
func checkDefinitions(ctx context.Context, client *kube.Client, log *slog.Logger) error {
	crds, err := chart.CRDs()
	if err != nil {
		return err
	}
	for _, crd := range crds {
		have, err := client.ReadCRD(ctx, crd.GetName())
		if errors.Is(err, kube.ErrForbidden) {
			log.Debug("CRDs may not be read; they are taken to be right", "error", err)
			return nil
		}
		if err != nil {
			return fmt.Errorf("read CRD %s: %w", crd.GetName(), err)
		}
		var annotations map[string]string
		if have != nil {
			annotations = have.Annotations
		}
		if err := suits(crd.GetName(), annotations, v1alpha1.SchemaVersion); err != nil {
			return err
		}
	}
	return nil
}

// suits says whether an agent of a schema version works with a CRD that has these annotations.
func suits(name string, have map[string]string, version int) error {
	switch schema, oldest := number(have[v1alpha1.AnnotationSchemaVersion]), number(have[v1alpha1.AnnotationSchemaOldestAgent]); {
	case schema < version:
		return fmt.Errorf("%w: the CRD %s is older than this agent (schema %d, not %d): upgrade the chart with helm, or kubectl apply --server-side --force-conflicts -f charts/agent/crds", ErrDefinitions, name, schema, version)
	case oldest > version:
		return fmt.Errorf("%w: this agent is older than the CRD %s (schema %d, which needs an agent of %d): run an image of the chart's version", ErrDefinitions, name, version, oldest)
	}
	return nil
}

// number reads a version; what has none is older than every version.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// ApplyDefinitions brings the CRDs of the cluster up to this agent's version: those that are older, or missing. Newer
// ones stay as they are, and nothing is ever deleted, so that a downgrade loses no fields.
func ApplyDefinitions(ctx context.Context, kubeconfig, version string, log *slog.Logger) error {
	kube.RouteClientLogs(log)
	config, err := kube.LoadConfig(kubeconfig)
	if err != nil {
		return err
	}
	client, err := kube.NewClient(config)
	if err != nil {
		return fmt.Errorf("connect to the local API server: %w", err)
	}
	defer client.Close()
	crds, err := chart.CRDs()
	if err != nil {
		return err
	}
	for _, crd := range crds {
		if err := applyDefinition(ctx, client, crd, log.With("crd", crd.GetName(), "version", version)); err != nil {
			return err
		}
	}
	return nil
}

func applyDefinition(ctx context.Context, client *kube.Client, crd *unstructured.Unstructured, log *slog.Logger) error {
	have, err := client.ReadCRD(ctx, crd.GetName())
	if err != nil {
		return fmt.Errorf("read CRD %s: %w", crd.GetName(), err)
	}
	was := 0
	if have != nil {
		was = number(have.Annotations[v1alpha1.AnnotationSchemaVersion])
	}
	if was > v1alpha1.SchemaVersion {
		log.Info("the CRD is newer and stays", "schema", was, "mine", v1alpha1.SchemaVersion)
		return nil
	}
	if err := client.ApplyCRD(ctx, crd); err != nil {
		return fmt.Errorf("apply CRD %s: %w", crd.GetName(), err)
	}
	log.Info("the CRD is up to date", "schema", v1alpha1.SchemaVersion, "was", was)
	return nil
}

// remedy is how an agent gets the rights that it needs.
func remedy(namespace string) string {
	return fmt.Sprintf("install charts/agent into namespace %s, or run the agent with the token of its ServiceAccount", namespace)
}

// Explain says what to do about an API server that does not let the agent in.
func Explain(err error, client *kube.Client, namespace string) error {
	switch {
	case errors.Is(err, kube.ErrUnauthorized):
		return fmt.Errorf("%s: %w: give --kubeconfig a kubeconfig with a valid token, of the ServiceAccount that charts/agent made", client.Config.Host, err)
	case errors.Is(err, kube.ErrForbidden):
		return fmt.Errorf("this identity may not read namespace kube-system; %s: %w", remedy(namespace), err)
	}
	return err
}
