package grammar

import "encoding/binary"

// Tree is the nodes of a text that have a name or a field, in the order in which they
// begin, parents first.
type Tree struct {
	Text []byte
	l    *language
	raw  []byte
}

// nodeSize is the size of the module's struct: three words of 32 bits (start, end, next),
// two of 16 (symbol, field), flags.
const nodeSize = 20

func (t *Tree) word(i, at int) int {
	return int(binary.LittleEndian.Uint32(t.raw[i*nodeSize+at:]))
}

// Len returns the number of nodes.
func (t *Tree) Len() int { return len(t.raw) / nodeSize }

// Start and End give the place of a node in the text.
func (t *Tree) Start(i int) int { return t.word(i, 0) }

// End returns where a node ends in the text.
func (t *Tree) End(i int) int { return t.word(i, 4) }

// Next returns the first node behind the children of a node.
func (t *Tree) Next(i int) int { return t.word(i, 8) }

// Symbol returns the number of a node's type, below the length of [Tree.Symbols].
func (t *Tree) Symbol(i int) int { return int(binary.LittleEndian.Uint16(t.raw[i*nodeSize+12:])) }

// Symbols returns the names of all types, the same for all trees of a language.
func (t *Tree) Symbols() []string { return t.l.symbols }

// Type returns a node's type; of the text's errors, "ERROR".
func (t *Tree) Type(i int) string {
	if s := t.Symbol(i); s < len(t.l.symbols) {
		return t.l.symbols[s]
	}
	return "ERROR"
}

// Field returns what a node is to its parent; "": only a child.
func (t *Tree) Field(i int) string {
	if f := int(binary.LittleEndian.Uint16(t.raw[i*nodeSize+14:])); f < len(t.l.fields) {
		return t.l.fields[f]
	}
	return ""
}

// Broken reports whether a node stands for what could not be parsed.
func (t *Tree) Broken(i int) bool { return t.word(i, 16)&(isError|isMissing) != 0 }

const isError, isMissing = 2, 4
