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
	// An event that repeats within eventRepeats is counted in the one that is there.
	eventRepeats = 10 * time.Minute
	// eventBurst and eventEvery bound the events about one object.
	eventBurst = 25
	eventEvery = 5 * time.Minute
	// eventTries and eventPause are for an API server that does not answer.
	eventTries = 12
	eventPause = 10 * time.Second
	// maxRemembered bounds what is remembered about events; when it is reached, all is forgotten.
	maxRemembered = 1024
)

// Recorder writes events about objects of its cluster. It has a part of what client-go's recorder
// does, which brings most of Kubernetes' API machinery into the program.
type Recorder struct {
	client    *Client
	component string
	log       *slog.Logger
	date      func() time.Time
	queue     chan event

	// Run alone uses these.
	written map[repeat]event
	limits  map[types.UID]*rate.Limiter
}

// event is a part of an Event of Kubernetes, which is written as JSON as it stands here.
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

	at time.Time // when it happened, by the clock of this machine, for what has passed since
}

type reference struct {
	APIVersion      string    `json:"apiVersion"`
	Kind            string    `json:"kind"`
	Namespace       string    `json:"namespace,omitempty"`
	Name            string    `json:"name"`
	UID             types.UID `json:"uid"`
	ResourceVersion string    `json:"resourceVersion,omitempty"`
}

// repeat is what two events have in common that are counted as one.
type repeat struct {
	uid                   types.UID
	kind, reason, message string
}

// NewRecorder makes a recorder whose events name component as their source and are dated by date, for which the API
// server's clock is best: what others write there is dated by it, too. It writes while Run runs.
func NewRecorder(c *Client, component string, log *slog.Logger, date func() time.Time) *Recorder {
	return &Recorder{
		client: c, component: component, log: log, date: date, queue: make(chan event, eventQueue),
		written: map[repeat]event{}, limits: map[types.UID]*rate.Limiter{},
	}
}

// Event records that something happened to an object of a kind. It never blocks; any goroutine may
// call it.
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
	default: // the API server is slower than what happens, and events are not worth waiting for
	}
}

// eventName is a name that no other event of the object has, cut where it would be longer than names may be.
func eventName(object string, now time.Time) string {
	suffix := "." + strconv.FormatInt(now.UnixNano(), 16)
	room := validation.DNS1123SubdomainMaxLength - len(suffix)
	return strings.TrimRight(object[:min(len(object), room)], "-.") + suffix
}

// Run writes what is recorded, until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-r.queue:
			if err := r.write(ctx, e); err != nil && ctx.Err() == nil {
				r.log.Debug("an event could not be written", "object", e.About.Name, "reason", e.Reason, "error", err)
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

// recount brings the count of an event that is there up to date.
func (r *Recorder) recount(ctx context.Context, e event) error {
	patch, err := json.Marshal(map[string]any{"count": e.Count, "lastTimestamp": e.Last})
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	return r.client.requests.Patch(types.MergePatchType).Body(patch).
		AbsPath("/api/v1/namespaces", e.Metadata["namespace"], "events", e.Metadata["name"]).Do(ctx).Error()
}

// retry sends a request until it is answered, or was tried often enough.
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
