// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Command crdfinish completes the CRDs that controller-gen wrote and writes the API reference from
// them.
//
// The schemas of metav1.LabelSelector and metav1.Condition come from apimachinery, and markers on our
// fields do not reach into them. Nothing bounds the former and any operator passes; it is completed
// here, so that operators are checked at admission instead of by each agent later.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	log.SetFlags(0)
	crds := flag.String("crds", "", "directory of the CRDs, completed in place")
	reference := flag.String("reference", "", "Markdown file to write the API reference to")
	flag.Parse()
	if err := run(*crds, *reference); err != nil {
		log.Fatal(err)
	}
}

func run(crds, reference string) error {
	files, err := filepath.Glob(filepath.Join(crds, "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no CRDs in %q", crds)
	}
	var all []apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		crd, err := finish(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, crd)
	}
	return os.WriteFile(reference, writeReference(all), 0o644)
}

// finish completes one CRD. It works on the YAML as a tree, since the typed form would add fields
// that a manifest does not have, such as an empty status.
func finish(file string) (crd apiextensionsv1.CustomResourceDefinition, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return crd, err
	}
	var tree map[string]any
	if err := yaml.UnmarshalStrict(data, &tree); err != nil {
		return crd, err
	}
	if err := addVersions(tree); err != nil {
		return crd, err
	}
	completeSelectors(tree)
	acceptHeartbeats(tree)
	data, err = yaml.Marshal(tree)
	if err != nil {
		return crd, err
	}
	if err := yaml.UnmarshalStrict(data, &crd); err != nil {
		return crd, err
	}
	header := "# Generated from kube/api by kube/api/generate.sh. DO NOT EDIT.\n"
	return crd, os.WriteFile(file, append([]byte(header), data...), 0o644)
}
