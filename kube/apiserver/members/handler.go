// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/roster-mesh/roster/kube/apiserver/etcd"
)

// joinPath is where a server is asked to let another one in. Who asks has a certificate of the servers' CA.
const joinPath = etcd.PathPrefix + "join"

// maxRequest bounds what a server asks with.
const maxRequest = 4096

// request asks to be let in.
type request struct {
	Bundle   string `json:"bundle"`
	Instance string `json:"instance"`
	Peer     string `json:"peer"` // HOST:PORT of the server that asks
}

// response has the addresses of all servers with status 200, and the reason otherwise.
type response struct {
	Servers []string `json:"servers,omitempty"`
	Error   string   `json:"error,omitempty"`
}

// errStarted is returned for a directory that has lost what etcd kept in it. etcd must not begin anew as the same member:
// it would have forgotten what it has promised.
var errStarted = errors.New("this server has started before, and its data are gone: run roster-apiserver remove-member and add, and start in an empty directory")

// Handler lets servers in that come with a bundle. Any server can be asked.
func Handler(client *clientv3.Client, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+joinPath, func(w http.ResponseWriter, r *http.Request) {
		var asked request
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&asked)
		if err != nil || asked.Bundle == "" || asked.Instance == "" || etcd.CheckAddress(asked.Peer) != nil {
			reply(w, http.StatusBadRequest, response{Error: "this is no request of a server"})
			return
		}
		// The connection's read timeout cancels the context of the request.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), requestTimeout)
		defer cancel()
		servers, err := letIn(ctx, client, asked, time.Now())
		switch {
		case err == nil:
			log.Info("a server was let in, and gets the data now", "peer", asked.Peer)
			reply(w, http.StatusOK, response{Servers: servers})
		case errors.Is(err, ErrUsed), errors.Is(err, errStarted):
			reply(w, http.StatusConflict, response{Error: err.Error()})
		case errors.Is(err, ErrExpired), errors.Is(err, ErrReplaced):
			reply(w, http.StatusGone, response{Error: err.Error()})
		default:
			reply(w, http.StatusServiceUnavailable, response{Error: err.Error()})
		}
	})
	return mux
}

func reply(w http.ResponseWriter, status int, r response) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(r) // the other side asks again
}

// letIn returns the addresses of all servers, the one that asks among them. Errors but those of the bundle pass.
func letIn(ctx context.Context, client *clientv3.Client, asked request, now time.Time) ([]string, error) {
	t, revision, err := readTicket(ctx, client, asked.Peer)
	if err != nil {
		return nil, plain(err)
	}
	admitted, err := t.admit(asked.Bundle, asked.Instance, now)
	if err != nil {
		return nil, err
	}
	if admitted != t {
		written, err := writeTicket(ctx, client, asked.Peer, admitted, revision, clientv3.WithIgnoreLease())
		if err == nil && !written {
			err = errRaced
		}
		if err != nil {
			return nil, plain(err)
		}
	}
	added, mine, err := ensureLearner(ctx, client, asked.Peer)
	if err != nil {
		return nil, err
	}
	// Remove deletes the ticket before it looks at the members: either it finds this one, or the ticket is gone here.
	t, _, err = readTicket(ctx, client, asked.Peer)
	if err != nil {
		return nil, plain(err)
	}
	if t.Bundle != admitted.Bundle || t.Instance != admitted.Instance {
		if !mine {
			return nil, ErrReplaced // that of another request, which looks at its ticket itself
		}
		if _, err := client.MemberRemove(ctx, added); err != nil && !errors.Is(err, rpctypes.ErrMemberNotFound) {
			return nil, plain(err)
		}
		return nil, ErrReplaced
	}
	return addresses(ctx, client)
}

// ensureLearner adds a member, unless an earlier request has, and returns its ID, and whether this request has added it.
func ensureLearner(ctx context.Context, client *clientv3.Client, peer string) (id uint64, mine bool, err error) {
	url := etcd.PeerURL(peer)
	list, err := client.MemberList(ctx)
	if err != nil {
		return 0, false, plain(err)
	}
	joining := ""
	for _, member := range list.Members {
		switch {
		case slices.Contains(member.PeerURLs, url) && member.Name != "":
			return 0, false, errStarted
		case slices.Contains(member.PeerURLs, url):
			return member.ID, false, nil
		case member.IsLearner:
			joining = address(member)
		}
	}
	added, err := client.MemberAddAsLearner(ctx, []string{url})
	switch {
	case errors.Is(err, rpctypes.ErrTooManyLearners):
		return 0, false, fmt.Errorf("another server is joining, %s: if that one is lost, run roster-apiserver remove-member", joining)
	case errors.Is(err, rpctypes.ErrPeerURLExist):
		return 0, false, errRaced
	case err != nil:
		return 0, false, plain(err)
	}
	return added.Member.ID, true, nil
}
