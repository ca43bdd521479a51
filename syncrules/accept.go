// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Accepted is what an API server stored in place of a copy that it was given: see Accept.
type Accepted struct{ desired, local, desiredStatus, localStatus uint64 }

// Accept remembers what an API server answered to the write of a decision, if that differs from what was written: a
// mutating webhook changed it, say. While desired and stored copy stay the same, another write would change nothing,
// whatever Compare says. The zero value means that nothing is remembered.
func Accept(d Decision, answer *unstructured.Unstructured) Accepted {
	var a Accepted
	if d.Desired == nil {
		return a
	}
	if Compare(answer, d.Desired) != Same {
		a.desired, a.local = fingerprint(d.Desired), fingerprint(answer)
	}
	if d.Action == UpdateStatus && !sameStatus(answer, d.Desired) {
		a.desiredStatus, a.localStatus = hash(d.Desired.Object["status"]), hash(answer.Object["status"])
	}
	return a
}

// content says whether the local copy is what the server stored for this desired copy; the status aside.
func (a Accepted) content(desired, local *unstructured.Unstructured) bool {
	return a.local != 0 && a.desired == fingerprint(desired) && a.local == fingerprint(local)
}

// status says the same of the status.
func (a Accepted) status(desired, local *unstructured.Unstructured) bool {
	return a.localStatus != 0 && a.desiredStatus == hash(desired.Object["status"]) && a.localStatus == hash(local.Object["status"])
}

// sameStatus says that a copy has the status that it should have. If the rendered copy has no status, any is right: it
// is the target's own.
func sameStatus(local, desired *unstructured.Unstructured) bool {
	want := desired.Object["status"]
	return want == nil || covers(local.Object["status"], want, true)
}

// withStatus returns the local copy with the status of the rendered one.
func withStatus(local, desired *unstructured.Unstructured) *unstructured.Unstructured {
	out := local.DeepCopy()
	out.Object["status"] = runtime.DeepCopyJSONValue(desired.Object["status"])
	return out
}

// fingerprint hashes an object without its status and without the metadata that servers set.
func fingerprint(obj *unstructured.Unstructured) uint64 {
	content := maps.Clone(obj.Object)
	delete(content, "status")
	metadata := map[string]any{}
	for _, field := range []string{"labels", "annotations"} {
		if m := metadataMap(obj, field); len(m) > 0 {
			metadata[field] = m
		}
	}
	content["metadata"] = metadata
	return hash(content)
}

func hash(v any) uint64 {
	data, err := json.Marshal(v)
	if err != nil {
		return 0 // not JSON, so nothing that a server could have accepted
	}
	sum := sha256.Sum256(data)
	return binary.BigEndian.Uint64(sum[:8])
}
