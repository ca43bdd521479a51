// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package codec encodes and decodes Kubernetes objects and watch events for client-go's dynamic client. The result is
// the same as with the dynamic client's own serializer; it costs a third of the time.
//
//   - JSON: the library goes over each watch event six times, for its end, its type, its kind and its fields; this package
//     does so three times. What is not in the form that API servers send is left to the library.
//   - Protobuf: Secrets and ConfigMaps, which are most of what is copied, are exchanged in Kubernetes' protobuf
//     (docs/decisions/015). An object comes out of it without managedFields; a deleted object with its metadata alone.
//
// # Fields of a newer Kubernetes
//
// A protobuf field that this package does not know would be lost in a copy. When one is met, the Codec remembers it, and
// PreferProtobuf reads everything in JSON from then on: so a Codec belongs to one API server. An object that has fields
// which protobuf does not know is written in JSON, so that the API server says what is wrong with it.
//
// # Bounds
//
// The bytes may come from a hostile API server. One JSON event is at most 16 MiB, a protobuf list at most 200,000
// objects. What is decoded is fuzzed against the libraries (FuzzJSON, FuzzProtobuf).
//
// A Codec is safe for concurrent use. It sends nothing, and reads no clock.
package codec
