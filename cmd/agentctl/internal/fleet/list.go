// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/syncrules"
)

const (
	// pageSize is how many objects are asked for at a time. The largest rules and Clusters of a large group take less than
	// MaxAnswer then.
	pageSize = 50
	// maxObject bounds one object, in bytes: etcd takes none that is larger.
	maxObject = 2 << 20
	// maxList bounds all pages of a list together: as many members as are asked at a time have one each.
	maxList = 4 * MaxAnswer
)

// named is a type of objects.
type named[T any] interface {
	*T
	GetName() string
}

// List reads the objects of a kind of a member, whole or not at all, in name order.
func List[T any, P named[T]](ctx context.Context, m *Member, resource schema.GroupVersionResource) ([]*T, error) {
	return ListIn[T, P](ctx, m, resource, syncrules.Scope{})
}

// ListIn is List of a part of the objects.
func ListIn[T any, P named[T]](ctx context.Context, m *Member, resource schema.GroupVersionResource, in syncrules.Scope) ([]*T, error) {
	var out []*T
	taken := 0
	for after := ""; ; {
		data, err := page(ctx, m.Client, resource, in, after)
		if apierrors.IsNotFound(err) {
			return nil, &clusters.NotInstalledError{Kind: resource.Resource}
		}
		if err != nil {
			return nil, err
		}
		if taken += len(data); taken > maxList {
			return nil, fmt.Errorf("its %s: they are larger than %d MiB together", resource.Resource, maxList>>20)
		}
		if out, after, err = decode(ctx, m, data, out); err != nil {
			return nil, fmt.Errorf("its %s: %w", resource.Resource, err)
		}
		if after == "" {
			slices.SortFunc(out, func(a, b *T) int { return strings.Compare(P(a).GetName(), P(b).GetName()) })
			return out, nil
		}
	}
}

// page reads the first objects of a kind in a scope, as JSON, or those after the token that the page before it has.
func page(ctx context.Context, c *clusters.Client, resource schema.GroupVersionResource, in syncrules.Scope, after string) ([]byte, error) {
	path := []string{"apis", resource.Group, resource.Version}
	if resource.Group == "" {
		path = []string{"api", resource.Version}
	}
	if in.Namespace != "" {
		path = append(path, "namespaces", in.Namespace)
	}
	answer := c.Requests.Get().AbsPath(append(path, resource.Resource)...).
		Param("limit", strconv.Itoa(pageSize)).Param("continue", after).
		Param("labelSelector", in.LabelSelector).Param("fieldSelector", in.FieldSelector).Do(ctx)
	if err := answer.Error(); err != nil { // it reads what the server says, as Raw does not
		return nil, err
	}
	return answer.Raw()
}

// Read reads what is at a path of a member, whatever it is. It is an error when that is more than MaxAnswer.
func Read(ctx context.Context, m *Member, path string, query map[string]string) ([]byte, error) {
	request := m.Client.Requests.Get().AbsPath(path)
	for name, value := range query {
		request = request.Param(name, value)
	}
	body, err := request.Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, MaxAnswer+1))
	if err == nil && len(data) > MaxAnswer { // the own cluster's answers have no other bound
		err = fmt.Errorf("the answer is larger than %d MiB", MaxAnswer>>20)
	}
	return data, err
}

// decode adds what a page holds, and returns where the next one begins; "" for nowhere.
func decode[T any](ctx context.Context, m *Member, data []byte, out []*T) ([]*T, string, error) {
	select {
	case m.decoding <- struct{}{}:
	case <-ctx.Done():
		return nil, "", ctx.Err()
	}
	defer func() { <-m.decoding }()
	var page struct {
		Metadata struct {
			Continue string `json:"continue"`
		} `json:"metadata"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(data, &page); err != nil {
		return nil, "", errors.New("the answer is not a list") // err quotes it
	}
	if len(out)+len(page.Items) > clusters.MaxListed {
		return nil, "", fmt.Errorf("there are more than %d", clusters.MaxListed)
	}
	if page.Metadata.Continue != "" && len(page.Items) == 0 {
		return nil, "", errors.New("a page without objects is not the last one") // it would never end
	}
	for _, item := range page.Items {
		if len(item) > maxObject {
			return nil, "", fmt.Errorf("an object is larger than %d MiB", maxObject>>20)
		}
		one := new(T)
		if err := json.Unmarshal(item, one); err != nil {
			return nil, "", errors.New("an object is not of its kind")
		}
		out = append(out, one)
	}
	return out, page.Metadata.Continue, nil
}
