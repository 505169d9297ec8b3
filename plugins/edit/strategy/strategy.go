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

// Strategy is a method to find old_string in a file.
type Strategy struct {
	Name string
	// Matches describes the texts that the strategy matches. The description is part of messages.
	Matches string
	// equality means that the strategy compares normalized texts, and that a site must be equal to old_string. Such a
	// strategy can find several sites, and replace_all can change all of them. Other strategies compare the similarity.
	equality bool
	// find returns the sites. It is nil for strategies that only describe or extend the result of another strategy.
	find func(*search) (match, error)
}

// Strategies lists the strategies in the order in which they are tried.
var Strategies = []Strategy{
	{Exact, "literally", true, findExact},
	{LineTrimmed, "whole lines that are equal except for blanks at their ends", true, findTrimmed},
	{BlockAnchor, "a block with equal first and last lines and as many lines, whose middle differs by a few characters", false, findAnchored},
	{Whitespace, "lines that are equal except for the length of blanks, typographic characters and Unicode normal form", true, findNormalised},
	{Indentation, "lines as for line-trimmed, all indented by the same amount more or less", true, nil},
	{Escape, "old_string without its escapes, entities or pasted line numbers", true, findUnescaped},
	{Boundary, "old_string without the blank lines at its edges", true, findWithoutEdges},
	{ContextAware, "lines that are equal except for blank lines between them", false, findSpaced},
	{MultiOccurred, "with replace_all: every match of one of the strategies that need equality", true, nil},
}

// Names returns the names of all strategies, in order.
func Names() []string {
	names := make([]string, len(Strategies))
	for i, s := range Strategies {
		names[i] = s.Name
	}
	return names
}

// Set contains the names of the allowed strategies. A nil Set allows all strategies.
type Set []string

func (s Set) has(name string) bool { return s == nil || slices.Contains(s, name) }

// site is a place in the file at which old_string was found.
type site struct {
	from, to int // byte offsets in LF space
	kind     siteKind
	// first is the index of the first line. It is set only for a site of whole lines.
	first int
	// lines maps each line of old_string to a line of the file, or to -1. If lines is nil, the lines correspond one
	// to one.
	lines []int
}

type siteKind int

const (
	asIs   siteKind = iota // the text at the site equals old_string byte by byte
	inLine                 // the site is part of a line
	whole                  // the site consists of whole lines
)

// line returns the line of the file that corresponds to a line of old_string. It returns -1 if no line corresponds.
func (st *site) line(i int) int {
	if st.lines != nil {
		return st.lines[i]
	}
	return st.first + i
}

// match is the result of a strategy.
type match struct {
	sites []site
	// old and new are the texts of the edit. A strategy can transform them, for example by removing escapes.
	old, new string
	// similarity is the similarity of old_string and the text at the site, from 0 to 1.
	similarity float64
	// typos contains the misspelled words of old_string.
	typos []string
}
