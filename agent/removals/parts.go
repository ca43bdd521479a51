// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package removals

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// secretName is what the Secrets are called that hold what does not fit into the first one.
func secretName(first string, i int) string {
	if i == 0 {
		return first
	}
	return fmt.Sprintf("%s-%d", first, i+1)
}

// readAll reads the data of the Secrets of that name.
func readAll(ctx context.Context, secrets Store, first string) (all []map[string][]byte, err error) {
	for {
		secret, err := secrets.Read(ctx, secretName(first, len(all)))
		if apierrors.IsNotFound(err) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, secret.Data)
	}
}

// replaceAll makes the Secrets of that name hold want. What a Secret has stays there, so that few of them change. What has to move since
// one is too large is in its new Secret before it is missing in the old one.
func replaceAll(ctx context.Context, secrets Store, first string, want map[string][]byte) error {
	have, err := readAll(ctx, secrets, first)
	if err != nil {
		return err
	}
	parts, full := pack(have, want)
	for _, last := range []bool{false, true} {
		for i, data := range parts {
			if full[i] != last || i < len(have) && maps.EqualFunc(have[i], data, bytes.Equal) {
				continue
			}
			if err := secrets.Replace(ctx, secretName(first, i), data); err != nil {
				return err
			}
		}
	}
	return nil
}

// pack divides want into parts of at most maxBytes. Each stays in the part of have that it is in; full are those that it has not all
// of them any more.
func pack(have []map[string][]byte, want map[string][]byte) (parts []map[string][]byte, full []bool) {
	parts, full = make([]map[string][]byte, len(have)), make([]bool, len(have))
	sizes := make([]int, len(have))
	placed := make(map[string]bool, len(want))
	put := func(i int, key string) bool {
		size := len(key) + len(want[key])
		if sizes[i] > 0 && sizes[i]+size > maxBytes {
			return false
		}
		parts[i][key], placed[key] = want[key], true
		sizes[i] += size
		return true
	}
	for i, data := range have {
		parts[i] = map[string][]byte{}
		for _, key := range slices.Sorted(maps.Keys(data)) {
			if want[key] != nil && !placed[key] && !put(i, key) {
				full[i] = true
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		for i := 0; !placed[key]; i++ {
			if i == len(parts) {
				parts, full, sizes = append(parts, map[string][]byte{}), append(full, false), append(sizes, 0)
			}
			if !full[i] {
				put(i, key)
			}
		}
	}
	return parts, full
}
