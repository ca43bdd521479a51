// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/urfave/cli/v2"
	"sigs.k8s.io/yaml"
)

// fromFile sets flags from the --config file, unless the command line or the environment has set them. A key that is
// not a flag is an error, so that a typo is not ignored.
func fromFile(c *cli.Context) error {
	path := c.String("config")
	if path == "" {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		if reason, ok := errors.AsType[*fs.PathError](err); ok {
			err = reason.Err
		}
		return fmt.Errorf("%w: --config: %s: %w", errUsage, path, err)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict(data, &values); err != nil {
		return fmt.Errorf("%w: --config: %s: is not YAML with a key for each flag", errUsage, path)
	}
	for key, value := range values {
		i := slices.IndexFunc(c.Command.Flags, func(f cli.Flag) bool { return key != "config" && slices.Contains(f.Names(), key) })
		if i < 0 {
			return fmt.Errorf("%w: --config: %s: there is no flag %q", errUsage, path, key)
		}
		if c.IsSet(key) {
			continue
		}
		values := []any{value}
		if _, many := c.Command.Flags[i].(*cli.StringSliceFlag); many {
			if list, ok := value.([]any); ok {
				values = list
			}
		}
		for _, value := range values {
			if err := c.Set(key, fmt.Sprint(value)); err != nil {
				return fmt.Errorf("%w: --config: %s: %s: %v is not a value for it", errUsage, path, key, value)
			}
		}
	}
	return nil
}
