package editor

import (
	"bytes"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"

	"toolhost.dev/plugins/edit/strategy"
	"toolhost.dev/plugins/edit/validate"
)

// edited is a file together with the edits applied to it.
type edited struct {
	change
	steps []step
	// renamed is the old path of a renamed file.
	renamed string
	// data is the structured report of the edits. It is nil until it is computed.
	data *fileData
	// moved is true for the old path of a renamed file. The file at this path is removed.
	moved bool
}

// step is one applied edit.
type step struct {
	Strategy   string                `json:"strategy"`
	Equality   string                `json:"equality,omitempty"`
	StartLine  int                   `json:"start_line"`
	EndLine    int                   `json:"end_line"`
	Similarity float64               `json:"similarity"`
	Indent     []strategy.IndentRule `json:"indent,omitempty"`
	Sites      []strategy.Lines      `json:"sites"`

	oldLength, newLength int
}

// release makes the memory of both texts available to the next call. It must be called after the change is saved and
// the result of the call is complete.
func (f *edited) release() {
	workspace.Reuse(f.after)
	if f.target.Before != nil {
		f.target.Before.Release()
	}
}

// create sets the text of a new or empty file.
func (f *edited) create(text string) {
	f.after = []byte(text)
	f.steps = append(f.steps, step{
		Strategy: "create", Similarity: 1, Sites: []strategy.Lines{{Start: 1, End: max(1, lines(f.after))}},
		newLength: len(text),
	})
}

// add applies a change and updates the line numbers of earlier steps.
func (f *edited) add(c *strategy.Change, oldLength, newLength int) {
	f.after = c.Text
	for i := range f.steps {
		for j := range f.steps[i].Sites {
			move(&f.steps[i].Sites[j], c.Sites)
		}
	}
	f.steps = append(f.steps, step{
		Strategy: c.Strategy, Equality: c.Equality, Similarity: c.Similarity, Indent: c.Indent, Sites: c.Sites,
		oldLength: oldLength, newLength: newLength,
	})
}

// move corrects the line numbers of an edited place after later changes of the same file.
func move(place *strategy.Lines, later []strategy.Lines) {
	for _, l := range later {
		was := l.End - l.Added // the last line of the later change, in the text before that change
		switch {
		case was < place.Start:
			place.Start += l.Added
			place.End += l.Added
		case l.Start <= place.End:
			place.End = max(place.End+l.Added, place.Start)
		}
	}
}

// chmod sets or clears the executable bits, the only bits that a diff can change. As in git, every user who can read
// the file can then execute it.
func (f *edited) chmod(to uint32) {
	if to == 0 {
		return
	}
	was := f.mode
	if was == nil {
		was = &f.target.Before.Mode
	}
	mode := *was &^ 0o111
	if to&0o111 != 0 {
		mode = *was | *was&0o444>>2
	}
	f.mode = &mode
}

// changesMode reports whether the mode of the file changes.
func (f *edited) changesMode() bool {
	return f.mode != nil && f.target.Before != nil && *f.mode != f.target.Before.Mode
}

// changed returns an error if all edits together leave the file unchanged. It also computes the final line
// numbers of the steps.
func (f *edited) changed() error {
	if f.target.Before != nil && f.renamed == "" && !f.remove && !f.changesMode() && bytes.Equal(f.after, f.oldText()) {
		return validate.Refuse(validate.NothingToChange, tool.InvalidArguments, "There is nothing to change: the edits together leave %s unchanged.", f.name)
	}
	if len(f.steps) > 1 { // a later step can shift the lines of an earlier step
		last := max(1, lines(f.after))
		for _, s := range f.steps {
			for j := range s.Sites {
				s.Sites[j].Start, s.Sites[j].End = min(s.Sites[j].Start, last), min(s.Sites[j].End, last)
			}
		}
	}
	for i := range f.steps {
		s := &f.steps[i]
		s.StartLine, s.EndLine = s.Sites[0].Start, s.Sites[len(s.Sites)-1].End
	}
	return nil
}

// summary combines the steps of a file into one step. The combined step has the least exact strategy, the range from
// the first to the last line, and the lowest similarity.
func (f *edited) summary() (s step, replacements int) {
	names := strategy.Names()
	for i, st := range f.steps {
		replacements += len(st.Sites)
		s.oldLength += st.oldLength
		s.newLength += st.newLength
		if i == 0 {
			old, now := s.oldLength, s.newLength
			s = st
			s.oldLength, s.newLength = old, now
			continue
		}
		if slices.Index(names, st.Strategy) > slices.Index(names, s.Strategy) {
			s.Strategy, s.Equality = st.Strategy, st.Equality
		}
		s.StartLine, s.EndLine = min(s.StartLine, st.StartLine), max(s.EndLine, st.EndLine)
		s.Similarity = min(s.Similarity, st.Similarity)
		for _, r := range st.Indent {
			if !slices.Contains(s.Indent, r) {
				s.Indent = append(s.Indent[:len(s.Indent):len(s.Indent)], r)
			}
		}
	}
	return s, replacements
}

// lines returns the number of lines of a text. A newline at the end of the text does not begin another line.
func lines(text []byte) int {
	end := lineBreak(text)
	n := bytes.Count(text, []byte{end})
	if len(text) > 0 && text[len(text)-1] != end {
		n++
	}
	return n
}

// lineBreak returns the last byte of the text's line endings. If the text contains no line feed, the result is a
// carriage return, as in [text.LineEndings.Kind].
func lineBreak(text []byte) byte {
	if bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(text, '\r') >= 0 {
		return '\r'
	}
	return '\n'
}

// blanksShown returns a text in which spaces and tabs are replaced by visible characters.
func blanksShown(s string) string {
	if s == "" {
		return "nothing"
	}
	return strings.NewReplacer(" ", "·", "\t", "→").Replace(s)
}
