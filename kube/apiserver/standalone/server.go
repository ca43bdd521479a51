// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/features"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/version"
	aggregator "k8s.io/kube-aggregator/pkg/apiserver"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"

	"github.com/roster-mesh/roster/kube/apiserver/controllers"
	"github.com/roster-mesh/roster/kube/apiserver/controlplane"
	"github.com/roster-mesh/roster/kube/apiserver/datadir"
	"github.com/roster-mesh/roster/kube/apiserver/etcd"
	"github.com/roster-mesh/roster/kube/apiserver/members"
	"github.com/roster-mesh/roster/kube/apiserver/objects"
	"github.com/roster-mesh/roster/kube/apiserver/registry"
	"github.com/roster-mesh/roster/kube/apiserver/waiting"
	"github.com/roster-mesh/roster/kube/pki"
)

const (
	// issuer of ServiceAccount tokens, as in other clusters.
	issuer = "https://kubernetes.default.svc"
	// leadPoll is how often a server looks, in memory, whether it leads.
	leadPoll = 250 * time.Millisecond
	// endWithin is how long watches and connections may go on when the server ends, after requests have been answered. One
	// that is started in its place waits for this one.
	endWithin = 100 * time.Millisecond
)

// KubernetesVersion is that of the API server, such as v1.37.2+roster.
func KubernetesVersion() string { return version.Get().GitVersion }

// process is one run of the server.
type process struct {
	o          Options
	dir        *datadir.Dir
	listener   net.Listener
	store      *etcd.Server // nil with --etcd-servers
	leads      func() bool  // whether this server runs the controllers, if there are several
	address    string       // where this machine reaches the server
	peer       string       // HOST:PORT at which other servers reach this one; empty when it is alone
	encryption string       // EncryptionConfiguration file
	tokens     *tokenGetter // has its client before the server serves
}

// serve runs the API server with its controllers until ctx ends, or etcd does.
func (p *process) serve(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if p.store != nil {
		go func() {
			select {
			case err := <-p.store.Err():
				stop(fmt.Errorf("etcd ended: %w", err))
			case <-ctx.Done():
			}
		}()
	}
	chain, err := p.build() //nolint:contextcheck // what it starts ends after ctx, when all requests have been answered
	if err != nil {
		return p.o.nameFlags(err)
	}
	err = errors.Join(
		chain.GenericAPIServer.AddPostStartHook("roster-roles", p.applyRoles),
		chain.GenericAPIServer.AddPostStartHook("roster-objects", p.applyObjects),
		chain.GenericAPIServer.AddPostStartHook("roster-controllers", p.runControllers),
		chain.GenericAPIServer.AddPostStartHook("roster-certificates", p.renewCertificates),
	)
	if err != nil {
		return err
	}
	chain.GenericAPIServer.ShutdownTimeout = endWithin
	prepared, err := chain.PrepareRun()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(chain.GenericAPIServer.LoopbackClientConfig)
	if err != nil {
		return err
	}
	p.tokens.client = client
	go p.announce(ctx, client.Discovery().RESTClient())
	if p.store != nil && p.peer != "" {
		go members.Promote(ctx, p.store, p.o.Log)
	}
	if err := prepared.Run(ctx); err != nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// build makes the API servers of CRDs, built-in kinds and APIServices, each of which passes on what it does not serve.
func (p *process) build() (*aggregator.APIAggregator, error) {
	// Its Lease is a write every ten seconds, and nobody reads it but the proxy between servers of several versions.
	err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{
		string(features.APIServerIdentity): false, string(features.UnknownVersionInteroperabilityProxy): false,
	})
	if err != nil {
		return nil, err
	}
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	kinds := registry.NewScheme()
	config, err := controlplane.NewConfig(p.options(kinds))
	if err != nil {
		return nil, err
	}
	mapper, err := newKinds(config.Generic.LoopbackClientConfig)
	if err != nil {
		return nil, err
	}
	if err := config.Admit(mapper); err != nil {
		return nil, err
	}
	config.Generic.DisabledPostStartHooks.Insert(upstreamRoles)
	return newChain(config, kinds)
}

