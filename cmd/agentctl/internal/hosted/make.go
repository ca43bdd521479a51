// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package hosted

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/hosted/objects"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rights"
	"github.com/roster-mesh/roster/kube/pki"
)

// making is one run of init.
type making struct {
	*InitOptions

	host     *clusters.Client
	there    found
	ca       pki.Pair
	progress cli.Progress
	deadline time.Time
	made     []madeObject
}

// madeObject is an object of a registry, and whether this run made it.
type madeObject struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Result string `json:"result"` // created or unchanged
}

// result is what a program reads of a run. Its JSON is stable: fields are only ever added.
type result struct {
	Registry   string       `json:"registry"`
	Address    string       `json:"address"`
	Context    string       `json:"context"`
	Kubeconfig string       `json:"kubeconfig"`
	Namespace  string       `json:"namespace"`
	Objects    []madeObject `json:"objects"`
}

// Run makes what is missing, and waits until the registry answers.
func (o *InitOptions) Run(ctx context.Context, out *cli.Output) error {
	host, err := o.open()
	if err != nil {
		return err
	}
	m := &making{InitOptions: o, host: host, progress: out.Progress(), deadline: time.Now().Add(o.Timeout)}
	if err := m.prepare(ctx); err != nil {
		return err
	}
	if o.DryRun {
		return m.show(ctx, out)
	}
	done, err := m.make(ctx)
	late := &cli.TimeoutError{}
	switch {
	case errors.As(err, &late), errors.Is(err, errMoved):
		return err
	case err != nil && len(m.made) > 0:
		return fmt.Errorf("%w; the same command again goes on from here, and agentctl delete %s takes back what is there", err, o.Name)
	case err != nil:
		return err
	case !out.ForPeople():
		return out.Document(done)
	}
	fmt.Fprintf(out.Stdout, `Registry %[1]s is at %[2]s. Its clusters:

  kubectl get clusters.clusterregistry.k8s.io --context %[1]s

Plain "clusters" means the stored form, clusters.clusterregistry.k8s.cisco.com.
`, done.Context, done.Address)
	return nil
}

// prepare reads what is there, and refuses what cannot be done, before anything is written.
func (m *making) prepare(ctx context.Context) (err error) {
	if m.there, err = m.find(ctx, m.host); err != nil {
		return err
	}
	for _, u := range []*unstructured.Unstructured{m.there.service, m.there.server} {
		if u == nil {
			continue
		}
		begun, err := objects.SettingsOf(u)
		if err == nil {
			m.Settings, err = over(m.Settings, begun, m.Name, m.given)
		}
		if err != nil {
			return m.host.Errorf("%w", err)
		}
	}
	var known []byte
	switch {
	case m.there.secret != nil:
		if m.ca, err = authorityOf(m.there.secret); err != nil {
			return m.host.Errorf("Secret %s/%s is no CA: %w", m.Namespace, m.SecretName(), err)
		}
		known = m.ca.CertPEM()
	case m.there.server != nil:
		return m.host.Errorf("Secret %s/%s with the CA is missing, and the server has its certificate: restore it, or run agentctl delete %s --delete-data", m.Namespace, m.SecretName(), m.Name)
	}
	if _, _, err := m.contexts(m.Out).load(m.Name, known); errors.Is(err, errTaken) {
		return fmt.Errorf("%w: choose another NAME, or write a file of its own with --kubeconfig-out; if it is of a registry that is gone, %s", err, m.wayOut())
	} else if err != nil {
		return err
	}
	return checkRights(ctx, m.host, m.needed())
}

// needed are the rights for what is missing.
func (m *making) needed() []rights.Right {
	var needed []rights.Right
	if m.there.namespace == nil {
		needed = append(needed, rights.Right{Verb: "create", Resource: "namespaces"})
	}
	if m.there.secret == nil {
		needed = append(needed, rights.Right{Verb: "create", Resource: "secrets", Namespace: m.Namespace})
	}
	if m.there.service == nil {
		needed = append(needed, rights.Right{Verb: "create", Resource: "services", Namespace: m.Namespace})
	}
	if m.there.server == nil {
		needed = append(needed, rights.Right{Verb: "create", Group: "apps", Resource: "statefulsets", Namespace: m.Namespace})
	}
	if m.ServiceType == nodePort && m.Advertise == "" {
		needed = append(needed, rights.Right{Verb: "list", Resource: "nodes"})
	}
	return needed
}

