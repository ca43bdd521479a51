// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roster-mesh/roster/kube/apiserver/etcd"
)

var quiet = slog.New(slog.DiscardHandler)

// group is etcd without etcd: what Promote sees, and when it asked for what.
type group struct {
	leads    bool
	learners []etcd.Learner
	behind   map[uint64]bool
	began    time.Time
	asked    []string
}

func (g *group) Leads() bool              { return g.leads }
func (g *group) Learners() []etcd.Learner { return g.learners }

func (g *group) Promote(_ context.Context, id uint64) error {
	g.asked = append(g.asked, fmt.Sprintf("%d after %v", id, time.Since(g.began)))
	if g.behind[id] {
		return errors.New("it is behind")
	}
	for i, learner := range g.learners {
		if learner.ID == id {
			g.learners = append(g.learners[:i:i], g.learners[i+1:]...)
		}
	}
	return nil
}

// promoting runs Promote until the test ends. f changes what it sees between its rounds.
func promoting(t *testing.T, g *group, f func(wait func(time.Duration, ...string))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g.began = time.Now()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			Promote(ctx, g, quiet)
			close(done)
		}()
		time.Sleep(time.Millisecond) // so that what the test changes is between two looks
		f(func(d time.Duration, want ...string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if diff := cmp.Diff(want, g.asked); diff != "" {
				t.Errorf("after %v (-want +got):\n%s", time.Since(g.began), diff)
			}
			g.asked = nil
		})
		stop()
		<-done
	})
}

func TestPromote(t *testing.T) {
	t.Parallel()
	g := &group{leads: true, learners: []etcd.Learner{{ID: 1}}}
	promoting(t, g, func(wait func(time.Duration, ...string)) {
		wait(10*time.Minute, "1 after 0s")
		g.learners = []etcd.Learner{{ID: 2}}
		wait(time.Second, "2 after 10m0.5s")
	})
}

// A learner that is behind is tried less and less often, at least every half minute; another one does not wait for it.
func TestPromoteBacksOff(t *testing.T) {
	t.Parallel()
	g := &group{leads: true, learners: []etcd.Learner{{ID: 1}}, behind: map[uint64]bool{1: true}}
	promoting(t, g, func(wait func(time.Duration, ...string)) {
		wait(20*time.Second, "1 after 0s", "1 after 1s", "1 after 3s", "1 after 7s", "1 after 15s")
		g.learners = append(g.learners, etcd.Learner{ID: 2})
		wait(time.Second, "2 after 20.5s")
		wait(80*time.Second, "1 after 31s", "1 after 1m1s", "1 after 1m31s")
		g.behind = nil
		wait(time.Minute, "1 after 2m1s")
	})
}

// Only the leading member promotes; who leads again begins anew.
func TestPromoteWhileLeading(t *testing.T) {
	t.Parallel()
	g := &group{learners: []etcd.Learner{{ID: 1}}, behind: map[uint64]bool{1: true}}
	promoting(t, g, func(wait func(time.Duration, ...string)) {
		wait(time.Hour)
		g.leads = true
		wait(4*time.Second, "1 after 1h0m0.5s", "1 after 1h0m1.5s", "1 after 1h0m3.5s")
		g.leads = false
		wait(time.Second)
		g.leads, g.behind = true, nil
		wait(time.Second, "1 after 1h0m5.5s")
	})
}

// answers is the network: what each server says, in turn; the last answer stays.
type answers map[string][]string

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	said := a[r.URL.Host]
	if len(said) > 1 {
		a[r.URL.Host] = said[1:]
	}
	var status int
	if len(said) == 0 || said[0] == "" {
		return nil, errors.New("connection refused")
	}
	body := said[0]
	if _, err := fmt.Sscanf(body, "%d ", &status); err != nil {
		return nil, err
	}
	_, body, _ = strings.Cut(body, " ")
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body))}, nil
}

const (
	welcome = `200 {"servers":["a:1","b:1","c:1"]}`
	busy    = `503 {"error":"another server is joining"}`
	refused = `409 {"error":"another server has used it"}`
)

func TestJoiner(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		net   answers
		want  string // part of the error; empty means that it is let in
		after time.Duration
	}{
		"first":         {answers{"a:1": {welcome}}, "", 0},
		"second":        {answers{"b:1": {welcome}}, "", 0},
		"used":          {answers{"a:1": {refused}, "b:1": {welcome}}, "another server has used it", 0},
		"busy for long": {answers{"a:1": {busy}}, ErrExpired.Error(), Life},
		"busy":          {answers{"a:1": {busy, busy, busy, welcome}}, "", 3500 * time.Millisecond},
		"down for long": {answers{}, "no server of the cluster answers: a:1: connection refused; b:1: connection refused", patience},
		"down":          {answers{"a:1": {"", "", welcome}}, "", 1500 * time.Millisecond},
		"down and busy": {answers{"a:1": {busy, "", "", ""}, "b:1": {"", busy}}, ErrExpired.Error(), Life},
		"garbage":       {answers{"a:1": {"200 hello", welcome}}, "", 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := sample()
				b.Servers, b.Expires = []string{"a:1", "b:1"}, time.Now().Add(Life)
				began := time.Now()
				j := &Joiner{Bundle: b, Instance: "i", Client: &http.Client{Transport: c.net}, Log: quiet}
				servers, err := j.Join(t.Context())
				if c.want == "" && (err != nil || len(servers) != 3) || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
					t.Errorf("%v, %v, want %q", servers, err, c.want)
				}
				if took := time.Since(began); took < c.after || took > c.after+2*lastRetry {
					t.Errorf("it took %v, want %v", took, c.after)
				}
			})
		})
	}
}
