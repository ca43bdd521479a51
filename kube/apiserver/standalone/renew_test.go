// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/roster-mesh/roster/kube/apiserver/datadir"
	"github.com/roster-mesh/roster/kube/pki"
)

// The administrator's kubeconfig has its certificate in it, and gets the one that replaces it.
func TestAdminKubeconfigIsRenewed(t *testing.T) {
	t.Parallel()
	dir, err := datadir.Open(t.Context(), t.TempDir(), "v1.37.2", "alpha")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	p := &process{o: Options{Log: slog.New(slog.DiscardHandler)}, dir: dir, address: "https://127.0.0.1:6443"}
	if err := p.prepare(); err != nil {
		t.Fatal(err)
	}
	admin := func() []byte {
		config, err := clientcmd.BuildConfigFromFlags("", dir.AdminKubeconfig())
		if err != nil {
			t.Fatal(err)
		}
		on, err := os.ReadFile(dir.PairFile(datadir.Admin))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(config.CertData, on) || !bytes.Equal(config.KeyData, on) {
			t.Error("the kubeconfig has not the certificate of pki/")
		}
		return on
	}
	first := admin()
	if written, err := p.renew(time.Now()); err != nil || len(written) > 0 || !bytes.Equal(admin(), first) {
		t.Errorf("right after the start %v were replaced: %v", written, err)
	}
	written, err := p.renew(time.Now().AddDate(0, 11, 0))
	if err != nil || len(written) != 3 {
		t.Errorf("after eleven months %v were replaced: %v", written, err)
	}
	if bytes.Equal(admin(), first) {
		t.Error("the administrator's certificate is the old one")
	}
}

// The end of the CA is said in the year before it, and not earlier.
func TestEndOfCAIsSaid(t *testing.T) {
	t.Parallel()
	dir, err := datadir.Open(t.Context(), t.TempDir(), "v1.37.2", "alpha")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	var log bytes.Buffer
	p := &process{o: Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, dir: dir, address: "https://127.0.0.1:6443"}
	if err := p.prepare(); err != nil {
		t.Fatal(err)
	}
	ends, err := dir.AuthorityEnds()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at   time.Time
		said bool
	}{{ends.Add(-pki.LeafLife - time.Hour), false}, {ends.Add(-time.Hour), true}} {
		log.Reset()
		if _, err := p.renew(c.at); err != nil {
			t.Fatal(err)
		}
		if said := strings.Contains(log.String(), "level=WARN") && strings.Contains(log.String(), "ends="+ends.UTC().Format(time.DateOnly)); said != c.said {
			t.Errorf("at %s it says %q", c.at, log.String())
		}
	}
}
