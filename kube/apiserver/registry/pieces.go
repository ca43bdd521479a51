// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import "bytes"

// pieceLength is from where on a piece is complete. It takes as long to read one as to decode it, or somewhat less.
const pieceLength = 64 << 10

// How deep in the text of a list things are.
const (
	inList     = 1
	inItems    = 2
	inItem     = 3
	inMetadata = 4
)

// name is a name in the text of a list that matters here.
type name int

const (
	nameOther name = iota
	nameItems
	nameMetadata
	nameManagedFields
)

// nameOf is the name that a string is, of which the closing quote is missing.
func nameOf(text []byte) name {
	switch string(text) {
	case `"items`:
		return nameItems
	case `"metadata`:
		return nameMetadata
	case `"managedFields`:
		return nameManagedFields
	}
	return nameOther
}

// pieces cuts the text of a list, as it arrives, into arrays of some of its items, so that those are decoded by all processors and
// before the last has come. It leaves out their managedFields, which nobody is shown and which were a third of the work. It
// looks at strings and brackets alone: what else is wrong with the text that it passes on, who decodes it finds.
type pieces struct {
	done func(piece []byte) // is given each piece, to keep

	around []byte // the text without the items
	piece  []byte // one that is not complete; nil outside of the items
	drops  bool   // inside of managedFields

	depth  int
	quoted bool // inside a string
	escape bool // after the backslash of one
	key    int  // where the last string begins in what is kept
	last   name // what that is
	names  [inMetadata + 1]name
}

// Write implements io.Writer. It keeps nothing of text.
func (p *pieces) Write(text []byte) (int, error) {
	kept := 0
	keep := func(end int) {
		if !p.drops {
			*p.to() = append(*p.to(), text[kept:end]...)
		}
		kept = end
	}
	for i := 0; i < len(text); i++ {
		if p.quoted {
			if i = p.skip(text, i); i < len(text) {
				p.quoted = false
				if p.matters() {
					keep(i)
					p.last = nameOf((*p.to())[p.key:])
				}
			}
			continue
		}
		switch text[i] {
		case '"':
			p.quoted = true
			if p.matters() {
				keep(i)
				p.key = len(*p.to())
			}
		case ':':
			if p.named() {
				keep(i + 1)
				p.drops = true
			}
		case '{', '[':
			p.depth++
			if p.depth == inItems && text[i] == '[' && p.piece == nil && p.names[inList] == nameItems {
				keep(i + 1)
				p.begin()
			}
		case '}', ']':
			p.endDrop(keep, i)
			p.depth--
			if p.depth == inList && p.piece != nil {
				keep(i)
				p.end()
			}
		case ',':
			p.endDrop(keep, i)
			if p.matters() {
				p.names[p.depth] = nameOther
			}
			if p.depth == inItems && p.piece != nil && len(p.piece)+i-kept >= pieceLength {
				keep(i)
				p.end()
				p.begin()
				kept++ // the comma
			}
		}
	}
	keep(len(text))
	return len(text), nil
}

// to is where the text goes.
func (p *pieces) to() *[]byte {
	if p.piece != nil {
		return &p.piece
	}
	return &p.around
}

// matters says whether names are of interest here.
func (p *pieces) matters() bool { return p.depth >= inList && p.depth <= inMetadata }

// named takes the last string for the name of what follows, and says whether that is the managedFields of an item.
func (p *pieces) named() bool {
	if !p.matters() {
		return false
	}
	p.names[p.depth] = p.last
	return p.depth == inMetadata && p.piece != nil && p.last == nameManagedFields && p.names[inItem] == nameMetadata
}

// endDrop ends what is left out, at a comma after it or the bracket around it.
func (p *pieces) endDrop(keep func(int), i int) {
	if p.drops && p.depth == inMetadata {
		keep(i)
		p.drops = false
		p.piece = append(p.piece, "null"...)
	}
}

// skip returns where the string ends that i is in, or the end of the text.
func (p *pieces) skip(text []byte, i int) int {
	if p.escape {
		p.escape = false
		i++
	}
	for end := -1; ; {
		if end < i {
			if end = bytes.IndexByte(text[i:], '"'); end < 0 {
				end = len(text)
			} else {
				end += i
			}
		}
		next := bytes.IndexByte(text[i:end], '\\')
		if next < 0 {
			return end
		}
		if i += next + 2; i > len(text) { // what is escaped has not come yet
			p.escape = true
			return len(text)
		}
	}
}

func (p *pieces) begin() { p.piece = append(make([]byte, 0, pieceLength+pieceLength/4), '[') }

func (p *pieces) end() {
	p.done(append(p.piece, ']'))
	p.piece = nil
}

// withoutManagedFields returns the text of one item as it is in a piece. Of what is no item it returns what is none either.
func withoutManagedFields(item []byte) []byte {
	p := &pieces{done: func([]byte) {}, depth: inItems, piece: make([]byte, 0, len(item))}
	_, _ = p.Write(item) // never fails
	return p.piece
}
