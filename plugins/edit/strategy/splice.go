package strategy

import (
	"bytes"
	"strings"

	"toolhost.dev/sdk/workspace"
)

// replacement replaces a range of the file by a text. Its offsets refer to the text with normalized line endings (LF
// space); see [file].
type replacement struct {
	from, to int
	with     string
}

// splice replaces all sites of a match and returns the change.
func (s *search) splice(c *Change, m match) (*Change, error) {
	var all []replacement
	line, counted, grown, behind := 1, 0, 0, 0
	literal := literalSplice(m)
	for i, st := range m.sites {
		if i > 0 && st.from < m.sites[i-1].to {
			return nil, refused("the matches of old_string overlap on line %d. Add lines to old_string until the matches do not overlap.", s.file.lineAt(st.from))
		}
		var reps []replacement
		switch st.kind {
		case asIs:
			for _, r := range literal {
				reps = append(reps, replacement{st.from + r.from, st.from + r.to, r.with})
			}
		case inLine:
			reps = []replacement{{st.from, st.to, m.new}}
		case whole:
			var err error
			if reps, err = s.spliceLines(c, m, st); err != nil {
				return nil, err
			}
		}
		line += bytes.Count(s.file.lf[counted:st.from], []byte{'\n'})
		counted = st.from
		to, added := st.to, 0
		for _, r := range reps {
			added += strings.Count(r.with, "\n") - bytes.Count(s.file.lf[r.from:r.to], []byte{'\n'})
			to = max(to, r.to)
		}
		start := line + grown
		end := start + bytes.Count(s.file.lf[st.from:to], []byte{'\n'}) + added
		if s.file.endsLine(st.from, to) && endsLine(reps, to) { // the replaced text consists of whole lines, so it does not include the following line
			end--
		}
		c.Sites = append(c.Sites, Lines{Start: start, End: max(start, end), Added: added})
		grown += added
		behind = to
		all = append(all, reps...)
	}
	var err error
	if c.Text, err = s.file.replace(all, s.edit.Final); err != nil {
		return nil, err
	}
	if bytes.Equal(c.Text, s.file.text) {
		return nil, noChange("The edit would not change the file. (An edit does not change the newline at the file's end, nor lines that old_string and new_string have in common.)")
	}
	if len(bytes.TrimRight(s.file.lf[behind:], "\n")) == 0 { // no line follows the last place
		c.clip(s.file.lineBreak())
	}
	return c, nil
}

// endsLine reports whether the replaced range still ends at the end of a line after the replacements.
func endsLine(reps []replacement, to int) bool {
	if len(reps) == 0 || reps[len(reps)-1].to < to {
		return true
	}
	last := reps[len(reps)-1]
	return last.with == "" || strings.HasSuffix(last.with, "\n")
}

// clip limits the line numbers of the sites to the number of lines in the text.
func (c *Change) clip(lineBreak []byte) {
	last := max(1, bytes.Count(bytes.TrimSuffix(c.Text, lineBreak), lineBreak)+1)
	for i := range c.Sites {
		c.Sites[i].Start, c.Sites[i].End = min(c.Sites[i].Start, last), min(c.Sites[i].End, last)
	}
}

// literalSplice returns the replacements for a text that occurs literally in the file. The replacements exclude
// lines that old_string and new_string have in common.
func literalSplice(m match) []replacement {
	if len(m.sites) == 0 || m.sites[0].kind != asIs {
		return nil
	}
	old, theirs := strings.SplitAfter(m.old, "\n"), strings.SplitAfter(m.new, "\n")
	offsets := make([]int, len(old)+1)
	for i, piece := range old {
		offsets[i+1] = offsets[i] + len(piece)
	}
	var reps []replacement
	for _, h := range diffLines(old, theirs) {
		reps = append(reps, replacement{
			offsets[h.oldFrom], offsets[h.oldTo], strings.Join(theirs[h.newFrom:h.newTo], ""),
		})
	}
	return reps
}

