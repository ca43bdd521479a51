// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/roster-mesh/roster/kube/apiserver/etcd"
	"github.com/roster-mesh/roster/kube/apiserver/waiting"
)

const (
	// patience is for how long no server need answer. After that a person should look at the network.
	patience = time.Minute
	// firstRetry and lastRetry bound the time between two rounds of asking all servers.
	firstRetry = 500 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// errRefused is an answer that asking again does not change.
var errRefused = errors.New("refused")

// Joiner asks the servers of a bundle to let this one in. All fields are required.
type Joiner struct {
	Bundle   *Bundle
	Instance string // of the data directory
	Client   *http.Client
	Log      *slog.Logger
}

// NewClient makes a client that connects with the certificates of a server.
func NewClient(config *tls.Config) *http.Client {
	return &http.Client{Timeout: requestTimeout + time.Second, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
}

// Join returns the addresses of all servers, this one among them. It asks again while none can say, for the hour of the
// bundle at most, and for patience while none answers.
func (j *Joiner) Join(ctx context.Context) ([]string, error) {
	silent, said, wait := time.Now(), "", firstRetry
	for {
		servers, answered, err := j.askAll(ctx)
		switch {
		case err == nil:
			return servers, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, errRefused):
			return nil, errors.New(strings.TrimPrefix(err.Error(), errRefused.Error()+": "))
		case answered:
			silent = time.Now()
		case time.Since(silent) >= patience:
			return nil, fmt.Errorf("no server of the cluster answers: %w", err)
		}
		if err := j.Bundle.CheckHour(time.Now()); err != nil {
			return nil, err
		}
		if said != err.Error() {
			said = err.Error()
			j.Log.Info("waiting for a server to let this one in", "reason", said)
		}
		if waiting.Sleep(ctx, wait); ctx.Err() != nil {
			return nil, ctx.Err()
		}
		wait = min(2*wait, lastRetry)
	}
}

// askAll asks one server after the other until one lets this one in or refuses it. It says whether any has answered.
func (j *Joiner) askAll(ctx context.Context) (servers []string, answered bool, err error) {
	var reasons []string
	for _, server := range j.Bundle.Servers {
		servers, status, err := j.ask(ctx, server)
		switch {
		case err == nil:
			return servers, true, nil
		case errors.Is(err, errRefused), ctx.Err() != nil:
			return nil, true, err
		}
		answered = answered || status != 0
		reasons = append(reasons, fmt.Sprintf("%s: %v", server, err))
	}
	return nil, answered, errors.New(strings.Join(reasons, "; "))
}

// ask returns status 0 when the server does not answer.
func (j *Joiner) ask(ctx context.Context, server string) (servers []string, status int, err error) {
	body, err := json.Marshal(request{Bundle: j.Bundle.ID, Instance: j.Instance, Peer: j.Bundle.Peer})
	if err != nil {
		return nil, 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, etcd.PeerURL(server)+joinPath, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	got, err := j.Client.Do(r)
	if err != nil {
		return nil, 0, errors.Unwrap(err) // without the address, which the caller says
	}
	defer got.Body.Close()
	var said response
	if err := json.NewDecoder(io.LimitReader(got.Body, maxBundle)).Decode(&said); err != nil {
		return nil, got.StatusCode, fmt.Errorf("status %d: %w", got.StatusCode, err)
	}
	switch got.StatusCode {
	case http.StatusOK:
		return said.Servers, got.StatusCode, nil
	case http.StatusServiceUnavailable:
		return nil, got.StatusCode, errors.New(said.Error)
	default:
		return nil, got.StatusCode, fmt.Errorf("%w: %s", errRefused, said.Error)
	}
}
