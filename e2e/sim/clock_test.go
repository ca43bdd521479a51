// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// lying is set for the run of this package in which clocks lie.
const lying = "ROSTER_SIM_CLOCKS_LIE"

// TestClocksThatLie runs the simulation, and the tests of what it is made of, with a package time whose clock on the
// wall is wrong by another time whenever somebody reads it, up to ten years either way, while time passes as it does.
// So every agent, and every part of one, has a clock that jumps all the time, also in the libraries. What goes by the
// time that has passed notices nothing, and that must be everything.
func TestClocksThatLie(t *testing.T) {
	if os.Getenv(lying) != "" {
		if a, b := time.Now().Round(0), time.Now().Round(0); b.Sub(a).Abs() < time.Second {
			t.Errorf("the clock says %v and then %v, which is no lie", a, b)
		}
		return
	}
	overlay := lyingTime(t)
	for _, args := range [][]string{
		{"-run=^Test(ClocksThatLie|Partition|Churn|Storm|Away)$", "../../e2e/sim"},
		{"../../mesh/...", "../../replica/..."},
	} {
		args = append([]string{"test", "-vet=off", "-count=1", "-timeout=30m", "-overlay=" + overlay}, args...)
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", lying+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("go %q: %v\n%s", args, err, out[:min(len(out), 16<<10)])
		}
	}
}

// lyingTime makes an overlay for the compiler in which time.Now adds a lie to what the clock on the wall says. In
// virtual time it also gives the time that has passed, as in the world outside.
func lyingTime(t *testing.T) (overlay string) {
	t.Helper()
	dir, folder := t.TempDir(), filepath.Join(goRoot(t), "src", "time")
	source, err := os.ReadFile(filepath.Join(folder, "time.go"))
	if err != nil {
		t.Fatal(err)
	}
	const read = "\tsec, nsec, mono := runtimeNow()\n"
	if n := bytes.Count(source, []byte(read)); n != 1 {
		t.Fatalf("time.go of %s reads the clock %d times: this test is to be written again", runtime.Version(), n)
	}
	source = bytes.Replace(source, []byte(read), []byte(read+"\tif mono == 0 {\n\t\tmono = runtimeNano()\n\t}\n\tsec += lie()\n"), 1)
	lie, err := os.ReadFile("testdata/lie.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{}
	for name, data := range map[string][]byte{"time.go": source, "lie.go": lie} {
		replace[filepath.Join(folder, name)] = filepath.Join(dir, name)
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay = filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}

func goRoot(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(out))
}
