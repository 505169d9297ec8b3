// Package unidiff parses unified diffs that language models wrote. It also parses patches that begin with "*** Begin
// Patch". Line counts can be wrong. Line numbers can be missing or wrong. The space before an empty context line can be
// missing. [Parse] parses a diff and applies nothing. The host uses Parse to check the paths of a diff before a call.
package unidiff

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// File is the part of a diff that concerns one file.
type File struct {
	// Old is the path before the change. It is empty for a created file. New is the path after the change. It is
	// empty for a deleted file. Without a file header ("---" and "+++"), Old and New are empty.
	Old, New string
	// Mode is the mode of a created file, such as 0755, or the new mode of a changed file. Zero means the default
	// mode for a created file and an unchanged mode for a changed file.
	Mode uint32
	// Hunks contains the changes of the file in the order of the diff.
	Hunks []Hunk
	// Whole is true if the diff deletes the file without listing its lines. A deletion that is not Whole has hunks that
	// remove every line.
	Whole bool
	// Envelope is true if the part comes from a patch that begins with "*** Begin Patch".
	Envelope bool
	// Line is the line number in the diff at which the changes of the file begin, counted from 1.
	Line int
}

// Hunk is one change of a file. It replaces whole lines.
type Hunk struct {
	// Old contains the lines before the change, and New the lines after the change. Old and New include the context
	// lines. Each line ends with a line feed.
	Old, New string
	// Start is the line number in the file, as written in the diff and counted from 1. Zero means that the diff
	// contains no line number.
	Start int
	// Inserts is true if the hunk's header states that no line is replaced, as in "@@ -3,0 +4,2 @@". The new lines
	// follow the line Start. If Start is zero, the new lines begin the file.
	Inserts bool
	// Above lists lines of the file above the hunk, in the order of the file. Other lines can lie between these lines.
	Above []string
	// AtEnd is true if the end of the hunk is the end of the file.
	AtEnd bool
	// OldOpen is true if the last line of Old has no line feed in the file. NewOpen is true if the last line of New
	// has no line feed.
	OldOpen, NewOpen bool
	// Line is the line number in the diff at which the hunk begins, counted from 1.
	Line int
}

// Error is the error of [Parse]. It describes the problem and contains the line number in the diff.
type Error struct {
	Line   int
	Reason string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return "The diff cannot be applied: " + e.Reason
	}
	return fmt.Sprintf("The diff cannot be applied: line %d: %s", e.Line, e.Reason)
}

func wrong(line int, format string, a ...any) error {
	return &Error{Line: line, Reason: fmt.Sprintf(format, a...)}
}

const devNull = "/dev/null"

var hunkHeader = regexp.MustCompile(`^@@(?: -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@| @@| \.\.\. @@|[ \t]*$|[ \t])`)

