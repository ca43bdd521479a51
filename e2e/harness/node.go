// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AddNode creates a Node object that stands in for a machine at a provider: control planes without nodes
// have none, and a cluster's provider, distribution and region are read from them.
func (c *Cluster) AddNode(ctx context.Context, name, providerID, region, zone string, labels map[string]string) error {
	version, err := c.Kube.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelTopologyRegion: region, corev1.LabelTopologyZone: zone,
	}}}
	maps.Copy(node.Labels, labels)
	node.Spec.ProviderID = providerID
	node.Status.NodeInfo.KubeletVersion = version.GitVersion
	if _, err := c.Kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("add node to %s: %w", c.Name, err)
	}
	return nil
}
