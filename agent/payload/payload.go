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

// ErrPayload is returned when a member published something that cannot be used.
var ErrPayload = errors.New("unusable payload")

// Meta is the part of the metadata that is the origin's to say.
type Meta struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Cluster is a Cluster without its local parts: authInfo and all status that is not the origin's own
// report of itself (DESIGN section 5).
type Cluster struct {
	Name string `json:"name"`
	Meta
	Spec              v1alpha1.ClusterSpec `json:"spec"`
	Provider          string               `json:"provider,omitempty"`
	Distribution      string               `json:"distribution,omitempty"`
	Version           string               `json:"version,omitempty"`
	AgentVersion      string               `json:"agentVersion,omitempty"`
	KubeletVersions   []string             `json:"kubeletVersions,omitempty"`
	KubeProxyVersions []string             `json:"kubeProxyVersions,omitempty"`
	Locality          *v1alpha1.Locality   `json:"locality,omitempty"`
}

// Rule is a ResourceSyncRule without what is local.
type Rule struct {
	Meta
	Spec v1alpha1.ResourceSyncRuleSpec `json:"spec"`
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
		AgentVersion:    c.Status.AgentVersion,
		KubeletVersions: c.Status.KubeletVersions, KubeProxyVersions: c.Status.KubeProxyVersions,
		Locality: c.Status.Locality,
	})
}

// EncodeRule returns the payload of a rule.
func EncodeRule(r *v1alpha1.ResourceSyncRule) ([]byte, error) {
	return json.Marshal(Rule{Meta: published(r), Spec: r.Spec})
}

// EncodeFeature returns the payload of a feature.
func EncodeFeature(f *v1alpha1.ClusterFeature) ([]byte, error) {
	return json.Marshal(feature{Meta: published(f), Spec: f.Spec})
}

// DecodeCluster reads a Cluster payload of origin. The clusterID inside must be the origin's own: a member
// speaks for no other cluster.
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

// DecodeRule reads the payload of the rule of that name of origin.
func DecodeRule(origin, name string, payload []byte) (*Rule, error) {
	var p Rule
	if err := json.Unmarshal(payload, &p); err != nil {
		return nil, fmt.Errorf("%w: rule %s of %s: not JSON of a ResourceSyncRule", ErrPayload, name, origin)
	}
	if msgs := validation.IsDNS1123Subdomain(name); len(msgs) > 0 {
		return nil, fmt.Errorf("%w: a rule of %s: its name is not a valid object name", ErrPayload, origin)
	}
	p.Meta = p.accepted()
	return &p, nil
}

// DecodeFeature reads the payload of the feature of that name of origin.
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

// published is what of an object's labels and annotations leaves its cluster.
func published(o metav1.Object) Meta {
	return Meta{Labels: filter(o.GetLabels()), Annotations: filter(o.GetAnnotations())}
}

// accepted drops what a peer has no say in.
func (m Meta) accepted() Meta {
	return Meta{Labels: filter(m.Labels), Annotations: filter(m.Annotations)}
}

func filter(in map[string]string) map[string]string {
	var out map[string]string
	for k, v := range in {
		if !syncrules.Travels(k, v) {
			continue
		}
		if out == nil {
			out = make(map[string]string, len(in))
		}
		out[k] = v
	}
	return out
}

// Bounds of what a status has room for.
const (
	maxWord  = 253
	maxWords = 64
	maxZones = 256
)

// Report copies what the origin says of itself into a status, as far as the status has room for it.
func (p *Cluster) Report(s *v1alpha1.ClusterStatus) {
	s.Provider, s.Distribution, s.Version = Clip(p.Provider), Clip(p.Distribution), Clip(p.Version)
	s.AgentVersion = Clip(p.AgentVersion)
	s.KubeletVersions, s.KubeProxyVersions = clipAll(p.KubeletVersions, maxWords), clipAll(p.KubeProxyVersions, maxWords)
	s.Locality = nil
	if l := p.Locality; l != nil {
		s.Locality = &v1alpha1.Locality{Region: Clip(l.Region), Regions: clipAll(l.Regions, maxWords), Zones: clipAll(l.Zones, maxZones)}
	}
}

// Clip cuts a word to what a status has room for.
func Clip(word string) string {
	if len(word) <= maxWord {
		return word
	}
	return strings.ToValidUTF8(word[:maxWord], "")
}

// clipAll also drops what is there twice: the lists are sets.
func clipAll(words []string, most int) []string {
	var out []string
	for _, word := range words {
		if word = Clip(word); len(out) < most && !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	return out
}

// MergeMeta gives an existing copy the origin's labels and annotations and keeps its local ones.
func MergeMeta(have map[string]string, want map[string]string) map[string]string {
	out := make(map[string]string, len(have)+len(want))
	for k, v := range have {
		if !syncrules.Travels(k, v) {
			out[k] = v
		}
	}
	maps.Copy(out, want)
	return out
}

// Mark makes o a copy of owner's object.
func Mark(o metav1.Object, m Meta, owner string) {
	labels, annotations := MergeMeta(o.GetLabels(), m.Labels), MergeMeta(o.GetAnnotations(), m.Annotations)
	delete(annotations, v1alpha1.AnnotationOrphaned)
	labels[v1alpha1.AnnotationOwnerClusterID] = owner
	annotations[v1alpha1.AnnotationOwnerClusterID] = owner
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
}

// Has tells whether an annotation is there; the ones of the registry count by presence, whatever their value.
func Has(o metav1.Object, annotation string) bool {
	_, ok := o.GetAnnotations()[annotation]
	return ok
}

// ClashName is what a cluster is called where another one holds its name already: NAME-<8 hex of clusterID>.
func ClashName(name, clusterID string) string {
	hex8 := shortID(clusterID)
	return strings.TrimRight(name[:min(len(name), validation.DNS1123SubdomainMaxLength-len(hex8)-1)], ".-") + "-" + hex8
}

// shortID is eight hex digits that stand for a clusterID: its own first ones when it is a UID.
func shortID(clusterID string) string {
	if len(clusterID) >= 8 {
		if _, err := hex.DecodeString(clusterID[:8]); err == nil {
			return strings.ToLower(clusterID[:8])
		}
	}
	sum := sha256.Sum256([]byte(clusterID))
	return hex.EncodeToString(sum[:4])
}
