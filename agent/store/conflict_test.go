// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestOnConflict(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "x", errors.New("changed"))
	for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
		if err := OnConflict(func() error { return fmt.Errorf("read: %w", ended) }); !errors.Is(err, ended) {
			t.Errorf("the end of a context is %v", err)
		}
	}
	if err := OnConflict(func() error { return conflict }); !apierrors.IsConflict(err) {
		t.Errorf("a conflict that does not end is %v", err)
	}
	tries := 0
	err := OnConflict(func() error {
		if tries++; tries < 3 {
			return conflict
		}
		return nil
	})
	if err != nil || tries != 3 {
		t.Errorf("%d tries, %v", tries, err)
	}
}
