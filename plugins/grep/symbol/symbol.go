// Package symbol defines the symbols that source files declare. It also implements queries that find symbols by
// name.
package symbol

import (
	"bytes"
	"cmp"
	"slices"
	"sort"
	"strings"
	"unsafe"

	"toolhost.dev/plugins/grep/content"
)

// Kind is the kind of declaration, such as a function or a type.
type Kind uint8

// Values of [Kind].
const (
	Function  Kind = iota
	Prototype      // a function that is declared but not defined
	Method
	Constructor
	Macro
	Class
	Struct
	Interface
	Enum
	Union
	Trait
	Record
	Type
	Namespace
	Module
	Variable
	Constant
	Field
	Member // an element of an enum
	File
)

var kindNames = [...]string{
	"function", "prototype", "method", "constructor", "macro", "class", "struct", "interface", "enum", "union", "trait", "record", "type",
	"namespace", "module", "variable", "constant", "field", "enum member", "file",
}

func (k Kind) String() string { return kindNames[k] }

// Group is a set of kinds that a caller can select.
type Group string

// Values of [Group].
const (
	Functions Group = "function"
	Methods   Group = "method"
	Classes   Group = "class"
	Variables Group = "variable"
	Files     Group = "file"
	All       Group = "all"
)

// Has reports whether a kind belongs to the group.
func (g Group) Has(k Kind) bool {
	switch g {
	case Functions:
		return k <= Macro
	case Methods:
		return k == Method || k == Constructor
	case Classes:
		return k >= Class && k <= Module
	case Variables:
		return k >= Variable && k <= Member
	case Files:
		return k == File
	}
	return true
}

// Symbol is a declaration in a source file.
type Symbol struct {
	Name string
	// Container is the name of the enclosing declaration, or of the receiver type of a method. It is empty at the top
	// level.
	Container string
	Kind      Kind
	// Line and Column are the position of the name. EndLine is the last line of the declaration. Lines and columns
	// count from 1, columns in bytes. Offset is the byte offset of the name in the text.
	Line, Column, EndLine, Offset int32
}

// Parser is the kind of parser that found the symbols of a file.
type Parser string

// Values of [Parser].
const (
	GoParser   Parser = "go/parser"
	TreeSitter Parser = "tree-sitter"
	// ByPattern means that no parser was used: regular expressions matched lines that look like declarations.
	ByPattern Parser = "pattern"
)

// Table holds the symbols of one file. It is immutable.
type Table struct {
	Parser Parser
	// Problem is the reason why the parser of the language did not parse the whole text. It is empty if the whole
	// text was parsed.
	Problem string
	// Broken is true if the text has syntax errors. The table then contains all declarations that the parser
	// recognized.
	Broken bool
	// Package is the name of the package that the text declares. It can be empty.
	Package string
	// Symbols contains the symbols, sorted by their position in the text.
	Symbols []Symbol

	// names contains all names, each followed by a line break. The field "folded" contains the same names
	// in lower case, which can differ in length. The field "starts" contains the offset of each name in "names". The
	// field "folds" contains the offset of each name in "folded".
	names, folded []byte
	starts, folds []uint32
	// signature is a Bloom filter of the trigrams of the names in lower case.
	signature [signatureBits / 64]uint64
}

const (
	signatureBits = 2048
	// manySymbols is a limit for the use of signatures. If a table has more symbols, almost all bits of its
	// signature are set, and the signature excludes no query.
	manySymbols = 400
)

// mark returns the signature bit of a trigram.
func mark(a, b, c byte) uint32 {
	return (uint32(a) | uint32(b)<<8 | uint32(c)<<16) * 0x9E3779B1 >> 21
}

func (t *Table) sign() {
	if len(t.Symbols) > manySymbols {
		return
	}
	for i := 2; i < len(t.folded); i++ {
		m := mark(t.folded[i-2], t.folded[i-1], t.folded[i])
		t.signature[m/64] |= 1 << (m % 64)
	}
}

// NewTable returns a table of the symbols. It copies the strings.
func NewTable(p Parser, symbols []Symbol) *Table {
	slices.SortStableFunc(symbols, func(a, b Symbol) int { return cmp.Compare(a.Offset, b.Offset) })
	size := 0
	for i := range symbols {
		size += len(symbols[i].Name) + 1
	}
	t := &Table{Parser: p, Symbols: slices.Clip(symbols), names: make([]byte, 0, size), folded: make([]byte, 0, size),
		starts: make([]uint32, len(symbols))}
	for i := range symbols {
		t.starts[i] = uint32(len(t.names)) // #nosec G115 -- less than the length of a text
		t.names = append(append(t.names, symbols[i].Name...), '\n')
	}
	t.folds = t.starts
	t.folded = append(t.folded, bytes.ToLower(t.names)...)
	if len(t.folded) != len(t.names) {
		t.folds = make([]uint32, len(symbols))
		at := 0
		for i := range symbols {
			t.folds[i] = uint32(at) // #nosec G115 -- less than twice the length of a text
			at += len(strings.ToLower(symbols[i].Name)) + 1
		}
	}
	t.sign()
	containers := make(map[string]string)
	for i := range symbols {
		s := &symbols[i]
		s.Name = unsafe.String(unsafe.SliceData(t.names[t.starts[i]:]), len(s.Name)) // #nosec G103 -- the names do not change any more
		c, ok := containers[s.Container]
		if !ok {
			c = strings.Clone(s.Container)
			containers[c] = c
		}
		s.Container = c
	}
	return t
}

// rangeIn returns the index range [from,to) of the symbols whose names are in a part of the text.
func (t *Table) rangeIn(p content.Part) (from, to int) {
	after := func(pos int) int {
		return sort.Search(len(t.Symbols), func(i int) bool { return int(t.Symbols[i].Offset) >= pos })
	}
	return after(p.From), after(p.To)
}

// place returns the offset of the symbol i in a list of names. The argument "starts" contains the start offsets of the
// names. The argument "length" is the total length of the list.
func place(starts []uint32, i, length int) int {
	if i == len(starts) {
		return length
	}
	return int(starts[i])
}

// at returns the index of the symbol at the offset "pos" in a list of names. The argument "starts" contains
// the start offsets of the names.
func at(starts []uint32, pos int) int {
	i, found := slices.BinarySearch(starts, uint32(pos)) // #nosec G115 -- a place in the names
	if !found {
		i--
	}
	return i
}

// Size returns the approximate memory size of the table in bytes.
func (t *Table) Size() int64 {
	const perTable, perSymbol = 360 + signatureBits/8, 60
	return perTable + int64(len(t.Symbols))*perSymbol + 2*int64(len(t.names))
}