// sides splits old_string and new_string into lines. If old_string ends with a line feed, a line feed at the end
// of either text ends its last line. Otherwise the edit does not include the ending of the last line.
func (m *match) sides() (old, theirs []string) {
	final := strings.HasSuffix(m.old, "\n")
	if final && m.new == "" {
		return splitLines(m.old, true), nil
	}
	return splitLines(m.old, final), splitLines(m.new, final)
}

// joins reports whether old_string ends with a line feed and new_string does not. In this case, a blank line
// after the site is removed. Lines that are not blank are never joined, because callers do not intend to join them.
func (m *match) joins() bool {
	return strings.HasSuffix(m.old, "\n") && m.new != "" && !strings.HasSuffix(m.new, "\n")
}

// spliceLines returns the replacements for a site of whole lines.
func (s *search) spliceLines(c *Change, m match, st site) ([]replacement, error) {
	old, theirs := m.sides()
	ours := make([]string, len(old))
	for i := range old {
		if l := st.line(i); l >= 0 {
			ours[i] = string(s.file.line(l))
		}
	}
	w := &writer{old: old, ours: ours, theirs: theirs, st: &st, in: newIndenter()}
	w.plain, w.mixed = plainer(old, ours)
	hunks := diffLines(old, theirs)
	if asGiven, ok := w.indentedAsFile(); ok {
		hunks, w.asGiven = asGiven, true
	}
	for i := range old {
		if st.line(i) >= 0 {
			w.in.learn(old[i], ours[i])
		}
	}
	w.in.settle(s.file)
	var reps []replacement
	for _, h := range hunks {
		with, err := w.lines(h)
		if err != nil {
			return nil, err
		}
		if word := repeats(with, m.typos); word != "" {
			return nil, refused("new_string has %q, which is written with other characters in the file. Read the file again and copy the characters of the file.", word)
		}
		from, to := s.span(&st, h, len(old))
		if from == len(s.file.lf) && from > 0 && !s.file.terminated() && with != "" {
			with = "\n" + with // the text is inserted after the last line, which has no line ending
		}
		reps = append(reps, replacement{from, to, with})
	}
	if next := s.file.lineOf(st.to); !s.edit.All && m.joins() && next < s.file.lines() &&
		isBlankLine(string(s.file.line(next))) {
		reps = append(reps, replacement{s.file.start(next), s.file.start(next + 1), ""})
	}
	if !w.in.same && !w.asGiven && c.Indent == nil {
		c.Indent = w.in.used()
	}
	return reps, nil
}

// span returns the range of the file that a hunk of old_string and new_string replaces.
func (s *search) span(st *site, h hunk, lines int) (from, to int) {
	first, last := -1, -1
	for i := h.oldFrom; i < h.oldTo; i++ {
		if l := st.line(i); l >= 0 {
			if first < 0 {
				first = l
			}
			last = l
		}
	}
	if first >= 0 {
		return s.file.start(first), s.file.start(last + 1)
	}
	for i := h.oldFrom - 1; i >= 0; i-- { // insert the lines after the preceding line of old_string
		if l := st.line(i); l >= 0 {
			return s.file.start(l + 1), s.file.start(l + 1)
		}
	}
	for i := h.oldTo; i < lines; i++ {
		if l := st.line(i); l >= 0 {
			return s.file.start(l), s.file.start(l)
		}
	}
	return st.from, st.from
}

// writer creates the new text of one site.
type writer struct {
	old, ours, theirs []string
	st                *site
	in                *indenter
	plain             *strings.Replacer // replaces typographic characters that the file does not contain
	mixed             bool              // true if the file has both kinds of quotes; see plainer
	asGiven           bool
}

