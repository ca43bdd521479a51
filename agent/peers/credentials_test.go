// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/apiconn"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// keepFor stores an issued credential of a peer.
func keepFor(t *testing.T, o Options, id string, kubeconfig []byte) {
	t.Helper()
	secret, err := readKept(t.Context(), o.Store, id)
	if err == nil {
		err = keep(t.Context(), o.Store, id, secret, kubeconfig)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A credential that is expired by a clock is still tried while the peer's agent is not reachable: the clock may be
// wrong, and the API server decides. After a refusal it is not tried again.
func TestCredentialIsUsedUntilRefused(t *testing.T) {
	_, o := options(t)
	kept := agenttest.Kubeconfig(t, 0, time.Hour)
	keepFor(t, o, idB, kept)
	for _, off := range agenttest.ClockErrors() {
		o.Now = (&agenttest.WallClock{Off: off}).Now
		p, _ := quiet(o)
		c := &p.newLink(idB).credentials
		got, issued, err := c.find(t.Context(), v1alpha1.NamespacedName{})
		if err != nil || !issued || !bytes.Equal(got, kept) {
			t.Errorf("with a clock that is off by %v: %v, issued %v", off, err, issued)
		}
		for _, refused := range [][]byte{kept, []byte("the pasted one"), kept} {
			c.reject(refused)
		}
		if got, _, err := c.find(t.Context(), v1alpha1.NamespacedName{}); err == nil || !c.isRejected([]byte("the pasted one")) {
			t.Errorf("what was refused is used again: %d bytes", len(got))
		}
	}
}

// A wrong clock of this machine causes no new credentials at the start: the local API server's clock is known before
// that of a peer.
func TestWrongClockRenewsNothingAtStart(t *testing.T) {
	_, o := options(t)
	for _, off := range agenttest.ClockErrors() { // of this machine, so the servers are off by as much the other way
		kept := agenttest.Kubeconfig(t, -off, time.Hour)
		o.Now = (&agenttest.WallClock{Off: off}).Now
		p, _ := quiet(o)
		if left := p.newLink(idB).credentials.clock.RenewIn(kept); left < 30*time.Minute || left > time.Hour {
			t.Errorf("with a clock that is off by %v it is renewed in %v", off, left)
		}
	}
}

// An issued credential is stored even if its Secret was changed or deleted since it was read.
func TestIssuedCredentialIsStoredAfterConflict(t *testing.T) {
	_, o := options(t)
	p, _ := quiet(o)
	kept, err := readKept(t.Context(), o.Store, idB)
	if err != nil {
		t.Fatal(err)
	}
	forget := func() {
		if err := p.ForgetCredential(t.Context(), idB); err != nil {
			t.Fatal(err)
		}
	}
	for i, meanwhile := range []func(){
		func() {},
		func() { keepFor(t, o, idB, []byte("another")) },
		forget,
		func() {
			forget()
			keepFor(t, o, idB, []byte("another"))
		},
	} {
		meanwhile()
		want := fmt.Sprint("ours ", i)
		if err := keep(t.Context(), o.Store, idB, kept, []byte(want)); err != nil {
			t.Errorf("%s: %v", want, err)
		}
		if now, err := readKept(t.Context(), o.Store, idB); err != nil || string(now.Data[v1alpha1.SecretKubeconfigKey]) != want {
			t.Errorf("kept is %s, want %s: %v", now.Data, want, err)
		}
	}
	kept.ResourceVersion = "" // it was not there when it was read
	if err := keep(t.Context(), o.Store, idB, kept, []byte("last")); err != nil {
		t.Error(err)
	}
}

// That no credential was issued yet is known after one look, however often the link tries; what was there is read again.
func TestNoIssuedCredentialIsReadOnce(t *testing.T) {
	api, o := options(t)
	p, _ := quiet(o)
	l := p.newLink(idB)
	find := func(want int) {
		t.Helper()
		before := api.Reads()
		for range 10 {
			if _, _, err := l.credentials.find(t.Context(), v1alpha1.NamespacedName{}); err != nil && accessOf(err) != apiconn.Missing {
				t.Fatal(err)
			}
			l.credentials.failed()
		}
		if n := api.Reads() - before; n != want {
			t.Errorf("%d reads, want %d", n, want)
		}
	}
	find(1)
	if err := keep(t.Context(), o.Store, idB, l.credentials.kept, []byte("issued")); err != nil {
		t.Fatal(err)
	}
	l.credentials.failed()
	find(10)
}

// An issued credential comes before a pasted one. The error says why neither can be used.
func TestOrderOfCredentials(t *testing.T) {
	_, o := options(t)
	pasted, fresh := agenttest.Kubeconfig(t, time.Minute, time.Hour), agenttest.Kubeconfig(t, 0, time.Hour)
	for name, secret := range map[string]*kube.Secret{
		"good":  {Type: v1alpha1.SecretType, Data: map[string][]byte{v1alpha1.SecretKubeconfigKey: pasted}},
		"empty": {Type: v1alpha1.SecretType},
		"typed": {Type: "Opaque", Data: map[string][]byte{v1alpha1.SecretKubeconfigKey: pasted}},
	} {
		secret.ObjectMeta = metav1.ObjectMeta{Name: name, Namespace: "n"}
		if _, err := o.Client.Secrets("n").Create(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
	away := errors.New("it is away")
	for _, c := range []struct {
		pasted string
		issues []byte
		fails  error
		want   []byte
		issued bool
		access apiconn.Access
	}{
		{pasted: "good", want: pasted},
		{pasted: "good", fails: away, want: pasted},
		{pasted: "good", issues: []byte("nonsense"), access: apiconn.Invalid},
		{pasted: "empty", access: apiconn.Invalid},
		{pasted: "typed", access: apiconn.Invalid},
		{pasted: "none", access: apiconn.Missing},
		{access: apiconn.Missing},
		{pasted: "good", issues: fresh, want: fresh, issued: true},
	} {
		o.Ask = func(context.Context, string) ([]byte, error) { return c.issues, c.fails }
		p, _ := quiet(o)
		got, issued, err := p.newLink(idB).credentials.find(t.Context(), v1alpha1.NamespacedName{Namespace: "n", Name: c.pasted})
		if !bytes.Equal(got, c.want) || issued != c.issued || (err != nil) != (c.access != "") || err != nil && accessOf(err) != c.access {
			t.Errorf("with the Secret %q and %d bytes issued: %d bytes, issued %t, %v", c.pasted, len(c.issues), len(got), issued, err)
		}
	}
	if kept, err := readKept(t.Context(), o.Store, idB); err != nil || !bytes.Equal(kept.Data[v1alpha1.SecretKubeconfigKey], fresh) || kept.Type != v1alpha1.SecretType {
		t.Errorf("kept is a Secret of type %s: %v", kept.Type, err)
	}
}
