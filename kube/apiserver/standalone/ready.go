// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/crdversion"
	"github.com/roster-mesh/roster/kube/apiserver/datadir"
	"github.com/roster-mesh/roster/kube/apiserver/objects"
	"github.com/roster-mesh/roster/kube/apiserver/waiting"
)

const (
	// objectsPoll is how long a start waits before it tries again to write its own objects, and slowPoll the same later on,
	// when it does not wait for this process any more.
	objectsPoll = 20 * time.Millisecond
	slowPoll    = 5 * time.Second
	// patience is how long a start waits for what users can prevent: with a webhook that refuses, an authorizer that does not know
	// the agent, or a change of the policies that the server brings with it.
	patience = 30 * time.Second
)

// applyObjects is done once the cluster has what the chart would bring, the agent has its rights and the policies are in
// force. The server is not ready before. But once all objects are there, whatever is in them, its patience ends: then it
// serves, and goes on trying.
func (p *process) applyObjects(hook genericapiserver.PostStartHookContext) error {
	client, err := dynamic.NewForConfig(hook.LoopbackClientConfig)
	if err != nil {
		return err
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(hook.LoopbackClientConfig)
	if err != nil {
		return err
	}
	as := rest.CopyConfig(hook.LoopbackClientConfig)
	as.Impersonate.UserName = objects.AgentUser
	as.Impersonate.Groups = []string{datadir.AgentGroup, user.AllAuthenticated} // those of its certificate, and no more
	agent, err := kube.NewClient(as)
	if err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer agent.Close()
		p.retry(hook, func(ctx context.Context) error {
			err := objects.Apply(ctx, client, kinds)
			if errors.Is(err, crdversion.ErrSkipped) {
				p.o.Log.Warn("the CRDs of this cluster stay as they are", "error", err)
				return nil
			}
			if errors.Is(err, objects.ErrNewer) {
				p.o.Log.Info("the objects that this server brings with it stay as they are", "reason", err)
				return nil
			}
			return err
		})
		p.retry(hook, func(ctx context.Context) error {
			missing, err := agent.MissingRights(ctx, kube.AgentRights(objects.Namespace))
			if err == nil && len(missing) > 0 {
				err = fmt.Errorf("the agent may not %s", strings.Join(missing, ", "))
			}
			return err
		})
		p.retry(hook, func(ctx context.Context) error {
			if !objects.Enforced(ctx, kinds.RESTClient()) {
				return errors.New("the policy that warns of powerful rules does not warn")
			}
			return nil
		})
	}()
	for wait := patience; ; wait = slowPoll {
		select {
		case <-done:
			return nil
		case <-time.After(wait):
		}
		if objects.Present(hook, client) {
			p.o.Log.Warn("serving, although something that this server brings with it is not as it should be; it goes on trying")
			return nil
		}
	}
}

// applyRoles is done once the cluster has the default roles of Kubernetes.
func (p *process) applyRoles(hook genericapiserver.PostStartHookContext) error {
	client, err := kubernetes.NewForConfig(hook.LoopbackClientConfig)
	if err != nil {
		return err
	}
	p.retry(hook, func(ctx context.Context) error { return ensureRoles(ctx, client) })
	return nil
}

// retry calls act until it succeeds or ctx ends. When that takes long it says why: it may be somebody's webhook.
func (p *process) retry(ctx context.Context, act func(context.Context) error) {
	began, pause := time.Now(), objectsPoll
	for last := ""; ; waiting.Sleep(ctx, pause) {
		err := act(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		if time.Since(began) < waiting.Slow {
			continue
		}
		pause = min(2*pause, slowPoll)
		if err.Error() != last {
			last = err.Error()
			p.o.Log.Info("waiting for what this server brings with it", "error", err)
		}
	}
}

// announce says once that the server is ready, and what it waits for when that takes long.
func (p *process) announce(ctx context.Context, client rest.Interface) {
	began, said := time.Now(), false
	for {
		_, err := client.Get().AbsPath("/readyz").DoRaw(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			p.o.Log.Info("serving", "address", p.address, "version", KubernetesVersion(), "after", time.Since(began).Round(time.Millisecond))
			if p.o.Ready != nil {
				p.o.Ready()
			}
			return
		}
		if !said && time.Since(began) > waiting.Slow {
			said = true
			p.o.Log.Info("waiting for the API server to be ready", "address", p.address)
		}
		waiting.Sleep(ctx, 20*time.Millisecond)
	}
}
