package pattern

import (
	"slices"

	"toolhost.dev/plugins/grep/syntax"
)

// Literals are sets of texts in lower case. Every match contains at least one text of each set, ignoring the case of
// ASCII letters.
type Literals struct {
	Sets [][]string
	// Special is true if U+017F also matches the letter s and U+212A also matches the letter k.
	Special bool
}

const (
	// maxSet is the maximum number of literals in a set.
	maxSet = 64
	// maxMembers is the maximum number of characters in a class that is expanded to literals.
	maxMembers = 16
	// maxLiteral is the maximum length of a combined literal. maxSets is the maximum number of sets. Higher limits
	// would not make the search faster.
	maxLiteral = 256
	maxSets    = 16
	// worth is the minimal length of a literal that is useful for a search.
	worth = 3
)

// Literals returns the literals of the pattern. If the result has no sets, a match can contain any text.
func (p *Pattern) Literals() Literals { return p.literals }

// literalsOf computes the literals of a syntax tree.
func literalsOf(n *syntax.Node) Literals {
	a := analysis{}
	known := a.node(n).closed()
	var out [][]string
	for _, set := range known.sets {
		if shortestOf(set) >= worth {
			out = append(out, set)
		}
	}
	return Literals{Sets: out, Special: a.special}
}

type analysis struct{ special bool }

// knowledge describes the texts that a node matches. If the field "exact" is not nil, it lists texts, and each match
// equals one of these texts. Otherwise each match contains at least one text of each set in the field "sets".
type knowledge struct {
	exact []string
	sets  [][]string
}

// closed converts exact texts to a set. The result has no exact texts.
func (k knowledge) closed() knowledge {
	if k.exact == nil {
		return k
	}
	return knowledge{sets: with(nil, k.exact)}
}

// with appends a set to a list of sets. If the set contains the empty text, the list stays unchanged.
func with(sets [][]string, set []string) [][]string {
	if shortestOf(set) == 0 {
		return sets
	}
	return append(sets[:len(sets):len(sets)], set)
}

func shortestOf(set []string) int {
	if len(set) == 0 {
		return 0
	}
	n := len(set[0])
	for _, s := range set {
		n = min(n, len(s))
	}
	return n
}

func (a *analysis) node(n *syntax.Node) knowledge {
	switch n.Op {
	case syntax.OpEmpty, syntax.OpLook:
		return knowledge{exact: []string{""}}
	case syntax.OpClass:
		return knowledge{exact: a.class(n.Class)}
	case syntax.OpRepeat:
		return a.repeat(n)
	case syntax.OpConcat:
		return a.concat(n.Sub)
	}
	return a.alternate(n.Sub)
}

// class returns the members of a character class in lower case. It returns nil if the class has too many members or
// contains a line break, because literals never contain line breaks.
func (a *analysis) class(c syntax.Class) []string {
	total := 0
	for _, r := range c {
		if total += int(r.Hi-r.Lo) + 1; total > maxMembers {
			return nil
		}
	}
	var out []string
	for _, r := range c {
		for x := r.Lo; x <= r.Hi; x++ {
			switch {
			case x == '\n':
				return nil
			case x == '\u017f' && c.Has('s'), x == '\u212a' && c.Has('k'):
				a.special = true
			case x >= syntax.RawByte:
				out = append(out, string([]byte{byte(x - syntax.RawByte)})) // #nosec G115 -- reverses the encoding of raw bytes
			case 'A' <= x && x <= 'Z':
				out = append(out, string(x|0x20))
			default:
				out = append(out, string(x))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (a *analysis) repeat(n *syntax.Node) knowledge {
	sub := a.node(n.Sub[0])
	switch {
	case n.Min == 0 && n.Max == 1 && sub.exact != nil && len(sub.exact) < maxSet:
		return knowledge{exact: append(sub.exact[:len(sub.exact):len(sub.exact)], "")}
	case n.Min == 0:
		return knowledge{}
	case n.Min == 1 && n.Max == 1:
		return sub
	}
	return sub.closed()
}

// concat combines the literals of adjacent nodes until there are too many combinations.
func (a *analysis) concat(subs []*syntax.Node) knowledge {
	run := []string{""}
	var sets [][]string
	whole := true
	for _, s := range subs {
		k := a.node(s)
		if k.exact != nil && len(run)*len(k.exact) <= maxSet && shortestOf(run) < maxLiteral {
			run = cross(run, k.exact)
			continue
		}
		whole = false
		if sets = with(sets, run); len(sets) >= maxSets {
			return knowledge{sets: sets}
		}
		if run = k.exact; run == nil {
			sets = append(sets, k.sets...)
			run = []string{""}
		}
	}
	if whole {
		return knowledge{exact: run}
	}
	return knowledge{sets: with(sets, run)}
}

func cross(a, b []string) []string {
	out := make([]string, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			out = append(out, x+y)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (a *analysis) alternate(subs []*syntax.Node) knowledge {
	var exact, best []string
	allExact, allKnown := true, true
	for _, s := range subs {
		k := a.node(s)
		allExact = allExact && k.exact != nil
		exact = append(exact, k.exact...)
		set := longestSet(k.closed().sets)
		allKnown = allKnown && set != nil
		best = append(best, set...)
	}
	switch {
	case allExact && len(exact) <= maxSet:
		return knowledge{exact: exact}
	case allKnown && len(best) <= 4*maxSet:
		return knowledge{sets: [][]string{best}}
	}
	return knowledge{}
}

// longestSet returns the set whose shortest literal is the longest.
func longestSet(sets [][]string) (best []string) {
	for _, s := range sets {
		if shortestOf(s) > shortestOf(best) {
			best = s
		}
	}
	return best
}
