package strategy

import (
	"bytes"
	"strings"
)

// maxSites limits the number of found sites if the edit allows only one site.
const maxSites = 1000

// search contains the state of the search for the place of one edit.
type search struct {
	file *file
	edit Edit // the edit, with its texts in LF space
}

// wanted returns the maximum number of sites that the search must find.
func (s *search) wanted() int {
	if s.edit.All {
		return maxReplacements + 1
	}
	return maxSites
}

// find searches for text that equals the argument "old": first by bytes, then line by line.
func (s *search) find(old string) []site {
	if sites := s.literal(old); len(sites) > 0 {
		return sites
	}
	if sites := s.equalLines(old, trimmedKey); len(sites) > 0 {
		return sites
	}
	return s.equalLines(old, normalKey)
}

func (s *search) match(sites []site) match {
	return match{sites: sites, old: s.edit.Old, new: s.edit.New, similarity: 1}
}

func findExact(s *search) (match, error) { return s.match(s.literal(s.edit.Old)), nil }

func findTrimmed(s *search) (match, error) {
	return s.match(s.equalLines(s.edit.Old, trimmedKey)), nil
}

// literal returns all sites at which the text occurs. The sites can overlap unless the edit replaces all sites.
func (s *search) literal(old string) []site {
	lf, needle := s.file.lf, []byte(old)
	var sites []site
	for at := 0; len(sites) < s.wanted() && len(needle) > 0; {
		i := bytes.Index(lf[at:], needle)
		if i < 0 {
			break
		}
		from, to := at+i, at+i+len(needle)
		at = from + 1
		if s.edit.WholeLines && (from > 0 && lf[from-1] != '\n' || to < len(lf) && lf[to-1] != '\n') {
			continue
		}
		if s.edit.All {
			at = to
		}
		sites = append(sites, site{from: from, to: to})
	}
	return sites
}

// equalLines returns all sites at which the lines of the file and the lines of the text have equal keys.
func (s *search) equalLines(old string, by key) []site {
	lines := splitLines(old, true)
	f := s.file
	if f.lines() < len(lines) {
		return nil
	}
	ids := make(map[string]int32, len(lines))
	pattern := make([]int32, len(lines))
	var buf []byte
	for i, line := range lines {
		buf = by(buf[:0], []byte(line))
		id, ok := ids[string(buf)]
		if !ok {
			id = int32(len(ids))
			ids[string(buf)] = id
		}
		pattern[i] = id
	}
	at := 0
	next := func() int32 {
		buf = by(buf[:0], f.line(at))
		at++
		if id, ok := ids[string(buf)]; ok {
			return id
		}
		return -1
	}
	var sites []site
	for _, first := range occurrences(pattern, f.lines(), next, s.edit.All, s.wanted()) {
		sites = append(sites, s.whole(first, len(lines)))
	}
	return sites
}

// whole returns the site that consists of n whole lines.
func (s *search) whole(first, n int) site {
	return site{from: s.file.start(first), to: s.file.start(first + n), kind: whole, first: first}
}

// occurrences returns the indices at which a pattern begins in a sequence of n elements. It uses the
// Knuth–Morris–Pratt algorithm, which takes linear time.
func occurrences(pattern []int32, n int, next func() int32, disjoint bool, limit int) []int {
	back := make([]int, len(pattern)+1)
	back[0] = -1
	for i, j := 0, -1; i < len(pattern); {
		for j >= 0 && pattern[i] != pattern[j] {
			j = back[j]
		}
		i++
		j++
		back[i] = j
	}
	var found []int
	for i, j := 0, 0; i < n && len(found) < limit; i++ {
		id := next()
		for j >= 0 && pattern[j] != id {
			j = back[j]
		}
		if j++; j < len(pattern) {
			continue
		}
		found = append(found, i+1-len(pattern))
		if j = back[j]; disjoint {
			j = 0
		}
	}
	return found
}

// uniformShift reports whether the lines in the file and in old_string differ only by the same additional or missing
// indentation in each line.
func (s *search) uniformShift(m match) bool {
	lines := splitLines(m.old, true)
	for _, st := range m.sites {
		added, removed, seen := "", "", false
		for i, line := range lines {
			if isBlankLine(line) {
				continue
			}
			was, is := indent(line), indent(string(s.file.line(st.line(i))))
			more, grown := strings.CutSuffix(is, was)
			less, shrunk := strings.CutSuffix(was, is)
			if !grown && !shrunk {
				return false
			}
			if !grown {
				more = ""
			}
			if !shrunk {
				less = ""
			}
			if seen && (more != added || less != removed) {
				return false
			}
			added, removed, seen = more, less, true
		}
		if added == removed {
			return false
		}
	}
	return true
}
