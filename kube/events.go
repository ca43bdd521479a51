// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Types of events.
const (
	EventNormal  = "Normal"
	EventWarning = "Warning"
)

const (
	// eventQueue is how many events may wait to be written; more are dropped.
	eventQueue = 256
	// An event that repeats within eventRepeats increases the count of the existing one.
	eventRepeats = 10 * time.Minute
	// eventBurst and eventEvery bound the events about one object.
	eventBurst = 25
	eventEvery = 5 * time.Minute
	// eventTries and eventPause are for retries when the API server cannot be reached.
	eventTries = 12
	eventPause = 10 * time.Second
	// maxRemembered bounds the maps of a Recorder; when it is reached, the map is cleared.
	maxRemembered = 1024
)

// Recorder writes events about objects of its cluster. It does a part of what client-go's recorder does:
// that one links most of Kubernetes' API machinery into the program.
type Recorder struct {
	client    *Client
	component string
	log       *slog.Logger
	date      func() time.Time
	queue     chan event

	// used by Run only
	written map[repeat]event
	limits  map[types.UID]*rate.Limiter
}

// event has the fields of an Event of Kubernetes that are written.
type event struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	About      reference         `json:"involvedObject"`
	Type       string            `json:"type"`
	Reason     string            `json:"reason"`
	Message    string            `json:"message"`
	Source     map[string]string `json:"source"`
	First      metav1.Time       `json:"firstTimestamp"`
	Last       metav1.Time       `json:"lastTimestamp"`
	Count      int               `json:"count"`

	at time.Time // when it happened, by the clock of this machine, to measure how long ago that was
}

type reference struct {
	APIVersion      string    `json:"apiVersion"`
	Kind            string    `json:"kind"`
	Namespace       string    `json:"namespace,omitempty"`
	Name            string    `json:"name"`
	UID             types.UID `json:"uid"`
	ResourceVersion string    `json:"resourceVersion,omitempty"`
}

// repeat is what events have in common that are counted as one.
type repeat struct {
	uid                   types.UID
	kind, reason, message string
}

// NewRecorder makes a recorder whose events have component as their source, and their time from date: best is the clock of
// the API server, which others' events have. It writes while Run runs.
func NewRecorder(c *Client, component string, log *slog.Logger, date func() time.Time) *Recorder {
	return &Recorder{
		client: c, component: component, log: log, date: date, queue: make(chan event, eventQueue),
		written: map[repeat]event{}, limits: map[types.UID]*rate.Limiter{},
	}
}

// Event records that something happened to an object of a kind. It never blocks, and is safe for
// concurrent use.
func (r *Recorder) Event(kind schema.GroupVersionKind, obj metav1.Object, eventType, reason, message string) {
	now, at := metav1.NewTime(r.date()), time.Now()
	namespace := obj.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	e := event{
		APIVersion: "v1", Kind: "Event", Type: eventType, Reason: reason, Message: oneLine(message),
		Metadata: map[string]string{"namespace": namespace, "name": eventName(obj.GetName(), at)},
		Source:   map[string]string{"component": r.component},
		First:    now, Last: now, Count: 1, at: at,
	}
	e.About.APIVersion, e.About.Kind = kind.ToAPIVersionAndKind()
	e.About.Namespace, e.About.Name = obj.GetNamespace(), obj.GetName()
	e.About.UID, e.About.ResourceVersion = obj.GetUID(), obj.GetResourceVersion()
	select {
	case r.queue <- e:
	default: // the queue is full: drop the event
	}
}

// eventName is a unique name for an event about an object, cut where it would be longer than names may be.
func eventName(object string, now time.Time) string {
	suffix := "." + strconv.FormatInt(now.UnixNano(), 16)
	room := validation.DNS1123SubdomainMaxLength - len(suffix)
	return strings.TrimRight(object[:min(len(object), room)], "-.") + suffix
}

// Run writes the recorded events until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-r.queue:
			if err := r.write(ctx, e); err != nil && ctx.Err() == nil {
				r.log.Debug("event not written", "object", e.About.Name, "reason", e.Reason, "error", err)
			}
		}
	}
}

func (r *Recorder) write(ctx context.Context, e event) error {
	if !r.allow(e.About.UID) {
		return nil
	}
	key := repeat{e.About.UID, e.Type, e.Reason, e.Message}
	if before, ok := r.written[key]; ok && e.at.Sub(before.at) < eventRepeats {
		again := before
		again.Last, again.at, again.Count = e.Last, e.at, before.Count+1
		err := r.retry(ctx, func(ctx context.Context) error { return r.recount(ctx, again) })
		if !apierrors.IsNotFound(err) {
			r.written[key] = again
			return err
		}
	}
	if len(r.written) >= maxRemembered {
		clear(r.written)
	}
	r.written[key] = e
	return r.retry(ctx, func(ctx context.Context) error {
		var made metav1.PartialObjectMetadata
		return r.client.post(ctx, e, &made, "/api/v1/namespaces", e.Metadata["namespace"], "events")
	})
}

// recount updates the count of an existing event.
func (r *Recorder) recount(ctx context.Context, e event) error {
	patch, err := json.Marshal(map[string]any{"count": e.Count, "lastTimestamp": e.Last})
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	return r.client.requests.Patch(types.MergePatchType).Body(patch).
		AbsPath("/api/v1/namespaces", e.Metadata["namespace"], "events", e.Metadata["name"]).Do(ctx).Error()
}

// retry sends a request until the API server answers, eventTries times at most.
func (r *Recorder) retry(ctx context.Context, send func(context.Context) error) error {
	for try := 1; ; try++ {
		sending, cancel := context.WithTimeout(ctx, requestTimeout)
		err := classify(send(sending))
		cancel()
		if !errors.Is(err, ErrUnreachable) || try == eventTries {
			return err
		}
		timer := time.NewTimer(eventPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

func (r *Recorder) allow(uid types.UID) bool {
	limit, ok := r.limits[uid]
	if !ok {
		if len(r.limits) >= maxRemembered {
			clear(r.limits)
		}
		limit = rate.NewLimiter(rate.Every(eventEvery), eventBurst)
		r.limits[uid] = limit
	}
	return limit.Allow()
}
