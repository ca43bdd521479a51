// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package consent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// TestConsentGolden runs the cases of testdata: allow.yaml is what a cluster allows, copies.yaml are rendered
// copies, and want is the result for each of them. ROSTER_UPDATE=1 updates want.
func TestConsentGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil || len(archive.Files) < 2 {
				t.Fatalf("not a case: %v", err)
			}
			got := consentOf(t, archive.Files[0].Data, archive.Files[1].Data)
			if os.Getenv("ROSTER_UPDATE") != "" {
				archive.Files = append(archive.Files[:2], txtar.File{Name: "want", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(archive.Files[2].Data), got); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
		})
	}
}

func consentOf(t *testing.T, allow, copies []byte) string {
	t.Helper()
	policy := Policy{Namespace: "cluster-registry"}
	if err := yaml.UnmarshalStrict(allow, &policy); err != nil {
		t.Fatalf("allow.yaml: %v", err)
	}
	if err := policy.Check(); err != nil {
		return err.Error() + "\n"
	}
	var out strings.Builder
	for document := range bytes.SplitSeq(copies, []byte("---\n")) {
		desired := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &desired.Object); err != nil {
			t.Fatalf("copies.yaml: %v", err)
		}
		err := policy.Refuse(desired)
		if err != nil && !errors.Is(err, ErrNeeded) {
			t.Errorf("%v is no refusal", err)
		}
		fmt.Fprintf(&out, "%s %s/%s: %v\n", desired.GetKind(), desired.GetNamespace(), desired.GetName(), err)
	}
	return out.String()
}
