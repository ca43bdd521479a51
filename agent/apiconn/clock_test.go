// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package apiconn

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roster-mesh/roster/agent/agenttest"
)

// Whatever the clock here says, and however it jumps, a credential is renewed when a fifth of its life is left by the
// clock of the API server that issued it.
func TestRenewalGoesByTheClockOfTheIssuer(t *testing.T) {
	const life = 12 * time.Hour
	for _, off := range agenttest.ClockErrors() {
		synctest.Test(t, func(t *testing.T) {
			here := &agenttest.WallClock{Off: off}
			clock := Clock{Fallback: here.Now}
			fresh := agenttest.Kubeconfig(t, 0, life)
			if in := clock.RenewIn(fresh); in > life {
				t.Errorf("with a clock that is off by %v, a credential is kept for %v before its issuer was heard", off, in)
			}
			clock.observe(agenttest.AnswerAt(time.Now()))
			for passed := time.Duration(0); passed < life; passed += time.Hour {
				here.Off = agenttest.ClockErrors()[int(passed/time.Hour)%len(agenttest.ClockErrors())]
				in := clock.RenewIn(fresh) + passed
				if in < life*7/10 || in > life*8/10 {
					t.Fatalf("%v after it was issued and with a clock that is off by %v, a credential is renewed at %v", passed, here.Off, in)
				}
				time.Sleep(time.Hour)
			}
		})
	}
}

// An issuer whose answers have no date is known by the tokens that it makes.
func TestClockOfAnIssuerWithoutDates(t *testing.T) {
	for _, off := range agenttest.ClockErrors() {
		var clock Clock
		fresh := agenttest.Kubeconfig(t, off, time.Hour)
		clock.observe(&http.Response{Header: http.Header{}})
		clock.Issued(fresh)
		clock.observe(&http.Response{Header: http.Header{"Date": {"noon"}}})
		if in := clock.RenewIn(fresh); in < 40*time.Minute || in > 50*time.Minute {
			t.Errorf("off by %v it is renewed after %v", off, in)
		}
	}
}

// An API server may grant less than was asked for: renewal goes by what was granted, or a short life would be
// renewed without end.
func TestRenewalGoesByTheLifeThatWasGranted(t *testing.T) {
	var clock Clock
	for _, life := range []time.Duration{10 * time.Minute, 12 * time.Hour} {
		fresh := clock.RenewIn(agenttest.Kubeconfig(t, 0, life))
		if fresh < life*7/10 || fresh > life*8/10 {
			t.Errorf("a life of %v is renewed after %v, want 75 to 80 %% of it", life, fresh)
		}
		if late := clock.RenewIn(agenttest.Kubeconfig(t, life*9/10, life)); late > 0 {
			t.Errorf("a life of %v that is nearly over is renewed only after %v", life, late)
		}
	}
	if clock.RenewIn(nil) != UntilWoken {
		t.Error("a credential without a life is used until it is refused")
	}
}

// The API server's clock is set, or this machine stood still for hours: who keeps credentials is told, and
// that the clocks differ is said once.
func TestAClockThatMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		moves := 0
		here := &agenttest.WallClock{}
		clock := Clock{Fallback: here.Now}
		LogSkew(&clock, slog.New(slog.NewTextHandler(&log, nil))).Watch(func() { moves++ })
		fresh := agenttest.Kubeconfig(t, 0, 12*time.Hour)
		clock.observe(agenttest.AnswerAt(time.Now()))
		time.Sleep(time.Hour)
		here.Off = -10 * agenttest.Year
		for range 3 {
			clock.observe(agenttest.AnswerAt(time.Now()))
			time.Sleep(2 * time.Minute)
		}
		if moves > 0 {
			t.Errorf("it moved %d times because the clock here was set", moves)
		}
		here.Off = 0
		clock.observe(agenttest.AnswerAt(time.Now()))
		if said := log.String(); strings.Count(said, "timedatectl") != 1 || strings.Count(said, "agree again") != 1 {
			t.Errorf("it was said:\n%s", said)
		}
		time.Sleep(time.Minute)
		clock.observe(agenttest.AnswerAt(time.Now().Add(25 * time.Hour)))
		if moves != 1 || clock.RenewIn(fresh) > 0 || !clock.Expired(fresh) {
			t.Errorf("a day ahead at once: it moved %d times, and a credential that is over is renewed in %v", moves, clock.RenewIn(fresh))
		}
		time.Sleep(2 * time.Minute)
		clock.observe(agenttest.AnswerAt(time.Now().Add(-25 * time.Hour)))
		if in := clock.RenewIn(fresh); in > 0 {
			t.Errorf("a credential that is not valid yet is renewed in %v", in)
		}
		if moves != 2 {
			t.Errorf("it moved %d times", moves)
		}
	})
}

// A start of the agent asks for no new credentials because the clock of its machine is wrong: the API server here was
// heard before the one of the peer.
func TestAWrongClockMakesNoCredentialsAtAStart(t *testing.T) {
	for _, off := range agenttest.ClockErrors() { // of this machine, so the servers are off by as much the other way
		kept := agenttest.Kubeconfig(t, -off, time.Hour)
		var local Clock
		local.observe(agenttest.AnswerAt(time.Now().Add(off)))
		peer := Clock{Fallback: local.Now}
		if left := peer.RenewIn(kept); left < 30*time.Minute || left > time.Hour {
			t.Errorf("with a clock that is off by %v it is renewed in %v", off, left)
		}
	}
}

// What an API server passes on to another one says nothing of its own clock.
func TestTimeIsTheAPIServersOwn(t *testing.T) {
	for path, want := range map[string]bool{
		"/api/v1/secrets":                      true,
		"/k8s/clusters/c/api/v1/nodes":         true,
		"/apis/metrics.k8s.io/v1beta1/nodes":   false,
		"/apis/g/v1/namespaces/api/things/api": false,
		"/version":                             false,
	} {
		if r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://host"+path, nil); err != nil || isOwn(r) != want {
			t.Errorf("%s: %v, want %v (%v)", path, !want, want, err)
		}
	}
}

// A date that no object can have is not what time it is anywhere.
func TestAnswersWithoutAnHonestDate(t *testing.T) {
	var clock Clock
	clock.observe(agenttest.AnswerAt(time.Date(latestYear+1, 1, 1, 0, 0, 0, 0, time.UTC)))
	if off := time.Until(clock.Now()).Abs(); off > time.Minute {
		t.Errorf("it is off by %v", off)
	}
}
