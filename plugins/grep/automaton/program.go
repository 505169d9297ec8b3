// Package automaton matches compiled patterns against bytes. For every pattern, the time is proportional to the number
// of bytes. A deterministic automaton, built on demand, finds the end of the match that ends first ([Machine.Exists]).
// A simulation of the nondeterministic automaton finds where a match begins and ends ([Machine.Find]).
//
// Most programs read the text as UTF-8 characters. In such a program, bytes that are not UTF-8 match nothing. A pattern
// that can match in the middle of a character, such as a single byte, is compiled to a program that reads bytes.
package automaton

import (
	"errors"
	"math"
	"slices"

	"toolhost.dev/plugins/grep/syntax"
)

type opcode uint8

const (
	opClass opcode = iota // consumes a symbol of the class, then executes the instruction "out"
	opSplit               // executes the instruction "out" and, with lower priority, the instruction "alt"
	opLook                // executes the instruction "out" if the condition "look" is true
	opMatch
)

type inst struct {
	op       opcode
	look     syntax.Look
	class    int32
	out, alt int32
}

// Program is a compiled pattern. It is immutable and safe for concurrent use.
type Program struct {
	insts []inst
	start int32
	// bytewise is true if the program reads bytes. It is false if the program reads characters.
	bytewise bool
	seen     side // the flags that the program's conditions test
	alphabet *alphabet
}

// maxInsts limits the number of instructions of a program. An instruction takes 16 bytes. In the worst case, a step of
// the simulation visits all instructions.
const maxInsts = 1 << 20

// maxClasses limits the number of different character classes in a program.
const maxClasses = 4096

// ErrTooLarge means that the program of a pattern would be too large.
var ErrTooLarge = errors.New("the pattern is too large when its repetitions are written out; use smaller numbers in {}")

// Compile compiles a parsed pattern to a program.
func Compile(n *syntax.Node) (*Program, error) {
	c := &compiler{p: &Program{}, index: make(map[string]int32), known: make(map[*syntax.Node]int32)}
	c.p.bytewise = n.Any(insideCharacters)
	if c.size(n) > maxInsts {
		return nil, ErrTooLarge
	}
	end := c.emit(inst{op: opMatch})
	c.p.start = c.node(n, end)
	if len(c.classes) > maxClasses {
		return nil, ErrTooLarge
	}
	c.p.alphabet = newAlphabet(c.classes, c.p.seen)
	return c.p, nil
}

// insideCharacters reports whether a node can match in the middle of a character.
func insideCharacters(n *syntax.Node) bool {
	switch n.Op {
	case syntax.OpClass:
		return len(n.Class) > 0 && n.Class[len(n.Class)-1].Hi >= syntax.RawByte
	case syntax.OpLook:
		return n.Look == syntax.NotWordASCII || n.Look == syntax.WordStartHalfASCII || n.Look == syntax.WordEndHalfASCII
	}
	return false
}

type compiler struct {
	p       *Program
	classes []syntax.Class
	index   map[string]int32 // maps the ranges of a class to the index of the class
	// This map caches the class index of each node, because a repetition compiles its node many times.
	known map[*syntax.Node]int32
}

// size returns the number of instructions of a node, or maxInsts+1 if there are more than maxInsts.
func (c *compiler) size(n *syntax.Node) int {
	total := 0
	switch n.Op {
	case syntax.OpEmpty:
	case syntax.OpClass:
		total = 1
		if c.p.bytewise {
			for _, seq := range utf8Sequences(n.Class) {
				total += len(seq) + 1
			}
		}
	case syntax.OpLook:
		total = 1
	case syntax.OpConcat, syntax.OpAlternate:
		for _, sub := range n.Sub {
			total = min(total+c.size(sub)+1, maxInsts+1)
		}
	case syntax.OpRepeat:
		times := max(n.Min, n.Max, 1)
		sub := c.size(n.Sub[0]) + 1
		if times > math.MaxInt32/sub {
			return maxInsts + 1
		}
		total = sub * times
	}
	return min(total, maxInsts+1)
}

func (c *compiler) emit(i inst) int32 {
	c.p.insts = append(c.p.insts, i)
	return int32(len(c.p.insts) - 1) // #nosec G115 -- at most maxInsts
}

