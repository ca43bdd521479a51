// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// errChart is returned when the chart cannot be packed as helm package would.
var errChart = errors.New("chart")

// writeChart packs the chart as helm package does, but with the commit's time; both of its versions become this
// version, so that it asks for the image that it is released with.
func (r *release) writeChart() error {
	ignored, err := ignoreRules(filepath.Join(r.chart, ".helmignore"))
	if err != nil {
		return err
	}
	var files []entry
	err = filepath.WalkDir(r.chart, func(file string, d fs.DirEntry, err error) error {
		if err != nil || file == r.chart {
			return err
		}
		name, err := filepath.Rel(r.chart, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch {
		case ignored(name, d.IsDir()):
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			return fmt.Errorf("%w: %s is not a file", errChart, file)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if name == "Chart.yaml" {
			if data, err = r.stamp(data); err != nil {
				return err
			}
		}
		files = append(files, entry{name: "agent/" + name, mode: 0o644, data: data})
		return nil
	})
	if err != nil {
		return err
	}
	return r.create("agent-"+r.version+".tgz", func(w io.Writer) error { return writeTarGz(w, r.date, files) })
}

func (r *release) stamp(chart []byte) ([]byte, error) {
	for _, key := range []string{"version", "appVersion"} {
		line := regexp.MustCompile(`(?m)^` + key + `:.*$`)
		if n := len(line.FindAll(chart, -1)); n != 1 {
			return nil, fmt.Errorf("%w: Chart.yaml has %d lines with %s, must have one", errChart, n, key)
		}
		chart = line.ReplaceAll(chart, []byte(key+": "+r.version))
	}
	return chart, nil
}

// ignoreRules reads a .helmignore. What it cannot follow exactly it refuses.
func ignoreRules(file string) (func(name string, dir bool) bool, error) {
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	patterns := []string{".helmignore"}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if _, err := path.Match(line, ""); err != nil || strings.HasPrefix(line, "!") || strings.Contains(line, "**") {
			return nil, fmt.Errorf("%w: .helmignore: %q is a pattern that the release does not know", errChart, line)
		}
		patterns = append(patterns, line)
	}
	return func(name string, dir bool) bool {
		for _, pattern := range patterns {
			pattern, onlyDir := strings.CutSuffix(pattern, "/")
			subject := path.Base(name)
			if strings.Contains(pattern, "/") {
				pattern, subject = strings.TrimPrefix(pattern, "/"), name
			}
			if matched, err := path.Match(pattern, subject); err == nil && matched && (dir || !onlyDir) {
				return true
			}
		}
		return false
	}, nil
}
