// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"runtime"
	"strings"
	"sync"
	"testing"

	"k8s.io/klog/v2"
)

// What one of Kubernetes' packages says when it ends the process is not lost, though it calls that information.
func TestFatal(t *testing.T) { //nolint:paralleltest // klog is one for the process
	exit := klog.OsExit
	t.Cleanup(func() { klog.OsExit = exit; klog.ClearLogger() })
	var log bytes.Buffer
	var said string
	if _, _, err := newLogger(&log, "text", "info", func(err error) { said = err.Error(); runtime.Goexit() }); err != nil {
		t.Fatal(err)
	}
	klog.InfoS("what else goes on", "key", "value")
	var ended sync.WaitGroup
	ended.Go(func() { klog.Fatalf("PostStartHook %q failed: %s", "some", "reason") })
	ended.Wait()
	if said != `PostStartHook "some" failed: reason` {
		t.Errorf("it said %q", said)
	}
	if strings.Contains(log.String(), "goes on") {
		t.Errorf("the log has %q", log.String())
	}
}
