package strategy

import (
	"slices"
	"strings"
)

// IndentRule replaces an indentation of old_string by an indentation of the file.
type IndentRule struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// indenter converts the indentation of new_string to the indentation of the file. It derives its rules from lines that
// old_string and the file have in common.
type indenter struct {
	rules    map[string]string
	conflict map[string]bool // indentations of old_string that correspond to several indentations of the file
	from     []string        // indentations that have a rule without conflicts, the longest indentation first
	steps    []IndentRule    // how the difference between two indentations in old_string corresponds to one in the file
	same     bool            // true if all known indentations are equal in old_string and in the file
	unit     int             // number of spaces of an indentation level in the file; 0 if unknown
	fileKind byte            // indentation character of the file
}

func newIndenter() *indenter {
	return &indenter{rules: make(map[string]string), conflict: make(map[string]bool), same: true}
}

// learn records that a line of old_string and a line of the file correspond.
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

// settle computes the rules from what learn recorded. It must be called once, after all calls of learn.
func (in *indenter) settle(f *file) {
	if in.same {
		return
	}
	in.unit, in.fileKind = f.indentation()
	by := make(map[string]string) // a rule is ambiguous if two indentations are mapped to the same indentation
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
	slices.Reverse(in.steps) // sort the small steps first
}

// used returns the rules whose two indentations differ.
func (in *indenter) used() []IndentRule {
	var rules []IndentRule
	for _, from := range slices.Backward(in.from) {
		if to := in.rules[from]; to != from {
			rules = append(rules, IndentRule{from, to})
		}
	}
	return rules
}

// apply converts an indentation of new_string to the indentation of the file. The result "ok" is false if no rule
// applies.
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

// shift converts an indentation if every rule adds or removes the same prefix.
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

// extrapolate converts an unknown indentation. It starts from a known indentation and adds or removes whole levels.
func (in *indenter) extrapolate(x string) (string, bool) {
	for _, known := range in.from { // first try to extend the longest known indentation
		if rest, ok := strings.CutPrefix(x, known); ok {
			more, ok := in.convert(rest, known)
			return in.rules[known] + more, ok
		}
	}
	for _, known := range slices.Backward(in.from) { // then try to shorten the shortest known indentation
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

// convert converts the difference between an indentation and a known indentation to the style of the file. The argument
// "rest" is this difference.
func (in *indenter) convert(rest, known string) (string, bool) {
	for _, s := range in.steps {
		if to, ok := scale(rest, s.From, s.To); ok {
			return to, true
		}
	}
	if len(in.steps) > 0 {
		return "", false
	}
	// Exactly one indentation is known.
	to := in.rules[known]
	alike := kind(known+rest) != mixedBlanks && kind(known+rest) == kind(to+rest)
	if alike && kind(rest) == ' ' && in.unit > 0 && len(rest)%in.unit != 0 && known != "" && to != "" {
		// The indentation is not a multiple of the file's level. If the scaled indentation is a multiple, use the
		// scaled indentation.
		if scaled, ok := scale(rest, known, to); ok && len(scaled)%in.unit == 0 {
			return scaled, true
		}
	}
	if alike || (known == "" || to == "") && kind(rest) == in.fileKind {
		return rest, true // keep the inner indentation of a block that was moved as a whole
	}
	if known == "" || to == "" {
		return "", false
	}
	return scale(rest, known, to)
}

// scale converts an indentation that is a multiple of one text into the same multiple of another text.
func scale(rest, from, to string) (string, bool) {
	if from == to {
		return rest, kind(rest) == kind(from) || strings.TrimPrefix(rest, from) == ""
	}
	if kind(from) == mixedBlanks || kind(to) == mixedBlanks || kind(rest) != kind(from) ||
		len(rest)*len(to)%len(from) != 0 {
		if from != "" && strings.Trim(rest, from) == "" && len(rest)%len(from) == 0 &&
			strings.Repeat(from, len(rest)/len(from)) == rest {
			return strings.Repeat(to, len(rest)/len(from)), true
		}
		return "", false
	}
	return strings.Repeat(to[:1], len(rest)*len(to)/len(from)), true
}

// mixedBlanks is the kind of an indentation that contains both tabs and spaces.
const mixedBlanks = 'm'

// kind returns the character that an indentation consists of. It returns 0 for an empty indentation and mixedBlanks
// for a mixed one.
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

// indentation guesses the indentation style of the file. The result "unit" is the most frequent increase in spaces, or
// 0 if it is unknown. The result "char" is the indentation character.
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
