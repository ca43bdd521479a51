// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// renewRights are what the chart grants in a namespace of renew.namespaces.
const renewRights = `
apiVersion: v1
kind: Namespace
metadata: {name: renewed}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: renew, namespace: renewed}
rules:
- {apiGroups: [""], resources: [secrets], verbs: [list, watch, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: renew, namespace: renewed}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: renew}
subjects:
- {kind: ServiceAccount, name: ` + harness.ServiceAccount + `, namespace: ` + harness.Namespace + `}
`

// asked is an empty Secret that asks for the credential for a cluster.
func asked(name, format, cluster string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: renewed, labels: {%s: %s}, annotations: {%s: %s}}\n",
		name, v1alpha1.LabelExportedFor, format, v1alpha1.AnnotationRenewCredentialOf, cluster)
}

// argoLeadsTo: what Argo CD reads in a Secret works, and leads to a cluster. It returns the token.
func argoLeadsTo(ctx context.Context, in *harness.Cluster, name, id string) (string, error) {
	secret, err := in.Kube.CoreV1().Secrets("renewed").Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	var config struct {
		BearerToken string `json:"bearerToken"`
		TLS         struct {
			CAData     []byte `json:"caData"`
			ServerName string `json:"serverName"`
		} `json:"tlsClientConfig"`
	}
	if err := json.Unmarshal(secret.Data["config"], &config); err != nil {
		return "", err
	}
	return config.BearerToken, leadsTo(ctx, &rest.Config{
		Host: string(secret.Data["server"]), BearerToken: config.BearerToken, TLSClientConfig: rest.TLSClientConfig{CAData: config.TLS.CAData, ServerName: config.TLS.ServerName},
	}, id)
}

func leadsTo(ctx context.Context, config *rest.Config, id string) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	system, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err == nil && string(system.UID) != id {
		err = fmt.Errorf("it leads to %s, not %s", system.UID, id)
	}
	return err
}

// TestRenewedSecrets: the Secret that was exported for Argo CD works when the token that was exported is refused, and keeps what
// else is in it; an empty one that asks is filled. One that cannot be renewed has an event, and one that does not
// ask stays as it is: doctor names that.
func TestRenewedSecrets(t *testing.T) {
	g := joined(t)
	beta := clusterID(t, g.beta)
	g.credentialOf(t, g.alpha, g.beta)
	t.Cleanup(func() {
		kubectl(t, g.alpha, "-n", "renewed", "delete", "secrets", "--all")
		if err := errors.Join(g.alpha.StopAgent(), g.alpha.StartAgent(lasting(t))); err != nil {
			t.Error(err)
		}
		g.eventuallyWhole(t, afterFault)
	})
	apply(t, g.alpha, renewRights)
	apply(t, g.alpha, agentctl(t, g, "export", "beta", "--context", "alpha", "--with-credentials", "-o", "argocd", "--renew"), "-n", "renewed")
	apply(t, g.alpha, agentctl(t, g, "export", "gamma", "--context", "alpha", "--with-credentials", "-o", "argocd"), "-n", "renewed")
	kubectl(t, g.alpha, "-n", "renewed", "patch", "secret", "cluster-beta", "--type=merge", "-p", `{"stringData":{"project":"mine","name":"my name"}}`)
	before, err := argoLeadsTo(t.Context(), g.alpha, "cluster-beta", beta)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, g.alpha, asked("flux", "flux", "beta")+"---\n"+asked("nowhere", "flux", "atlantis"))
	renewing := func() {
		t.Helper()
		if err := errors.Join(g.alpha.StopAgent(), g.alpha.StartAgent(t.Context(), "--renew-namespaces", "renewed")); err != nil {
			t.Fatal(err)
		}
	}
	other := kubectl(t, g.alpha, "-n", "renewed", "get", "secret", "cluster-gamma", "-o", "jsonpath={.metadata.resourceVersion}")
	renewing()
	eventually(t, "the empty Secret is filled", afterFault, func(ctx context.Context) error {
		secret, err := g.alpha.Kube.CoreV1().Secrets("renewed").Get(ctx, "flux", metav1.GetOptions{})
		if err != nil {
			return err
		}
		config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
		if err != nil {
			return err
		}
		return leadsTo(ctx, config, beta)
	})
	eventually(t, "an event says why the other is not", within, eventSays(g.alpha, "nowhere", `no cluster "atlantis" is in the group`))

	agentctl(t, g, "credentials", "revoke", "alpha", "--context", "beta")
	eventually(t, "the exported token is refused", afterFault, func(ctx context.Context) error {
		if _, err := argoLeadsTo(ctx, g.alpha, "cluster-beta", beta); !apierrors.IsUnauthorized(err) {
			return errors.Join(errors.New("not Unauthorized"), err)
		}
		return nil
	})
	renewing() // its open watches would last until their connection ends
	eventually(t, "the Secret works with another token", afterFault, func(ctx context.Context) error {
		now, err := argoLeadsTo(ctx, g.alpha, "cluster-beta", beta)
		if err == nil && now == before {
			err = errors.New("the token is accepted still")
		}
		return err
	})
	secret, err := g.alpha.Kube.CoreV1().Secrets("renewed").Get(t.Context(), "cluster-beta", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if string(secret.Data["project"]) != "mine" || string(secret.Data["name"]) != "my name" || secret.Labels["argocd.argoproj.io/secret-type"] != "cluster" {
		t.Errorf("the agent changed what is not its own: %v, %q", secret.Labels, secret.Data["name"])
	}
	if now := kubectl(t, g.alpha, "-n", "renewed", "get", "secret", "cluster-gamma", "-o", "jsonpath={.metadata.resourceVersion}"); now != other {
		t.Error("a Secret that does not ask was written")
	}
	if out := g.ask(t.Context(), "doctor", "--context", "alpha").out; !strings.Contains(out, "Secret renewed/cluster-gamma, exported for argocd, ends in ") || strings.Contains(out, "renewed/cluster-beta") {
		t.Errorf("doctor says:\n%s", out)
	}
}

// eventSays: there is an event about a Secret with a text.
func eventSays(c *harness.Cluster, name, text string) func(context.Context) error {
	return func(ctx context.Context) error {
		events, err := c.Kube.CoreV1().Events("renewed").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Type == corev1.EventTypeWarning && strings.Contains(e.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("no such event among %d", len(events.Items))
	}
}
