package pattern

import (
	"bytes"
	"slices"

	"toolhost.dev/plugins/grep/syntax"
)

// requirement is a text that every match of a pattern contains.
type requirement struct {
	text []byte
	// folded means that the text is in lower case and that the case of ASCII letters is ignored.
	folded bool
	// before contains the bytes that can precede the text in a match. The field "after" contains the bytes
	// that can follow the text. Each element belongs to one position, the nearest position first. Unknown positions are
	// missing.
	before, after []*byteSet
}

const (
	// mostRequired is the maximum number of required texts.
	mostRequired = 4
	// minRequired is the minimal length of each required text except the first. Too many lines contain shorter
	// texts.
	minRequired = 3
)

// requirementsOf returns texts that every match contains, the longest first. If the result "exact" is true, every match
// equals the text. If fold is true, the texts can be folded.
func requirementsOf(n *syntax.Node, fold bool) (all []requirement, exact bool) {
	if n.Op == syntax.OpClass || n.Op == syntax.OpConcat {
		if text, ok := literal(n); ok && len(text) > 0 {
			return []requirement{{text: text}}, true
		}
	}
	found, small := texts(n, literal, nil), false
	if f := texts(n, folded, nil); fold && len(longest(f).text) > max(1, len(longest(found).text)) {
		found, small = f, true
	}
	slices.SortStableFunc(found, func(a, b foundText) int { return len(b.text) - len(a.text) })
	for i, f := range found {
		if i > 0 && len(f.text) < minRequired || len(all) == mostRequired {
			break
		}
		if slices.ContainsFunc(all, func(r requirement) bool { return bytes.Contains(r.text, f.text) }) {
			continue // skip this text, because a longer required text contains it
		}
		r := requirement{text: f.text, folded: small}
		if f.within != nil {
			r.before, _ = margins(f.within.Sub[:f.from], true)
			r.after, _ = margins(f.within.Sub[f.to:], false)
		}
		all = append(all, r)
	}
	return all, false
}

// minPrefix is the minimal length of a prefix that is searched for. Shorter prefixes occur too often.
const minPrefix = 3

// prefixOf returns a text with which every match begins. If fold is true, the text can be folded.
func prefixOf(n *syntax.Node, fold bool) requirement {
	r := prefixBy(n, literal)
	if f := prefixBy(n, folded); fold && len(f.text) > len(r.text) {
		r, r.folded = f, true
	}
	return r
}

func prefixBy(n *syntax.Node, literal literalOf) (r requirement) {
	if n.Op != syntax.OpConcat {
		return r
	}
	to := 0
	for _, sub := range n.Sub {
		b, ok := literal(sub)
		if !ok && sub.Op != syntax.OpLook {
			break
		}
		r.text, to = append(r.text, b...), to+1
	}
	if len(r.text) < minPrefix {
		return requirement{}
	}
	r.after, _ = margins(n.Sub[to:], false)
	return r
}

// foundText is a text that is part of every match. The elements [from,to) of the concatenation "within" match the text.
// If "within" is nil, a single node matches the text.
type foundText struct {
	text     []byte
	within   *syntax.Node
	from, to int
}

func longest(all []foundText) (best foundText) {
	for _, f := range all {
		if len(f.text) > len(best.text) {
			best = f
		}
	}
	return best
}

// texts appends the longest texts that every match of the node contains. The texts have the order in which
// they occur in a match.
func texts(n *syntax.Node, literal literalOf, out []foundText) []foundText {
	var run foundText
	end := func() {
		if len(run.text) > 0 {
			out = append(out, run)
		}
		run = foundText{}
	}
	switch n.Op {
	case syntax.OpClass:
		run.text, _ = literal(n)
		end()
	case syntax.OpRepeat:
		if n.Min > 0 {
			return texts(n.Sub[0], literal, out)
		}
	case syntax.OpConcat:
		for i, sub := range n.Sub {
			if b, ok := literal(sub); ok || sub.Op == syntax.OpLook {
				if len(run.text) == 0 && len(b) > 0 {
					run = foundText{within: n, from: i}
				}
				run.text, run.to = append(run.text, b...), i+1
				continue
			}
			end()
			out = texts(sub, literal, out)
		}
		end()
	}
	return out
}

// literalOf is the type of the functions literal and folded. If a node matches exactly one text, the function
// returns that text and true.
type literalOf func(n *syntax.Node) ([]byte, bool)

