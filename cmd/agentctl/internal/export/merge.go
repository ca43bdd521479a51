// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"
	clientauth "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
)

// plugin is the command that the users of a kubeconfig run.
const plugin = "agentctl"

// KubeconfigCommand describes the command kubeconfig to the flag library.
func KubeconfigCommand(g *cli.Globals) *urfave.Command {
	return &urfave.Command{
		Name:      "kubeconfig",
		Usage:     "write contexts for the other clusters, with credentials that are read when they are needed",
		ArgsUsage: "[NAME ...]",
		Description: `Prints a kubeconfig with a context for each other cluster, or for those that are named. Its users run agentctl credential:
no credential is in the file, and none ends with it. They read what the agents of the group may read, if you may get
the Secrets with the credentials that the cluster of the context holds.

With --merge the contexts become part of your own kubeconfig, as with kubectl config: of that of --kubeconfig, $KUBECONFIG or
~/.kube/config. What agentctl has written there before is brought up to date; where something else has one of the names,
nothing is changed, and --prefix gives the contexts other names. The current context stays.

  agentctl kubeconfig > clusters.kubeconfig
  agentctl kubeconfig --merge --prefix prod- --cluster cluster-2 --cluster cluster-3

Exit code: 0 done; 4 a cluster is left out; 2 no such cluster; 1 it cannot be done, and nothing is written.`,
		Flags: []urfave.Flag{
			&urfave.StringSliceFlag{Name: "cluster", Usage: "`NAME` of a cluster, the same as an argument; may be repeated"},
			&urfave.BoolFlag{Name: "merge", Usage: "write the contexts to your own kubeconfig"},
			&urfave.BoolFlag{Name: "dry-run", Usage: "with --merge: say what would be written, and write nothing"},
			&urfave.StringFlag{Name: "prefix", Usage: "of the names of contexts, clusters and users"},
			networkFlag(),
		},
		Action: func(c *urfave.Context) error {
			return g.Run(c, &kubeconfigOptions{
				Options: &Options{Access: clusters.AccessOf(g), Names: append(c.StringSlice("cluster"), c.Args().Slice()...), Namespace: g.Namespace.String(), Credentials: true, Network: c.String("network-name")},
				Merge:   c.Bool("merge"), DryRun: c.Bool("dry-run"), Prefix: c.String("prefix"),
			})
		},
	}
}

type kubeconfigOptions struct {
	*Options

	Merge  bool
	DryRun bool
	Prefix string
}

// Formats are what --output may be.
func (o *kubeconfigOptions) Formats() []string { return []string{formatYAML} }

// Validate checks what can be checked without a cluster.
func (o *kubeconfigOptions) Validate() error {
	if o.DryRun && !o.Merge {
		return cli.Usagef("--dry-run is of no use without --merge")
	}
	return nil
}

// Run writes the contexts.
func (o *kubeconfigOptions) Run(ctx context.Context, out *cli.Output) error {
	c, err := o.Open()
	if err != nil {
		return err
	}
	members, err := o.others(ctx, c)
	if err != nil {
		return err
	}
	config, left := o.config(c, members)
	remarks := cli.Printable{To: out.Stderr}
	for _, line := range left {
		fmt.Fprintln(remarks, line)
	}
	if len(config.Contexts) == 0 {
		return c.Errorf("there is no other cluster to write a context for")
	}
	if o.Merge {
		err = o.merge(config, remarks)
	} else {
		err = o.print(config, out)
	}
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return cli.Answerf(cli.ExitUnmatched, "the kubeconfig is complete but for %s", cli.Plural(len(left), "cluster"))
	}
	return nil
}

// config has a context for each member; what is left out is a line.
func (o *kubeconfigOptions) config(c *clusters.Client, members []*member) (config *clientcmdapi.Config, left []string) {
	config = clientcmdapi.NewConfig()
	for _, m := range members {
		access, err := m.access(o.Network)
		if err != nil {
			left = append(left, fmt.Sprintf("cluster %s is left out: %s", m.name, err))
			continue
		}
		name := o.Prefix + m.name
		config.Clusters[name] = &clientcmdapi.Cluster{Server: access.Host, TLSServerName: access.ServerName, CertificateAuthorityData: access.CAData}
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Exec: o.exec(c, m)}
		config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	return config, left
}

// exec runs agentctl credential as this command was run.
func (o *kubeconfigOptions) exec(c *clusters.Client, m *member) *clientcmdapi.ExecConfig {
	args := []string{"credential", m.name, "--namespace", o.Namespace, "--network-name", o.Network}
	if !c.InCluster {
		args = append(args, "--context", c.Context)
	}
	if o.As != "" {
		args = append(args, "--as", o.As)
	}
	return &clientcmdapi.ExecConfig{
		Env:        []clientcmdapi.ExecEnvVar{{Name: clientcmd.RecommendedConfigPathEnvVar, Value: o.files()}},
		APIVersion: clientauth.SchemeGroupVersion.String(), Command: plugin, Args: args, ProvideClusterInfo: true,
		InteractiveMode: clientcmdapi.NeverExecInteractiveMode, InstallHint: "agentctl, of the same release as the agents, must be in your PATH.",
	}
}

