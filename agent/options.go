// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/agent/install"
	"github.com/roster-mesh/roster/agent/profiles"
	"github.com/roster-mesh/roster/agent/renewals"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/syncrules/consent"
)

// Options are the flags of the agent. Each may come from the command line, the environment or the configuration file.
// Validate checks them and names the flag that is wrong.
type Options struct {
	// Kubeconfig is the path of a kubeconfig for the local cluster; empty means the in-cluster one.
	Kubeconfig string
	// Local makes the agent run the API server of its cluster, which has no Kubernetes, from DataDir; nil means that the
	// cluster has one.
	Local *Local
	// Namespace is the agent's own namespace. Credentials and keys live in <Namespace>-private, the
	// ServiceAccounts that peers read with in <Namespace>-readers.
	Namespace string
	// ClusterName names the Cluster object that is created when the local API server has none for this
	// cluster; empty means that it must exist.
	ClusterName string
	// ClusterLabels are labels of this cluster's Cluster object, each KEY=VALUE. They are kept as they are here; other
	// labels are the user's, and so is one that is no longer named.
	ClusterLabels []string
	// DataDir keeps what the agent holds, for the next start: the API server and the peers can rebuild all of it. Empty
	// means memory alone.
	DataDir string
	// MeshListen is the host:port that the mesh listens on; port 0 picks a free one.
	MeshListen string
	// MeshAdvertise is the host:port that members dial; empty means that of MeshService, else the listening
	// address, or the machine's first global one when it listens on all.
	MeshAdvertise string
	// MeshService is the NAMESPACE/NAME of the Service that leads other clusters to the mesh port, whose external
	// address is then advertised; it excludes MeshAdvertise. Empty means no Service.
	MeshService string
	// GroupPeers are the mesh ports, as host:port, of all agents of this cluster including this one, when there are
	// several. One of them is active at a time. It needs DataDir and GroupAddress. Empty means a single agent.
	GroupPeers []string
	// GroupAddress is the host:port at which the other agents of this cluster reach this one.
	GroupAddress string
	// KeepTrying makes Run retry a start that fails for a reason that can be fixed from outside, such as missing
	// rights. Meanwhile the agent is not ready and says why. Without it, Run returns the error.
	KeepTrying bool
	// HTTPListen is the host:port of /metrics, /healthz and /readyz; empty turns them off.
	HTTPListen string
	// APIServerEndpoint is the https:// URL under which peers reach the local API server; empty means
	// the one that the agent itself uses, or the endpoint that the cluster publishes when that is internal.
	APIServerEndpoint string
	// NetworkName picks, from a peer's kubernetesApiEndpoints, the entry with that clientNetwork.
	NetworkName string
	// ManageSecret makes the agent keep a Secret with a credential, to be swapped with another cluster. With LegacyToken that
	// may read what readers may, for clusters without mesh.
	ManageSecret, LegacyToken bool
	// CoreResourceSource makes the agent publish its own rules and features; without it the cluster
	// only receives.
	CoreResourceSource bool
	// Tombstones is how many deleted objects of this cluster are remembered at least. When there are more, the agent
	// publishes all its objects in a new epoch and forgets the deleted ones.
	Tombstones int
	// Workers is how many copies are written at the same time.
	Workers int
	// KubeAPIQPS is how many requests a second the agent sends to one API server, its own or a peer's; up to
	// a second's worth may go out at once. 0 means no limit: the API server's priority and fairness decides.
	KubeAPIQPS int
	// ConsentKinds, ConsentSecretTypes, ConsentSecretsAs and ConsentNamespaces are what rules may do although it gives power
	// over this cluster. Nothing by default.
	ConsentKinds, ConsentSecretTypes, ConsentSecretsAs, ConsentNamespaces []string
	// TrustAccept is the consent.Accept for clusters without the annotation v1alpha1.AnnotationAccept; empty means all.
	TrustAccept string
	// TrustAuthorities are the members that may admit a cluster that was removed: see trust.ParseName.
	TrustAuthorities []string
	// GuardLive makes the deletion guard of rules count deletions that the agent watches happen, too.
	GuardLive bool
	// Publish is what is published for programs that know nothing of Roster; by default in Namespace.
	Publish profiles.Flags
	// RenewNamespaces are the namespaces in which Secrets are written that ask for the credential for another cluster.
	RenewNamespaces []string
	// Pprof serves Go's profiles on the HTTP port: whoever reaches it can read what is in memory.
	Pprof bool
	// Version is the agent's version, for logs, metrics and the user agent; Commit is for metrics.
	Version, Commit string
	// Log is the logger of all parts.
	Log *slog.Logger
}