// indentedAsFile reports whether the unchanged lines have the file's indentation in new_string but not in old_string.
// In this case, it also returns the hunks.
func (w *writer) indentedAsFile() ([]hunk, bool) {
	trim := func(lines []string) []string {
		out := make([]string, len(lines))
		for i, l := range lines {
			out[i] = strings.Trim(l, blanks)
		}
		return out
	}
	hunks := diffLines(trim(w.old), trim(w.theirs))
	better, i, j := false, 0, 0
	for k := 0; k <= len(hunks); k++ {
		until := len(w.old)
		if k < len(hunks) {
			until = hunks[k].oldFrom
		}
		for ; i < until; i, j = i+1, j+1 {
			if w.st.line(i) < 0 || isBlankLine(w.old[i]) {
				continue
			}
			ours, old, theirs := indent(w.ours[i]), indent(w.old[i]), indent(w.theirs[j])
			if theirs != ours {
				return nil, false
			}
			better = better || old != ours
		}
		if k < len(hunks) {
			i, j = hunks[k].oldTo, hunks[k].newTo
		}
	}
	return hunks, better
}

// lines returns the new lines of a hunk with the file's indentation and characters.
func (w *writer) lines(h hunk) (string, error) {
	var out strings.Builder
	for j := h.newFrom; j < h.newTo; j++ {
		line := w.theirs[j]
		if i := h.oldFrom + j - h.newFrom; h.newTo-h.newFrom == h.oldTo-h.oldFrom && w.st.line(i) >= 0 {
			line = typeset(w.old[i], line, w.ours[i])
		}
		if w.mixed && line == w.theirs[j] && strings.ContainsFunc(line, isQuote) {
			return "", refused("the file has both ASCII quotes and typographic quotes here, so it is unknown which ones %q needs. Read the file again, and copy its quotes.", strings.TrimSpace(line))
		}
		if !w.asGiven {
			var err error
			if line, err = w.reindent(line, j); err != nil {
				return "", err
			}
		}
		if w.plain != nil {
			line = w.plain.Replace(line)
		}
		out.WriteString(line)
		out.WriteByte('\n')
	}
	return out.String(), nil
}

func (w *writer) reindent(line string, j int) (string, error) {
	x := indent(line)
	if x == line && !w.in.same {
		return "", nil // the line is blank
	}
	to, ok := w.in.apply(x)
	switch {
	case ok:
	case len(w.old) == len(w.theirs) && indent(w.old[j]) == x && w.st.line(j) >= 0:
		to = indent(w.ours[j])
	default:
		return "", refused("old_string is not indented like the file, so the indentation of %q in new_string is ambiguous. Read the file again, and indent old_string and new_string like the file.", strings.TrimSpace(line))
	}
	return to + line[len(x):], nil
}

// replace applies the replacements to the file. The replacements must be sorted and must not overlap.
func (f *file) replace(reps []replacement, final FinalNewline) ([]byte, error) {
	size := len(f.text)
	for _, r := range reps {
		size += len(r.with) - (r.to - r.from)
	}
	if size > MaxText {
		return nil, refused("the file would have %d MB, and the limit is %d MB. Make a smaller change.", size>>20, MaxText>>20)
	}
	out := workspace.Scratch(size + 64)
	at := 0
	for _, r := range reps {
		from := f.original(r.from)
		out = append(out, f.text[at:from]...)
		at = f.original(r.to)
		if f.big == "" && strings.Contains(r.with, "\n") {
			if end := f.ending(r.from); end != "\n" {
				r.with = strings.ReplaceAll(r.with, "\n", end)
			}
		}
		out = append(out, r.with...)
	}
	out = append(out, f.text[at:]...)
	return f.endAsBefore(out, final), nil
}

// endAsBefore adds or removes the newline at the end of the text, so that the end agrees with the original. The
// parameter "final" can request a different end.
func (f *file) endAsBefore(out []byte, final FinalNewline) []byte {
	if len(out) == 0 || len(f.text) == 0 && final == KeepFinal {
		return out
	}
	want := f.terminated()
	if final != KeepFinal {
		want = final == AddFinal
	}
	end := f.ending(max(0, len(f.lf)-1))
	has := bytes.HasSuffix(out, []byte(end[len(end)-1:]))
	switch {
	case want && !has:
		return append(out, end...)
	case !want && has:
		if bytes.HasSuffix(out, []byte("\r\n")) {
			return out[:len(out)-2]
		}
		return out[:len(out)-1]
	}
	return out
}
