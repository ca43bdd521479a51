// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/doctor/grant"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// checkRBAC compares what the agents' ServiceAccount may do with what an agent needs, and says which rules
// lack a right, and what grants it.
func checkRBAC(ctx context.Context, x *inspection) []Finding {
	var out []Finding
	for _, t := range x.targets {
		if t.apiErr != nil {
			continue
		}
		out = append(out, x.checkRights(ctx, t)...)
		for _, rule := range t.rules {
			out = append(out, x.ruleRights(t, rule)...)
		}
	}
	return out
}

func (x *inspection) checkRights(ctx context.Context, t *target) []Finding {
	accounts := t.client.Dynamic.Resource(clusters.Core("serviceaccounts")).Namespace(x.namespace)
	if _, err := accounts.Get(ctx, x.account, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		return []Finding{{
			Severity: Unknown, Cluster: t.name(),
			Message: fmt.Sprintf("there is no ServiceAccount %s/%s, so the permissions of the agent are not known: name it with --namespace and --service-account", x.namespace, x.account),
			Fix:     t.kubectl("get", "serviceaccounts", "--all-namespaces", "--selector", "app.kubernetes.io/part-of=roster"),
		}}
	}
	review, err := t.reviewer(ctx, x.namespace, x.account)
	if err != nil {
		return []Finding{{Severity: Unknown, Cluster: t.name(), Message: "the permissions of the agent cannot be checked: " + clusters.Reason(err)}}
	}
	rights := slices.Concat(kube.AgentRights(x.namespace), reportingRights(x.namespace))
	lacks, errs := make([]bool, len(rights)), make([]error, len(rights))
	var group errgroup.Group
	group.SetLimit(8)
	for i, right := range rights {
		group.Go(func() error { lacks[i], errs[i] = review(ctx, right); return nil })
	}
	_ = group.Wait() // the errors are in errs
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return []Finding{{
			Severity: Unknown, Cluster: t.name(), Message: "the permissions of the agent cannot be checked: " + clusters.Reason(errs[i]),
			Fix: t.kubectl("auth", "can-i", "create", "subjectaccessreviews.authorization.k8s.io"),
		}}
	}
	var missing []string
	for i, right := range rights {
		if lacks[i] {
			missing = append(missing, grant.Text(right))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return []Finding{{
		Severity: Error, Cluster: t.name(), Message: fmt.Sprintf("ServiceAccount %s/%s may not %s", x.namespace, x.account, cli.Brief(missing)), Fix: x.install(t),
	}}
}

// reportingRights are those without which an agent starts, and then cannot say how it fares or let peers read.
func reportingRights(namespace string) []kube.Attributes {
	return []kube.Attributes{
		{Verb: "update/status", GVK: v1alpha1.SchemeGroupVersion.WithKind("Cluster")},
		{Verb: "update/status", GVK: v1alpha1.SchemeGroupVersion.WithKind("ResourceSyncRule")},
		{Verb: "create/token", GVK: schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}, Namespace: v1alpha1.ReadersNamespace(namespace)},
		{Verb: "create", GVK: schema.GroupVersionKind{Version: "v1", Kind: "Event"}, Namespace: "default"},
	}
}

// reviewer asks about the rights of an account: as the account itself where that is who asks, else for it.
func (t *target) reviewer(ctx context.Context, namespace, account string) (func(context.Context, kube.Attributes) (lacks bool, err error), error) {
	user := "system:serviceaccount:" + namespace + ":" + account
	kind, spec := "SubjectAccessReview", map[string]any{
		"user": user, "groups": []any{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
	self, err := t.post(ctx, "authentication.k8s.io", "SelfSubjectReview", map[string]any{})
	if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
		return nil, err
	}
	if self != nil {
		if name, _, _ := unstructured.NestedString(self.Object, "status", "userInfo", "username"); name == user {
			kind, spec = "SelfSubjectAccessReview", map[string]any{}
		}
	}
	return func(ctx context.Context, right kube.Attributes) (bool, error) {
		verb, subresource, _ := strings.Cut(right.Verb, "/")
		resource, _ := meta.UnsafeGuessKindToResource(right.GVK) // true of all kinds that an agent keeps
		of := map[string]any{"resourceAttributes": map[string]any{
			"verb": verb, "subresource": subresource, "group": resource.Group, "version": resource.Version,
			"resource": resource.Resource, "namespace": right.Namespace,
		}}
		maps.Copy(of, spec)
		answer, err := t.post(ctx, "authorization.k8s.io", kind, map[string]any{"spec": of})
		if err != nil {
			return false, err
		}
		allowed, _, _ := unstructured.NestedBool(answer.Object, "status", "allowed")
		return !allowed, nil
	}, nil
}

// post sends a question that an API server answers and does not keep.
func (t *target) post(ctx context.Context, group, kind string, object map[string]any) (*unstructured.Unstructured, error) {
	object["apiVersion"], object["kind"] = group+"/v1", kind
	resource := schema.GroupVersionResource{Group: group, Version: "v1", Resource: strings.ToLower(kind) + "s"}
	return t.client.Dynamic.Resource(resource).Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
}

// ruleRights are the rights that a rule lacks here, or at its sources.
func (x *inspection) ruleRights(t *target, rule *v1alpha1.ResourceSyncRule) []Finding {
	ready := clusters.ReadinessOf(rule)
	text, _, _ := strings.Cut(ready.Message, "; grant it") // a command is shown as one, or not at all
	d := Finding{Severity: Error, Cluster: t.name(), Message: "rule " + rule.Name + ": " + text}
	command := grant.Command(ready.Message)
	switch ready.Reason {
	case "MissingPermission":
		d.Fix = t.kubectl("apply", "-f", "-") + " " + command
	case "SourceMissingPermission":
		d.Fix = "kubectl apply -f - " + command + "  # in the cluster that the message names"
		for _, c := range t.clusters {
			if strings.HasPrefix(ready.Message, "cluster "+c.Name+" ") {
				d.Cluster, d.Fix = c.Name, x.kubectlIn(c, "apply", "-f", "-")
				if before, where, found := strings.Cut(d.Fix, "  # "); found {
					d.Fix = before + " " + command + "  # " + where
				} else {
					d.Fix += " " + command
				}
			}
		}
	default:
		return nil
	}
	if command == "" {
		d.Fix = fmt.Sprintf("agentctl rules explain %s%s", cli.ShellWord(rule.Name), t.flag())
	}
	return []Finding{d}
}

// flag names the target to agentctl.
func (t *target) flag() string {
	if t.client.InCluster {
		return ""
	}
	return " --context " + cli.ShellWord(t.client.Context)
}
