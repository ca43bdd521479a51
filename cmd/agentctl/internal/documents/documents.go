// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package documents reads the objects of YAML and JSON files, as kubectl would, and knows the line of each of their fields. It
// also writes files, whole or not at all.
package documents

import (
	"bytes"
	"cmp"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
)

// MaxFile bounds what is read of one file; etcd would not take a hundredth of it as one object.
const MaxFile = 64 << 20

// Document is one object of a file.
type Document struct {
	File   string
	Line   int    // of its first line
	JSON   []byte // of Object
	Object *unstructured.Unstructured
	Err    error // why it is no object; then JSON and Object are empty

	node   *yamlv3.Node // nil where lines cannot be told
	offset int          // lines before the document that node is of
}

// Decode reads the object into a type, strictly. whole is false when it could not be read at all.
func (d *Document) Decode(into any) (errs field.ErrorList, whole bool) {
	unknown, err := strictjson.UnmarshalStrict(d.JSON, into, strictjson.DisallowUnknownFields)
	for _, u := range unknown {
		if f, ok := errors.AsType[strictjson.FieldError](u); ok {
			errs = append(errs, field.Forbidden(field.NewPath(f.FieldPath()), "no such field"+elsewhere(f.FieldPath(), into)))
		}
	}
	if err != nil {
		return append(errs, typeError(err)), false
	}
	return errs, true
}

// typeError is about a field that holds something of another type.
func typeError(err error) *field.Error {
	if wrong, ok := errors.AsType[*stdjson.UnmarshalTypeError](err); ok {
		return field.TypeInvalid(field.NewPath(cmp.Or(wrong.Field, "spec")), field.OmitValueType{}, "cannot be a "+wrong.Value)
	}
	return field.TypeInvalid(field.NewPath("spec"), field.OmitValueType{}, cli.OneLine(err.Error()))
}

// LineOf is the line of a field, or of the nearest thing above it that is there.
func (d *Document) LineOf(path string) int {
	node, line := d.node, d.Line
	for _, step := range steps(path) {
		if node = child(node, step); node == nil {
			break
		}
		line = node.Line + d.offset
	}
	return line
}

// child is what a mapping has under a key, or a list at an index. A key is where the reader looks, so a mapping's
// or list's line is that of its key: the node of the value itself may begin a line later.
func child(node *yamlv3.Node, step string) *yamlv3.Node {
	if node == nil {
		return nil
	}
	switch node.Kind {
	case yamlv3.AliasNode:
		return child(node.Alias, step)
	case yamlv3.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i]
		}
	case yamlv3.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if key, value := node.Content[i], node.Content[i+1]; key.Value == step {
				found := *value
				found.Line = key.Line
				return &found
			}
		}
	case yamlv3.DocumentNode, yamlv3.ScalarNode:
	}
	return nil
}

// steps splits spec.rules[0].labels[example.com/x] into its keys and indexes.
func steps(path string) []string {
	var out []string
	for path != "" {
		switch path[0] {
		case '.':
			path = path[1:]
		case '[':
			step, rest, _ := strings.Cut(path[1:], "]")
			out, path = append(out, step), rest
		default:
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			out, path = append(out, path[:end]), path[end:]
		}
	}
	return out
}

// Read reads files, folders (all .yaml, .yml and .json files below them) and "-", standard input. An
// error is about a file as a whole.
func Read(stdin io.Reader, names []string) ([]*Document, error) {
	var out []*Document
	for _, name := range names {
		if name == "-" {
			data, err := io.ReadAll(io.LimitReader(stdin, MaxFile+1))
			if err != nil {
				return nil, fmt.Errorf("read standard input: %w", err)
			}
			docs, err := Split("-", data)
			if err != nil {
				return nil, err
			}
			out = append(out, docs...)
			continue
		}
		files, err := filesOf(name)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			docs, err := readFile(file)
			if err != nil {
				return nil, err
			}
			out = append(out, docs...)
		}
	}
	return out, nil
}

func filesOf(name string) ([]string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, pathError(name, err)
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	var out []string
	err = filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			out = append(out, path)
		}
		return err
	})
	if err == nil && len(out) == 0 {
		err = errors.New("has no .yaml, .yml or .json file")
	}
	if err != nil {
		return nil, pathError(name, err)
	}
	return out, nil
}

func readFile(name string) ([]*Document, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, pathError(name, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, pathError(name, err)
	}
	return Split(name, data)
}

// pathError says the name once.
func pathError(name string, err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// Split reads the objects of a file; lists are opened. Empty documents are none.
func Split(file string, data []byte) ([]*Document, error) {
	if len(data) > MaxFile {
		return nil, fmt.Errorf("%s: is larger than %d MiB", file, MaxFile>>20)
	}
	// YAML and the editors end a line at a lone carriage return, too, and YAML reads each end as a newline.
	data = bytes.ReplaceAll(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	var out []*Document
	var part []byte
	first := 0 // lines before part
	flush := func(next int) {
		out = append(out, parse(file, first, part)...)
		part, first = nil, next
	}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		if text := bytes.TrimRight(line, " \t\n"); bytes.Equal(text, []byte("---")) || bytes.HasPrefix(text, []byte("--- #")) {
			flush(n)
			continue
		}
		part = append(part, line...)
	}
	flush(n)
	return out, nil
}

func parse(file string, offset int, text []byte) []*Document {
	var root yamlv3.Node
	nodeErr := yamlv3.Unmarshal(text, &root)
	if nodeErr == nil && len(root.Content) == 0 {
		return nil // nothing but comments
	}
	d := &Document{File: file, Line: offset + 1, offset: offset}
	if nodeErr == nil {
		d.node = root.Content[0]
		d.Line = d.node.Line + offset
	}
	// The YAML that counts is what kubectl reads, which refuses nothing of what the tree is for.
	data, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		d.Line, d.Err = shiftLines(err, offset, d.Line)
		return []*Document{d}
	}
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil || object == nil {
		d.Err = errors.New("is not an object")
		return []*Document{d}
	}
	d.JSON, d.Object = data, &unstructured.Unstructured{Object: object}
	if items, ok := object["items"].([]any); ok && strings.HasSuffix(d.Object.GetKind(), "List") {
		return d.open(items)
	}
	return []*Document{d}
}

// open takes a list apart.
func (d *Document) open(items []any) []*Document {
	var out []*Document
	for i, item := range items {
		one := &Document{File: d.File, offset: d.offset, node: child(child(d.node, "items"), strconv.Itoa(i)), Line: d.Line}
		if one.node != nil {
			one.Line = one.node.Line + d.offset
		}
		object, ok := item.(map[string]any)
		data, err := json.Marshal(item)
		if !ok || err != nil {
			one.Err = fmt.Errorf("items[%d] is not an object", i)
		} else {
			one.JSON, one.Object = data, &unstructured.Unstructured{Object: object}
		}
		out = append(out, one)
	}
	return out
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

// shiftLines takes the line out of a YAML error and counts it from the file's beginning.
func shiftLines(err error, offset, line int) (int, error) {
	text := cli.OneLine(err.Error())
	for _, prefix := range []string{"error converting YAML to JSON: ", "yaml: ", "unmarshal errors: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		if n, convErr := strconv.Atoi(m[1]); convErr == nil {
			line = n + offset
			text = strings.Replace(text, m[0], "", 1)
		}
	}
	return line, errors.New(text)
}
