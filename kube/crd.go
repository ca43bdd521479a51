// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
)

// ReadCRD reads the metadata of a CRD; it is nil when there is no CRD of that name. It needs permission to list CRDs, not
// to get them.
func (c *Client) ReadCRD(ctx context.Context, name string) (*metav1.ObjectMeta, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var list metav1.PartialObjectMetadataList
	request := c.requests.Get().AbsPath(crdPath).SetHeader("Accept", metadataListOnly)
	request.Param("fieldSelector", fields.OneTermEqualSelector("metadata.name", name).String())
	if err := decodeResponse(request.Do(ctx), &list); err != nil {
		return nil, classify(err)
	}
	if len(list.Items) == 0 {
		return nil, nil //nolint:nilnil // there is no such CRD
	}
	return &list.Items[0].ObjectMeta, nil
}

// ApplyCRD creates or updates a CRD by server-side apply, with force: it takes over fields that other managers own. Fields
// that crd does not have, such as labels of others, stay.
func (c *Client) ApplyCRD(ctx context.Context, crd *unstructured.Unstructured) error {
	data, err := crd.MarshalJSON()
	if err != nil {
		return fmt.Errorf("encode %s: %w", crd.GetName(), err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request := c.requests.Patch(types.ApplyPatchType).AbsPath(crdPath, crd.GetName())
	request.Param("fieldManager", fieldManager).Param("force", "true")
	return classify(request.Body(data).Do(ctx).Error())
}