func (m *making) make(ctx context.Context) (*result, error) {
	if _, err := m.ensure(ctx, objects.Namespaces(), m.there.namespace, m.NamespaceObject()); err != nil {
		return nil, err
	}
	if err := m.ensureAuthority(ctx); err != nil {
		return nil, err
	}
	service, err := m.ensure(ctx, objects.Services(), m.there.service, m.Service(m.Settings))
	if err != nil {
		return nil, err
	}
	at, err := m.awaitEndpoint(ctx, service)
	if err != nil {
		return nil, err
	}
	if err := m.checkHost(at); err != nil {
		return nil, err
	}
	if _, err := m.ensure(ctx, objects.StatefulSets(), m.there.server, m.Server(m.Settings, at)); err != nil {
		return nil, err
	}
	admin, err := administrator(m.ca)
	if err != nil {
		return nil, err
	}
	file, err := m.contexts(m.Out).write(m.Name, at.URL(), m.ca.CertPEM(), admin)
	if err != nil {
		return nil, err
	}
	m.progress("wrote context %s to %s", m.Name, file)
	access, err := access(at.URL(), m.ca.CertPEM(), admin)
	if err != nil {
		return nil, err
	}
	if err := m.awaitAnswer(ctx, access); err != nil {
		return nil, err
	}
	return &result{Registry: m.Name, Address: at.URL(), Context: m.Name, Kubeconfig: file, Namespace: m.Namespace, Objects: m.made}, nil
}

// errMoved is returned when a registry is at another address than its certificate is for.
var errMoved = errors.New("the registry is at another address than its certificate is for")

// checkHost returns errMoved where a context with this address would not work, and the one that is there may.
func (m *making) checkHost(at objects.Address) error {
	if m.there.server == nil || at.Host == "" || slices.Contains(m.there.hosts(), at.Host) {
		return nil
	}
	return m.host.Errorf("%w: it is at %s, and StatefulSet %s/%s does not name that with --advertise; the context is left as it is. Run `agentctl delete %s`, which keeps the data, and then init again", errMoved, at.Host, m.Namespace, m.Name, m.Name)
}

// ensureAuthority makes the CA, unless there is one.
func (m *making) ensureAuthority(ctx context.Context) error {
	if m.there.secret == nil {
		made, err := pki.New(pki.Authority(pki.AuthorityName), nil, time.Now(), pki.AuthorityLife)
		if err != nil {
			return err
		}
		m.ca = made
	}
	wanted, err := m.Authority(&m.ca)
	if err != nil {
		return err
	}
	kept, err := m.ensure(ctx, objects.Secrets(), m.there.secret, wanted)
	if err != nil {
		return err
	}
	m.ca, err = authorityOf(kept) // somebody else's, if init runs twice at the same time
	return err
}

// ensure creates an object that is not there.
func (m *making) ensure(ctx context.Context, gvr schema.GroupVersionResource, there, wanted *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	client, verb := m.resource(m.host, gvr), "unchanged"
	if there == nil {
		created, err := client.Create(ctx, wanted, metav1.CreateOptions{FieldManager: clusters.FieldManager})
		verb = "created"
		if apierrors.IsAlreadyExists(err) {
			verb = "unchanged"
			if created, err = client.Get(ctx, wanted.GetName(), metav1.GetOptions{}); err == nil && !m.Mine(created) {
				err = errors.New("somebody else has made it meanwhile")
			}
		}
		if err != nil {
			return nil, m.host.Errorf("create %s %s: %s", wanted.GetKind(), wanted.GetName(), clusters.Reason(err))
		}
		there = created
	}
	m.made = append(m.made, madeObject{wanted.GetKind(), wanted.GetName(), verb})
	m.progress("%s %s %s", verb, wanted.GetKind(), wanted.GetName())
	return there, nil
}

// show prints what would be made.
func (m *making) show(ctx context.Context, out *cli.Output) error {
	secret, err := m.Authority(nil)
	if err != nil {
		return err
	}
	service := m.there.service
	if service == nil {
		service = m.Service(m.Settings)
	}
	at, _, err := m.address(ctx, m.host, service, m.there.hosts())
	if err != nil {
		return m.host.Errorf("%s", clusters.Reason(err))
	}
	if err := m.checkHost(at); err != nil {
		return err
	}
	items := []any{m.NamespaceObject().Object, secret.Object, m.Service(m.Settings).Object, m.Server(m.Settings, at).Object}
	there := []bool{m.there.namespace != nil, m.there.secret != nil, m.there.service != nil, m.there.server != nil}
	if !out.ForPeople() {
		fmt.Fprintf(out.Stderr, "Secret %s is printed without its content: each init makes a CA of its own\n", m.SecretName())
		if at.Host == "" {
			fmt.Fprintln(out.Stderr, "the StatefulSet is printed without the address of the Service, which is known when that is there")
		}
		return out.Document(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	}
	for i, item := range items {
		object, _ := item.(map[string]any) // it was made above
		u := &unstructured.Unstructured{Object: object}
		verb := "would create"
		if there[i] {
			verb = "would leave as it is:"
		}
		fmt.Fprintf(out.Stdout, "%s %s %s\n", verb, u.GetKind(), u.GetName())
	}
	fmt.Fprintf(out.Stdout, "would write context %s to %s\n", m.Name, m.contexts(m.Out).GetDefaultFilename())
	return nil
}
