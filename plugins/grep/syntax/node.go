// Package syntax parses regular expressions in four dialects: the syntax of ripgrep (Rust's regex crate), POSIX basic
// and POSIX extended expressions in the variant of GNU grep, and fixed strings. The syntax trees of all dialects have
// the same form.
package syntax

// Op is the kind of a [Node].
type Op uint8

// Values of [Op].
const (
	OpEmpty     Op = iota // matches the empty text
	OpClass               // matches one symbol of Class; an empty Class never matches
	OpLook                // matches the empty text where the condition Look is true
	OpConcat              // matches all elements of Sub, in order
	OpAlternate           // matches one element of Sub; earlier elements have priority
	OpRepeat              // matches Sub[0] Min to Max times; a negative Max means no limit
)

// Node is a node of a syntax tree.
type Node struct {
	Op       Op
	Class    Class
	Look     Look
	Sub      []*Node
	Min, Max int
	Lazy     bool
}

// Look is a condition that a position in the text must meet.
type Look uint8

// Values of [Look]. For the ASCII variants, word characters are ASCII letters, ASCII digits and "_". For the other
// variants, they are the word characters of Unicode.
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
	WordStartHalf // no word character precedes the position
	WordEndHalf   // no word character follows the position
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

// Any reports whether f returns true for any node of the tree.
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
