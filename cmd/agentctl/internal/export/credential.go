// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	urfave "github.com/urfave/cli/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientauth "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube"
)

// execInfo is the variable with which a client tells its plugin what it wants, an ExecCredential:
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
const execInfo = "KUBERNETES_EXEC_INFO"

// CredentialCommand describes the command credential to the flag library.
func CredentialCommand(g *cli.Globals) *urfave.Command {
	return &urfave.Command{
		Name:      "credential",
		Usage:     "print the credential for a cluster, for kubectl and other clients that ask this command for it",
		ArgsUsage: "NAME",
		Description: `A credential plugin (ExecCredential, client.authentication.k8s.io/v1). It reads the credential that the cluster of the
context holds for the cluster NAME, and prints it; it writes nothing to disk. You need the right to get that one Secret.

A credential that an agent has issued is short-lived, and reads what the agents of the group may read there. One that a
person has put there lives as long, and may do as much, as that person chose. Where its end is known, the client is told.

agentctl kubeconfig writes a kubeconfig that calls it. Where the client says which server it is about to ask, the
credential is given for the server that it belongs to, and no other.

Exit code: 0 it is printed; 2 no such cluster; 1 it cannot be read.`,
		Flags: []urfave.Flag{networkFlag()},
		Action: func(c *urfave.Context) error {
			if c.Args().Len() != 1 {
				return cli.Usagef("credential needs the name of one cluster, as `agentctl clusters` lists it")
			}
			o := &Options{Access: clusters.AccessOf(g), Names: c.Args().Slice(), Namespace: g.Namespace.String(), Credentials: true, Network: c.String("network-name")}
			return g.Run(c, &credentialOptions{Options: o, asked: os.Getenv(execInfo)})
		},
	}
}

type credentialOptions struct {
	*Options

	asked string // of KUBERNETES_EXEC_INFO; "" where a person asks
}

// Formats are what --output may be.
func (o *credentialOptions) Formats() []string { return []string{formatJSON} }

// Run prints the credential.
func (o *credentialOptions) Run(ctx context.Context, out *cli.Output) error {
	var asked clientauth.ExecCredential
	if o.asked != "" {
		if err := json.Unmarshal([]byte(o.asked), &asked); err != nil || asked.APIVersion != clientauth.SchemeGroupVersion.String() {
			return fmt.Errorf("%s is no ExecCredential of %s: set apiVersion of the exec plugin in your kubeconfig", execInfo, clientauth.SchemeGroupVersion)
		}
	}
	c, err := o.Open()
	if err != nil {
		return err
	}
	members, err := o.members(ctx, c)
	if err != nil {
		return err
	}
	m := members[0]
	access, err := m.access(o.Network)
	if err != nil {
		return c.Errorf("cluster %s: %w", m.name, err)
	}
	if to := asked.Spec.Cluster; to != nil && to.Server != access.Host {
		return c.Errorf("cluster %s is at %s now, and the kubeconfig names %s: write it anew with agentctl kubeconfig", m.name, access.Host, to.Server)
	}
	answer, err := json.Marshal(&clientauth.ExecCredential{
		TypeMeta: metav1.TypeMeta{APIVersion: clientauth.SchemeGroupVersion.String(), Kind: "ExecCredential"},
		Spec:     clientauth.ExecCredentialSpec{Interactive: asked.Spec.Interactive},
		Status:   credentialStatus(access, m.credential),
	})
	if err != nil {
		return err
	}
	_, err = out.Stdout.Write(append(answer, '\n'))
	return err
}

func credentialStatus(access *rest.Config, kubeconfig []byte) *clientauth.ExecCredentialStatus {
	status := &clientauth.ExecCredentialStatus{Token: access.BearerToken, ClientCertificateData: string(access.CertData), ClientKeyData: string(access.KeyData)}
	if _, until, known := kube.KubeconfigValidity(kubeconfig); known {
		status.ExpirationTimestamp = &metav1.Time{Time: until.UTC()}
	}
	return status
}
