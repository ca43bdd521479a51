// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// ServiceAccount is the chart's account, whose rights the agent gets.
const ServiceAccount = "cluster-registry-controller"

// tokenLife is longer than a demo that somebody forgot to end.
const tokenLife = 7 * 24 * time.Hour

// Install does what the chart's documentation says for an agent that runs outside of its cluster:
//
//	kubectl create namespace cluster-registry
//	helm template charts/agent -n cluster-registry --include-crds --set localCluster.name=NAME,replicas=0 | kubectl apply -f -
//
// and then writes the agent's kubeconfig with a token of the chart's ServiceAccount. A standalone API server has all of
// that already.
func (c *Cluster) Install(ctx context.Context) error {
	if !c.standalone() {
		if err := c.applyChart(ctx); err != nil {
			return err
		}
	}
	return c.Authorize(ctx)
}

// Authorize is what Install does once the chart is there.
func (c *Cluster) Authorize(ctx context.Context) error {
	if _, err := c.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"); err != nil {
		return err
	}
	token, err := c.Token(ctx, Namespace, ServiceAccount)
	if err != nil {
		return err
	}
	path := c.AgentKubeconfig()
	if err := c.WriteKubeconfig(path, token); err != nil {
		return err
	}
	if err := os.Chown(path, c.uid, -1); err != nil {
		return err
	}
	return c.awaitRights(ctx)
}

func (c *Cluster) applyChart(ctx context.Context) error {
	if _, err := c.Kubectl(ctx, "create", "namespace", Namespace); err != nil {
		return err
	}
	helm := exec.CommandContext(ctx, c.fleet.bin.Helm, "template", cmp.Or(c.chart, c.fleet.bin.Chart), "-n", Namespace, "--include-crds",
		"--set", "localCluster.name="+c.Name+",replicas=0")
	helm.Env = c.fleet.environ()
	manifest, err := run(ctx, helm)
	if err != nil {
		return err
	}
	_, err = c.Apply(ctx, manifest)
	return err
}

// AgentKubeconfig is the path of the kubeconfig that the agent uses.
func (c *Cluster) AgentKubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

// Token asks for a token of a ServiceAccount.
func (c *Cluster) Token(ctx context.Context, namespace, account string) (string, error) {
	seconds := int64(tokenLife / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := c.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token of %s/%s in %s: %w", namespace, account, c.Name, err)
	}
	return answer.Status.Token, nil
}

// WriteKubeconfig writes a kubeconfig for this cluster that authenticates with a token.
func (c *Cluster) WriteKubeconfig(path, token string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters[c.Name] = &clientcmdapi.Cluster{Server: c.Config.Host, CertificateAuthorityData: c.Config.CAData}
	config.AuthInfos[c.Name] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[c.Name] = &clientcmdapi.Context{Cluster: c.Name, AuthInfo: c.Name}
	config.CurrentContext = c.Name
	return clientcmd.WriteToFile(*config, path)
}

// awaitRights waits until the API server goes by the roles of the chart, shortly after they were applied. In a cluster
// with nodes the pod's start takes longer than that.
func (c *Cluster) awaitRights(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", c.AgentKubeconfig())
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	_, err = Wait(ctx, "rights of the chart's ServiceAccount in "+c.Name, time.Minute, func(ctx context.Context) error {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: "create", Group: "clusterregistry.k8s.cisco.com", Resource: "clusters",
			},
		}}
		answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if !answer.Status.Allowed {
			return fmt.Errorf("may not create clusters: %s", answer.Status.Reason)
		}
		return nil
	})
	return err
}
