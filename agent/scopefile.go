// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/roster-mesh/roster/syncrules/engine"
)

// scopeFile remembers, over a restart, where the engine keeps copies, so that those whose rule was deleted
// meanwhile are found and judged. Losing it loses no copy: they stay as they are.
type scopeFile struct {
	dir string
	log *slog.Logger
}

func (f scopeFile) path() string { return filepath.Join(f.dir, "scopes.json") }

func (f scopeFile) load() []engine.Scope {
	if f.dir == "" {
		return nil
	}
	data, err := os.ReadFile(f.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var scopes []engine.Scope
	if err == nil {
		err = json.Unmarshal(data, &scopes)
	}
	if err != nil {
		f.log.Warn("copies of rules that were deleted while the agent was away may not be marked as orphans", "error", err)
		return nil
	}
	return scopes
}

// save replaces the file in one step, so that a crash leaves the old one or the new one.
func (f scopeFile) save(scopes []engine.Scope) {
	if f.dir == "" {
		return
	}
	data, err := json.Marshal(scopes)
	if err == nil {
		err = replaceFile(f.path(), data)
	}
	if err != nil {
		f.log.Warn("what the agent remembers over a restart is not saved", "error", err)
	}
}

func replaceFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	temporary := path + ".new"
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
