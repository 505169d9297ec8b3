package automaton

import (
	"encoding/binary"
	"slices"
	"unicode/utf8"
)

// dfa is a deterministic automaton that creates its states on demand.
//
// A state consists of the next possible instructions and of the flags of the text before the position. Conditions
// also depend on the symbol after the position. Therefore the automaton notices a match one symbol late, when it
// consumes the following symbol.
type dfa struct {
	p      *Program
	stride int
	// next is the transition table. A state is identified by the index of its row in the table. A row has one entry for
	// each kind of the next symbol: the following state, matched, unknown or idle.
	next   []int32
	states []state // indexed by the row divided by stride
	index  map[string]int32
	// starts holds the initial states, indexed by the flags of the text before the position.
	starts [allSides]int32

	stack   []int32
	visited sparse
	kernel  []int32
	key     []byte
	size    int // the number of instructions in all states
	// skips reports whether the machine is allowed to skip text in the initial state of the automaton. No match has
	// begun in that state.
	skips bool
}

type state struct {
	insts  []int32
	before side
}

// maxTable limits both the entries of the table and the instructions of all states. If the table is full, the automaton
// drops all states and continues.
const maxTable = 1 << 20

func (d *dfa) init(p *Program) {
	d.p, d.stride = p, len(p.alphabet.sides)
	d.visited.init(len(p.insts))
	d.reset()
}

func (d *dfa) reset() {
	d.next, d.states, d.size = d.next[:0], d.states[:0], 0
	d.index = make(map[string]int32)
	for i := range d.starts {
		d.starts[i] = unknown
	}
}

const (
	unknown = -1 // the transition is not computed yet
	matched = -2 // a match ends before the symbol
	idle    = -3 // the automaton returns to the initial state, in which the machine can skip text
)

func (d *dfa) exists(m *Machine, text []byte, from, to int) (int, bool, error) {
	pos, may, err := m.skip(text, from, to)
	if err != nil || !may {
		return 0, false, err
	}
	row := d.begin(sideBefore(text, pos) & d.p.seen)
	ascii, next := &d.p.alphabet.ascii, d.next
	for {
		// This loop is the fast path: most text is ASCII, and most transitions are already computed.
		for at := int(row); pos < to; pos++ {
			b := text[pos]
			if b >= utf8.RuneSelf {
				break
			}
			t := next[at+int(ascii[b])]
			if t < 0 {
				break
			}
			at, row = int(t), t
		}
		var kind uint16
		n := 1
		if pos < to {
			if b := text[pos]; b < utf8.RuneSelf {
				kind = ascii[b]
			} else {
				kind, n = d.p.decode(text, pos, to)
			}
		} else if kind = d.p.alphabet.end(); to < len(text) {
			kind, _ = d.p.decode(text, to, len(text))
		}
		t := next[int(row)+int(kind)]
		if t == unknown {
			if t, err = d.step(m, row, kind); err != nil {
				return 0, false, err
			}
			next = d.next
		}
		if t == matched {
			return pos, true, nil
		}
		if pos >= to {
			return 0, false, m.Spend(1)
		}
		pos += n
		if t == idle {
			if pos, may, err = m.skip(text, pos, to); err != nil || !may {
				return 0, false, err
			}
			t = d.begin(0)
			next = d.next
		}
		row = t
	}
}

func (d *dfa) begin(before side) int32 {
	s := d.starts[before]
	if s == unknown {
		s = d.add([]int32{d.p.start}, before)
		d.starts[before] = s
	}
	return s
}

// add returns the state for a sorted list of instructions. It creates the state if necessary.
func (d *dfa) add(insts []int32, before side) int32 {
	d.key = append(d.key[:0], byte(before))
	for _, i := range insts {
		d.key = binary.AppendUvarint(d.key, uint64(i)) // #nosec G115 -- not negative
	}
	if s, ok := d.index[string(d.key)]; ok {
		return s
	}
	s := int32(len(d.next)) // #nosec G115 -- the table has little more than maxTable entries
	d.states = append(d.states, state{insts: slices.Clone(insts), before: before})
	d.index[string(d.key)] = s
	d.size += len(insts)
	for range d.stride {
		d.next = append(d.next, unknown)
	}
	return s
}

// step computes one entry of the transition table.
func (d *dfa) step(m *Machine, from int32, kind uint16) (int32, error) {
	a := d.p.alphabet
	st := d.states[int(from)/d.stride]
	after := a.sides[kind]
	d.visited.clear()
	d.kernel = d.kernel[:0]
	found := false
	d.stack = append(d.stack[:0], st.insts...)
	for len(d.stack) > 0 {
		i := d.stack[len(d.stack)-1]
		d.stack = d.stack[:len(d.stack)-1]
		if !d.visited.add(i) {
			continue
		}
		switch in := &d.p.insts[i]; in.op {
		case opMatch:
			found = true
		case opSplit:
			d.stack = append(d.stack, in.out, in.alt)
		case opLook:
			if holds(in.look, st.before, after) {
				d.stack = append(d.stack, in.out)
			}
		case opClass:
			if a.member[in.class][kind] {
				d.kernel = append(d.kernel, in.out)
			}
		}
	}
	if err := m.Spend(d.visited.len() + 1); err != nil {
		return 0, err
	}
	if found {
		d.next[int(from)+int(kind)] = matched
		return matched, nil
	}
	d.kernel = append(d.kernel, d.p.start) // a match can begin at every position
	slices.Sort(d.kernel)
	d.kernel = slices.Compact(d.kernel)
	if len(d.next) > maxTable || d.size > maxTable {
		d.reset()
		return d.add(d.kernel, after), nil
	}
	to := d.add(d.kernel, after)
	if d.skips && len(d.kernel) == 1 && to == d.begin(0) {
		to = idle
	}
	d.next[int(from)+int(kind)] = to
	return to, nil
}
