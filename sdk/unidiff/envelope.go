package unidiff

import (
	"slices"
	"strings"
)

// The marker lines of a patch in the format of Codex's apply_patch. The format has no line numbers. Each hunk begins
// with "@@". The text after "@@" can be a line that precedes the hunk in the file.
const (
	beginPatch = "*** Begin Patch"
	endPatch   = "*** End Patch"
	addFile    = "*** Add File: "
	deleteFile = "*** Delete File: "
	updateFile = "*** Update File: "
	moveTo     = "*** Move to: "
	endOfFile  = "*** End of File"
)

// isEnvelope reports whether a diff is a patch in the format of apply_patch. The first line is optional, because models
// sometimes omit it.
func isEnvelope(lines []string) bool {
	for _, line := range lines {
		line = strings.Trim(line, " \t")
		if line == beginPatch || strings.HasPrefix(line, addFile) || strings.HasPrefix(line, deleteFile) ||
			strings.HasPrefix(line, updateFile) {
			return true
		}
		if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "```") && !strings.Contains(line, "<<") &&
			!strings.HasPrefix(line, "apply_patch") {
			return false
		}
	}
	return false
}

// envelope is the parser for a patch in the format of apply_patch.
type envelope struct {
	lines []string
	at    int
	files []File
}

func (p *envelope) parse() ([]File, error) {
	for i, line := range slices.Backward(p.lines) { // blanks around the last marker; elsewhere, such a line can be context
		if line = strings.Trim(line, " \t"); line == endPatch {
			p.lines = append(slices.Clone(p.lines[:i]), line)
		}
		if line != "" {
			break
		}
	}
	for p.at < len(p.lines) {
		line, n := strings.Trim(p.lines[p.at], " \t"), p.at+1
		path := func(prefix string) (string, bool) {
			v, ok := strings.CutPrefix(line+" ", prefix)
			return pathOf(strings.TrimSpace(v)), ok
		}
		p.at++
		if name, ok := path(addFile); ok {
			p.add(File{New: name, Line: n})
			if err := p.created(); err != nil {
				return nil, err
			}
		} else if name, ok := path(deleteFile); ok {
			p.add(File{Old: name, Whole: true, Line: n})
		} else if name, ok := path(updateFile); ok {
			p.add(File{Old: name, New: name, Line: n})
			if err := p.updated(); err != nil {
				return nil, err
			}
		} else if line == endPatch || line == "```" && len(p.files) > 0 {
			break
		} else if len(p.files) > 0 && line != "" {
			return nil, wrong(n, "%q is outside of a file. Insert a line \"%sPATH\" before it.", shorten(line), updateFile)
		}
	}
	if len(p.files) == 0 {
		return nil, wrong(0, "the patch names no file. A file begins with \"%sPATH\", \"%sPATH\" or \"%sPATH\".", updateFile, addFile, deleteFile)
	}
	for _, f := range p.files {
		if f.Old == "" && f.New == "" {
			return nil, wrong(f.Line, "the path is missing.")
		}
	}
	return p.files, nil
}

func (p *envelope) add(f File) {
	f.Envelope = true
	p.files = append(p.files, f)
}

// section reports whether a line ends the current section of the patch. A section contains the changes of one file. The
// section of a new file has no context lines. There, the caller first removes leading blanks from the line.
func section(line string) bool {
	line = strings.TrimRight(line, " \t")
	return line == endPatch || line == "```" || strings.HasPrefix(line, addFile) ||
		strings.HasPrefix(line, deleteFile) || strings.HasPrefix(line, updateFile)
}

// created parses the lines of a new file.
func (p *envelope) created() error {
	f := &p.files[len(p.files)-1]
	h := Hunk{Line: p.at + 1}
	var text strings.Builder
	for ; p.at < len(p.lines) && !section(strings.TrimLeft(p.lines[p.at], " \t")); p.at++ {
		line := p.lines[p.at]
		switch {
		case strings.HasPrefix(line, "+"):
			text.WriteString(line[1:] + "\n")
		case line == "" && p.restIsBlank():
		case line == endOfFile:
		default:
			return wrong(p.at+1, "%q does not begin with +, as each line of a new file must.", shorten(line))
		}
	}
	if h.New = text.String(); h.New != "" {
		f.Hunks = []Hunk{h}
	}
	return nil
}

// restIsBlank reports whether the current section contains no further lines except blank lines.
func (p *envelope) restIsBlank() bool {
	for _, line := range p.lines[p.at:] {
		if section(strings.TrimLeft(line, " \t")) {
			return true
		}
		if line != "" {
			return false
		}
	}
	return true
}

// updated parses the hunks of a changed file.
func (p *envelope) updated() error {
	f := &p.files[len(p.files)-1]
	if p.at < len(p.lines) {
		if to, ok := strings.CutPrefix(strings.TrimLeft(p.lines[p.at], " \t"), moveTo); ok {
			f.New = pathOf(strings.TrimSpace(to))
			p.at++
		}
	}
	for p.at < len(p.lines) && !section(p.lines[p.at]) {
		if strings.TrimSpace(p.lines[p.at]) == "" {
			p.at++
			continue
		}
		if err := p.hunk(f); err != nil {
			return err
		}
	}
	if len(f.Hunks) == 0 && f.New == f.Old {
		return wrong(f.Line, "%s has no hunks. A hunk begins with a line \"@@\".", f.Old)
	}
	return nil
}

// hunk parses one hunk. The line "@@" can be missing before the first hunk of a file.
func (p *envelope) hunk(f *File) error {
	h := Hunk{Line: p.at + 1}
	for p.at < len(p.lines) {
		line := p.lines[p.at]
		if !strings.HasPrefix(line, "@@") {
			break
		}
		if above := strings.TrimPrefix(line[2:], " "); strings.TrimSpace(above) != "" {
			h.Above = append(h.Above, strings.TrimSuffix(above, " @@"))
		}
		p.at++
	}
	if len(h.Above) == 0 && p.at < len(p.lines) && h.Line == p.at+1 && len(f.Hunks) > 0 {
		return wrong(p.at+1, "%q is outside of a hunk. Insert a line \"@@\" before it.", shorten(p.lines[p.at]))
	}
	var old, theirs strings.Builder
	for ; p.at < len(p.lines); p.at++ {
		line := p.lines[p.at]
		if section(line) || strings.HasPrefix(line, "@@") {
			break
		}
		if line == endOfFile {
			h.AtEnd = true
			p.at++
			break
		}
		switch {
		case line == "" && p.endsWithBlank():
			continue
		case line == "": // a context line without the leading space
			line = " "
		case line[0] != ' ' && line[0] != '+' && line[0] != '-':
			return wrong(p.at+1, "%q begins neither with a space (context) nor with + or -.", shorten(line))
		}
		if line[0] != '+' {
			old.WriteString(line[1:] + "\n")
		}
		if line[0] != '-' {
			theirs.WriteString(line[1:] + "\n")
		}
	}
	h.Old, h.New = old.String(), theirs.String()
	if h.Old == h.New {
		return wrong(h.Line, "the hunk changes nothing: it has no line with + or -.")
	}
	h.AtEnd = h.AtEnd || h.Old == "" && len(h.Above) == 0 // apply_patch adds lines without context at the end of the file
	f.Hunks = append(f.Hunks, h)
	return nil
}

// endsWithBlank reports whether the current hunk contains no further lines except blank lines.
func (p *envelope) endsWithBlank() bool {
	for _, line := range p.lines[p.at:] {
		if section(line) || strings.HasPrefix(line, "@@") {
			return true
		}
		if line != "" {
			return false
		}
	}
	return true
}
