// Package syntax implements the parsers of regular expressions. The dialects are ripgrep's
// (Rust's), POSIX basic and extended as GNU grep reads them, and fixed strings. All have the same
// syntax tree.
package syntax

// Op is the kind of a [Node].
type Op uint8

// The kinds of nodes.
const (
	OpEmpty     Op = iota // the empty string
	OpClass               // one symbol of Class; an empty Class never matches
	OpLook                // the empty string, where Look holds
	OpConcat              // each of Sub, in order
	OpAlternate           // one of Sub; the first that leads to a match wins
	OpRepeat              // Sub[0], Min to Max times; a negative Max means no limit
)

// Node is a node of the syntax tree.
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

// The conditions. Word characters of the ASCII variants are the ASCII letters and digits and "_". Word characters of the
// other variants are those of Unicode.
const (
	StartText Look = iota
	EndText
	StartLine
	EndLine
	StartCRLF // like StartLine, but "\r\n" and "\r" also end a line
	EndCRLF
	Word // a word boundary
	NotWord
	WordStart
	WordEnd
	WordStartHalf // no word character before
	WordEndHalf   // no word character after
	WordASCII
	NotWordASCII
	WordStartASCII
	WordEndASCII
	WordStartHalfASCII
	WordEndHalfASCII
)

// ascii returns the ASCII variant of a word condition.
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

// Any reports whether a node of the tree satisfies f.
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
