package automaton

import (
	"context"
	"unicode/utf8"
)

// Machine runs a program. It keeps computed states for the next run and is not safe for concurrent use.
type Machine struct {
	p   *Program
	ctx context.Context // of the current search; see Machine.Use
	dfa dfa
	nfa nfa
	// begin is the function of SkipTo, or nil.
	begin    func(text []byte, places int) (at, wrong int)
	patience Patience
	// work counts steps since the last check of the context.
	work int
}

// NewMachine returns a machine that runs the program.
func NewMachine(p *Program) *Machine {
	m := &Machine{p: p, ctx: context.Background()}
	m.dfa.init(p)
	m.nfa.init(p)
	return m
}

// Use sets the context. When it ends, the machine stops in the middle of a run.
func (m *Machine) Use(ctx context.Context) { m.ctx = ctx }

// SkipTo lets the machine skip text in which no match begins. begin returns the earliest position at which the first
// match of a text can begin, or -1 if the text has no match. It also returns how many wrong places it examined. After
// that many places, it returns the next possible position unchecked.
func (m *Machine) SkipTo(begin func(text []byte, places int) (at, wrong int)) {
	m.begin, m.dfa.skips, m.patience = begin, m.p.seen == 0, NewPatience()
}

// skip returns the first position from pos on where a match in text[:to] can begin; ok is false if there is none.
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

// checkEvery is the number of instructions between two checks of the context, which take some milliseconds.
const checkEvery = 1 << 20

// Spend counts steps of work that the machine, or other code on its behalf, has done. Now and then it checks the context
// and returns its error.
func (m *Machine) Spend(steps int) error {
	if m.work += steps; m.work < checkEvery {
		return nil
	}
	m.work = 0
	return m.ctx.Err()
}

// Exists reports whether text[from:to] has a match, and returns the end of the match that ends first. Conditions see the
// text around that part. from and to are character boundaries. The error is that of the machine's context.
func (m *Machine) Exists(text []byte, from, to int) (end int, ok bool, err error) {
	if m.p.bytewise && m.p.seen != 0 {
		// Conditions see characters, but this automaton reads bytes.
		_, end, ok, err = m.nfa.find(m, text, from, to, true)
		return end, ok, err
	}
	return m.dfa.exists(m, text, from, to)
}

// Find returns the first match in text[from:to]. Of the matches that begin first, it returns the one that the pattern
// prefers. Otherwise it is like Exists.
func (m *Machine) Find(text []byte, from, to int) (start, end int, ok bool, err error) {
	return m.nfa.find(m, text, from, to, false)
}

// decode returns the kind of the symbol at a position before to, and its length.
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
