// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	stdjson "encoding/json"
	"errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/json"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/kube/client/versioned/scheme"
)

// errUnreadable is returned for a stored Cluster with a value that its API server takes and Go does not, such as a time with a
// lower-case t. It does not tell the value, which may be hidden.
var errUnreadable = error(apierrors.NewInternalError(errors.New("what is stored cannot be read: correct it in the stored form, its times first")))

// once makes a request of one about the stored Clusters that is sent once. When to try again is for the caller to decide: he is
// told what is said behind; and what was not answered, or not well, may have been written.
func once(r *rest.Request, options runtime.Object) *rest.Request {
	return r.Resource(resourceClusters).VersionedParams(options, scheme.ParameterCodec).SetHeader("Accept", runtime.ContentTypeJSON).MaxRetries(0)
}

// read is a request that reads.
func (s *Server) read(options runtime.Object) *rest.Request {
	return once(s.o.Clusters.RESTClient().Get(), options)
}

// written sends a request that writes one stored Cluster, and returns it as it is then.
func written(ctx context.Context, r *rest.Request) (*v1alpha1.Cluster, error) {
	body, err := raw(r.Do(ctx))
	if err != nil {
		return nil, err
	}
	c, err := decode(body)
	if c != nil {
		return c, nil
	}
	return nil, err
}

// stored lists the stored Clusters. What client-go makes of an answer reads it several times, to find out its kind and to check
// what nobody asked to be checked: of a thousand Clusters, that took longer than everything else.
func (s *Server) stored(ctx context.Context, o metav1.ListOptions) (*v1alpha1.ClusterList, error) {
	body, err := raw(s.read(&o).Do(ctx))
	if err != nil {
		return nil, err
	}
	out := &v1alpha1.ClusterList{}
	if json.UnmarshalCaseSensitivePreserveInts(body, out) == nil {
		return out, nil
	}
	var parts struct {
		metav1.ListMeta `json:"metadata"`

		Items []stdjson.RawMessage `json:"items"`
	}
	if json.UnmarshalCaseSensitivePreserveInts(body, &parts) != nil {
		return nil, errUnreadable
	}
	out = &v1alpha1.ClusterList{ListMeta: parts.ListMeta}
	for _, part := range parts.Items {
		if c, _ := decode(part); c != nil {
			out.Items = append(out.Items, *c)
		}
	}
	return out, nil
}

// one returns a stored Cluster. Of one that cannot be read it returns the metadata, and errUnreadable.
func (s *Server) one(ctx context.Context, name string, o metav1.GetOptions) (*v1alpha1.Cluster, error) {
	body, err := raw(s.read(&o).Name(name).Do(ctx))
	if err != nil {
		return nil, err
	}
	return decode(body)
}

// raw is the body of an answer. Its Raw alone would not tell what a Status says.
func raw(answer rest.Result) ([]byte, error) {
	if err := answer.Error(); err != nil {
		return nil, err
	}
	return answer.Raw()
}

func decode(body []byte) (*v1alpha1.Cluster, error) {
	out := &v1alpha1.Cluster{}
	if json.UnmarshalCaseSensitivePreserveInts(body, out) == nil {
		return out, nil
	}
	known := &metav1.PartialObjectMetadata{}
	if json.UnmarshalCaseSensitivePreserveInts(body, known) != nil {
		return nil, errUnreadable
	}
	return &v1alpha1.Cluster{ObjectMeta: known.ObjectMeta}, errUnreadable
}
