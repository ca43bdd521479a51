// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import "time"

// Limits are those of one account.
type Limits struct {
	Bytes, Writes Bucket
	// Common is what all clusters have together, of several quotas of a process; nil without a bound.
	Common Bound
}

// Bound is a Common, or what stands for one.
type Bound interface {
	// Wait is how long an account has to wait because of what others have used; 0 if it may write now.
	Wait(of Account, now time.Time) time.Duration
	// Queue says that something of an account waits, and is looked at again after some time.
	Queue(of Account, after time.Duration, now time.Time)
	// Spend takes what was written because of an account, and gives it back where that is negative.
	Spend(of Account, bytes, writes float64, now time.Time)
}

// Bucket is how much of something is there at most, how much of it comes back in a second, and how much is there in the
// beginning.
type Bucket struct{ Most, PerSecond, First float64 }

// The default limits. An etcd has 2 GiB by default; the API server compacts it every five minutes.
const (
	DefaultBytes           = 128 << 20
	DefaultBytesPerSecond  = 512 << 10
	DefaultWrites          = 50_000
	DefaultWritesPerSecond = 50
)

// DefaultLimits are the limits of an account that has never used anything.
func DefaultLimits() Limits {
	return NewLimits(DefaultBytes, DefaultBytesPerSecond, DefaultWrites, DefaultWritesPerSecond)
}

// NewLimits are limits of full accounts.
func NewLimits(bytes, bytesPerSecond, writes, writesPerSecond float64) Limits {
	return Limits{Bytes: Bucket{bytes, bytesPerSecond, bytes}, Writes: Bucket{writes, writesPerSecond, writes}}
}

// leastFirst is the part of an account that is there after any restart: copies are repaired at once.
const leastFirst = 1.0 / 16

// AfterRestart are the limits of a process of which an earlier one began some time ago. What accounts had used by its end is
// not known. So all is taken for used but what has come back since it began: over any number of restarts an account gets no
// more than it would have got without them, but for a small part each time.
func (l Limits) AfterRestart(since time.Duration) Limits {
	l.Bytes.First, l.Writes.First = l.Bytes.after(since), l.Writes.after(since)
	return l
}

// Part is the limits of one of n accounts that share a cluster's. What all clusters have in common stays the same.
func (l Limits) Part(n float64) Limits { return Limits{l.Bytes.part(n), l.Writes.part(n), l.Common} }

func (b Bucket) part(n float64) Bucket { return Bucket{b.Most / n, b.PerSecond / n, b.First / n} }

func (b Bucket) after(since time.Duration) float64 {
	return min(b.Most, max(b.Most*leastFirst, b.PerSecond*since.Seconds()))
}

// level is what is left in a bucket. It is below zero where more was used than there was.
type level struct {
	left float64
	at   time.Time
}

func (l *level) refill(b Bucket, now time.Time) {
	if passed := now.Sub(l.at).Seconds(); passed > 0 {
		l.left, l.at = min(b.Most, l.left+passed*b.PerSecond), now
	}
}

// owe takes n, as far as a sixteenth of the bucket below zero.
func (l *level) owe(n float64, b Bucket) { l.left = min(l.left, max(l.left-n, -b.Most/16)) }

// wait is how long it takes until more is there than that. More than half of the bucket is never waited for.
func (l *level) wait(b Bucket, than float64) time.Duration {
	than = min(than, b.Most/2)
	if l.left > than {
		return 0
	}
	return time.Duration((than-l.left)/b.PerSecond*float64(time.Second)) + time.Millisecond
}
