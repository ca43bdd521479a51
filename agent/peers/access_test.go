// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/kube"
)

// lastHealth keeps the last error that a watch reported.
type lastHealth struct {
	nobody
	last error
}

func (h *lastHealth) Health(err error) { h.last = err }

// Members read a status, and choose the address that is dialled. So the status does not tell a closed port from one that
// is open or silent; the log does, once for each cause.
func TestStatusScansNoPorts(t *testing.T) {
	server := httptest.NewTLSServer(identity(idB))
	defer server.Close()
	hangsUp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hangsUp.Close()
	go func() {
		for conn, err := hangsUp.Accept(); err == nil; conn, err = hangsUp.Accept() {
			_ = conn.Close()
		}
	}()
	_, o := options(t)
	var logged bytes.Buffer
	o.Log = slog.New(slog.NewTextHandler(&logged, nil))
	p, _ := quiet(o)
	l := p.newLink(idB)
	defer l.disconnect()
	keepFor(t, o, idB, agenttest.KubeconfigOf(t, server, server.URL, 0, time.Hour))
	seen := map[string]bool{}
	for _, at := range []string{"https://127.0.0.1:1", "https://" + hangsUp.Addr().String(), "https://" + hangsUp.Addr().String()} {
		list(t, o, idB, at)
		_, err := l.refresh(t.Context())
		if err == nil {
			t.Fatalf("%s answers", at)
		}
		l.handleError(err)
		seen[p.Peer(idB).State.Message] = true
		watch := &lastHealth{}
		(&healthSink{Sink: watch, connection: &connection{peers: p, id: idB}}).Health(err)
		seen[watch.last.Error()] = true
	}
	if len(seen) != 1 || !seen[cannotBeReached] {
		t.Errorf("a status says %v", seen)
	}
	if got := logged.String(); strings.Count(got, "cannot be reached") != 2 || !strings.Contains(got, "connection refused") || !strings.Contains(got, "it closed the connection") {
		t.Errorf("the log has\n%s", got)
	}
	if err := shown(kube.ErrForbidden); err != kube.ErrForbidden { //nolint:errorlint // the very same error
		t.Errorf("another error is shown as %v", err)
	}
}
