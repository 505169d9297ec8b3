package automaton

import (
	"context"
	"unicode/utf8"
)

// Machine runs a program. It caches computed states for later runs. It is not safe for concurrent use.
type Machine struct {
	p   *Program
	ctx context.Context // the context of the current search; see Machine.Use
	dfa dfa
	nfa nfa
	// begin is the function passed to SkipTo. It is nil if SkipTo was not called.
	begin    func(text []byte, places int) (at, wrong int)
	patience Patience
	// work counts the steps since the last check of the context.
	work int
}

// NewMachine returns a machine that runs the program.
func NewMachine(p *Program) *Machine {
	m := &Machine{p: p, ctx: context.Background()}
	m.dfa.init(p)
	m.nfa.init(p)
	return m
}

// Use sets the context of all following searches. If the context ends, the machine stops a running search.
func (m *Machine) Use(ctx context.Context) { m.ctx = ctx }

// SkipTo lets the machine skip text in which no match begins. The callback "begin" returns the earliest position at
// which the first match of a text can begin, or -1 if the text has no match. It also returns the number of false
// candidates that it examined. The parameter "places" limits this number. When the limit is reached, the callback
// returns the next candidate unchecked.
func (m *Machine) SkipTo(begin func(text []byte, places int) (at, wrong int)) {
	m.begin, m.dfa.skips, m.patience = begin, m.p.seen == 0, NewPatience()
}

// skip returns the first position from pos on at which a match in text[:to] can begin. If no match can begin, ok is
// false.
func (m *Machine) skip(text []byte, pos, to int) (next int, ok bool, err error) {
	if m.begin == nil {
		return pos, true, nil
	}
	places := m.patience.Places()
	if places == 0 {
		m.patience.Gain(1)
		return pos, true, nil
	}
	i, wrong := m.begin(text[pos:to], places)
	m.patience.Lose(1 + wrong)
	if i < 0 {
		return to, false, m.Spend(1 + wrong)
	}
	m.patience.Gain(i)
	return pos + i, true, m.Spend(1 + i/64 + wrong)
}

// checkEvery is the number of instructions between two checks of the context. The machine executes that many
// instructions in some milliseconds.
const checkEvery = 1 << 20

// Spend counts steps of work done by the machine or by other code on its behalf. Every checkEvery steps, it checks the
// context and returns the error of the context.
func (m *Machine) Spend(steps int) error {
	if m.work += steps; m.work < checkEvery {
		return nil
	}
	m.work = 0
	return m.ctx.Err()
}

// Exists reports whether text[from:to] has a match, and returns the end of the match that ends first. Conditions of the
// pattern can also test the text around text[from:to]. Both offsets must be character boundaries. A non-nil error is
// the error of the machine's context.
func (m *Machine) Exists(text []byte, from, to int) (end int, ok bool, err error) {
	if m.p.bytewise && m.p.seen != 0 {
		// Use the nondeterministic automaton, because conditions test characters but this deterministic automaton
		// reads bytes.
		_, end, ok, err = m.nfa.find(m, text, from, to, true)
		return end, ok, err
	}
	return m.dfa.exists(m, text, from, to)
}

// Find returns the first match in text[from:to]. If several matches begin at the same position, it returns the one that
// the pattern prefers. In all other respects, Find works like Exists.
func (m *Machine) Find(text []byte, from, to int) (start, end int, ok bool, err error) {
	return m.nfa.find(m, text, from, to, false)
}

// decode returns the kind and the length of the symbol at a position. It does not read at or after the position "to".
func (p *Program) decode(text []byte, pos, to int) (kind uint16, n int) {
	b := text[pos]
	if b < utf8.RuneSelf {
		return p.alphabet.ascii[b], 1
	}
	if p.bytewise {
		return p.alphabet.kind(rune(b)), 1
	}
	r, n := utf8.DecodeRune(text[pos:to])
	if r == utf8.RuneError && n == 1 {
		return p.alphabet.invalid(), 1
	}
	return p.alphabet.kind(r), n
}
