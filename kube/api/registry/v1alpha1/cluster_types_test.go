// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
)

// A list is encoded one Cluster after the other: in one piece, some that are read at once would be all in memory.
func TestListIsStreamed(t *testing.T) {
	list := ClusterList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: make([]Cluster, 20)}
	for i := range list.Items {
		list.Items[i].Name = "a"
	}
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	encoder := serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, scheme, scheme, serializer.SerializerOptions{StreamingCollectionsEncoding: true})
	var out writes
	if err := encoder.Encode(&list, &out); err != nil {
		t.Fatal(err)
	}
	if out.n < len(list.Items) {
		t.Errorf("%d Clusters in %d writes", len(list.Items), out.n)
	}
	var got ClusterList
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(list, got); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
}

// writes counts how often it is written to.
type writes struct {
	bytes.Buffer
	n int
}

func (w *writes) Write(data []byte) (int, error) {
	w.n++
	return w.Buffer.Write(data)
}
