package strategy

// findSpaced finds the lines of old_string even if the file has more or fewer blank lines between them.
func findSpaced(s *search) (match, error) {
	m := s.match(nil)
	old := splitLines(s.edit.Old, true)
	ids := make(map[string]int32)
	var pattern []int32
	var buf []byte
	for _, line := range old {
		if buf = normalKey(buf[:0], []byte(line)); len(buf) == 0 {
			continue
		}
		id, ok := ids[string(buf)]
		if !ok {
			id = int32(len(ids))
			ids[string(buf)] = id
		}
		pattern = append(pattern, id)
	}
	if len(pattern) < 2 {
		return m, nil
	}
	f := s.file
	var seq, at []int32 // keys and line numbers of the lines that are not blank
	for i := range f.lines() {
		if buf = normalKey(buf[:0], f.line(i)); len(buf) == 0 {
			continue
		}
		id, ok := ids[string(buf)]
		if !ok {
			id = -1
		}
		seq, at = append(seq, id), append(at, int32(i))
	}
	n := 0
	next := func() int32 { n++; return seq[n-1] }
	slack := max(2, len(old)/5) // maximum difference between the numbers of lines at the site and in old_string
	head, tail := edges(s.edit.Old)
	inner := len(old) - head - tail
	for _, first := range occurrences(pattern, len(seq), next, false, maxSites) {
		from, to := int(at[first]), int(at[first+len(pattern)-1])+1
		if abs(to-from-inner) > slack {
			continue
		}
		st := s.whole(from, to-from)
		st.lines = alignSpaced(old, f, from, to)
		m.sites = append(m.sites, st)
	}
	m.similarity = 1
	return m, nil
}

// alignSpaced returns, for each line of old_string, the index of the corresponding line of the file. Lines that are
// not blank correspond in order. A blank line of old_string corresponds to a blank line at the same position, or to
// no line.
func alignSpaced(old []string, f *file, from, to int) []int {
	lines := make([]int, len(old))
	at, began := from, false
	for i, line := range old {
		lines[i] = -1
		blank := isBlankLine(line)
		if blank && (!began || at >= to || len(normalKey(nil, f.line(at))) > 0) {
			continue
		}
		for !blank && at < to && len(normalKey(nil, f.line(at))) == 0 {
			at++
		}
		if at < to {
			lines[i] = at
			at++
			began = true
		}
	}
	return lines
}
