// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package packed keeps objects of Kubernetes in little memory: as CBOR with the keys in order (RFC 8949, 4.2.1), so
// that the same object is always the same string. That takes about a tenth of the memory of the maps that it is decoded
// to. An encoded object never leaves the program.
//
// It knows what JSON has, and nothing more. The library for CBOR works by reflection, and takes four times as long to
// decode: compare BenchmarkUnpack with BenchmarkUnpackLibrary.
//
// All of it may be called from any goroutine.
package packed
