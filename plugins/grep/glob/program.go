package glob

import (
	"math/bits"
	"slices"
	"unicode/utf8"
)

// program is a glob that is compiled to an automaton over bytes. The automaton tracks all possible states in a bit
// set and therefore needs no backtracking.
type program struct {
	states []state
	// follow[s] is the set of states that can be reached from state s without consuming a byte. The set includes s.
	follow []set
	start  int
	words  int
	shell  bool
}

// state consumes one byte of the set "bytes". The next state is the state with the number "out".
type state struct {
	bytes  *[4]uint64 // nil means that the state consumes no byte: it accepts or has only epsilon transitions
	out    int
	eps    []int
	accept bool
}

type set []uint64

func (s set) add(i int)      { s[i>>6] |= 1 << (i & 63) }
func (s set) has(i int) bool { return s[i>>6]&(1<<(i&63)) != 0 }

func byteSet(b *[4]uint64, c byte) bool { return b[c>>6]&(1<<(c&63)) != 0 }

var (
	allBytes = [4]uint64{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}
	notSlash = [4]uint64{^uint64(1 << '/'), ^uint64(0), ^uint64(0), ^uint64(0)}
	slash    = [4]uint64{1 << '/'}
)

func compile(toks tokens, shell bool) *program {
	p := &program{shell: shell}
	end := p.add(state{accept: true})
	if len(toks) == 1 && toks[0].op == recursivePrefix {
		p.start = p.loop(&allBytes, end)
	} else {
		p.start = p.sequence(toks, end)
	}
	return p
}

// close computes the set "follow" of each state. Afterwards the program is complete.
func (p *program) close() {
	p.words = (len(p.states) + 63) / 64
	p.follow = make([]set, len(p.states))
	for i := range p.states {
		p.follow[i] = make(set, p.words)
		p.reach(i, p.follow[i])
	}
}

func (p *program) add(s state) int {
	p.states = append(p.states, s)
	return len(p.states) - 1
}

func (p *program) split(to ...int) int { return p.add(state{eps: to}) }

// loop compiles a repetition of zero or more bytes from a set.
func (p *program) loop(b *[4]uint64, next int) int {
	s := p.split(next)
	body := p.add(state{bytes: b, out: s})
	p.states[s].eps = append(p.states[s].eps, body)
	return s
}

// sequence compiles a list of tokens from last to first. The state after the last token is the argument "next".
func (p *program) sequence(toks tokens, next int) int {
	for i := len(toks) - 1; i >= 0; i-- {
		next = p.token(toks[i], next)
	}
	return next
}

func (p *program) token(t token, next int) int {
	switch t.op {
	case char:
		var buf [utf8.UTFMax]byte
		n := utf8.EncodeRune(buf[:], t.char)
		for i := n - 1; i >= 0; i-- {
			var b [4]uint64
			b[buf[i]>>6] = 1 << (buf[i] & 63)
			next = p.add(state{bytes: &b, out: next})
		}
		return next
	case anyChar:
		return p.add(state{bytes: &notSlash, out: next})
	case star:
		return p.loop(&notSlash, next)
	case recursivePrefix: // match nothing, or any text that ends with a slash
		return p.split(next, p.loop(&allBytes, p.add(state{bytes: &slash, out: next})))
	case recursiveSuffix: // match a slash and any text after it
		return p.add(state{bytes: &slash, out: p.loop(&allBytes, next)})
	case recursiveZeroOrMore: // match a slash, or any text that begins and ends with a slash
		last := p.add(state{bytes: &slash, out: next})
		return p.add(state{bytes: &slash, out: p.split(next, p.loop(&allBytes, last))})
	case class:
		b := classBytes(t)
		if p.shell {
			b['/'>>6] &= notSlash['/'>>6]
		}
		return p.add(state{bytes: b, out: next})
	}
	var starts []int
	for _, alt := range t.alts {
		if len(alt) > 0 || p.shell {
			starts = append(starts, p.sequence(alt, next))
		}
	}
	if len(starts) == 0 { // all alternatives were empty
		return next
	}
	return p.split(starts...)
}

// classBytes returns the set of bytes that a class matches. A character beyond ASCII contributes each byte of its
// encoding, because paths are matched byte by byte.
func classBytes(t token) *[4]uint64 {
	var b [4]uint64
	for _, r := range t.ranges {
		var lo, hi [utf8.UTFMax]byte
		n, m := utf8.EncodeRune(lo[:], r[0]), utf8.EncodeRune(hi[:], r[1])
		for _, c := range slices.Concat(lo[:n], hi[:m]) {
			b[c>>6] |= 1 << (c & 63)
		}
		for c := int(lo[n-1]); r[0] != r[1] && c <= int(hi[0]); c++ {
			b[c>>6] |= 1 << (c & 63)
		}
	}
	if t.negated {
		for i := range b {
			b[i] = ^b[i]
		}
	}
	return &b
}

func (p *program) reach(i int, into set) {
	if into.has(i) {
		return
	}
	into.add(i)
	for _, j := range p.states[i].eps {
		p.reach(j, into)
	}
}

func (p *program) match(path string) bool {
	var buf [8]uint64 // a buffer on the stack that is large enough for most globs
	var now, next set
	if 2*p.words <= len(buf) {
		now, next = buf[:p.words], buf[p.words:2*p.words]
	} else {
		now, next = make(set, p.words), make(set, p.words)
	}
	copy(now, p.follow[p.start])
	for i := range len(path) {
		c := path[i]
		clear(next)
		alive := false
		for w, word := range now {
			for ; word != 0; word &= word - 1 {
				s := &p.states[w<<6+bits.TrailingZeros64(word)]
				if s.bytes == nil || !byteSet(s.bytes, c) {
					continue
				}
				alive = true
				for k, f := range p.follow[s.out] {
					next[k] |= f
				}
			}
		}
		if !alive {
			return false
		}
		now, next = next, now
	}
	for w, word := range now {
		for ; word != 0; word &= word - 1 {
			if p.states[w<<6+bits.TrailingZeros64(word)].accept {
				return true
			}
		}
	}
	return false
}
