// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Files of the directory.
const (
	ownerFile    = "owner.json"
	attemptsFile = "attempts"
	lockFile     = "lock"
	raftDir      = "raft"
	asidePrefix  = "set-aside-"
)

// maxAttempts is how many starts in a row may end before there is a leader. A process that is killed while it
// starts counts, too; what that costs is what a lost disk costs.
const maxAttempts = 3

// directory is that of the journal, apart from what raft keeps in it.
type directory struct {
	dir   string
	owner owner
	log   *slog.Logger
}

// owner says whose the directory is.
type owner struct {
	ClusterID string `json:"clusterID"`
	PublicKey []byte `json:"publicKey"`
	ServerID  string `json:"serverID"`
	// Group is that of the agents of this cluster, "" for an agent that is alone.
	Group string `json:"group,omitempty"`
}

// key is the public key as a record shows it.
func (o owner) key() string { return base64.StdEncoding.EncodeToString(o.PublicKey) }

// exists says whether there is a directory of raft, be it empty.
func (h *directory) exists() bool {
	_, err := os.Stat(h.path(raftDir))
	return err == nil
}

// hasData says whether raft has kept anything, of use or not.
func (h *directory) hasData() (bool, error) {
	if !h.exists() {
		return false, nil
	}
	s, err := openStores(*h, h.log)
	if errors.Is(err, errBroken) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	has, err := s.hasState()
	return has || errors.Is(err, errBroken), s.close()
}

func (h *directory) path(name ...string) string {
	return filepath.Join(append([]string{h.dir}, name...)...)
}

// lock makes this process the one that reads and changes the directory, until the file is closed: what another one
// has open must not be set aside under it. An agent that was just killed may take a moment to let go.
func (h *directory) lock() (*os.File, error) {
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(h.path(lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(lockTimeout); ; time.Sleep(lockTimeout / 20) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return f, nil
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return nil, errors.Join(&fs.PathError{Op: "lock", Path: f.Name(), Err: err}, f.Close())
		case time.Now().After(deadline):
			return nil, errors.Join(ErrInUse, f.Close())
		}
	}
}

// claim makes the directory this cluster's, or finds that it is.
func (h *directory) claim(clusterID string, key []byte) error {
	data, err := os.ReadFile(h.path(ownerFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case json.Unmarshal(data, &h.owner) != nil || h.owner.ServerID == "":
		h.owner = owner{}
	case h.owner.ClusterID != clusterID:
		return fmt.Errorf("%w, with clusterID %s", ErrOtherCluster, h.owner.ClusterID)
	}
	if h.owner.ClusterID != "" && bytes.Equal(h.owner.PublicKey, key) {
		return nil
	}
	// What another key signed is of no use, and what has no owner may be anybody's.
	if h.exists() {
		var err error
		if h.owner.ClusterID == "" {
			err = h.setAside(errors.New("its owner.json is gone: it may be anybody's"))
		} else {
			err = h.putAside(func(to string) {
				h.log.Info("this cluster has another key since the agent last kept something on disk: beginning anew", "movedTo", to)
			})
		}
		if err != nil {
			return err
		}
	}
	h.owner = owner{ClusterID: clusterID, PublicKey: key, ServerID: newServerID()}
	return h.record()
}

func (h *directory) record() error {
	data, err := json.Marshal(h.owner)
	if err != nil {
		return err
	}
	return h.replace(ownerFile, data)
}

func newServerID() string { return strings.ToLower(rand.Text()) }

// countStart counts this start, and sets aside what earlier ones did not survive.
func (h *directory) countStart() error {
	data, err := os.ReadFile(h.path(attemptsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	n, err := strconv.Atoi(string(data))
	if len(data) > 0 && (err != nil || n >= maxAttempts) {
		if err := h.setAside(fmt.Errorf("%s starts in a row did not get past reading it", data)); err != nil {
			return err
		}
		n = 0
	}
	return h.replace(attemptsFile, strconv.AppendInt(nil, int64(n+1), 10))
}

// startSucceeded ends the count: the process is still there.
func (h *directory) startSucceeded() error { return os.Remove(h.path(attemptsFile)) }

// setAside puts away what raft keeps because something is wrong with it.
func (h *directory) setAside(why error) error {
	return h.putAside(func(to string) {
		h.log.Error("what this agent kept on disk cannot be used: going on without it, as with an empty disk", "reason", why, "movedTo", to)
	})
}

// putAside puts away what raft keeps, in place of what was put away before, and says where.
func (h *directory) putAside(say func(to string)) error {
	if !h.exists() {
		return nil
	}
	old, err := filepath.Glob(h.path(asidePrefix + "*"))
	if err != nil {
		return err
	}
	for _, dir := range old {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	to := h.path(asidePrefix + time.Now().UTC().Format("20060102T150405Z")) //nolint:forbidigo // for people: there is one at most
	if err := os.Rename(h.path(raftDir), to); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	say(to)
	return syncDir(h.dir)
}

// replace writes a file in one step that survives a crash.
func (h *directory) replace(name string, data []byte) (err error) {
	temporary := h.path(name + ".new")
	f, err := os.OpenFile(temporary, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary, h.path(name)); err != nil {
		return err
	}
	return syncDir(h.dir)
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