// options are upstream's defaults but for what follows. The kinds are those of the registry API.
func (p *process) options(kinds *runtime.Scheme) *controlplane.Options {
	s := controlplane.NewOptions()
	s.SecureServing.Listener = p.listener
	s.SecureServing.ServerCert.CertKey.CertFile = p.dir.PairFile(datadir.Serving)
	s.SecureServing.ServerCert.CertKey.KeyFile = p.dir.PairFile(datadir.Serving)
	s.Run.AdvertiseAddress = net.IPv4(127, 0, 0, 1)
	s.Run.ExternalHost = "localhost"
	s.Run.ShutdownWatchTerminationGracePeriod = endWithin
	s.Features.EnableProfiling = false
	s.Schemes = []*runtime.Scheme{apiextensions.Scheme, aggregatorscheme.Scheme, kinds}
	s.Definitions = definitions
	s.Servers = 3
	if p.store != nil && p.peer == "" {
		s.Servers = 1
	}

	s.ClientCA = p.dir.CAFile()
	s.Issuer = issuer
	s.SigningKey = p.dir.ServiceAccountKeyFile()
	s.TokenFile = p.o.TokenFile
	s.Authentication = p.o.Authentication
	s.Authorization = p.o.Authorization
	p.tokens = &tokenGetter{}
	s.TokenGetter = p.tokens.watching

	s.Etcd.EncryptionProviderConfigFilepath = p.encryption
	s.Etcd.StorageConfig.Transport.ServerList = p.o.EtcdServers
	s.Etcd.StorageConfig.Transport.TrustedCAFile = p.o.EtcdCAFile
	s.Etcd.StorageConfig.Transport.CertFile = p.o.EtcdCertFile
	s.Etcd.StorageConfig.Transport.KeyFile = p.o.EtcdKeyFile
	if p.store != nil {
		s.Etcd.StorageConfig.Transport.ServerList = []string{p.store.Endpoint()}
	}
	return s
}

// runControllers runs the controllers while this server leads, so that of several one does.
func (p *process) runControllers(hook genericapiserver.PostStartHookContext) error {
	root, err := os.ReadFile(p.dir.CAFile())
	if err != nil {
		return err
	}
	o := controllers.Options{Config: hook.LoopbackClientConfig, RootCA: root, SigningKey: p.dir.ServiceAccountKeyFile()}
	go func() {
		for hook.Err() == nil {
			if p.await(hook, true); hook.Err() != nil {
				return
			}
			ctx, stop := context.WithCancel(hook)
			go func() {
				p.await(ctx, false)
				stop()
			}()
			if err := controllers.Run(ctx, o); err != nil && ctx.Err() == nil {
				p.o.Log.Error("the controllers cannot be started", "error", err)
				waiting.Sleep(hook, time.Second)
			}
			stop()
		}
	}()
	return nil
}

// await returns when this server leads, or when it does not, or when ctx ends.
func (p *process) await(ctx context.Context, leads bool) {
	for ctx.Err() == nil && p.leads() != leads {
		waiting.Sleep(ctx, leadPoll)
	}
}

// renewCertificates replaces certificates before they end. The server and the agent read them again from their files.
func (p *process) renewCertificates(hook genericapiserver.PostStartHookContext) error {
	go func() {
		for {
			if waiting.Sleep(hook, 12*time.Hour); hook.Err() != nil {
				return
			}
			written, err := p.renew(time.Now())
			if err != nil {
				p.o.Log.Error("certificates cannot be renewed", "error", err)
			} else if len(written) > 0 {
				p.o.Log.Info("certificates were renewed", "names", written)
			}
		}
	}()
	return nil
}

// renew replaces the certificates that end before long, with the kubeconfigs that have them, and returns their names.
func (p *process) renew(now time.Time) ([]string, error) {
	written, err := p.dir.EnsurePKI(datadir.Names{Hosts: p.o.Advertise, AgentUser: objects.AgentUser}, now)
	if err != nil {
		return nil, err
	}
	if err := p.dir.WriteKubeconfigs(p.address); err != nil { // the administrator's has its certificate in it
		return nil, err
	}
	if len(written) > 0 {
		if err := p.warnOfEnd(now); err != nil {
			return nil, err
		}
	}
	if p.peer != "" {
		made, err := ensurePeerPKI(p.dir, p.peer, now)
		if err != nil {
			return nil, err
		}
		if made {
			written = append(written, datadir.Peer)
		}
	}
	return written, nil
}

// warnOfEnd says when the CA ends, in the year before: it is never replaced, and no certificate outlives it.
func (p *process) warnOfEnd(now time.Time) error {
	ends, err := p.dir.AuthorityEnds()
	if err == nil && ends.Before(now.Add(pki.LeafLife)) {
		p.o.Log.Warn("the CA ends, and with it all certificates that it has signed: begin a server with a new one before", "ends", ends.UTC().Format(time.DateOnly))
	}
	return err
}