// Validate returns an error that names every flag with an unusable value, and how to fix it.
func (o *Options) Validate() error {
	var errs []error
	bad := func(flag, format string, args ...any) {
		errs = append(errs, fmt.Errorf("--%s: %s", flag, fmt.Sprintf(format, args...)))
	}
	if msgs := validation.IsDNS1123Label(o.Namespace); len(msgs) > 0 {
		bad("namespace", "%q is not a namespace name: %s", o.Namespace, msgs[0])
	} else if len(o.Namespace) > validation.DNS1123LabelMaxLength-len("-readers") {
		bad("namespace", "%q is longer than %d characters, which leaves no room for the suffix -readers", o.Namespace, validation.DNS1123LabelMaxLength-len("-readers"))
	}
	o.checkCluster(bad)
	o.checkLocal(bad)
	o.Publish.Check(o.privateNamespace(), bad)
	renewals.Check(o.RenewNamespaces, []string{o.Namespace, o.privateNamespace(), v1alpha1.ReadersNamespace(o.Namespace)}, bad)
	if err := install.CheckHostPort(o.MeshListen, true); err != nil {
		bad("mesh-listen", "%v", err)
	}
	if o.MeshAdvertise != "" {
		if err := install.CheckHostPort(o.MeshAdvertise, false); err != nil {
			bad("mesh-advertise", "%v", err)
		}
	}
	if err := install.CheckMeshService(o.MeshService, o.MeshAdvertise); err != nil {
		bad("mesh-service", "%v", err)
	}
	install.CheckGroup(o.DataDir, o.GroupAddress, o.GroupPeers, bad)
	if o.HTTPListen != "" {
		if err := install.CheckHostPort(o.HTTPListen, true); err != nil {
			bad("http-listen", "%v", err)
		} else if o.HTTPListen == o.MeshListen && !strings.HasSuffix(o.HTTPListen, ":0") {
			bad("http-listen", "%s is the same address as --mesh-listen; give one of them another port", o.HTTPListen)
		}
	}
	if o.Pprof && o.HTTPListen == "" {
		bad("pprof", "needs --http-listen, which is empty")
	}
	if o.APIServerEndpoint != "" {
		if u, err := url.Parse(o.APIServerEndpoint); err != nil || u.Scheme != "https" || u.Host == "" {
			bad("apiserver-endpoint", "%q is not an https:// URL, like https://203.0.113.7:6443", o.APIServerEndpoint)
		}
	}
	if o.NetworkName == "" {
		bad("network-name", "is empty; leave it out to use \"default\"")
	}
	if o.Workers < 1 || o.Workers > 256 {
		bad("workers", "%d is not between 1 and 256", o.Workers)
	}
	if o.Tombstones < 0 {
		bad("tombstones", "%d is below 0; 1000 is the default", o.Tombstones)
	}
	if o.KubeAPIQPS < 0 {
		bad("kube-api-qps", "%d is below 0; 0 means no limit", o.KubeAPIQPS)
	}
	errs = append(errs, o.consent().Check())
	o.checkTrust(bad)
	if o.Log == nil {
		errs = append(errs, errors.New("options: no logger"))
	}
	return errors.Join(errs...)
}

func (o *Options) checkTrust(bad func(flag, format string, args ...any)) {
	if _, err := consent.ParseAccept(o.TrustAccept); err != nil {
		bad("trust-accept", "%v", err)
	}
	if _, err := trust.ParseNames(o.TrustAuthorities); err != nil {
		bad("trust-authorities", "%v", err)
	}
}

// labels are those of ClusterLabels, which Validate has checked.
func (o *Options) labels() map[string]string {
	labels, err := install.ParseLabels(o.ClusterLabels)
	if err != nil {
		return nil
	}
	return labels
}

// checkCluster is about this cluster's Cluster object.
func (o *Options) checkCluster(bad func(flag, format string, args ...any)) {
	if o.ClusterName != "" {
		if msgs := validation.IsDNS1123Subdomain(o.ClusterName); len(msgs) > 0 {
			bad("cluster-name", "%q is not a valid object name: %s", o.ClusterName, msgs[0])
		}
	}
	if _, err := install.ParseLabels(o.ClusterLabels); err != nil {
		bad("cluster-labels", "%v", err)
	}
}

// pace applies --kube-api-qps, if it is set, to the configuration of a client.
func (o *Options) pace(config *rest.Config) {
	if o.KubeAPIQPS > 0 {
		config.QPS, config.Burst = float32(o.KubeAPIQPS), o.KubeAPIQPS
	}
}

func (o *Options) consent() consent.Policy {
	return consent.Policy{
		Namespace: o.Namespace, Kinds: o.ConsentKinds, SecretTypes: o.ConsentSecretTypes, SecretsAs: o.ConsentSecretsAs, Namespaces: o.ConsentNamespaces,
	}
}

// accept is TrustAccept, which Validate has checked.
func (o *Options) accept() consent.Accept {
	accept, _ := consent.ParseAccept(o.TrustAccept) // one that cannot be read is none
	return accept
}

func (o *Options) privateNamespace() string { return v1alpha1.PrivateNamespace(o.Namespace) }
