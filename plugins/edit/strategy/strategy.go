package strategy

import "slices"

// The names of the strategies.
const (
	Exact         = "exact"
	LineTrimmed   = "line-trimmed"
	BlockAnchor   = "block-anchor"
	Whitespace    = "whitespace-normalised"
	Indentation   = "indentation-flexible"
	Escape        = "escape-normalised"
	Boundary      = "trimmed-boundary"
	ContextAware  = "context-aware"
	MultiOccurred = "multi-occurrence"
)

// Strategy is one way to find old_string.
type Strategy struct {
	Name string
	// Matches says what it may match.
	Matches string
	// equality: a site has the text of old_string after both are normalised, so that
	// there can be several, and replace_all may change them all. The others judge likeness.
	equality bool
	// find gives the sites. nil: the strategy has none of its own, but names or widens
	// what another has found.
	find func(*search) (match, error)
}

// Strategies is the chain, in order.
var Strategies = []Strategy{
	{Exact, "literally", true, findExact},
	{LineTrimmed, "whole lines that are equal but for blanks at their ends", true, findTrimmed},
	{BlockAnchor, "a block with equal first and last lines and as many lines, whose middle differs by slips of the pen", false, findAnchored},
	{Whitespace, "lines that are equal but for the length of blanks, typographic characters and Unicode normal form", true, findNormalised},
	{Indentation, "what line-trimmed matches, where every line is indented by the same amount more or less", true, nil},
	{Escape, "old_string once its escapes, entities or pasted line numbers are undone", true, findUnescaped},
	{Boundary, "old_string without the blank lines at its edges", true, findWithoutEdges},
	{ContextAware, "lines that are equal but for blank lines between them", false, findSpaced},
	{MultiOccurred, "with replace_all: every site of one of the strategies that ask for equality", true, nil},
}

// Names returns the names of all strategies, in order.
func Names() []string {
	names := make([]string, len(Strategies))
	for i, s := range Strategies {
		names[i] = s.Name
	}
	return names
}

// Set is the names of the strategies that may be used; nil means all.
type Set []string

func (s Set) has(name string) bool { return s == nil || slices.Contains(s, name) }

// site is a place in the file.
type site struct {
	from, to int // bytes in LF space
	kind     siteKind
	// first line of a site of whole lines.
	first int
	// lines: where old and the file do not go line by line, the file's line for each line
	// of old, -1 for one that the file does not have.
	lines []int
}

type siteKind int

const (
	asIs   siteKind = iota // the bytes are those of old
	inLine                 // a part of a line
	whole                  // whole lines
)

// line returns the file's line for a line of old; -1 if there is none.
func (st *site) line(i int) int {
	if st.lines != nil {
		return st.lines[i]
	}
	return st.first + i
}

// match is what a strategy has found.
type match struct {
	sites []site
	// old and new are what the splice compares: the edit's, or both transformed.
	old, new string
	// similarity, from 0 to 1, of old and the text at the site.
	similarity float64
	// typos are words of old that stand for another one in the file.
	typos []string
}