// Paths returns the paths of all files that the diff changes, creates, deletes or renames.
func Paths(files []File) []string {
	var paths []string
	for _, f := range files {
		for _, path := range []string{f.Old, f.New} {
			if path != "" && !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// Parse parses a diff. Every error is an [*Error]. After an error, the caller must not apply any part of the diff.
func Parse(diff string) ([]File, error) {
	p := &parser{lines: strings.Split(strings.ReplaceAll(diff, "\r\n", "\n"), "\n")}
	if isEnvelope(p.lines) {
		return (&envelope{lines: p.lines}).parse()
	}
	for p.at < len(p.lines) {
		if err := p.step(); err != nil {
			return nil, err
		}
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	if len(p.files) == 0 {
		return nil, wrong(0, "the diff has no hunks. A hunk begins with a line \"@@ -1,3 +1,4 @@\" below \"--- a/file\" and \"+++ b/file\".")
	}
	return p.files, nil
}

type parser struct {
	lines []string
	at    int
	files []File
	file  *File // the current file
	git   git   // git header of the current file
	named bool  // true if the "---" and "+++" lines were read
}

// git holds the data of the lines between "diff --git" and the hunks.
type git struct {
	created, deleted, renamed, mode bool
	from, to                        string
}

func (p *parser) step() error {
	line, n := p.lines[p.at], p.at+1
	switch {
	case strings.HasPrefix(line, "diff --git "):
		if err := p.begin(n); err != nil {
			return err
		}
		p.file.Old, p.file.New = gitPaths(strings.TrimPrefix(line, "diff --git "))
		p.at++
	case header(p.lines, p.at):
		if p.file == nil || len(p.file.Hunks) > 0 || p.named {
			if err := p.begin(n); err != nil {
				return err
			}
		}
		old, theirs := pathOf(line[4:]), pathOf(p.lines[p.at+1][4:])
		old, theirs = unprefix(old, theirs)
		if old == "" && theirs == "" {
			return wrong(n, "both sides are %s.", devNull)
		}
		p.file.Old, p.file.New, p.named = old, theirs, true
		p.at += 2
	case strings.HasPrefix(line, "GIT binary patch"), strings.HasPrefix(line, "Binary files "):
		return wrong(n, "the diff changes a binary file. Remove this file from the diff, and change it with a program for its format.")
	case hunkHeader.MatchString(line):
		if p.file == nil {
			if err := p.begin(n); err != nil {
				return err
			}
		}
		return p.hunk()
	case p.file != nil && len(p.file.Hunks) == 0:
		if err := p.metadata(line, n); err != nil {
			return err
		}
		p.at++
	default: // ignore any other text outside of files
		if p.file != nil && line != "" && strings.ContainsAny(line[:1], "+-") && line != "-- " {
			return wrong(n, "%q is outside of a hunk. Insert a line \"@@ @@\" before it.", shorten(line))
		}
		p.at++
	}
	return nil
}

// header reports whether a pair of "---" and "+++" lines with paths begins at the line with the index "at".
func header(lines []string, at int) bool {
	return at+1 < len(lines) && strings.HasPrefix(lines[at], "--- ") && strings.HasPrefix(lines[at+1], "+++ ")
}

func (p *parser) begin(line int) error {
	if err := p.end(); err != nil {
		return err
	}
	p.files = append(p.files, File{Line: line})
	p.file, p.git, p.named = &p.files[len(p.files)-1], git{}, false
	return nil
}

// end checks the current file after all of its lines are parsed.
func (p *parser) end() error {
	f := p.file
	if f == nil {
		return nil
	}
	switch {
	case p.git.renamed:
		f.Old, f.New = p.git.from, p.git.to
		if f.Old == f.New || f.Old == "" || f.New == "" {
			return wrong(f.Line, "a rename needs two names, in the lines \"rename from\" and \"rename to\".")
		}
	case p.git.created:
		f.Old = ""
	case p.git.deleted:
		f.New = ""
	case f.Old != "" && f.New != "" && f.Old != f.New:
		return wrong(f.Line, "the paths %s and %s differ. To rename a file, add the lines \"rename from %s\" and \"rename to %s\".", f.Old, f.New, f.Old, f.New)
	}
	if f.Old == "" && f.New == "" && len(f.Hunks) == 0 {
		return wrong(f.Line, "the diff names no file. Add the lines \"--- a/file\" and \"+++ b/file\".")
	}
	if len(f.Hunks) > 0 || p.git.renamed || p.git.created || p.git.deleted || p.git.mode {
		return nil
	}
	return wrong(f.Line, "%s has no hunks. A hunk begins with a line \"@@ -1,3 +1,4 @@\".", cmp.Or(f.New, f.Old))
}

func (p *parser) metadata(line string, n int) error {
	mode := func(text string) uint32 {
		m, err := strconv.ParseUint(strings.TrimSpace(text), 8, 32)
		if err != nil {
			return 0
		}
		return uint32(m)
	}
	key, value := "", ""
	for _, k := range []string{"new file mode ", "deleted file mode ", "old mode ", "new mode ", "rename from ",
		"rename to ", "copy from ", "copy to "} {
		if v, ok := strings.CutPrefix(line, k); ok {
			key, value = k, v
		}
	}
	switch key {
	case "new file mode ", "deleted file mode ":
		m := mode(value)
		if m&0o170000 != 0o100000 && m&0o170000 != 0 {
			return wrong(n, "the diff creates a symbolic link or a submodule, not a file. Create it in the shell.")
		}
		p.git.created, p.git.deleted = key == "new file mode ", key != "new file mode "
		if p.git.created {
			p.file.Mode = m & 0o777
		}
	case "new mode ":
		if p.file.Mode = mode(value) & 0o777; p.file.Mode == 0 {
			return wrong(n, "%q is not a file mode. Use 100644, or 100755 for a program.", value)
		}
		p.git.mode = true
	case "rename from ":
		p.git.renamed, p.git.from = true, pathOf(value)
	case "rename to ":
		p.git.renamed, p.git.to = true, pathOf(value)
	case "copy from ", "copy to ":
		return wrong(n, "the diff copies a file. Write the copy as a new file (--- /dev/null).")
	}
	return nil
}

// hunk parses one hunk. The hunk ends before the next hunk or before a line that cannot be part of a hunk.
func (p *parser) hunk() error {
	begin := p.at
	h := Hunk{Line: begin + 1}
	if m := hunkHeader.FindStringSubmatch(p.lines[begin]); m[1] != "" {
		h.Start, _ = strconv.Atoi(m[1]) // ignore the error: a number that is too large counts as missing
		h.Inserts = m[2] == "0"
	}
	end := begin + 1
	for end < len(p.lines) && !p.endsHunk(end) {
		end++
	}
	p.at = end
	for end > begin+1 && p.lines[end-1] == "" { // blank lines at the end of a hunk are not context
		end--
	}
	var old, theirs strings.Builder
	for n := begin + 1; n < end; n++ {
		line := p.lines[n]
		switch {
		case line == "":
			old.WriteByte('\n')
			theirs.WriteByte('\n')
			continue
		case line[0] == '\\':
			before := p.lines[n-1]
			h.OldOpen = h.OldOpen || !strings.HasPrefix(before, "+")
			h.NewOpen = h.NewOpen || !strings.HasPrefix(before, "-")
			continue
		case line[0] != ' ' && line[0] != '+' && line[0] != '-':
			return wrong(n+1, "%q begins neither with a space (context) nor with + or -.", shorten(line))
		}
		if line[0] != '+' {
			old.WriteString(line[1:] + "\n")
		}
		if line[0] != '-' {
			theirs.WriteString(line[1:] + "\n")
		}
	}
	h.Old, h.New = old.String(), theirs.String()
	if h.Old == h.New && h.OldOpen == h.NewOpen {
		return wrong(h.Line, "the hunk changes nothing: it has no line with + or -.")
	}
	p.file.Hunks = append(p.file.Hunks, h)
	return nil
}

func (p *parser) endsHunk(at int) bool {
	line := p.lines[at]
	return hunkHeader.MatchString(line) || header(p.lines, at) || strings.HasPrefix(line, "diff --git ") ||
		strings.HasPrefix(line, "Index: ") ||
		strings.HasPrefix(line, "```") || line == "-- " && at+3 >= len(p.lines) // "-- " begins the signature of an e-mail
}

func shorten(s string) string {
	if r := []rune(s); len(r) > 80 {
		return string(r[:80]) + "…"
	}
	return s
}
