// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	view "github.com/roster-mesh/roster/kube/api/registry/v1alpha1"
	"github.com/roster-mesh/roster/kube/apiserver/registry/rights"
)

//nolint:gochecknoglobals // never changed
var columns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "Name of the cluster."},
	{Name: "OK", Type: "string", Description: "Whether the cluster's API server answers: True, False or Unknown."},
	{Name: "Server", Type: "string", Description: "The first address of the cluster's API server."},
	{Name: "Group", Type: "string", Description: "The group that the cluster is in, from label " + rights.GroupLabel + "."},
	{Name: "Age", Type: "string", Description: "How long the Cluster has been here."},
	{Name: "Message", Type: "string", Priority: 1, Description: "What condition OK says."},
}

// ConvertToTable implements rest.TableConvertor.
func (s *store) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	out := &metav1.Table{}
	if list, err := meta.ListAccessor(obj); err == nil {
		out.ResourceVersion, out.Continue = list.GetResourceVersion(), list.GetContinue()
	} else if one, err := meta.CommonAccessor(obj); err == nil {
		out.ResourceVersion = one.GetResourceVersion()
	}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		out.ColumnDefinitions = columns
	}
	var err error
	out.Rows, err = metatable.MetaToTableRow(obj, func(obj runtime.Object, m metav1.Object, name, _ string) ([]any, error) {
		ok, message, server := "", "", ""
		if c, is := obj.(*view.Cluster); is {
			for i := range c.Status.Conditions {
				if c.Status.Conditions[i].Type == view.ClusterOK {
					ok, message = string(c.Status.Conditions[i].Status), c.Status.Conditions[i].Message
				}
			}
			if all := c.Spec.KubernetesAPIEndpoints.ServerEndpoints; len(all) > 0 {
				server = all[0].ServerAddress
			}
		}
		return []any{name, ok, server, m.GetLabels()[rights.GroupLabel], age(m.GetCreationTimestamp()), message}, nil
	})
	return out, err
}

func age(since metav1.Time) string {
	if since.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(since.Time))
}
