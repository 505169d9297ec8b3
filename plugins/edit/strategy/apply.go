package strategy

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Edit describes the replacement of the text Old by the text New.
type Edit struct {
	Old, New string
	// File is the name of the file in messages. An empty name means "the file".
	File string
	// All means that the edit replaces Old at all places. If All is false, Old must occur exactly once.
	All bool
	// WholeLines means that Old and New consist of whole lines, as in a diff.
	WholeLines bool
	// Near is a line number, counted from 1. If Old occurs several times, the occurrence near this line is replaced.
	// Zero means that no line is preferred.
	Near int
	// From is a line number, counted from 1. The edit replaces the first place at or below this line. Zero means that
	// all lines count.
	From int
	// Final is the requested change of the newline at the end of the file.
	Final FinalNewline
}

// FinalNewline determines whether the newline at the end of a file is kept, added or removed.
type FinalNewline int

// A normal edit keeps the final newline. Only a diff can add or remove the final newline.
const (
	KeepFinal FinalNewline = iota
	AddFinal
	DropFinal
)

// Lines is a range of changed lines: the first and the last line, counted from 1.
type Lines struct {
	Start int `json:"start_line"`
	End   int `json:"end_line"`
	// Added is the number of added lines. It is negative if lines were removed.
	Added int `json:"-"`
}

// Change is the result of an edit.
type Change struct {
	// Text is the new content of the file.
	Text []byte
	// Strategy is the name of the strategy that found the place. If a strategy other than Exact found several places,
	// Strategy is MultiOccurred, and Equality is the name of the strategy that found the places. Otherwise Equality is
	// empty.
	Strategy, Equality string
	// Similarity is the similarity of old_string and the replaced text, from 0 to 1.
	Similarity float64
	// Sites contains the changed places in the new text, in order.
	Sites []Lines
	// Indent lists the conversions from the indentation of new_string to the indentation of the file.
	Indent []IndentRule
}

const (
	// MaxFuzzy is the maximum size of a file in bytes for all strategies except the exact one.
	MaxFuzzy = 10 << 20
	// MaxText is the maximum size of an edited file, in bytes.
	MaxText = 96 << 20
	// maxReplacements is the maximum number of places that a replace_all edit changes.
	maxReplacements = 200_000
	// maxFuzzyLines is the maximum number of lines of a file for all strategies except the exact one.
	maxFuzzyLines = 1_000_000
)

// Apply applies an edit to a text with the strategies in set. Every error is an [*Error].
func Apply(text []byte, e Edit, set Set) (*Change, error) {
	e.Old, e.New = toLF(e.Old), toLF(e.New)
	if e.File == "" {
		e.File = "the file"
	}
	if isBlankText(e.Old) && !e.WholeLines {
		return nil, &Error{Kind: Ambiguous, Message: "old_string consists of blanks only, which match many places. Add the lines around it to old_string."}
	}
	if e.Old == e.New && e.Final == KeepFinal {
		return nil, noChange("old_string and new_string are equal. Set new_string to the new text.")
	}
	if line := introducedPlaceholder(e.Old, e.New); line != "" {
		return nil, &Error{Kind: Incomplete, Message: fmt.Sprintf("new_string has the placeholder %q in place of code, which would delete that code. Write the text in full, or choose a smaller old_string.", line)}
	}
	s := &search{file: newFile(text), edit: e}
	if end := s.file.big; end != "" && end != "\n" {
		s.edit.Old, s.edit.New = strings.ReplaceAll(e.Old, "\n", end), strings.ReplaceAll(e.New, "\n", end)
	}
	name, m, err := s.chain(set)
	if err != nil {
		return nil, err
	}
	if len(m.sites) > maxReplacements {
		return nil, refused("old_string occurs more than %d times. Use a program in the shell (sed) to replace this many.", maxReplacements)
	}
	c := &Change{Strategy: name, Similarity: m.similarity}
	if len(m.sites) > 1 && name != Exact {
		c.Strategy, c.Equality = MultiOccurred, name
	}
	return s.splice(c, m)
}

// chain tries the strategies in order. It returns the name and the match of the first strategy that succeeds.
func (s *search) chain(set Set) (string, match, error) {
	for i, st := range Strategies {
		if i > 0 && !s.file.fuzzy() {
			break
		}
		if i == 1 {
			if err := s.elided(); err != nil {
				return "", match{}, err
			}
		}
		if st.find == nil || s.edit.All && !st.equality {
			continue
		}
		// The strategy LineTrimmed must also run if only Indentation is allowed, because it also finds text with
		// shifted indentation.
		if !set.has(st.Name) && (st.Name != LineTrimmed || !set.has(Indentation)) {
			continue
		}
		m, err := st.find(s)
		if err != nil {
			return "", m, err
		}
		if len(m.sites) == 0 {
			continue
		}
		if m.sites = s.tieBreak(s.firstBelow(m.sites)); len(m.sites) == 0 {
			continue
		}
		if len(m.sites) > 1 && !s.edit.All {
			return "", m, s.ambiguous(st.Name, m.sites)
		}
		name := st.Name
		if name == LineTrimmed && s.uniformShift(m) {
			name = Indentation
		}
		if !set.has(name) || len(m.sites) > 1 && name != Exact && !set.has(MultiOccurred) {
			break // stop if this strategy is not allowed, because a laxer strategy must not replace it
		}
		if !st.equality {
			if err := s.elsewhere(Strategies[i+1:], m.sites[0]); err != nil {
				return "", m, err
			}
		}
		return name, m, nil
	}
	return "", match{}, s.notFound(set)
}

// firstBelow returns the first site at or below the line From.
func (s *search) firstBelow(sites []site) []site {
	if s.edit.From == 0 {
		return sites
	}
	line, at := 1, 0
	for i, st := range sites {
		line += bytes.Count(s.file.lf[at:st.from], []byte{'\n'})
		if at = st.from; line >= s.edit.From {
			return sites[i : i+1]
		}
	}
	return nil
}

// tieBreak returns the site near the requested line if all other sites are far from that line.
func (s *search) tieBreak(sites []site) []site {
	const near, far = 20, 40
	if s.edit.Near == 0 || len(sites) < 2 {
		return sites
	}
	type distant struct{ site, by int }
	var all []distant
	line, at := 1, 0
	for i, st := range sites {
		line += bytes.Count(s.file.lf[at:st.from], []byte{'\n'})
		at = st.from
		all = append(all, distant{i, abs(line - s.edit.Near)})
	}
	slices.SortFunc(all, func(a, b distant) int { return a.by - b.by })
	if all[0].by <= near && all[1].by > far {
		return sites[all[0].site : all[0].site+1]
	}
	return sites
}

func abs(n int) int { return max(n, -n) }

// elsewhere checks a match that was found by similarity. It runs the remaining equality strategies, and returns an
// error if one of them finds a different site.
func (s *search) elsewhere(rest []Strategy, at site) error {
	for _, st := range rest {
		if st.find == nil || !st.equality {
			continue
		}
		m, err := st.find(s)
		if err != nil {
			continue
		}
		for _, other := range m.sites {
			if other.from != at.from || other.to != at.to {
				return s.ambiguous(st.Name, append([]site{at}, m.sites...))
			}
		}
	}
	return nil
}
