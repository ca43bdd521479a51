// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package payload

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// ErrPayload is returned when a payload of a member cannot be used.
var ErrPayload = errors.New("unusable payload")

// Meta is the part of the metadata that the origin decides.
type Meta struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Cluster is a Cluster object without its local parts: without authInfo, and with only that part of the status that the
// origin reports of itself (DESIGN section 5).
type Cluster struct {
	Name string `json:"name"`
	Meta
	Spec              v1alpha1.ClusterSpec `json:"spec"`
	Provider          string               `json:"provider,omitempty"`
	Distribution      string               `json:"distribution,omitempty"`
	Version           string               `json:"version,omitempty"`
	AgentVersion      string               `json:"agentVersion,omitempty"`
	SchemaVersion     int32                `json:"schemaVersion,omitempty"`
	KubeletVersions   []string             `json:"kubeletVersions,omitempty"`
	KubeProxyVersions []string             `json:"kubeProxyVersions,omitempty"`
	Locality          *v1alpha1.Locality   `json:"locality,omitempty"`
}

type feature struct {
	Meta
	Spec v1alpha1.ClusterFeatureSpec `json:"spec"`
}

// EncodeCluster returns the payload of this cluster's own Cluster object.
func EncodeCluster(c *v1alpha1.Cluster) ([]byte, error) {
	spec := c.Spec.DeepCopy()
	spec.AuthInfo = v1alpha1.AuthInfo{}
	return json.Marshal(Cluster{
		Name:     c.Name,
		Meta:     published(c),
		Spec:     *spec,
		Provider: c.Status.Provider, Distribution: c.Status.Distribution, Version: c.Status.Version,
		AgentVersion: c.Status.AgentVersion, SchemaVersion: c.Status.SchemaVersion,
		KubeletVersions: c.Status.KubeletVersions, KubeProxyVersions: c.Status.KubeProxyVersions,
		Locality: c.Status.Locality,
	})
}

// EncodeFeature returns the payload of a feature.
func EncodeFeature(f *v1alpha1.ClusterFeature) ([]byte, error) {
	return json.Marshal(feature{Meta: published(f), Spec: f.Spec})
}

// DecodeCluster decodes the Cluster payload of origin. The clusterID inside must be that of origin: a member publishes
// no other cluster.
func DecodeCluster(origin string, payload []byte) (*Cluster, error) {
	var p Cluster
	if err := json.Unmarshal(payload, &p); err != nil {
		return nil, fmt.Errorf("%w: cluster of %s: not JSON of a Cluster", ErrPayload, origin)
	}
	if string(p.Spec.ClusterID) != origin {
		return nil, fmt.Errorf("%w: cluster of %s: spec.clusterID names another cluster", ErrPayload, origin)
	}
	if msgs := validation.IsDNS1123Subdomain(p.Name); len(msgs) > 0 {
		return nil, fmt.Errorf("%w: cluster of %s: its name is not a valid object name", ErrPayload, origin)
	}
	p.Spec.AuthInfo = v1alpha1.AuthInfo{}
	p.Meta = p.accepted()
	return &p, nil
}

// DecodeFeature decodes the payload of a feature of origin.
func DecodeFeature(origin, name string, payload []byte) (*v1alpha1.ClusterFeature, error) {
	var p feature
	if err := json.Unmarshal(payload, &p); err != nil {
		return nil, fmt.Errorf("%w: feature %s of %s: not JSON of a ClusterFeature", ErrPayload, name, origin)
	}
	return &v1alpha1.ClusterFeature{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: p.Labels, Annotations: p.Annotations},
		Spec:       p.Spec,
	}, nil
}

// published are the labels and annotations of an object that leave its cluster.
func published(o metav1.Object) Meta {
	return Meta{Labels: filter(o.GetLabels()), Annotations: filter(o.GetAnnotations())}
}

// accepted drops the labels and annotations that a peer may not set.
func (m Meta) accepted() Meta {
	return Meta{Labels: filter(m.Labels), Annotations: filter(m.Annotations)}
}

func filter(in map[string]string) map[string]string {
	var out map[string]string
	for k, v := range in {
		if !syncrules.Propagates(k, v) {
			continue
		}
		if out == nil {
			out = make(map[string]string, len(in))
		}
		out[k] = v
	}
	return out
}

// Limits of strings and lists in a status.
const (
	maxWord  = 253
	maxWords = 64
	maxZones = 256
)

// Report copies what the origin reports of itself into a status, within the limits.
func (p *Cluster) Report(s *v1alpha1.ClusterStatus) {
	s.Provider, s.Distribution, s.Version = Clip(p.Provider), Clip(p.Distribution), Clip(p.Version)
	s.AgentVersion, s.SchemaVersion = Clip(p.AgentVersion), max(0, p.SchemaVersion)
	s.KubeletVersions, s.KubeProxyVersions = clipAll(p.KubeletVersions, maxWords), clipAll(p.KubeProxyVersions, maxWords)
	s.Locality = nil
	if l := p.Locality; l != nil {
		s.Locality = &v1alpha1.Locality{Region: Clip(l.Region), Regions: clipAll(l.Regions, maxWords), Zones: clipAll(l.Zones, maxZones)}
	}
}

// Clip shortens a string to the limit of a status.
func Clip(word string) string {
	if len(word) <= maxWord {
		return word
	}
	return strings.ToValidUTF8(word[:maxWord], "")
}

// clipAll also drops duplicates: the lists are sets.
func clipAll(words []string, most int) []string {
	var out []string
	for _, word := range words {
		if word = Clip(word); len(out) < most && !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	return out
}

// MergeMeta are the labels or annotations of a copy: those of the origin, and those that are local to the copy.
func MergeMeta(have map[string]string, want map[string]string) map[string]string {
	out := make(map[string]string, len(have)+len(want))
	for k, v := range have {
		if !syncrules.Propagates(k, v) {
			out[k] = v
		}
	}
	maps.Copy(out, want)
	return out
}

// MarkCopy makes o a copy of an object of owner: it sets the metadata of the origin, and the owner.
func MarkCopy(o metav1.Object, m Meta, owner string) {
	labels, annotations := MergeMeta(o.GetLabels(), m.Labels), MergeMeta(o.GetAnnotations(), m.Annotations)
	delete(annotations, v1alpha1.AnnotationOrphaned)
	labels[v1alpha1.AnnotationOwnerClusterID] = owner
	annotations[v1alpha1.AnnotationOwnerClusterID] = owner
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
}

// Has reports whether an object has an annotation, with any value.
func Has(o metav1.Object, annotation string) bool {
	_, ok := o.GetAnnotations()[annotation]
	return ok
}

// ClashName is the name of a copy if another cluster has its name already: NAME-<8 hex digits of the clusterID>.
func ClashName(name, clusterID string) string {
	hex8 := shortID(clusterID)
	return strings.TrimRight(name[:min(len(name), validation.DNS1123SubdomainMaxLength-len(hex8)-1)], ".-") + "-" + hex8
}

// shortID is eight hex digits for a clusterID: its first ones if it is a UID, else those of a hash.
func shortID(clusterID string) string {
	if len(clusterID) >= 8 {
		if _, err := hex.DecodeString(clusterID[:8]); err == nil {
			return strings.ToLower(clusterID[:8])
		}
	}
	sum := sha256.Sum256([]byte(clusterID))
	return hex.EncodeToString(sum[:4])
}