// literal returns the text that a node matches, if the node matches exactly one text.
func literal(n *syntax.Node) ([]byte, bool) {
	return concatenated(n, func(c syntax.Class) ([]byte, bool) {
		r, ok := c.Single()
		switch {
		case !ok:
			return nil, false
		case r >= syntax.RawByte:
			return []byte{byte(r - syntax.RawByte)}, true // #nosec G115 -- reverses the encoding of raw bytes
		}
		return []byte(string(r)), true
	})
}

// folded works like literal, but ignores the case of ASCII letters. The result is in lower case.
func folded(n *syntax.Node) ([]byte, bool) {
	return concatenated(n, func(c syntax.Class) ([]byte, bool) {
		r := c[0].Lo
		_, single := c.Single()
		pair := len(c) == 2 && 'A' <= r && r <= 'Z' && c[0].Hi == r && c[1].Lo == r|0x20 && c[1].Hi == r|0x20
		if r > asciiMax || !single && !pair {
			return nil, false
		}
		return []byte{lowered(byte(r))}, true // #nosec G115 -- it is ASCII
	})
}

func lowered(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		b |= 0x20
	}
	return b
}

func concatenated(n *syntax.Node, class func(syntax.Class) ([]byte, bool)) ([]byte, bool) {
	switch n.Op {
	case syntax.OpEmpty:
		return nil, true
	case syntax.OpClass:
		if len(n.Class) == 0 {
			return nil, false
		}
		return class(n.Class)
	case syntax.OpConcat:
		var out []byte
		for _, sub := range n.Sub {
			b, ok := concatenated(sub, class)
			if !ok {
				return nil, false
			}
			out = append(out, b...)
		}
		return out, true
	}
	return nil, false
}

// byteSet is a set of bytes.
type byteSet [256]bool

// maxMargin is the maximum number of bytes that are checked before a text and after it. Most false candidates
// already differ in the first byte.
const maxMargin = 8

// margins returns the bytes with which a match of a sequence of nodes can begin. If back is true, it returns the bytes
// with which a match can end. If the result "whole" is true, the match has no further bytes.
func margins(nodes []*syntax.Node, back bool) (sets []*byteSet, whole bool) {
	for i := range nodes {
		n := nodes[i]
		if back {
			n = nodes[len(nodes)-1-i]
		}
		more, whole := margin(n, back)
		sets = append(sets, more...)
		if len(sets) > maxMargin || !whole {
			return sets[:min(len(sets), maxMargin)], false
		}
	}
	return sets, true
}

func margin(n *syntax.Node, back bool) (sets []*byteSet, whole bool) {
	switch n.Op {
	case syntax.OpEmpty, syntax.OpLook:
		return nil, true
	case syntax.OpClass:
		return bytesOf(n.Class)
	case syntax.OpConcat:
		return margins(n.Sub, back)
	case syntax.OpRepeat:
		if n.Min == 0 {
			return nil, false
		}
		sub, whole := margin(n.Sub[0], back)
		if !whole || len(sub) == 0 {
			return sub, whole
		}
		for range min(n.Min, maxMargin/len(sub)+1) {
			sets = append(sets, sub...)
		}
		return sets, n.Min == n.Max
	case syntax.OpAlternate:
		return alternatives(n.Sub, back), false
	}
	return nil, false
}

// alternatives returns the union of the results of margins for several nodes.
func alternatives(nodes []*syntax.Node, back bool) (sets []*byteSet) {
	for i, n := range nodes {
		other, _ := margin(n, back)
		if i == 0 {
			sets = make([]*byteSet, len(other))
			for k := range sets {
				sets[k] = new(byteSet)
			}
		}
		sets = sets[:min(len(sets), len(other))]
		for k, set := range sets {
			for b, in := range other[k] {
				set[b] = set[b] || in
			}
		}
	}
	return sets
}

// bytesOf returns one set, with all bytes with which the UTF-8 encoding of a symbol of the class can begin or end. The
// result "whole" is true if each symbol is encoded as one byte.
func bytesOf(c syntax.Class) (sets []*byteSet, whole bool) {
	set := new(byteSet)
	whole = true
	for _, r := range c {
		for x := r.Lo; x <= min(r.Hi, asciiMax); x++ {
			set[x] = true
		}
		if r.Hi > asciiMax {
			whole = false
		}
	}
	for b := asciiMax + 1; !whole && b < len(set); b++ {
		set[b] = true
	}
	return []*byteSet{set}, whole
}

const asciiMax = 0x7F
