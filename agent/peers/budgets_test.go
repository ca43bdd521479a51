// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/apiconn"
	"github.com/roster-mesh/roster/replica/shares"
)

// TestInventionsHaveFewReached: a member has invented 4,096 clusters, each of which issues a credential and names an API server of
// somebody else. Few are asked, and few are reached for, and a newcomer of another member is connected with at once beside them.
func TestInventionsHaveFewReached(t *testing.T) {
	inventions := 4096
	if testing.Short() { // with the race detector that many take a minute
		inventions = 1024
	}
	var reached, asked atomic.Int32
	victim := httptest.NewUnstartedServer(http.NotFoundHandler())
	victim.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			reached.Add(1)
		}
	}
	victim.StartTLS()
	defer victim.Close()
	server := httptest.NewTLSServer(identity(idB))
	defer server.Close()

	_, o := options(t)
	of := map[bool][]byte{true: agenttest.KubeconfigOf(t, victim, victim.URL, 0, time.Hour), false: agenttest.KubeconfigOf(t, server, server.URL, 0, time.Hour)}
	invented := func(id string) bool { return strings.HasPrefix(id, "invented-") }
	o.Ask = func(_ context.Context, id string) ([]byte, error) {
		asked.Add(1)
		return of[invented(id)], nil
	}
	o.Share = func(total int, wants map[string]int) map[string]int {
		return shares.Of(total, idA, func(id string) string { return map[bool]string{true: "m", false: idA}[invented(id)] }, wants)
	}
	p, _ := quiet(o)
	began, links := time.Now(), []*link{}
	for i := range inventions {
		id := fmt.Sprint("invented-", i)
		list(t, o, id, victim.URL)
		links = append(links, p.newLink(id))
	}
	list(t, o, idB, server.URL)
	for range 2 {
		for _, l := range links {
			if _, err := l.refresh(t.Context()); err != nil {
				l.handleError(err)
			}
		}
		p.Changed(idB)
		honest := p.newLink(idB)
		_, err := honest.refresh(t.Context())
		for range 2 { // it asks for a credential, and then makes an attempt
			if p.Peer(idB).State.Access != apiconn.Ready {
				time.Sleep(budgetPeriod / 4) // it was not heard of when that reserve was divided last, which then rests for no longer than that
				_, err = honest.refresh(t.Context())
			}
		}
		if err != nil || p.Peer(idB).State.Access != apiconn.Ready {
			t.Errorf("a newcomer is %+v: %v", p.Peer(idB).State, err)
		}
		honest.disconnect()
	}
	periods := 2 + int32(time.Since(began)/budgetPeriod)
	if n := asked.Load(); n > periods*maxAsked*3/2 || n < maxAsked {
		t.Errorf("%d are asked in %s", n, time.Since(began))
	}
	if n := reached.Load(); n > periods*maxAttempts*3/2 || n < maxAsked {
		t.Errorf("an API server was reached for %d times in %s", n, time.Since(began))
	}
	t.Logf("%d were asked, and %d reached for, in %s", asked.Load(), reached.Load(), time.Since(began))
}
