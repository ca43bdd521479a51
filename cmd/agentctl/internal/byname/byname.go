// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package byname reads the objects that a command line names as KIND/NAME. KIND is written as for kubectl: secret, cm, deploy.apps.
package byname

import (
	"cmp"
	"context"
	"strings"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/syncrules"
)

// Validate checks what can be checked without a cluster.
func Validate(objects []string) error {
	for _, text := range objects {
		if kind, name, found := strings.Cut(text, "/"); !found || kind == "" || name == "" {
			return cli.Usagef("%q is not KIND/NAME", text)
		}
	}
	return nil
}

// Place is where the object is. Without a namespace it is in the context's, or else in default; kinds that have none ignore it.
func Place(ctx context.Context, reader *clusters.Reader, text, namespace string) (syncrules.Place, error) {
	kind, name, _ := strings.Cut(text, "/")
	gvk, err := reader.ParseKind(ctx, kind)
	if err != nil {
		return syncrules.Place{}, err
	}
	at := syncrules.Place{GroupVersionKind: gvk, Name: name}
	namespaced, err := reader.IsNamespaced(ctx, gvk)
	if err != nil {
		return at, reader.Errorf("%w", err)
	}
	if namespaced {
		at.Namespace = cmp.Or(namespace, reader.Namespace, "default")
	}
	return at, nil
}
