// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package hosted

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// annotationSettings holds, on what init has made, what it was told.
const annotationSettings = v1alpha1.Prefix + "init"

// settings are what a registry is made with. Its JSON is in an annotation, and is only ever added to.
type settings struct {
	Image        string   `json:"image"`
	ServiceType  string   `json:"serviceType"`
	Advertise    string   `json:"advertise,omitempty"`
	Storage      string   `json:"storage"`
	StorageClass string   `json:"storageClass,omitempty"`
	Args         []string `json:"args,omitempty"`
}

// settingsOf is what an object was made with.
func settingsOf(u *unstructured.Unstructured) (settings, error) {
	var s settings
	if err := json.Unmarshal([]byte(u.GetAnnotations()[annotationSettings]), &s); err != nil {
		return settings{}, fmt.Errorf("its annotation %s is damaged", annotationSettings)
	}
	return s, nil
}

func (s settings) encode() string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings alone
	}
	return string(data)
}

// over returns the settings that are in force where a registry was begun with others: those. What the user gave this time
// must be the same.
func (s settings) over(begun settings, registry string, given func(flag string) bool) (settings, error) {
	for _, field := range []struct{ flag, have, want string }{
		{"image", begun.Image, s.Image},
		{"service-type", begun.ServiceType, s.ServiceType},
		{"advertise", begun.Advertise, s.Advertise},
		{"storage", begun.Storage, s.Storage},
		{"storage-class", begun.StorageClass, s.StorageClass},
		{"apiserver-arg", strings.Join(begun.Args, " "), strings.Join(s.Args, " ")},
	} {
		if given(field.flag) && field.have != field.want {
			return settings{}, cli.Usagef("--%s: registry %s is there, and was made with %q: leave the flag out, or run `agentctl delete %s` first, which keeps the data", field.flag, registry, field.have, registry)
		}
	}
	begun.Args = slices.Clip(begun.Args)
	return begun, nil
}
