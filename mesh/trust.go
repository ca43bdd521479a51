// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"cmp"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

const (
	// maxPins bounds what introductions can make a cluster remember.
	maxPins = 4096
	// maxIDLength leaves room for more than the 36 characters of a UID.
	maxIDLength = 63
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
	// ErrTrustFull is returned when an introduction would exceed the table's bound.
	ErrTrustFull = fmt.Errorf("more than %d clusters are pinned", maxPins)
)

// Pin says that a key speaks for a clusterID.
type Pin struct {
	ClusterID string
	PublicKey ed25519.PublicKey
	// Introducer is the member that sent us the cluster's self-signed entry;
	// empty when a swap made the pin.
	Introducer string
}

// Trust is the pin table. The first pin of a clusterID wins, no key speaks for
// two clusters, and pins ignore names. A removed key is never pinned for its
// cluster again. Its own cluster is in it from the start and is not listed by
// Pins.
//
// All methods are safe for concurrent use.
type Trust struct {
	self    string
	changed func(Pin)

	mu       sync.RWMutex
	pins     map[string]Pin
	owners   map[string]string              // public key → clusterID
	removed  map[string]map[string]struct{} // public key → clusterIDs that it was removed of
	ended    map[string]struct{}            // clusterIDs whose pins ended, for takeEnded
	watchers map[chan struct{}]struct{}
}

// NewTrust returns a table that holds self. changed, which may be nil, is told
// every new or strengthened pin, from the goroutine that made it, with no lock
// held.
func NewTrust(self Pin, changed func(Pin)) *Trust {
	return &Trust{
		self:     self.ClusterID,
		changed:  changed,
		pins:     map[string]Pin{self.ClusterID: self},
		owners:   map[string]string{string(self.PublicKey): self.ClusterID},
		removed:  map[string]map[string]struct{}{},
		ended:    map[string]struct{}{},
		watchers: map[chan struct{}]struct{}{},
	}
}

// Pin records a swap. A pin that an introduction made with the same key
// becomes a swap's; the same swap again changes nothing.
func (t *Trust) Pin(id string, key ed25519.PublicKey) error {
	return t.add(Pin{ClusterID: id, PublicKey: key}, false)
}

// Introduce records a key that introducer vouches for. It never replaces or
// weakens a pin.
func (t *Trust) Introduce(id string, key ed25519.PublicKey, introducer string) error {
	return t.add(Pin{ClusterID: id, PublicKey: key, Introducer: introducer}, true)
}

func (t *Trust) add(p Pin, introduced bool) error {
	if !validID(p.ClusterID) || len(p.PublicKey) != ed25519.PublicKeySize {
		return ErrInvalidPin
	}
	p.PublicKey = slices.Clone(p.PublicKey)
	fresh, err := t.record(p, introduced)
	if err != nil || !fresh {
		return err
	}
	if t.changed != nil {
		t.changed(p)
	}
	return nil
}

func (t *Trust) record(p Pin, introduced bool) (fresh bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.removed[string(p.PublicKey)][p.ClusterID]; ok {
		return false, ErrRemoved
	}
	if held, ok := t.pins[p.ClusterID]; ok {
		if !held.PublicKey.Equal(p.PublicKey) {
			return false, ErrPinned
		}
		if introduced || held.Introducer == "" {
			return false, nil
		}
	} else {
		if _, ok := t.owners[string(p.PublicKey)]; ok {
			return false, ErrKeyInUse
		}
		if introduced && len(t.pins) >= maxPins {
			return false, ErrTrustFull
		}
	}
	t.pins[p.ClusterID] = p
	t.owners[string(p.PublicKey)] = p.ClusterID
	for w := range t.watchers {
		signal(w)
	}
	return true, nil
}

// Remove ends the pin of a key for a cluster for ever: it is pinned no more,
// whoever vouches for it. The cluster's connections end within moments. What the
// key is to another cluster stays as it is, or whoever names a member's key beside
// a cluster that there is not would remove the member in part. Its own pin stays,
// too.
func (t *Trust) Remove(id string, key ed25519.PublicKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.removed[string(key)]
	if of == nil {
		of = map[string]struct{}{}
		t.removed[string(key)] = of
	}
	of[id] = struct{}{}
	if t.owners[string(key)] == id {
		t.unpinLocked(id)
	}
}

// Swapped says that a swap, and no introduction, has pinned a cluster's key.
func (t *Trust) Swapped(id string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	p, ok := t.pins[id]
	return ok && p.Introducer == ""
}

// Forget ends a cluster's pin, which may be made again.
func (t *Trust) Forget(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unpinLocked(id)
}

func (t *Trust) unpinLocked(id string) {
	p, ok := t.pins[id]
	if !ok || id == t.self {
		return
	}
	delete(t.pins, id)
	delete(t.owners, string(p.PublicKey))
	t.ended[id] = struct{}{}
	for w := range t.watchers {
		signal(w)
	}
}

// Removed says that a key was removed of some cluster.
func (t *Trust) Removed(key ed25519.PublicKey) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	_, ok := t.removed[string(key)]
	return ok
}

// takeEnded returns, once, the clusters whose pins ended, even if they were
// pinned again.
func (t *Trust) takeEnded() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	ids := slices.Collect(maps.Keys(t.ended))
	clear(t.ended)
	return ids
}

// Key is the key that is pinned for a clusterID. It must not be changed.
func (t *Trust) Key(id string) (ed25519.PublicKey, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	p, ok := t.pins[id]
	return p.PublicKey, ok
}

// ClusterID is the cluster that a key is pinned for.
func (t *Trust) ClusterID(key ed25519.PublicKey) (string, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	id, ok := t.owners[string(key)]
	return id, ok
}

// Pins lists every pin but the cluster's own, ordered by clusterID.
func (t *Trust) Pins() []Pin {
	t.mu.RLock()
	pins := make([]Pin, 0, len(t.pins))
	for _, p := range t.pins {
		if p.ClusterID != t.self {
			pins = append(pins, p)
		}
	}
	t.mu.RUnlock()
	slices.SortFunc(pins, func(a, b Pin) int { return cmp.Compare(a.ClusterID, b.ClusterID) })
	return pins
}

// isPeer says whether id is pinned and not the cluster itself.
func (t *Trust) isPeer(id string) bool {
	_, ok := t.Key(id)
	return ok && id != t.self
}

// IsPinned says whether the key of who called is pinned, still, for the cluster that it was pinned for then.
func (t *Trust) IsPinned(from Caller) bool {
	key, ok := t.Key(from.ClusterID)
	return ok && from.ClusterID != t.self && key.Equal(from.Key)
}

// watch returns a channel that gets a value after pins changed, until stop.
func (t *Trust) watch() (changes <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watchers[c] = struct{}{}
	return c, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.watchers, c)
	}
}

// validID accepts what can be the name of an object (RFC 1123), as a UID can: it ends up in addresses
// ("id/host:port"), metrics, log lines, and the names of Secrets.
func validID(id string) bool {
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

// signal leaves a value in a channel of capacity one unless one is there.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
