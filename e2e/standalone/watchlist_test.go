// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// TestWatchList: a watch that asks for what is there gets it, then a bookmark that says that this was all, then what
// changes. So informers start.
func TestWatchList(t *testing.T) {
	t.Parallel()
	client := start(t, filepath.Join(t.TempDir(), "d")).kubernetes(t).CoreV1().RESTClient()
	for _, c := range []struct {
		path, kind string // of the objects that the test makes
	}{
		{"/api/v1/namespaces/default/configmaps", "ConfigMap"}, // as it is in etcd
		{"/api/v1/namespaces/default/secrets", "Secret"},       // encrypted in etcd
		{"/apis/rbac.authorization.k8s.io/v1/clusterroles", "ClusterRole"},
		{"/apis/clusterregistry.k8s.cisco.com/v1alpha1/clusters", ""}, // a CRD's, of which there is none
	} {
		t.Run(c.path, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			var names []string
			if c.kind != "" {
				names = []string{"first", "second", "third"}
			}
			for _, name := range names {
				post(ctx, t, client, c.path, c.kind, name)
			}
			stream, err := client.Get().AbsPath(c.path).
				Param("watch", "true").Param("sendInitialEvents", "true").Param("allowWatchBookmarks", "true").
				Param("resourceVersionMatch", "NotOlderThan").Param("labelSelector", "watched=yes").
				SetHeader("Accept", "application/json").Stream(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			events := json.NewDecoder(stream)
			if got := initial(t, events); !slices.Equal(got, names) {
				t.Errorf("the initial events are %v, not %v", got, names)
			}
			if c.kind == "" {
				return
			}
			post(ctx, t, client, c.path, c.kind, "fourth")
			for {
				e := next(t, events)
				if e.Type == watch.Bookmark {
					continue
				}
				if e.Type != watch.Added || e.Object.Name != "fourth" {
					t.Errorf("then came %s of %s", e.Type, e.Object.Name)
				}
				return
			}
		})
	}
}

// event is one of a watch, as it is on the wire.
type event struct {
	Type   watch.EventType
	Object metav1.PartialObjectMetadata
}

func next(t *testing.T, events *json.Decoder) event {
	t.Helper()
	var e event
	if err := events.Decode(&e); err != nil {
		t.Fatal("the watch has ended: ", err)
	}
	return e
}

// initial returns the names, in order, of what is added before the bookmark that ends the initial events.
func initial(t *testing.T, events *json.Decoder) []string {
	t.Helper()
	var names []string
	for {
		switch e := next(t, events); {
		case e.Type == watch.Bookmark && e.Object.Annotations[metav1.InitialEventsAnnotationKey] == "true":
			if e.Object.ResourceVersion == "" {
				t.Error("the bookmark has no resourceVersion")
			}
			slices.Sort(names)
			return names
		case e.Type == watch.Added:
			names = append(names, e.Object.Name)
		default:
			t.Fatalf("%s of %s before the bookmark", e.Type, e.Object.Name)
		}
	}
}

// post makes an object with nothing in it but the label that TestWatchList selects by.
func post(ctx context.Context, t *testing.T, client rest.Interface, path, kind, name string) {
	t.Helper()
	apiVersion := "v1"
	if kind == "ClusterRole" {
		apiVersion = "rbac.authorization.k8s.io/v1"
	}
	body := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"labels":{"watched":"yes"}}}`, apiVersion, kind, name)
	err := client.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(ctx).Error()
	if err != nil {
		t.Fatal(err)
	}
}
