// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

const (
	license     = "Apache-2.0"
	authors     = "The Roster Authors"
	noAssertion = "NOASSERTION"
	stdlib      = "stdlib" // the module that Go itself is listed as
	ownModule   = "github.com/roster-mesh/roster"
)

// The part of SPDX 2.3 that is used here: https://spdx.github.io/spdx-spec/v2.3/

type spdxDocument struct {
	Version       string             `json:"spdxVersion"`
	License       string             `json:"dataLicense"`
	ID            string             `json:"SPDXID"`
	Name          string             `json:"name"`
	Namespace     string             `json:"documentNamespace"`
	Creation      spdxCreation       `json:"creationInfo"`
	Packages      []spdxPackage      `json:"packages"`
	Relationships []spdxRelationship `json:"relationships"`
}

type spdxCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	ID        string         `json:"SPDXID"`
	Name      string         `json:"name"`
	Version   string         `json:"versionInfo"`
	File      string         `json:"packageFileName,omitempty"`
	Purpose   string         `json:"primaryPackagePurpose"`
	Location  string         `json:"downloadLocation"`
	Analyzed  bool           `json:"filesAnalyzed"`
	Concluded string         `json:"licenseConcluded"`
	Declared  string         `json:"licenseDeclared"`
	Copyright string         `json:"copyrightText"`
	Supplier  string         `json:"supplier"`
	Source    string         `json:"sourceInfo,omitempty"`
	Checksums []spdxChecksum `json:"checksums,omitempty"`
	Refs      []spdxRef      `json:"externalRefs,omitempty"`
}

type spdxChecksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type spdxRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxRelationship struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

// writeSBOM lists what the binaries were linked from, as their own build information says it: each binary with its
// checksum, and the Go modules and the Go version that it depends on.
func (r *release) writeSBOM(name string, binaries []*binary) error {
	const root = "SPDXRef-DOCUMENT"
	doc := spdxDocument{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: root, Name: name,
		Creation: spdxCreation{Created: r.date.Format(time.RFC3339), Creators: []string{"Organization: " + authors, "Tool: roster-release-" + r.version}},
	}
	modules := map[string]spdxPackage{}
	all := sha256.New()
	for _, b := range binaries {
		all.Write(b.sum[:])
		p := r.binaryPackage(b)
		doc.Packages = append(doc.Packages, p)
		doc.Relationships = append(doc.Relationships, spdxRelationship{root, "DESCRIBES", p.ID})
		for _, m := range dependencies(b.info) {
			module := modulePackage(m)
			modules[module.ID] = module
			doc.Relationships = append(doc.Relationships, spdxRelationship{p.ID, "DEPENDS_ON", module.ID})
		}
	}
	doc.Packages = slices.AppendSeq(doc.Packages, maps.Values(modules))
	slices.SortStableFunc(doc.Packages[len(binaries):], func(a, b spdxPackage) int { return cmp.Compare(a.ID, b.ID) })
	// Unique to what it describes, without a random number.
	doc.Namespace = source + "/sbom/" + name + "/" + hex.EncodeToString(all.Sum(nil))
	return r.create(name+".spdx.json", func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", " ")
		return enc.Encode(doc)
	})
}

func (r *release) binaryPackage(b *binary) spdxPackage {
	return spdxPackage{
		ID:   spdxID("Binary", b.name, b.platform.os, b.platform.arch),
		Name: b.name, Version: r.version, File: b.platform.os + "_" + b.platform.arch + "/" + b.name, Purpose: "APPLICATION",
		Location: noAssertion, Concluded: license, Declared: license, Copyright: noAssertion, Supplier: "Organization: " + authors,
		Source:    "built from commit " + r.commit,
		Checksums: []spdxChecksum{{"SHA256", hex.EncodeToString(b.sum[:])}},
		Refs:      []spdxRef{purl(b.info.Main.Path, r.version)},
	}
}

// dependencies are the modules of others that a binary has, and the standard library as one. roster-apiserver is in a module
// of its own, which has the other one of Roster as a folder.
func dependencies(info *debug.BuildInfo) []*debug.Module {
	out := []*debug.Module{{Path: stdlib, Version: strings.TrimPrefix(strings.Fields(info.GoVersion)[0], "go")}}
	for _, m := range info.Deps {
		if m.Path == ownModule {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		out = append(out, m)
	}
	return out
}

func modulePackage(m *debug.Module) spdxPackage {
	p := spdxPackage{
		ID:   spdxID("Module", m.Path, m.Version),
		Name: m.Path, Version: m.Version, Purpose: "LIBRARY",
		Location: noAssertion, Concluded: noAssertion, Declared: noAssertion, Copyright: noAssertion, Supplier: noAssertion,
		Refs: []spdxRef{purl(m.Path, m.Version)},
	}
	if m.Sum != "" {
		p.Source = "go.sum: " + m.Sum
	}
	return p
}

// spdxID has letters, digits, dots and dashes only. What else there was is spelled out, so that no two names meet.
func spdxID(words ...string) string {
	var b strings.Builder
	b.WriteString("SPDXRef")
	for _, word := range words {
		b.WriteByte('-')
		for _, c := range []byte(word) {
			switch {
			case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '-':
				b.WriteByte(c)
			case c == '/':
				b.WriteByte('-')
			default:
				b.WriteString("-x" + hex.EncodeToString([]byte{c}))
			}
		}
	}
	return b.String()
}

// purl is the name by which scanners look a module up.
func purl(module, version string) spdxRef {
	return spdxRef{"PACKAGE-MANAGER", "purl", "pkg:golang/" + strings.ToLower(module) + "@" + strings.ReplaceAll(version, "+", "%2B")}
}
