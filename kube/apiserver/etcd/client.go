// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// dialTimeout is enough for a server on the same machine.
const dialTimeout = 10 * time.Second

// ErrNoSocket is returned by Dial when no etcd listens beside the data.
var ErrNoSocket = errors.New("there is no " + socketName + ": the server has not yet started, or its etcd is another one's (--etcd-servers)")

// Dial connects to the running server whose data are in a directory, through its socket. The caller closes the client.
func Dial(ctx context.Context, dir string, log *slog.Logger) (*clientv3.Client, error) {
	socket := filepath.Join(filepath.Dir(dir), socketName)
	if target, err := os.Readlink(socket); err == nil {
		socket = target
	}
	if _, err := os.Stat(socket); errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoSocket
	} else if err != nil {
		return nil, err
	}
	client, err := clientv3.New(clientv3.Config{
		Context:   ctx,
		Endpoints: []string{"unix://" + socket},
		Logger:    Logger(log),
	})
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if _, err := client.Status(waiting, "unix://"+socket); err != nil {
		return nil, errors.Join(fmt.Errorf("%s does not answer: %w", socket, err), client.Close())
	}
	return client, nil
}