// node compiles the node n to instructions that continue at the instruction "next". It returns the first instruction of
// the node.
func (c *compiler) node(n *syntax.Node, next int32) int32 {
	switch n.Op {
	case syntax.OpClass:
		return c.class(n, next)
	case syntax.OpLook:
		c.p.seen |= seen(n.Look)
		return c.emit(inst{op: opLook, look: n.Look, out: next})
	case syntax.OpConcat:
		for i := len(n.Sub) - 1; i >= 0; i-- {
			next = c.node(n.Sub[i], next)
		}
	case syntax.OpAlternate:
		at := c.node(n.Sub[len(n.Sub)-1], next)
		for i := len(n.Sub) - 2; i >= 0; i-- {
			at = c.emit(inst{op: opSplit, out: c.node(n.Sub[i], next), alt: at})
		}
		return at
	case syntax.OpRepeat:
		return c.repeat(n, next)
	}
	return next
}

func (c *compiler) repeat(n *syntax.Node, next int32) int32 {
	sub := n.Sub[0]
	if sub.Op == syntax.OpEmpty {
		return next
	}
	least := n.Min
	if n.Max < 0 {
		loop := c.split(0, next, n.Lazy)
		body := c.node(sub, loop)
		c.enter(loop, body, n.Lazy)
		switch {
		case least > 0: // the last required repetition is also the first repetition of the loop
			next, least = body, least-1
		case nullable(sub): // compile x* as (x+)?, because x* would otherwise not give an empty match of x its priority
			next = c.split(body, next, n.Lazy)
		default:
			next = loop
		}
	}
	exit := next
	for range n.Max - n.Min {
		next = c.split(c.node(sub, next), exit, n.Lazy)
	}
	for range least {
		next = c.node(sub, next)
	}
	return next
}

// nullable reports whether the node can match the empty string.
func nullable(n *syntax.Node) bool {
	switch n.Op {
	case syntax.OpClass:
		return false
	case syntax.OpConcat:
		return !slices.ContainsFunc(n.Sub, func(s *syntax.Node) bool { return !nullable(s) })
	case syntax.OpAlternate:
		return slices.ContainsFunc(n.Sub, nullable)
	case syntax.OpRepeat:
		return n.Min == 0 || nullable(n.Sub[0])
	}
	return true
}

func (c *compiler) split(body, exit int32, lazy bool) int32 {
	if lazy {
		return c.emit(inst{op: opSplit, out: exit, alt: body})
	}
	return c.emit(inst{op: opSplit, out: body, alt: exit})
}

// enter connects a split to the body of its loop. A lazy loop enters the body with lower priority.
func (c *compiler) enter(split, body int32, lazy bool) {
	if lazy {
		c.p.insts[split].alt = body
	} else {
		c.p.insts[split].out = body
	}
}

func (c *compiler) class(n *syntax.Node, next int32) int32 {
	if !c.p.bytewise {
		i, ok := c.known[n]
		if !ok {
			i = c.intern(n.Class)
			c.known[n] = i
		}
		return c.emit(inst{op: opClass, class: i, out: next})
	}
	at := int32(-1)
	for _, seq := range utf8Sequences(n.Class) {
		one := next
		for i := len(seq) - 1; i >= 0; i-- {
			one = c.emit(inst{op: opClass, class: c.intern(syntax.Class{seq[i]}), out: one})
		}
		if at >= 0 {
			one = c.emit(inst{op: opSplit, out: one, alt: at})
		}
		at = one
	}
	if at < 0 { // the class contains no symbols
		return c.emit(inst{op: opClass, class: c.intern(nil), out: next})
	}
	return at
}

func (c *compiler) intern(set syntax.Class) int32 {
	key := make([]byte, 0, 8*len(set))
	for _, r := range set {
		for _, x := range [2]rune{r.Lo, r.Hi} {
			key = append(key, byte(x), byte(x>>8), byte(x>>16), byte(x>>24)) // #nosec G115 -- each byte is a part of the key
		}
	}
	if i, ok := c.index[string(key)]; ok {
		return i
	}
	i := int32(len(c.classes)) // #nosec G115 -- at most maxInsts
	c.classes = append(c.classes, set)
	c.index[string(key)] = i
	return i
}
