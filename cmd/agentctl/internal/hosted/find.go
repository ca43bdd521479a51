// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package hosted

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/hosted/objects"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rights"
	"github.com/roster-mesh/roster/kube/pki"
)

// found is what of a registry is there already; nil for what is not.
type found struct {
	namespace, secret, service, server *unstructured.Unstructured
}

// hosts are those that the certificate of the server that is there is for.
func (f found) hosts() []string {
	if f.server == nil {
		return nil
	}
	return objects.HostsOf(f.server)
}

// find reads what is there, and refuses what init has not made.
func (p *Place) find(ctx context.Context, host *clusters.Client) (found, error) {
	var f found
	for _, part := range []struct {
		gvr  schema.GroupVersionResource
		name string
		to   **unstructured.Unstructured
	}{
		{objects.Namespaces(), p.Namespace, &f.namespace},
		{objects.Secrets(), p.SecretName(), &f.secret},
		{objects.Services(), p.Name, &f.service},
		{objects.StatefulSets(), p.Name, &f.server},
	} {
		u, err := p.resource(host, part.gvr).Get(ctx, part.name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return found{}, host.Errorf("%s", clusters.Reason(err))
		case u.GetDeletionTimestamp() != nil:
			return found{}, host.Errorf("%s %s is being deleted: try again when it is gone", u.GetKind(), part.name)
		case p.Mine(u):
		case part.to != &f.namespace:
			return found{}, host.Errorf("%s %s/%s is there, and init has not made it: choose another NAME, or another --host-namespace", u.GetKind(), p.Namespace, part.name)
		case !p.Named:
			return found{}, host.Errorf("namespace %s is there, and init has not made it: name it with --host-namespace to use it, or choose another NAME", part.name)
		}
		*part.to = u
	}
	return f, nil
}

// resource are the objects of a kind that a registry may have.
func (p *Place) resource(host *clusters.Client, gvr schema.GroupVersionResource) dynamic.ResourceInterface {
	if gvr == objects.Namespaces() {
		return host.Dynamic.Resource(gvr)
	}
	return host.Dynamic.Resource(gvr).Namespace(p.Namespace)
}

// authorityOf reads the CA in its Secret.
func authorityOf(secret *unstructured.Unstructured) (pki.Pair, error) {
	var data []byte
	for _, key := range []string{"tls.crt", "tls.key"} {
		text, _, _ := unstructured.NestedString(secret.Object, "data", key)
		part, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return pki.Pair{}, pki.ErrNotPair
		}
		data = append(append(data, part...), '\n')
	}
	ca, err := pki.Parse(data)
	if err != nil {
		return pki.Pair{}, err
	}
	return ca, ca.CheckAuthority(time.Now())
}

// checkRights returns an error that names all that are missing, before anything is written.
func checkRights(ctx context.Context, host *clusters.Client, needed []rights.Right) error {
	lacks, err := rights.Missing(ctx, host, needed)
	if err != nil {
		return host.Errorf("ask for rights: %s", clusters.Reason(err))
	}
	if len(lacks) > 0 {
		return fmt.Errorf("--host-cluster-context: in context %s you may not %s; nothing was changed", host.Context, strings.Join(lacks, ", "))
	}
	return nil
}
