// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

const (
	license     = "Apache-2.0"
	authors     = "The Roster Authors"
	noAssertion = "NOASSERTION"
	stdlib      = "stdlib" // the module that Go itself is listed as
	ownModule   = "github.com/roster-mesh/roster"
)

// writeSBOM lists what the binaries were linked from, as their own build information says it: each binary with its
// checksum, and the Go modules, with their licences, and the Go version that it depends on.
func (r *release) writeSBOM(name string, binaries []*binary) error {
	doc := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: name,
		CreationInfo: &spdx.CreationInfo{Created: r.date.Format(time.RFC3339), Creators: []common.Creator{
			{CreatorType: "Organization", Creator: authors}, {CreatorType: "Tool", Creator: "roster-release-" + r.version},
		}},
	}
	modules := map[common.ElementID]*spdx.Package{}
	all := sha256.New()
	for _, b := range binaries {
		all.Write(b.sum[:])
		p := r.binaryPackage(b)
		doc.Packages = append(doc.Packages, p)
		doc.Relationships = append(doc.Relationships, relationship(doc.SPDXIdentifier, common.TypeRelationshipDescribe, p.PackageSPDXIdentifier))
		for _, m := range dependencies(b.info) {
			id := spdxID("Module", m.Path, m.Version)
			if modules[id] == nil {
				var err error
				if modules[id], err = r.modulePackage(id, m); err != nil {
					return err
				}
			}
			doc.Relationships = append(doc.Relationships, relationship(p.PackageSPDXIdentifier, common.TypeRelationshipDependsOn, id))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(modules)) {
		doc.Packages = append(doc.Packages, modules[id])
	}
	// Unique to what it describes, without a random number.
	doc.DocumentNamespace = source + "/sbom/" + name + "/" + hex.EncodeToString(all.Sum(nil))
	return r.create(name+".spdx.json", func(w io.Writer) error { return spdxjson.Write(doc, w, spdxjson.Indent(" ")) })
}

func relationship(from common.ElementID, kind string, to common.ElementID) *spdx.Relationship {
	return &spdx.Relationship{RefA: common.DocElementID{ElementRefID: from}, Relationship: kind, RefB: common.DocElementID{ElementRefID: to}}
}

func (r *release) binaryPackage(b *binary) *spdx.Package {
	return &spdx.Package{
		PackageSPDXIdentifier: spdxID("Binary", b.name, b.platform.os, b.platform.arch),
		PackageName:           b.name, PackageVersion: r.version, PrimaryPackagePurpose: "APPLICATION",
		PackageFileName:         b.platform.os + "_" + b.platform.arch + "/" + b.name,
		PackageDownloadLocation: noAssertion, PackageCopyrightText: noAssertion,
		PackageLicenseConcluded: license, PackageLicenseDeclared: license,
		PackageSupplier:           &common.Supplier{SupplierType: "Organization", Supplier: authors},
		PackageSourceInfo:         "built from commit " + r.commit,
		PackageChecksums:          []common.Checksum{{Algorithm: common.SHA256, Value: hex.EncodeToString(b.sum[:])}},
		PackageExternalReferences: purl(b.info.Main.Path, r.version),
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

func (r *release) modulePackage(id common.ElementID, m *debug.Module) (*spdx.Package, error) {
	declared, err := r.declaredLicence(m)
	if err != nil {
		return nil, err
	}
	p := &spdx.Package{
		PackageSPDXIdentifier: id, PackageName: m.Path, PackageVersion: m.Version, PrimaryPackagePurpose: "LIBRARY",
		PackageDownloadLocation: noAssertion, PackageCopyrightText: noAssertion,
		PackageLicenseConcluded: noAssertion, PackageLicenseDeclared: declared,
		PackageSupplier:           &common.Supplier{Supplier: noAssertion},
		PackageExternalReferences: purl(m.Path, m.Version),
	}
	if m.Sum != "" {
		p.PackageSourceInfo = "go.sum: " + m.Sum
	}
	return p, nil
}

// spdxID has letters, digits, dots and dashes only. What else there was is spelled out, so that no two names meet.
func spdxID(words ...string) common.ElementID {
	var b strings.Builder
	for i, word := range words {
		if i > 0 {
			b.WriteByte('-')
		}
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
	return common.ElementID(b.String())
}

// purl is the name by which scanners look a module up.
func purl(module, version string) []*spdx.PackageExternalReference {
	return []*spdx.PackageExternalReference{{
		Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL,
		Locator: "pkg:golang/" + strings.ToLower(module) + "@" + strings.ReplaceAll(version, "+", "%2B"),
	}}
}
