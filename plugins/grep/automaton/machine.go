package automaton

import (
	"context"
	"unicode/utf8"
)

// Machine runs a program. It keeps what it has worked out for the next run, and is
// not safe for concurrent use.
type Machine struct {
	p   *Program
	ctx context.Context // of the current search; see Machine.Use
	dfa dfa
	nfa nfa
	// begin is that of SkipTo; nil if there is none.
	begin    func(text []byte, places int) (at, wrong int)
	patience Patience
	// work counts steps until the context is looked at again.
	work int
}

// NewMachine makes a machine that runs the program.
func NewMachine(p *Program) *Machine {
	m := &Machine{p: p, ctx: context.Background()}
	m.dfa.init(p)
	m.nfa.init(p)
	return m
}

// Use sets the context whose end stops the machine in the middle of a run.
func (m *Machine) Use(ctx context.Context) { m.ctx = ctx }

// SkipTo has the machine pass over what no match begins in: begin gives where the first match in a text
// begins at the earliest, or -1 when there is none in it, and how many places it has looked at that were wrong;
// after so many it returns the next one that may be right.
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

// checkEvery is the number of instructions visited between two looks at the context:
// some milliseconds.
const checkEvery = 1 << 20

// Spend counts steps of work done, here or instead, and reports the end of the context, now and then.
func (m *Machine) Spend(steps int) error {
	if m.work += steps; m.work < checkEvery {
		return nil
	}
	m.work = 0
	return m.ctx.Err()
}

// Exists reports whether text[from:to] has a match, and where the match ends that
// ends first. Conditions see what is around that part in the text. from and to are
// boundaries of characters. The error is the end of the machine's context.
func (m *Machine) Exists(text []byte, from, to int) (end int, ok bool, err error) {
	if m.p.bytewise && m.p.seen != 0 {
		// What conditions see are characters, which this automaton does not.
		_, end, ok, err = m.nfa.find(m, text, from, to, true)
		return end, ok, err
	}
	return m.dfa.exists(m, text, from, to)
}

// Find returns the first match in text[from:to]: the one that begins first, and of
// those the one that the pattern prefers. Otherwise it is like Exists.
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
