// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Member is what the directory says of its server as one of several with the same data. It is written before anything
// that depends on it, so that a start that was cut off is continued and not begun again.
type Member struct {
	Peer     string `json:"peer"`               // HOST:PORT at which the other servers reach this one
	Bundle   string `json:"bundle,omitempty"`   // ID of the bundle that this server started with; none for the first one
	Instance string `json:"instance,omitempty"` // tells this directory from another one that uses the same bundle
}

func (d *Dir) memberFile() string { return d.Path("member.json") }

// Member returns nothing for a server that is alone and always was.
func (d *Dir) Member() (Member, error) {
	data, err := os.ReadFile(d.memberFile())
	if errors.Is(err, fs.ErrNotExist) {
		return Member{}, nil
	}
	if err != nil {
		return Member{}, err
	}
	var m Member
	err = json.Unmarshal(data, &m)
	if err == nil && m.Peer == "" {
		err = errors.New("it has no peer address")
	}
	if err != nil {
		return Member{}, fmt.Errorf("%s is damaged: %w", d.memberFile(), err)
	}
	return m, nil
}

// SetPeer records at which address other servers reach this one.
func (d *Dir) SetPeer(address string) error {
	m, err := d.Member()
	if err != nil || m.Peer == address {
		return err
	}
	m.Peer = address
	return d.writeMember(m)
}

// Join records that the server of this directory starts with a bundle. The directory must be new, or have been begun with
// the same bundle, or with another one that came to nothing.
func (d *Dir) Join(bundle, peer string) (Member, error) {
	m, err := d.Member()
	switch {
	case err != nil:
		return Member{}, err
	case m.Bundle == bundle:
		return m, nil
	case m.Bundle != "" && !d.HasData():
	case m.Peer != "" || d.HasData() || exists(d.Path("pki")):
		return Member{}, errors.New("it has a server already, and a bundle starts a new one: name an empty directory")
	}
	m = Member{Peer: peer, Bundle: bundle, Instance: rand.Text()}
	return m, d.writeMember(m)
}

// CheckBegun returns an error for a directory that must have data and has none. With its keys, an empty cluster would take the
// place of the one that callers know.
func (d *Dir) CheckBegun() error {
	m, err := d.Member()
	switch {
	case err != nil:
		return err
	case d.HasData():
		return nil
	}
	record, err := d.Record()
	switch {
	case err != nil:
		return err
	case record.Started && m.Peer == "":
		return errors.New("what etcd kept in it is lost: if its disk is not mounted, mount it; otherwise restore a snapshot into an empty directory, or begin with an empty cluster there")
	case record.Started:
		return fmt.Errorf("what etcd kept in it is lost: if its disk is not mounted, mount it; otherwise run roster-apiserver remove-member %s and add on another server, and start in an empty directory", m.Peer)
	case m.Bundle != "":
		return errors.New("its first start, with a bundle, did not come to an end: start with that --bundle again, or with another one")
	}
	return nil
}

// SetStarted records that etcd has been up.
func (d *Dir) SetStarted() error {
	r, err := d.Record()
	if err != nil || r.Started {
		return err
	}
	r.Started = true
	return d.writeRecord(r)
}

// HasData says whether etcd has ever been started on the directory.
func (d *Dir) HasData() bool { return exists(d.Path("etcd", "member", "wal")) }

func (d *Dir) writeMember(m Member) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return WriteFile(d.memberFile(), data)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
