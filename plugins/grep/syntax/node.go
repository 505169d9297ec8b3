// Package syntax implements the parsers of regular expressions. The dialects are ripgrep's
// (Rust's), POSIX basic and extended as GNU grep reads them, and fixed strings. All have the same
// syntax tree.
package syntax

// Op is the kind of a [Node].
type Op uint8

// The kinds of nodes.
const (
	OpEmpty     Op = iota // the empty string
	OpClass               // one symbol of Class; none if it is empty
	OpLook                // the empty string where Look holds
	OpConcat              // each of Sub, in order
	OpAlternate           // one of Sub; the first that leads to a match
	OpRepeat              // Sub[0], Min to Max times; Max < 0: any number
)

// Node is a node of the tree.
type Node struct {
	Op       Op
	Class    Class
	Look     Look
	Sub      []*Node
	Min, Max int
	Lazy     bool
}

// Look is a condition on what is before and after a position.
type Look uint8

// The conditions. The ASCII kinds of the conditions on words take the letters and
// digits of ASCII and "_" for the characters of a word, the others those of Unicode.
const (
	StartText Look = iota
	EndText
	StartLine
	EndLine
	StartCRLF // as StartLine, but "\r\n" and "\r" end a line as well
	EndCRLF
	Word // between a word and what is none
	NotWord
	WordStart
	WordEnd
	WordStartHalf // no character of a word before
	WordEndHalf   // no character of a word after
	WordASCII
	NotWordASCII
	WordStartASCII
	WordEndASCII
	WordStartHalfASCII
	WordEndHalfASCII
)

// ascii returns the ASCII kind of a condition on words.
func (l Look) ascii() Look { return l + WordASCII - Word }

func empty() *Node           { return &Node{Op: OpEmpty} }
func look(l Look) *Node      { return &Node{Op: OpLook, Look: l} }
func class(c Class) *Node    { return &Node{Op: OpClass, Class: c} }
func concat(s []*Node) *Node { return join(OpConcat, s) }
func oneOf(s []*Node) *Node  { return join(OpAlternate, s) }

func join(op Op, sub []*Node) *Node {
	switch len(sub) {
	case 0:
		return empty()
	case 1:
		return sub[0]
	}
	return &Node{Op: op, Sub: sub}
}

func repeat(sub *Node, lo, hi int, lazy bool) *Node {
	return &Node{Op: OpRepeat, Sub: []*Node{sub}, Min: lo, Max: hi, Lazy: lazy}
}

// Any reports whether some node of the tree satisfies f.
func (n *Node) Any(f func(*Node) bool) bool {
	if f(n) {
		return true
	}
	for _, sub := range n.Sub {
		if sub.Any(f) {
			return true
		}
	}
	return false
}
