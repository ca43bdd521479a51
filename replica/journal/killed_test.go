// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/roster-mesh/roster/replica"
)

// victimDir makes the test binary the process that is killed, and victimRun is the number of its start.
const victimDir, victimRun = "ROSTER_JOURNAL_VICTIM", "ROSTER_JOURNAL_RUN"

var (
	kills = flag.Int("kills", 20, "how often TestKilled kills")
	seed  = flag.Uint64("seed", 1, "when TestKilled kills, and where TestBrokenFiles breaks files")
)

func keyOf(id string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(id))
	return ed25519.NewKeyFromSeed(seed[:])
}

// ring knows everybody.
type ring struct{}

func (ring) Key(id string) (ed25519.PublicKey, bool) {
	return keyOf(id).Public().(ed25519.PublicKey), true
}
func (ring) Introduce(string, ed25519.PublicKey, string) error { return errors.New("known") }
func (ring) Remove(string, ed25519.PublicKey, ed25519.PublicKey, bool) bool {
	return false
}
func (ring) Sponsor(string, ed25519.PublicKey, string) (string, bool) { return "", false }

// openReplica is what an agent does, with what is broadcast going to say.
func openReplica(ctx context.Context, dir string, say func(...[]byte)) (*Journal, *Term, *replica.Replica, error) {
	var r *replica.Replica
	j, err := Open(ctx, Options{
		Dir: dir, ClusterID: "a", PublicKey: keyOf("a").Public().(ed25519.PublicKey), Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Machine: func() (_ Machine, err error) {
			r, err = replica.New(replica.Options{Self: "a", PrivateKey: keyOf("a"), Keyring: ring{}, Broadcast: say})
			return r, err
		},
	})
	if err != nil {
		return nil, nil, nil, err
	}
	term, err := j.Lead(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	return j, term, r, r.Open(max(r.LastEpoch(), 1), term)
}

// victim publishes and merges as fast as it can, or only merges, and writes all that it broadcasts, and what it merges, to its standard output.
func victim(dir string) {
	run, err := strconv.ParseUint(os.Getenv(victimRun), 10, 64)
	if err != nil {
		panic(err)
	}
	say := func(msgs ...[]byte) {
		for _, msg := range msgs {
			_, _ = os.Stdout.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(msg))), msg...))
		}
	}
	_, term, r, err := openReplica(context.Background(), dir, say)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	peer, err := replica.New(replica.Options{Self: "b", PrivateKey: keyOf("b"), Keyring: ring{}, Epoch: run + 1})
	if err != nil {
		panic(err)
	}
	hear := func(msgs ...[]byte) {
		say(msgs...)
		for _, msg := range msgs {
			if _, _, err := r.Merge(msg, ""); err != nil {
				panic(err)
			}
		}
	}
	hear(peer.Complete()...) // of an origin that opens epochs and completes none, few are kept
	random := rand.New(rand.NewPCG(run, 0))
	for merges := run%2 == 0; ; {
		key := replica.Key{Kind: replica.KindRule, Name: fmt.Sprint("r", random.IntN(50))}
		status := replica.Live
		payload := bytes.Repeat([]byte{'x'}, random.IntN(20_000))
		if random.IntN(5) == 0 {
			status, payload = replica.Deleted, nil
		}
		if merges { // slowly: so it waits for the time to write it, and not for the size
			payload = payload[:min(len(payload), 100)]
			time.Sleep(time.Millisecond)
		} else if _, err := r.Publish(key, status, payload); err != nil {
			panic(err)
		}
		if !merges && random.IntN(20) == 0 {
			r.Complete()
		}
		theirs, err := peer.Publish(key, status, payload)
		if err != nil {
			panic(err)
		}
		hear(theirs...)
		for random.IntN(30) == 0 && term.Wait() == nil && waits(term) {
			time.Sleep(time.Millisecond)
		}
	}
}

func waits(t *Term) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting.ops) > 0
}

