package automaton

// nfa simulates the program with threads in order of priority. It records the position at which each thread began.
type nfa struct {
	p         *Program
	now, next []thread // threads that have not yet followed the instructions that consume no symbol
	ready     []thread // threads whose next instruction consumes a symbol
	visited   sparse
	stack     []int32
}

type thread struct {
	at    int32
	start int
}

func (v *nfa) init(p *Program) {
	v.p = p
	v.visited.init(len(p.insts))
}

// find returns the first match in text[from:to]. If earliest is true, it returns the match that ends first.
func (v *nfa) find(m *Machine, text []byte, from, to int, earliest bool) (start, end int, ok bool, err error) {
	v.now = v.now[:0]
	for pos := from; ; {
		if !ok && len(v.now) == 0 {
			var may bool
			if pos, may, err = m.skip(text, pos, to); err != nil || !may {
				return 0, 0, false, err
			}
		}
		if !ok {
			v.now = append(v.now, thread{v.p.start, pos})
		}
		if len(v.now) == 0 {
			return start, end, ok, nil
		}
		if s, found := v.advance(text, pos); found {
			start, end, ok = s, pos, true
			if earliest {
				return start, end, ok, nil
			}
		}
		if err := m.Spend(v.visited.len() + 1); err != nil {
			return 0, 0, false, err
		}
		if pos >= to {
			return start, end, ok, nil
		}
		kind, n := v.p.decode(text, pos, to)
		v.next = v.next[:0]
		for _, t := range v.ready {
			in := &v.p.insts[t.at]
			if v.p.alphabet.member[in.class][kind] {
				v.next = append(v.next, thread{in.out, t.start})
			}
		}
		v.now, v.next = v.next, v.now
		pos += n
	}
}

// advance moves the threads to the next instructions that consume a symbol. If a thread reaches a match, all threads of
// lower priority are dropped, and the result "start" is the beginning of the match.
func (v *nfa) advance(text []byte, pos int) (start int, found bool) {
	var before, after side
	if v.p.seen != 0 {
		before, after = sides(text, pos)
	}
	v.visited.clear()
	v.ready = v.ready[:0]
	for _, t := range v.now {
		v.stack = append(v.stack[:0], t.at)
		for len(v.stack) > 0 {
			i := v.stack[len(v.stack)-1]
			v.stack = v.stack[:len(v.stack)-1]
			if !v.visited.add(i) {
				continue
			}
			switch in := &v.p.insts[i]; in.op {
			case opMatch:
				return t.start, true
			case opSplit:
				v.stack = append(v.stack, in.alt, in.out)
			case opLook:
				if holds(in.look, before, after) {
					v.stack = append(v.stack, in.out)
				}
			case opClass:
				v.ready = append(v.ready, thread{i, t.start})
			}
		}
	}
	return 0, false
}
