// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	// MaxPins bounds what introductions can make a cluster remember.
	MaxPins = 4096
	// maxIDLength leaves room for more than the 36 characters of a UID.
	maxIDLength = 63
	// fingerprintBytes are as many as make it hopeless to look for another key with the same ones.
	fingerprintBytes = 16
)

var (
	// ErrPinned is returned when another key is pinned for the clusterID.
	ErrPinned = errors.New("another key is pinned for this cluster")
	// ErrKeyInUse is returned when the key is pinned for another clusterID.
	ErrKeyInUse = errors.New("this key is pinned for another cluster")
	// ErrInvalidPin is returned when a clusterID or a key cannot be one.
	ErrInvalidPin = errors.New("not a valid cluster ID and Ed25519 public key")
	// ErrRemoved is returned for a key that was removed.
	ErrRemoved = errors.New("this key was removed from the group")
	// ErrReserved is returned for a newcomer with a clusterID that was removed under another key.
	ErrReserved = errors.New("this cluster was removed from the group, and nobody who may has admitted it again under this key")
	// ErrNotAdmitted is returned for a newcomer that no member has admitted, as far as is known here.
	ErrNotAdmitted = errors.New("no member has admitted this cluster under this key")
	// ErrFull is returned when an introduction would exceed the table's bound, or the part of the member that made it.
	ErrFull = fmt.Errorf("there is no room for this cluster among %d that are pinned", MaxPins)
)

// Pin says that a key speaks for a clusterID.
type Pin struct {
	ClusterID string
	PublicKey ed25519.PublicKey
	// Introducer is the member on whose word it is pinned, the author of an admission, or a member of an earlier version that
	// sent us the cluster's self-signed entry; empty when a person made the pin: by a swap, or by an approval.
	Introducer string
	// Admitted says that a person or an authority here admitted the key, or an earlier version did: the pin stands
	// whatever other key of the cluster is removed.
	Admitted bool
	// Vouched says that this cluster answers for an introduced one: no admission led to it when this cluster admitted another,
	// which would not know it otherwise.
	Vouched bool
	// Kept says that this cluster answers for it on nobody else's word: a person here has kept it when its introducer was removed, or
	// that one had ended before this cluster answered for it.
	Kept bool
	// Past are the words on which it stays, of those that led to it by way of members that have ended: see Graph.inherit. An
	// author "" is this cluster. It is never changed in place.
	Past []Word
	// Edge says that the cluster is a member that neither admits nor removes others, and whose rules are in force nowhere else. A pin
	// that is not does not become one: see doc.go.
	Edge bool
}

func (p Pin) equal(to Pin) bool {
	same := slices.Equal(p.Past, to.Past) && p.PublicKey.Equal(to.PublicKey)
	return same && p.ClusterID == to.ClusterID && p.Introducer == to.Introducer && p.Admitted == to.Admitted && p.Vouched == to.Vouched && p.Kept == to.Kept && p.Edge == to.Edge
}

// Newcomer is a cluster that waits to be admitted.
type Newcomer struct {
	ClusterID  string
	PublicKey  ed25519.PublicKey
	Introducer string // the member that brought it
}

// Fingerprint is what people compare a public key by: the first half of its SHA-256.
func Fingerprint(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:fingerprintBytes])
}

// Name names a cluster and, optionally, its key: it is how a person says who is an authority, and who is approved.
type Name struct {
	ClusterID   string
	Fingerprint string // empty: whatever key the cluster has
}

// ParseName reads CLUSTERID or CLUSTERID/FINGERPRINT.
func ParseName(text string) (Name, error) {
	id, fingerprint, withKey := strings.Cut(text, "/")
	switch {
	case !ValidID(id):
		return Name{}, fmt.Errorf("%q does not begin with a clusterID, the UID of a kube-system namespace", text)
	case withKey && !validFingerprint(fingerprint):
		return Name{}, fmt.Errorf("%q is not CLUSTERID/FINGERPRINT: a fingerprint has %d of the characters 0-9 and a-f", text, 2*fingerprintBytes)
	}
	return Name{id, fingerprint}, nil
}

// ParseNames reads several.
func ParseNames(texts []string) (names []Name, err error) {
	for _, text := range texts {
		name, err := ParseName(text)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

func (n Name) String() string {
	if n.Fingerprint == "" {
		return n.ClusterID
	}
	return n.ClusterID + "/" + n.Fingerprint
}

// Means says whether the cluster with this key is meant.
func (n Name) Means(id string, key ed25519.PublicKey) bool {
	return n.ClusterID == id && (n.Fingerprint == "" || n.Fingerprint == Fingerprint(key))
}

func validFingerprint(text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == fingerprintBytes && text == strings.ToLower(text)
}

// ValidID accepts what can be the name of an object (RFC 1123), as a UID can: it ends up in addresses
// ("id/host:port"), metrics, log lines, and the names of Secrets.
func ValidID(id string) bool {
	if id == "" || len(id) > maxIDLength || strings.Contains(id, "..") {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		case (c == '-' || c == '.') && i > 0 && i < len(id)-1:
		default:
			return false
		}
	}
	return true
}
