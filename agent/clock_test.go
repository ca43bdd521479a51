// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"crypto/ed25519"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/mesh/meshtest"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules/engine"
)

const year = 365 * 24 * time.Hour

// lies are how far a clock is wrong.
func lies() []time.Duration {
	return []time.Duration{-10 * year, -25 * time.Hour, -time.Hour, 0, time.Hour, 25 * time.Hour, 10 * year}
}

// wall is a clock that is wrong by as much as somebody has set it.
type wall struct{ off time.Duration }

func (w *wall) now() time.Time { return time.Now().Add(w.off).Round(0) }

// saying is an answer of an API server at which the time is that.
func saying(at time.Time) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Date": {at.UTC().Format(http.TimeFormat)}}}
}

// Whatever the clock here says, and however it jumps, a credential is renewed when a fifth of its life is left by the
// clock of the API server that issued it.
func TestRenewalGoesByTheClockOfTheIssuer(t *testing.T) {
	const life = 12 * time.Hour
	for _, off := range lies() {
		synctest.Test(t, func(t *testing.T) {
			here := &wall{off: off}
			clock := issuerClock{wall: here.now}
			fresh := kubeconfig(t, 0, life)
			if in := clock.renewIn(fresh); in > life {
				t.Errorf("with a clock that is off by %v, a credential is kept for %v before its issuer was heard", off, in)
			}
			clock.hear(saying(time.Now()))
			for passed := time.Duration(0); passed < life; passed += time.Hour {
				here.off = lies()[rand.IntN(len(lies()))]
				in := clock.renewIn(fresh) + passed
				if in < life*7/10 || in > life*8/10 {
					t.Fatalf("%v after it was issued and with a clock that is off by %v, a credential is renewed at %v", passed, here.off, in)
				}
				time.Sleep(time.Hour)
			}
		})
	}
}

// An issuer whose answers have no date is known by the tokens that it makes.
func TestClockOfAnIssuerWithoutDates(t *testing.T) {
	for _, off := range lies() {
		var clock issuerClock
		fresh := kubeconfig(t, off, time.Hour)
		clock.hear(&http.Response{Header: http.Header{}})
		clock.issued(fresh)
		clock.hear(&http.Response{Header: http.Header{"Date": {"noon"}}})
		if in := clock.renewIn(fresh); in < 40*time.Minute || in > 50*time.Minute {
			t.Errorf("off by %v it is renewed after %v", off, in)
		}
	}
}

// The API server's clock is set, or this machine stood still for hours: the credential that peers are given is looked
// at again, and that the clocks differ is said once.
func TestAClockThatMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &session{log: slog.New(slog.NewTextHandler(&log, nil))}
		s.chores = newLoop[chore]("chores", s.log, nil)
		defer s.chores.queue.ShutDown()
		here := &wall{}
		s.clock.wall, s.clock.told = here.now, s.clockTold
		fresh := kubeconfig(t, 0, 12*time.Hour)
		s.clock.hear(saying(time.Now()))
		time.Sleep(time.Hour)
		here.off = -10 * year
		for range 3 {
			s.clock.hear(saying(time.Now()))
			time.Sleep(2 * time.Minute)
		}
		if n := s.chores.queue.Len(); n > 0 {
			t.Errorf("%d chores because the clock here was set", n)
		}
		here.off = 0
		s.clock.hear(saying(time.Now()))
		if said := log.String(); strings.Count(said, "timedatectl") != 1 || strings.Count(said, "agree again") != 1 {
			t.Errorf("it was said:\n%s", said)
		}
		time.Sleep(time.Minute)
		s.clock.hear(saying(time.Now().Add(25 * time.Hour)))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if s.chores.queue.Len() != 1 || s.clock.renewIn(fresh) > 0 {
			t.Errorf("a day ahead at once: %d chores, and a credential that is over is renewed in %v", s.chores.queue.Len(), s.clock.renewIn(fresh))
		}
		s.clock.hear(saying(time.Now().Add(-25 * time.Hour)))
		if in := s.clock.renewIn(fresh); in > 0 {
			t.Errorf("a credential that is not valid yet is renewed in %v", in)
		}
	})
}

