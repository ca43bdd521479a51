// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

// pieceLength is from where on a piece is complete. It takes as long to read one as to decode it, or somewhat less.
const pieceLength = 64 << 10

// pieces cuts the text of a list, as it arrives, into arrays of some of its items, so that those are decoded by all processors and
// before the last has come. It looks at strings and brackets alone: what else is wrong with the text, who decodes it finds.
type pieces struct {
	done func(piece []byte) // is given each piece, to keep

	around []byte // the text without the items
	piece  []byte // one that is not complete; nil outside of the items

	depth  int
	quoted bool // inside a string
	escape bool // after the backslash of one
	key    int  // where in around the last string begins
	named  bool // and it is the name of the items
}

// Write implements io.Writer. It keeps nothing of text.
func (p *pieces) Write(text []byte) (int, error) {
	kept := 0
	keep := func(end int) {
		if p.piece != nil {
			p.piece = append(p.piece, text[kept:end]...)
		} else {
			p.around = append(p.around, text[kept:end]...)
		}
		kept = end
	}
	for i := 0; i < len(text); i++ {
		if p.quoted {
			if i = p.skip(text, i); i < len(text) {
				p.quoted = false
				if p.depth == 1 {
					keep(i)
					p.named = string(p.around[p.key:]) == `"items`
				}
			}
			continue
		}
		switch text[i] {
		case '"':
			p.quoted = true
			if p.depth == 1 {
				keep(i)
				p.key = len(p.around)
			}
		case '{', '[':
			p.depth++
			if p.depth == 2 && p.named && text[i] == '[' && p.piece == nil {
				keep(i + 1)
				p.begin()
			}
		case '}', ']':
			p.depth--
			if p.depth == 1 && p.piece != nil {
				keep(i)
				p.end()
			}
		case ',':
			p.named = p.named && p.depth > 1
			if p.depth == 2 && p.piece != nil && len(p.piece)+i-kept >= pieceLength {
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

// skip returns where the string ends that i is in, or the end of the text.
func (p *pieces) skip(text []byte, i int) int {
	for ; i < len(text); i++ {
		switch {
		case p.escape:
			p.escape = false
		case text[i] == '\\':
			p.escape = true
		case text[i] == '"':
			return i
		}
	}
	return i
}

func (p *pieces) begin() { p.piece = append(make([]byte, 0, pieceLength+pieceLength/4), '[') }

func (p *pieces) end() {
	p.done(append(p.piece, ']'))
	p.piece = nil
}
