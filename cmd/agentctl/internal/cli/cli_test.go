// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	urfave "github.com/urfave/cli/v2"
	"sigs.k8s.io/yaml"
)

// tree is a small command line, as an app makes its own.
func tree() *urfave.App {
	g := NewGlobals()
	app := &urfave.App{Flags: g.Flags(), Commands: []*urfave.Command{
		{Name: "remove", Flags: []urfave.Flag{&urfave.BoolFlag{Name: "dry-run"}}},
		{Name: "rules", Subcommands: []*urfave.Command{
			{Name: "list"},
			{Name: "explain", Flags: []urfave.Flag{
				&urfave.BoolFlag{Name: "no-dry-run"}, &urfave.StringFlag{Name: "from"},
				&urfave.StringSliceFlag{Name: "filename", Aliases: []string{"f"}},
			}},
		}},
	}}
	for _, c := range app.Commands {
		g.AddTo(c)
	}
	return app
}

func TestFlagsFirst(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"agentctl":                                          "agentctl",
		"agentctl rules explain secret x -n y":              "agentctl rules explain -n y secret x",
		"agentctl rules explain secret x -n=y --help":       "agentctl rules explain -n=y --help secret x",
		"agentctl --context c rules list a -o json -":       "agentctl --context c rules list -o json a -",
		"agentctl rules explain x --no-dry-run -f":          "agentctl rules explain --no-dry-run -f x",
		"agentctl rules list a -- -b --context":             "agentctl rules list -- a -b --context",
		"agentctl rules explain --generate-bash-completion": "agentctl rules explain --generate-bash-completion",
		"agentctl rules list rules list":                    "agentctl rules list rules list",
	} {
		if diff := cmp.Diff(want, strings.Join(FlagsFirst(tree(), strings.Fields(in)), " ")); diff != "" {
			t.Error(diff)
		}
	}
}

func TestComplete(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]Question{
		"agentctl remove":                                {Command: "remove"},
		"agentctl remove --dry-run x":                    {Command: "remove", Args: []string{"x"}},
		"agentctl --context c remove --kubeconfig=f":     {Command: "remove", Flags: map[string]string{"context": "c", "kubeconfig": "f"}},
		"agentctl remove --context":                      {Command: "remove", Flag: "context"},
		"agentctl rules explain -f x --from":             {Command: "rules explain", Flag: "from", Flags: map[string]string{"filename": "x"}},
		"agentctl rules explain secret --no-dry-run web": {Command: "rules explain", Args: []string{"secret", "web"}},
	} {
		if want.Flags == nil {
			want.Flags = map[string]string{}
		}
		want.Word = "a"
		var got []Question
		var out bytes.Buffer
		names := func(ctx context.Context, q Question) []string {
			if _, bounded := ctx.Deadline(); !bounded {
				t.Errorf("%s: may take for ever", in)
			}
			got = append(got, q)
			return []string{"alpha", "a\x1b", "beta"}
		}
		if !Complete(t.Context(), tree(), append(strings.Fields(in), CompletionFlag), "a", names, &out) {
			t.Errorf("%s: left to the flag library", in)
		}
		if diff := cmp.Diff([]Question{want}, got); diff != "" || out.String() != "alpha\na?\n" {
			t.Errorf("%s: %q %s", in, out.String(), diff)
		}
	}
	for _, in := range []string{"agentctl", "agentctl rules", "agentctl remove --dry", "agentctl --context c", "agentctl remove -"} {
		if Complete(t.Context(), tree(), append(strings.Fields(in), CompletionFlag), "", nil, nil) {
			t.Errorf("%s: not left to the flag library", in)
		}
	}
}

// A shell does not hang where names take long, and nothing is printed then.
func TestCompleteGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		defer close(end)
		names := func(context.Context, Question) []string {
			<-end
			return []string{"late"}
		}
		var out bytes.Buffer
		began := time.Now()
		if !Complete(t.Context(), tree(), []string{"agentctl", "remove", CompletionFlag}, "", names, &out) || out.Len() > 0 || time.Since(began) != completionTimeout {
			t.Errorf("%q after %s", out.String(), time.Since(began))
		}
	})
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if _, err := fmt.Fprint(Printable{&out}, "grün\t\x1b[31m\u202e\r\n"); err != nil || out.String() != "grün\t?[31m??\n" {
		t.Errorf("printed %q, %v", out.String(), err)
	}
}

func TestExitCode(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]int{
		nil:                                      ExitOK,
		errors.New("x"):                          ExitFailed,
		fmt.Errorf("x: %w", Usagef("y")):         ExitUsage,
		&TimeoutError{}:                          ExitTimeout,
		Answerf(ExitBlocked, "%d in the way", 1): ExitBlocked,
	} {
		if got := ExitCode(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}

// What is missing is shown when it takes long and when it changes, and is what a timeout says.
func TestWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testWait)
}

func testWait(t *testing.T) {
	var shown []string
	wait := Wait{Timeout: time.Hour, Progress: func(format string, args ...any) { shown = append(shown, fmt.Sprintf(format, args...)) }}
	began := time.Now()
	err := wait.For(t.Context(), "", func(context.Context) ([]string, error) {
		switch took := time.Since(began); {
		case took < time.Second:
			return []string{"soon over"}, nil
		case took < time.Minute:
			return []string{"takes long", "b"}, nil
		case took < time.Hour/2:
			return []string{"takes long"}, nil
		}
		return nil, nil
	})
	if diff := cmp.Diff([]string{"takes long (and 1 more)", "takes long"}, shown); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	wait.Timeout = time.Nanosecond
	err = wait.For(t.Context(), "after %s not done:", func(context.Context) ([]string, error) { return nil, errors.New("away") })
	var late *TimeoutError
	if !errors.As(err, &late) || late.Text != "after 1ns not done:" || !slices.Equal(late.Missing, []string{"not readable now: away"}) {
		t.Errorf("late: %#v", err)
	}
}

// No document steers the terminal that it is printed to, and it says the same.
func TestDocumentsAreEscaped(t *testing.T) {
	t.Parallel()
	type text struct{ Text string }
	in := text{"grün \x1b[31m \u202e \u009b \x7f \U000e0041 <b>"}
	for _, format := range []string{"json", "yaml"} {
		var out bytes.Buffer
		if err := (&Output{Stdout: &out, Format: format}).Document(in); err != nil {
			t.Fatal(err)
		}
		var back text
		read := func(data []byte, v any) error { return yaml.Unmarshal(data, v) }
		if format == "json" {
			read = json.Unmarshal
		}
		if err := read(out.Bytes(), &back); err != nil || back != in || strings.IndexFunc(out.String(), steers) >= 0 {
			t.Errorf("%s: %q is %q, %v", format, out.String(), back, err)
		}
	}
	var plain bytes.Buffer
	if err := (&Output{Stdout: &plain, Format: "yaml"}).Document(text{"grün"}); err != nil || plain.String() != "Text: grün\n" {
		t.Errorf("%q, %v", plain.String(), err)
	}
}