// files are those of the kubeconfig that holds the context, whichever the client of the plugin will read.
func (o *kubeconfigOptions) files() string {
	files := []string{o.Kubeconfig}
	if o.Kubeconfig == "" {
		files = clientcmd.NewDefaultClientConfigLoadingRules().Precedence
	}
	for i, name := range files {
		if absolute, err := filepath.Abs(name); err == nil {
			files[i] = absolute
		}
	}
	return strings.Join(files, string(filepath.ListSeparator))
}

func (o *kubeconfigOptions) print(config *clientcmdapi.Config, out *cli.Output) error {
	data, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	_, err = out.Stdout.Write(data)
	return err
}

// merge brings a kubeconfig up to date, or changes nothing.
func (o *kubeconfigOptions) merge(config *clientcmdapi.Config, remarks cli.Printable) error {
	paths := clientcmd.NewDefaultPathOptions()
	paths.LoadingRules.ExplicitPath = o.Kubeconfig
	have, err := paths.GetStartingConfig()
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	changed := 0
	for _, name := range slices.Sorted(maps.Keys(config.Contexts)) {
		if err := isOurs(have, name); err != nil {
			return err
		}
		if sameEntry(have, config, name) {
			continue
		}
		changed++
		update(have, config, name)
	}
	file, verb := paths.GetDefaultFilename(), "written to"
	if o.Kubeconfig != "" {
		file = o.Kubeconfig
	}
	switch {
	case changed == 0:
		verb = "unchanged in"
	case o.DryRun:
		verb = "would be written to"
	default:
		if err := clientcmd.ModifyConfig(paths, *have, true); err != nil {
			return fmt.Errorf("write kubeconfig: %w", err)
		}
	}
	fmt.Fprintf(remarks, "%s %s %s: %s\n", cli.Plural(len(config.Contexts), "context"), verb, file, strings.Join(slices.Sorted(maps.Keys(config.Contexts)), ", "))
	return nil
}

// isOurs refuses a name that something else has in a kubeconfig, or whose context a person has made lead elsewhere.
func isOurs(have *clientcmdapi.Config, name string) error {
	if have.Clusters[name] == nil && have.AuthInfos[name] == nil && have.Contexts[name] == nil {
		return nil
	}
	at := have.Contexts[name]
	leads := at == nil || at.Cluster == name && at.AuthInfo == name
	if user := have.AuthInfos[name]; leads && user != nil && user.Exec != nil && user.Exec.Command == plugin && len(user.Exec.Args) > 0 && user.Exec.Args[0] == "credential" {
		return nil
	}
	return fmt.Errorf("the kubeconfig has something else of the name %s: give the contexts another --prefix; nothing is written", name)
}

// sameEntry tells whether a kubeconfig has a context as it should be.
func sameEntry(have, want *clientcmdapi.Config, name string) bool {
	cluster, user, at := have.Clusters[name], have.AuthInfos[name], have.Contexts[name]
	if cluster == nil || user == nil || at == nil {
		return false
	}
	to, exec := want.Clusters[name], want.AuthInfos[name].Exec
	return cluster.Server == to.Server && cluster.TLSServerName == to.TLSServerName && bytes.Equal(cluster.CertificateAuthorityData, to.CertificateAuthorityData) &&
		user.Exec.APIVersion == exec.APIVersion && user.Exec.ProvideClusterInfo && slices.Equal(user.Exec.Args, exec.Args) && slices.Equal(user.Exec.Env, exec.Env) &&
		at.Cluster == name && at.AuthInfo == name
}

// update writes a context. Of what is there, it changes where the cluster is, how it is proven, and the command of the user; the
// rest is a person's, such as a namespace or a proxy.
func update(have, want *clientcmdapi.Config, name string) {
	if is, to := have.Clusters[name], want.Clusters[name]; is == nil {
		have.Clusters[name] = to
	} else {
		is.Server, is.TLSServerName, is.CertificateAuthorityData = to.Server, to.TLSServerName, to.CertificateAuthorityData
	}
	if is := have.AuthInfos[name]; is == nil {
		have.AuthInfos[name] = want.AuthInfos[name]
	} else {
		is.Exec = want.AuthInfos[name].Exec
	}
	if have.Contexts[name] == nil {
		have.Contexts[name] = want.Contexts[name]
	}
}
