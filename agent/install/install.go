// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	chart "github.com/roster-mesh/roster/charts/agent"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/crdversion"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Check returns an error when the chart is not installed in namespace in a version that works with this agent: the
// rights of the agent and the CRDs. It writes nothing.
func Check(ctx context.Context, client *kube.Client, namespace string, log *slog.Logger) error {
	if err := checkRights(ctx, client, namespace); err != nil {
		return err
	}
	return checkCRDs(ctx, client, log)
}

// checkRights returns one line with the rights of the chart's ServiceAccount that the agent lacks.
func checkRights(ctx context.Context, client *kube.Client, namespace string) error {
	missing, err := client.MissingRights(ctx, kube.AgentRights(namespace))
	if errors.Is(err, kube.ErrKindUnknown) {
		return fmt.Errorf("the API server does not serve a kind that the agent keeps: install the CRDs of charts/agent first: %w", err)
	}
	if err != nil {
		return fmt.Errorf("review the agent's rights: %w", err)
	}
	if len(missing) > 0 {
		return fmt.Errorf("--namespace %s: this identity may not %s; %s", namespace, strings.Join(missing, ", "), howToGetRights(namespace))
	}
	return nil
}

// ErrCRDs is returned when the CRDs of the cluster do not work with this agent.
var ErrCRDs = errors.New("CRDs and agent do not go together")

// checkCRDs returns an error when the CRDs of the cluster do not work with this agent. It runs before the agent writes
// anything, because an API server drops fields that its CRD does not have.
func checkCRDs(ctx context.Context, client *kube.Client, log *slog.Logger) error {
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
		if err := checkSchema(crd.GetName(), annotations, v1alpha1.SchemaVersion); err != nil {
			return err
		}
	}
	return nil
}

// checkSchema returns an error when an agent of a schema version does not work with a CRD that has these annotations.
func checkSchema(name string, have map[string]string, version int) error {
	switch schema, oldest := crdversion.Parse(have[v1alpha1.AnnotationSchemaVersion]), crdversion.Parse(have[v1alpha1.AnnotationSchemaOldestAgent]); {
	case schema < version:
		return fmt.Errorf("%w: the CRD %s is older than this agent (schema %d, not %d): upgrade the chart with helm, or kubectl apply --server-side --force-conflicts -f charts/agent/crds", ErrCRDs, name, schema, version)
	case oldest > version:
		return fmt.Errorf("%w: this agent is older than the CRD %s (schema %d, which needs an agent of %d): run an image of the chart's version", ErrCRDs, name, version, oldest)
	}
	return nil
}

// ApplyCRDs creates the CRDs of this agent's version, and upgrades older ones, but for too old ones
// (crdversion.ErrSkipped). Newer ones stay as they are, and none is deleted, so that a downgrade of the agent loses
// no fields.
func ApplyCRDs(ctx context.Context, kubeconfig, version string, log *slog.Logger) error {
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
		if err := applyCRD(ctx, client, crd, log.With("crd", crd.GetName(), "version", version)); err != nil {
			return err
		}
	}
	return nil
}

func applyCRD(ctx context.Context, client *kube.Client, crd *unstructured.Unstructured, log *slog.Logger) error {
	have, err := client.ReadCRD(ctx, crd.GetName())
	if err != nil {
		return fmt.Errorf("read CRD %s: %w", crd.GetName(), err)
	}
	was := 0
	if have != nil {
		was = crdversion.Parse(have.Annotations[v1alpha1.AnnotationSchemaVersion])
		replaces, err := crdversion.Replaces(have.Annotations, crd.GetAnnotations())
		if err != nil {
			return fmt.Errorf("CRD %s: %w", crd.GetName(), err)
		}
		if !replaces {
			log.Info("the CRD is newer and stays", "schema", was, "mine", v1alpha1.SchemaVersion)
			return nil
		}
	}
	if err := client.ApplyCRD(ctx, crd); err != nil {
		return fmt.Errorf("apply CRD %s: %w", crd.GetName(), err)
	}
	log.Info("the CRD is up to date", "schema", v1alpha1.SchemaVersion, "was", was)
	return nil
}

// howToGetRights says how the agent gets the rights that it needs.
func howToGetRights(namespace string) string {
	return fmt.Sprintf("install charts/agent into namespace %s, or run the agent with the token of its ServiceAccount", namespace)
}

// AccessError says what to do about an API server that refuses the agent's credential. Other errors are returned
// unchanged.
func AccessError(err error, client *kube.Client, namespace string) error {
	switch {
	case errors.Is(err, kube.ErrUnauthorized):
		return fmt.Errorf("%s: %w: give --kubeconfig a kubeconfig with a valid token, of the ServiceAccount that charts/agent made", client.Config.Host, err)
	case errors.Is(err, kube.ErrForbidden):
		return fmt.Errorf("this identity may not read namespace kube-system; %s: %w", howToGetRights(namespace), err)
	}
	return err
}