// A credential that should be over by a clock is tried nevertheless where its issuer's agent is away: the clock may lie,
// and the API server knows. What that refuses is not tried again.
func TestACredentialIsUsedUntilItIsRefused(t *testing.T) {
	s, _ := grouped(t)
	var err error
	s.mesh, err = mesh.New(mesh.Options{
		Identity: mesh.Identity{ClusterID: idA, PrivateKey: s.key}, Trust: s.trust, State: s.replica,
		Network: meshtest.NewNetwork(0).Host(idA), Listen: ":1", Origin: replica.Origin, Endpoints: func(string) []string { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.mesh.Close() })
	kept := kubeconfig(t, 0, time.Hour)
	if err := keep(t, s, idB, kept); err != nil {
		t.Fatal(err)
	}
	for _, off := range lies() {
		link := &peerLink{session: s, id: idB, clock: issuerClock{wall: (&wall{off: off}).now}}
		got, issued, err := link.credential(t.Context(), linkInputs{})
		if err != nil || !issued || !bytes.Equal(got, kept) {
			t.Errorf("with a clock that is off by %v: %v, issued %v", off, err, issued)
		}
		for _, refused := range [][]byte{kept, []byte("the swapped one"), kept} {
			link.reject(refused)
		}
		if got, _, err := link.credential(t.Context(), linkInputs{}); err == nil || !link.isRejected([]byte("the swapped one")) {
			t.Errorf("what was refused is used again: %d bytes", len(got))
		}
	}
}

// keep records a credential that a peer issued.
func keep(t *testing.T, s *session, id string, kubeconfig []byte) error {
	t.Helper()
	secret, err := s.private.credential(t.Context(), id)
	if err != nil {
		return err
	}
	return s.private.recordCredential(t.Context(), secret, kubeconfig)
}

// A start of the agent asks for no new credentials because the clock of its machine is wrong: the API server here was
// heard before the one of the peer.
func TestAWrongClockMakesNoCredentialsAtAStart(t *testing.T) {
	s, _ := grouped(t)
	for _, off := range lies() { // of this machine, so the servers are off by as much the other way
		kept := kubeconfig(t, -off, time.Hour)
		s.clock = issuerClock{}
		s.clock.hear(saying(time.Now().Add(off)))
		if left := newPeerLink(s, idB).clock.renewIn(kept); left < 30*time.Minute || left > time.Hour {
			t.Errorf("with a clock that is off by %v it is renewed in %v", off, left)
		}
	}
}

// What is written into the API server is dated by its clock.
func TestDatesAreThoseOfTheServer(t *testing.T) {
	s, _ := grouped(t)
	there := time.Now().Add(-10 * year).Truncate(time.Second)
	s.clock.hear(saying(there))
	own := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	near := func(what string, at time.Time) {
		t.Helper()
		if at.Sub(there).Abs() > time.Hour {
			t.Errorf("%s is dated %v, and the API server says %v", what, at, there)
		}
	}
	v := view{now: time.Now(), date: s.clock.now(), local: true}
	status, _ := clusterStatus(v, own.Status, 1)
	for _, c := range status.Conditions {
		near(c.Type, c.LastTransitionTime.Time)
	}
	var rule v1alpha1.ResourceSyncRuleStatus
	takeReport(&rule, engine.RuleReport{Conditions: []metav1.Condition{{Type: engine.ConditionReady, Status: metav1.ConditionTrue}}}, metav1.NewTime(s.clock.now()))
	near("a rule's condition", rule.Conditions[0].LastTransitionTime.Time)
	key := keyFor(idB).Public().(ed25519.PublicKey)
	removal, err := s.replica.SignRemoval(idB, key, "b", "a", s.clock.now().Unix())
	if err != nil {
		t.Fatal(err)
	}
	near("a removal", time.Unix(removal.Time, 0))
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
