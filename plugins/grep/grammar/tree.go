package grammar

import "encoding/binary"

// Tree contains the nodes of a parsed text that are named or belong to a field. The nodes are sorted by start,
// parents before their children.
type Tree struct {
	Text []byte
	l    *language
	raw  []byte
}

// nodeSize is the size in bytes of the module's node struct. The struct has three 32-bit words (start, end, next), two
// 16-bit words (symbol, field), and flags.
const nodeSize = 20

func (t *Tree) word(i, at int) int {
	return int(binary.LittleEndian.Uint32(t.raw[i*nodeSize+at:]))
}

// Len returns the number of nodes.
func (t *Tree) Len() int { return len(t.raw) / nodeSize }

// Start returns the offset at which a node begins in the text.
func (t *Tree) Start(i int) int { return t.word(i, 0) }

// End returns the offset at which a node ends in the text.
func (t *Tree) End(i int) int { return t.word(i, 4) }

// Next returns the index of the first node after all descendants of node i.
func (t *Tree) Next(i int) int { return t.word(i, 8) }

// Symbol returns the number of the node's type. For an error node, the number can exceed the indices of
// [Tree.Symbols].
func (t *Tree) Symbol(i int) int { return int(binary.LittleEndian.Uint16(t.raw[i*nodeSize+12:])) }

// Symbols returns the names of all node types. The names are the same for all trees of a language.
func (t *Tree) Symbols() []string { return t.l.symbols }

// Type returns the name of the node's type. For an error node, it returns "ERROR".
func (t *Tree) Type(i int) string {
	if s := t.Symbol(i); s < len(t.l.symbols) {
		return t.l.symbols[s]
	}
	return "ERROR"
}

// Field returns the name of the parent's field that contains the node. It returns "" if the node is in no field.
func (t *Tree) Field(i int) string {
	if f := int(binary.LittleEndian.Uint16(t.raw[i*nodeSize+14:])); f < len(t.l.fields) {
		return t.l.fields[f]
	}
	return ""
}

// Broken reports whether a node represents text with a syntax error.
func (t *Tree) Broken(i int) bool { return t.word(i, 16)&(isError|isMissing) != 0 }

const isError, isMissing = 2, 4
