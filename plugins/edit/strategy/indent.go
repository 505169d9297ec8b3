package strategy

import (
	"slices"
	"strings"
)

// IndentRule says that an indentation in old_string is another one in the file.
type IndentRule struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// indenter turns the indentation of new_string into that of the file. What it knows, it
// has learned from lines that old_string and the file have in common.
type indenter struct {
	rules    map[string]string
	conflict map[string]bool // the same indentation in old is several in the file
	from     []string        // the keys of rules, the longest first
	steps    []IndentRule    // one level and more in old, and in the file
	same     bool            // the file is indented as old is
	unit     int             // the spaces of a level in the file; 0: not known
	fileKind byte            // the character that the file is indented with
}

func newIndenter() *indenter {
	return &indenter{rules: make(map[string]string), conflict: make(map[string]bool), same: true}
}

// learn takes a line of old and the one that stands for it in the file.
func (in *indenter) learn(old, ours string) {
	if isBlankLine(old) {
		return
	}
	from, to := indent(old), indent(ours)
	if was, known := in.rules[from]; known && was != to {
		in.conflict[from] = true
	}
	in.rules[from] = to
	in.same = in.same && from == to
}

// settle draws the conclusions, for a file.
func (in *indenter) settle(f *file) {
	if in.same {
		return
	}
	in.unit, in.fileKind = f.indentation()
	by := make(map[string]string) // two indentations that are one in the file tell nothing
	for from, to := range in.rules {
		if other, taken := by[to]; taken {
			in.conflict[from], in.conflict[other] = true, true
		}
		by[to] = from
	}
	for from := range in.rules {
		if !in.conflict[from] {
			in.from = append(in.from, from)
		}
	}
	slices.SortFunc(in.from, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	for i, long := range in.from {
		for _, short := range in.from[i+1:] {
			from, ok := strings.CutPrefix(long, short)
			to, grown := strings.CutPrefix(in.rules[long], in.rules[short])
			if ok && grown && from != "" && to != "" {
				in.steps = append(in.steps, IndentRule{from, to})
			}
		}
	}
	slices.Reverse(in.steps) // small ones first
}

// used returns the rules that change something.
func (in *indenter) used() []IndentRule {
	var rules []IndentRule
	for _, from := range slices.Backward(in.from) {
		if to := in.rules[from]; to != from {
			rules = append(rules, IndentRule{from, to})
		}
	}
	return rules
}

// apply returns the file's indentation for one of new_string; ok is false if what was
// learned does not tell.
func (in *indenter) apply(x string) (to string, ok bool) {
	if in.same {
		return x, true
	}
	if in.conflict[x] {
		return "", false
	}
	if to, ok := in.rules[x]; ok {
		return to, true
	}
	if to, ok := in.extrapolate(x); ok {
		return to, true
	}
	return in.shift(x)
}

// shift moves an indentation as all that are known are moved: by the same text before
// it, more or less.
func (in *indenter) shift(x string) (string, bool) {
	if len(in.from) == 0 {
		return "", false
	}
	var added, removed string
	for i, from := range in.from {
		to := in.rules[from]
		more, grown := strings.CutSuffix(to, from)
		less, shrunk := strings.CutSuffix(from, to)
		if !grown && !shrunk || i > 0 && (grown != (added != "") || shrunk != (removed != "")) {
			return "", false
		}
		if grown && i > 0 && more != added || shrunk && i > 0 && less != removed {
			return "", false
		}
		if grown {
			added = more
		}
		if shrunk {
			removed = less
		}
	}
	to, ok := strings.CutPrefix(x, removed)
	return added + to, ok
}

// extrapolate goes on from the indentation that is known and nearest, in whole steps.
func (in *indenter) extrapolate(x string) (string, bool) {
	for _, known := range in.from { // the longest beginning that is known, and the rest
		if rest, ok := strings.CutPrefix(x, known); ok {
			more, ok := in.convert(rest, known)
			return in.rules[known] + more, ok
		}
	}
	for _, known := range slices.Backward(in.from) { // or less than the shortest
		if rest, ok := strings.CutPrefix(known, x); ok {
			less, ok := in.convert(rest, known)
			if !ok {
				return "", false
			}
			return strings.CutSuffix(in.rules[known], less)
		}
	}
	return "", false
}

// convert turns a difference of indentation into the file's, in whole steps.
func (in *indenter) convert(rest, known string) (string, bool) {
	for _, s := range in.steps {
		if to, ok := scale(rest, s.From, s.To); ok {
			return to, true
		}
	}
	if len(in.steps) > 0 {
		return "", false
	}
	// There is one indentation to learn from.
	to := in.rules[known]
	alike := kind(known+rest) != mixedBlanks && kind(known+rest) == kind(to+rest)
	if alike && kind(rest) == ' ' && in.unit > 0 && len(rest)%in.unit != 0 && known != "" && to != "" {
		// Not a level of the file's: levels of another width, if they come out even.
		if scaled, ok := scale(rest, known, to); ok && len(scaled)%in.unit == 0 {
			return scaled, true
		}
	}
	if alike || (known == "" || to == "") && kind(rest) == in.fileKind {
		return rest, true // moved as a whole
	}
	if known == "" || to == "" {
		return "", false
	}
	return scale(rest, known, to)
}

// scale turns whole steps of one kind into as many of another.
func scale(rest, from, to string) (string, bool) {
	if from == to {
		return rest, kind(rest) == kind(from) || strings.TrimPrefix(rest, from) == ""
	}
	if kind(from) == mixedBlanks || kind(to) == mixedBlanks || kind(rest) != kind(from) || len(rest)*len(to)%len(from) != 0 {
		if from != "" && strings.Trim(rest, from) == "" && len(rest)%len(from) == 0 && strings.Repeat(from, len(rest)/len(from)) == rest {
			return strings.Repeat(to, len(rest)/len(from)), true
		}
		return "", false
	}
	return strings.Repeat(to[:1], len(rest)*len(to)/len(from)), true
}

// mixedBlanks is the kind of an indentation of both tabs and spaces.
const mixedBlanks = 'm'

// kind returns the character that an indentation consists of; 0: it is empty.
func kind(indent string) byte {
	switch {
	case indent == "":
		return 0
	case strings.Trim(indent, " ") == "":
		return ' '
	case strings.Trim(indent, "\t") == "":
		return '\t'
	}
	return mixedBlanks
}

// indentation guesses how many spaces a level has in the file, by the width by which
// indentation grows most often (0: it does not tell), and which character it is
// indented with.
func (f *file) indentation() (unit int, char byte) {
	if f.char == 0 {
		f.unit, f.char = f.guessIndentation()
	}
	return f.unit, f.char
}

func (f *file) guessIndentation() (unit int, char byte) {
	const look = 5000
	var grows [9]int
	last, tabs, spaces := 0, 0, 0
	for i := range min(f.lines(), look) {
		line := string(f.line(i))
		in := indent(line)
		if len(in) == len(line) {
			continue
		}
		switch kind(in) {
		case '\t', mixedBlanks:
			tabs++
			last = 0
			continue
		case ' ':
			spaces++
		}
		if d := len(in) - last; d > 1 && d < len(grows) {
			grows[d]++
		}
		last = len(in)
	}
	for d, n := range grows {
		if n > grows[unit] {
			unit = d
		}
	}
	if tabs > spaces {
		return 0, '\t'
	}
	return unit, ' '
}
