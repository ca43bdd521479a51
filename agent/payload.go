// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

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

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// What the replica carries for each kind: JSON, made by the origin and read by everybody else. A member may
// send anything it likes as its own payload, so decoding checks what the code below relies on; the API
// server checks the rest when a copy is written.

// ErrPayload is returned when a member published something that cannot be used.
var ErrPayload = errors.New("unusable payload")

// objectMeta is the part of the metadata that is the origin's to say.
type objectMeta struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// clusterPayload is a Cluster without its local parts: authInfo and all status that is not the origin's own
// report of itself (DESIGN section 5).
type clusterPayload struct {
	Name string `json:"name"`
	objectMeta
	Spec              v1alpha1.ClusterSpec `json:"spec"`
	Provider          string               `json:"provider,omitempty"`
	Distribution      string               `json:"distribution,omitempty"`
	Version           string               `json:"version,omitempty"`
	AgentVersion      string               `json:"agentVersion,omitempty"`
	KubeletVersions   []string             `json:"kubeletVersions,omitempty"`
	KubeProxyVersions []string             `json:"kubeProxyVersions,omitempty"`
	Locality          *v1alpha1.Locality   `json:"locality,omitempty"`
}

type rulePayload struct {
	objectMeta
	Spec v1alpha1.ResourceSyncRuleSpec `json:"spec"`
}

type featurePayload struct {
	objectMeta
	Spec v1alpha1.ClusterFeatureSpec `json:"spec"`
}

func encodeCluster(c *v1alpha1.Cluster) ([]byte, error) {
	spec := c.Spec.DeepCopy()
	spec.AuthInfo = v1alpha1.AuthInfo{}
	return json.Marshal(clusterPayload{
		Name:       c.Name,
		objectMeta: published(c),
		Spec:       *spec,
		Provider:   c.Status.Provider, Distribution: c.Status.Distribution, Version: c.Status.Version,
		AgentVersion:    c.Status.AgentVersion,
		KubeletVersions: c.Status.KubeletVersions, KubeProxyVersions: c.Status.KubeProxyVersions,
		Locality: c.Status.Locality,
	})
}

func encodeRule(r *v1alpha1.ResourceSyncRule) ([]byte, error) {
	return json.Marshal(rulePayload{objectMeta: published(r), Spec: r.Spec})
}

func encodeFeature(f *v1alpha1.ClusterFeature) ([]byte, error) {
	return json.Marshal(featurePayload{objectMeta: published(f), Spec: f.Spec})
}

// decodeCluster reads a Cluster payload of origin. The clusterID inside must be the origin's own: a member
// speaks for no other cluster.
func decodeCluster(origin string, payload []byte) (*clusterPayload, error) {
	var p clusterPayload
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
	p.objectMeta = p.accepted()
	return &p, nil
}

func decodeRule(origin, name string, payload []byte) (*rulePayload, error) {
	var p rulePayload
	if err := json.Unmarshal(payload, &p); err != nil {
		return nil, fmt.Errorf("%w: rule %s of %s: not JSON of a ResourceSyncRule", ErrPayload, name, origin)
	}
	if msgs := validation.IsDNS1123Subdomain(name); len(msgs) > 0 {
		return nil, fmt.Errorf("%w: a rule of %s: its name is not a valid object name", ErrPayload, origin)
	}
	p.objectMeta = p.accepted()
	return &p, nil
}

func decodeFeature(origin, name string, payload []byte) (*v1alpha1.ClusterFeature, error) {
	var p featurePayload
	if err := json.Unmarshal(payload, &p); err != nil {
		return nil, fmt.Errorf("%w: feature %s of %s: not JSON of a ClusterFeature", ErrPayload, name, origin)
	}
	return &v1alpha1.ClusterFeature{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: p.Labels, Annotations: p.Annotations},
		Spec:       p.Spec,
	}, nil
}

// published is what of an object's labels and annotations leaves its cluster.
func published(o metav1.Object) objectMeta {
	return objectMeta{Labels: filter(o.GetLabels()), Annotations: filter(o.GetAnnotations())}
}

// accepted drops what a peer has no say in.
func (m objectMeta) accepted() objectMeta {
	return objectMeta{Labels: filter(m.Labels), Annotations: filter(m.Annotations)}
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

// report copies what the origin says of itself into a status, as far as the status has room for it.
func (p *clusterPayload) report(s *v1alpha1.ClusterStatus) {
	s.Provider, s.Distribution, s.Version = clip(p.Provider), clip(p.Distribution), clip(p.Version)
	s.AgentVersion = clip(p.AgentVersion)
	s.KubeletVersions, s.KubeProxyVersions = clipAll(p.KubeletVersions, maxWords), clipAll(p.KubeProxyVersions, maxWords)
	s.Locality = nil
	if l := p.Locality; l != nil {
		s.Locality = &v1alpha1.Locality{Region: clip(l.Region), Regions: clipAll(l.Regions, maxWords), Zones: clipAll(l.Zones, maxZones)}
	}
}

func clip(word string) string {
	if len(word) <= maxWord {
		return word
	}
	return strings.ToValidUTF8(word[:maxWord], "")
}

// clipAll also drops what is there twice: the lists are sets.
func clipAll(words []string, most int) []string {
	var out []string
	for _, word := range words {
		if word = clip(word); len(out) < most && !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	return out
}

func describe(m kube.Metadata, s *v1alpha1.ClusterStatus) {
	s.Provider, s.Distribution, s.Version = m.Provider, m.Distribution, m.Version
	s.KubeletVersions, s.KubeProxyVersions = m.KubeletVersions, m.KubeProxyVersions
	s.Locality = m.Locality
}

// mergeMeta gives an existing copy the origin's labels and annotations and keeps its local ones.
func mergeMeta(have map[string]string, want map[string]string) map[string]string {
	out := make(map[string]string, len(have)+len(want))
	for k, v := range have {
		if !syncrules.Travels(k, v) {
			out[k] = v
		}
	}
	maps.Copy(out, want)
	return out
}

// mark makes o a copy of owner's object.
func mark(o metav1.Object, m objectMeta, owner string) {
	labels, annotations := mergeMeta(o.GetLabels(), m.Labels), mergeMeta(o.GetAnnotations(), m.Annotations)
	delete(annotations, v1alpha1.AnnotationOrphaned)
	labels[v1alpha1.AnnotationOwnerClusterID] = owner
	annotations[v1alpha1.AnnotationOwnerClusterID] = owner
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
}

// has tells whether an annotation is there; the ones of the registry count by presence, whatever their value.
func has(o metav1.Object, annotation string) bool {
	_, ok := o.GetAnnotations()[annotation]
	return ok
}

// clashName is what a cluster is called where another one holds its name already: NAME-<8 hex of clusterID>.
func clashName(name, clusterID string) string {
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