// TestKilled kills an agent's disk work at random points, many times, and then looks for anything that was broadcast
// and is not held, for a number that was signed twice, and for what a peer said that cannot be had from others again.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	told := map[string][]byte{} // number → message
	peer, err := replica.New(replica.Options{Self: "p", PrivateKey: keyOf("p"), Keyring: ring{}, Epoch: 1})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(*seed, 0))
	for run := range *kills {
		for _, msg := range runVictim(t, dir, run+1, time.Duration(random.IntN(400))*time.Millisecond) {
			if n, ok := number(msg); ok && replica.Origin(msg) == "a" {
				if before, twice := told[n]; twice && !bytes.Equal(before, msg) {
					t.Fatalf("%s was signed twice", n)
				}
				told[n] = msg
			}
			if _, _, err := peer.Merge(msg, ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	j, term, r, err := openReplica(t.Context(), dir, func(...[]byte) {})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	defer term.End()
	if aside, _ := filepath.Glob(filepath.Join(dir, asidePrefix+"*")); len(aside) > 0 || r.LastEpoch() != 1 {
		t.Errorf("the disk was given up: %v, epoch %d", aside, r.LastEpoch())
	}
	if err := r.Delta(peer.Digest(), func(msg []byte) error {
		_, _, err := peer.Merge(msg, "a")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	lost := func(origin string) (n int) {
		for _, e := range peer.EntriesOf(origin, replica.KindRule) {
			if held, ok := r.Lookup(e.Key, origin); !ok || held.Epoch != e.Epoch || held.Sequence != e.Sequence {
				n++
			}
		}
		return n
	}
	said, held := peer.Progress("a"), r.Progress("a")
	if lost("a") > 0 || held.Sequence < said.Sequence || held.HeadSequence < said.HeadSequence || held.Completed < said.Completed || len(peer.Clones()) > 0 || len(told) == 0 {
		t.Errorf("of %d numbers something is lost, of %d entries; clones: %v; %+v was told, %+v is held", len(told), lost("a"), peer.Clones(), said, held)
	}
	t.Logf("%d numbers told, %d signed; %d entries of the peer are not there", len(told), r.Progress("a").Sequence, lost("b"))
	if err := peer.Delta(r.Digest(), func(msg []byte) error {
		_, _, err := r.Merge(msg, "p")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if lacks, err := r.Lacks(peer.Digest()); err != nil || lacks || lost("a")+lost("b") > 0 {
		t.Errorf("what others have is not had from them: %t, %v; %+v", lacks, err, r.Progress("b"))
	}
}

// runVictim returns what the process broadcast until it was killed, after it had begun to work for d.
func runVictim(t *testing.T, dir string, run int, d time.Duration) (msgs [][]byte) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), victimDir+"="+dir, victimRun+"="+strconv.Itoa(run))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(out)
	stuck := time.AfterFunc(within, func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()
	if _, err := in.Peek(1); err != nil {
		t.Fatalf("the process broadcasts nothing: %v", err)
	}
	kill := time.AfterFunc(d, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	for {
		var size [4]byte
		if _, err := io.ReadFull(in, size[:]); err != nil {
			break
		}
		msg := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(in, msg); err != nil {
			break // killed while it said so
		}
		msgs = append(msgs, msg)
	}
	_ = cmd.Wait()
	return msgs
}

// number is that of an entry; false for a head, of which one number has several.
func number(msg []byte) (string, bool) {
	field, _, n := protowire.ConsumeTag(msg)
	if n < 0 || field != 1 {
		return "", false
	}
	core, _ := protowire.ConsumeBytes(msg[n:])
	var epoch, sequence uint64
	for len(core) > 0 {
		field, kind, n := protowire.ConsumeTag(core)
		core = core[n:]
		if field == 4 {
			epoch, _ = protowire.ConsumeVarint(core)
		}
		if field == 5 {
			sequence, _ = protowire.ConsumeVarint(core)
		}
		core = core[protowire.ConsumeFieldValue(field, kind, core):]
	}
	return fmt.Sprintf("%d.%d", epoch, sequence), true
}
