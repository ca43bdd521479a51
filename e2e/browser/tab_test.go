// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/roster-mesh/roster/e2e/harness"
)

// pictures is where TestMatrix writes what it saw.
var pictures = flag.String("write", "", "folder for pictures of the page, page.png and page-dark.png")

const within = 2 * time.Minute

// tab is one of Chromium's.
type tab struct {
	*testing.T

	ctx        context.Context //nolint:containedctx // chromedp has its tab in it
	mu         sync.Mutex
	complaints []string
}

// open starts Chromium with the page.
func open(t *testing.T, link string) *tab {
	t.Helper()
	path, err := chromium()
	if err != nil {
		t.Fatal(err)
	}
	// Nobody else's pages are opened, and root's Chromium has no sandbox.
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1400, 1000))
	ctx, end := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(end)
	ctx, end = chromedp.NewContext(ctx)
	t.Cleanup(end)
	b := &tab{T: t, ctx: ctx}
	b.do(chromedp.EmulateViewport(1400, 1000))
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, cdplog.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.Navigate(link), chromedp.WaitVisible("#matrix"))
	b.eventually("the page is live", func() error {
		if text := run(b, chromedp.Text("#live")); text != "live" {
			return fmt.Errorf("it says %q", text)
		}
		return nil
	})
	return b
}

// chromium finds the browser.
func chromium() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("chromium is not in PATH: install Debian's package chromium")
}

// do drives the page.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	run(b, chromedp.Steps(actions...))
}

// run drives the page and returns what there is to see.
func run[V any](b *tab, action chromedp.Action[V]) V {
	b.Helper()
	value, err := chromedp.Run(b.ctx, action)
	if err != nil {
		b.Fatal(err)
	}
	return value
}

func (b *tab) eventually(what string, cond func() error) {
	b.Helper()
	if _, err := harness.Wait(b.Context(), what, within, func(context.Context) error { return cond() }); err != nil {
		b.picture("failed.png", "light")
		b.Fatal(err)
	}
}

// listen keeps what Chromium says is wrong with the page.
func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, e.ExceptionDetails.Text)
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError && !strings.Contains(e.Entry.Text, "401") { // the page that takes the token is one
			b.complaints = append(b.complaints, e.Entry.Text)
		}
	}
}

func (b *tab) complained() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, text := range b.complaints {
		b.Errorf("Chromium says: %s", text)
	}
}

// prefers makes the page light or dark.
func (b *tab) prefers(scheme string) {
	b.Helper()
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, media); err != nil {
		b.Fatal(err)
	}
}

// picture writes what the page looks like, with -write.
func (b *tab) picture(name, scheme string) {
	b.Helper()
	if *pictures == "" {
		return
	}
	b.prefers(scheme)
	b.do(chromedp.Sleep(time.Second)) // colours fade
	png := run(b, chromedp.FullScreenshot(100))
	if err := os.WriteFile(filepath.Join(*pictures, name), png, 0o600); err != nil {
		b.Fatal(err)
	}
}
