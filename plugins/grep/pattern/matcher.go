package pattern

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/bits"

	"toolhost.dev/plugins/grep/automaton"
)

// Matcher searches for a pattern. It learns from the searched text and is not safe for concurrent use. Use one Matcher
// per goroutine. A method returns an error only if the context of the search ends. This error is the error of the
// context.
type Matcher struct {
	p *Pattern
	m *automaton.Machine
	lead
	// patience limits the time that is spent on false candidates: lines that contain a required text but no match.
	patience automaton.Patience
}

// wrongLine is the cost of a line that contains a text of the set "either" but no match. A cost of 1 is the cost of one
// false candidate.
const wrongLine = 8

// lineSteps is the number of bytes that a search for a text reads in the time of one step of the automaton.
const lineSteps = 16

// Matcher returns a matcher. When ctx ends, the matcher stops, even in the middle of a text.
func (p *Pattern) Matcher(ctx context.Context) *Matcher {
	m := automaton.NewMachine(p.prog)
	m.Use(ctx)
	if len(p.prefix.text) > 0 {
		m.SkipTo(p.prefix.index)
	}
	return &Matcher{p: p, m: m, patience: automaton.NewPatience()}
}

// Crossing reports whether a match can span several lines; see [Pattern.Crossing].
func (m *Matcher) Crossing() bool { return m.p.crossing }

// NextLine finds the first line with a match in buf[pos:]. The position pos must be the beginning of a line. The result
// "end" is the position after the line break.
func (m *Matcher) NextLine(buf []byte, pos int) (start, end int, ok bool, err error) {
	for pos < len(buf) {
		cost := 0 // cost of this line if it has no match
		switch {
		case len(m.p.either) > 0 && m.patience.Places() > 0:
			i, wrong := m.p.either.index(buf[pos:], m.patience.Places())
			m.patience.Lose(wrong + len(m.p.either))
			if i < 0 {
				m.patience.Gain(len(buf) - pos)
				return 0, 0, false, nil
			}
			start, end = lineAt(buf, pos+i)
			m.patience.Gain(end - pos)
			cost = wrongLine
		case len(m.p.required) > 0:
			m.learn(m.p.required, buf[pos:])
			i, wrong := m.p.required[m.leading].index(buf[pos:], m.patience.Places())
			m.patience.Lose(wrong)
			if i < 0 {
				m.patience.Gain(len(buf) - pos)
				return 0, 0, false, nil
			}
			start, end = lineAt(buf, pos+i)
			m.patience.Gain(end - pos)
			if m.p.exact {
				return start, end, true, nil
			}
			if !m.has(m.p.required, buf[start:end]) {
				if err := m.m.Spend(1 + (end-pos)/lineSteps); err != nil {
					return 0, 0, false, err
				}
				pos = end
				continue
			}
		case m.p.apart:
			start, end = lineAt(buf, pos)
			m.patience.Gain(end - pos)
		default:
			at, found, err := m.m.Exists(buf, pos, len(buf))
			if err != nil || !found {
				m.patience.Gain(len(buf) - pos)
				return 0, 0, false, err
			}
			m.patience.Gain(at - pos)
			start, end = lineAt(buf, at)
			return start, end, start < len(buf), nil
		}
		text, from, to := m.line(buf, start, end)
		if _, ok, err = m.m.Exists(text, from, to); ok || err != nil {
			return start, end, ok, err
		}
		m.patience.Lose(cost)
		pos = end
	}
	return 0, 0, false, nil
}

// line returns the text in which to search for a match in one line of buf. It also returns the range of the line in
// that text, without the line break.
func (m *Matcher) line(buf []byte, start, end int) (text []byte, from, to int) {
	to = end
	if to > start && buf[to-1] == '\n' {
		to--
	}
	if m.p.apart {
		return buf[start:to], 0, to - start
	}
	return buf, start, to
}

// lineAt returns the bounds of the line that contains a position.
func lineAt(buf []byte, pos int) (start, end int) {
	start = lineStart(buf, pos)
	if i := bytes.IndexByte(buf[pos:], '\n'); i >= 0 {
		return start, pos + i + 1
	}
	return start, len(buf)
}

// lineStart returns the beginning of the line that contains a position. It examines eight bytes at once, because it
// runs for every line that is found and lines are short.
func lineStart(buf []byte, pos int) int {
	const breaks, low = 0x0a0a0a0a0a0a0a0a, 0x7f7f7f7f7f7f7f7f
	for ; pos >= 8; pos -= 8 {
		x := binary.LittleEndian.Uint64(buf[pos-8:]) ^ breaks // bytes of x that are line breaks become 0
		if zero := ^((x&low + low) | x | low); zero != 0 {    // zero has the highest bit set in each byte of x that is 0; all its other bits are clear
			return pos - bits.LeadingZeros64(zero)/8
		}
	}
	for ; pos > 0 && buf[pos-1] != '\n'; pos-- {
	}
	return pos
}

// InLine returns the column of the first match in a line, in bytes from 0. The range from start to end must be a
// line with a match. The range includes the line break.
func (m *Matcher) InLine(buf []byte, start, end int) (int, error) {
	if m.p.exact {
		return max(0, bytes.Index(buf[start:end], m.p.required[0].text)), nil
	}
	text, from, to := m.line(buf, start, end)
	at, _, ok, err := m.m.Find(text, from, to)
	if !ok || err != nil {
		return 0, err
	}
	return at - from, nil
}

// Find returns the first match in text[from:]. Conditions of the pattern can test the text before the offset "from".
func (m *Matcher) Find(text []byte, from int) (start, end int, ok bool, err error) {
	if m.p.exact {
		i := m.p.required[0].next(text[from:])
		return from + i, from + i + len(m.p.required[0].text), i >= 0, nil
	}
	if len(m.p.required) > 0 && m.p.required[0].next(text[from:]) < 0 {
		return 0, 0, false, nil
	}
	if _, ok, err = m.m.Exists(text, from, len(text)); !ok || err != nil {
		return 0, 0, false, err
	}
	return m.m.Find(text, from, len(text))
}
