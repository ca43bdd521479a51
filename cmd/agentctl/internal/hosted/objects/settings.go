// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// AnnotationSettings holds, on what init has made, what it was told.
const AnnotationSettings = v1alpha1.Prefix + "init"

// Settings are what a registry is made with. Its JSON is in an annotation, and is only ever added to.
type Settings struct {
	Image        string   `json:"image"`
	ServiceType  string   `json:"serviceType"`
	Advertise    string   `json:"advertise,omitempty"`
	Storage      string   `json:"storage"`
	StorageClass string   `json:"storageClass,omitempty"`
	Args         []string `json:"args,omitempty"`
	Agent        string   `json:"agent,omitempty"` // image of an agent beside the server
}

// SettingsOf is what an object was made with.
func SettingsOf(u *unstructured.Unstructured) (Settings, error) {
	var s Settings
	if err := json.Unmarshal([]byte(u.GetAnnotations()[AnnotationSettings]), &s); err != nil {
		return Settings{}, fmt.Errorf("its annotation %s is damaged", AnnotationSettings)
	}
	return s, nil
}

func (s Settings) encode() string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings alone
	}
	return string(data)
}
