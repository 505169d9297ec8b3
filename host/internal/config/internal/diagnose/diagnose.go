// Package diagnose formats the problems of a configuration. Each problem is shown with its position, the line and a
// remedy. An [Error] is the form that users see. [Improve] adds remedies to HCL's own messages.
package diagnose

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// Files maps the file names in positions to the text of these files.
type Files map[string][]byte

// Hidden replaces a sensitive value in texts.
const Hidden = "(sensitive)"

// Hide replaces all sensitive values in text with [Hidden].
func Hide(text string, values []string) string {
	for _, v := range values {
		text = strings.ReplaceAll(text, v, Hidden)
	}
	return text
}

// Error lists all problems of an unusable configuration.
type Error struct {
	Diags hcl.Diagnostics
	Files Files
	// Hide lists sensitive values that must not be shown.
	Hide []string
}

// Sort sorts diagnostics by position.
func Sort(diags hcl.Diagnostics) {
	slices.SortStableFunc(diags, func(a, b *hcl.Diagnostic) int {
		x, y := hcl.Range{}, hcl.Range{}
		if a.Subject != nil {
			x = *a.Subject
		}
		if b.Subject != nil {
			y = *b.Subject
		}
		return cmp.Or(strings.Compare(x.Filename, y.Filename), x.Start.Byte-y.Start.Byte)
	})
}

// Error formats every problem as "file:line:column: Problem. Remedy.", followed by the line.
func (e *Error) Error() string { return Hide(Format(e.Diags, e.Files), e.Hide) }

// Problem describes one mistake.
type Problem struct {
	// Severity is "error" or "warning".
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
	Detail   string `json:"detail,omitempty"`
	// File and the following fields are the position of the mistake. Columns count characters. The fields are empty if
	// the problem has no position in a file.
	File      string `json:"file,omitempty"`
	Line      int    `json:"line,omitempty"`
	Column    int    `json:"column,omitempty"`
	EndLine   int    `json:"end_line,omitempty"`
	EndColumn int    `json:"end_column,omitempty"`
}

// List returns every problem, in the order of the files.
func (e *Error) List() []Problem {
	out := make([]Problem, 0, len(e.Diags))
	for _, d := range e.Diags {
		p := Problem{Severity: "error", Summary: Hide(d.Summary, e.Hide), Detail: Hide(d.Detail, e.Hide)}
		if d.Severity == hcl.DiagWarning {
			p.Severity = "warning"
		}
		if at := d.Subject; at != nil {
			p.File, p.Line, p.Column, p.EndLine, p.EndColumn = at.Filename, at.Start.Line, at.Start.Column, at.End.Line,
				at.End.Column
		}
		out = append(out, p)
	}
	return out
}

// Problems returns the number of errors, without warnings.
func (e *Error) Problems() int { return len(e.Diags.Errs()) }

// Format returns diagnostics as text. Each diagnostic is followed by the affected line.
func Format(diags hcl.Diagnostics, files Files) string {
	var out strings.Builder
	for i, d := range diags {
		if i > 0 {
			out.WriteString("\n")
		}
		if d.Subject != nil {
			fmt.Fprintf(&out, "%s:%d:%d: ", d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column)
		}
		if d.Severity == hcl.DiagWarning {
			out.WriteString("warning: ")
		}
		out.WriteString(strings.TrimSuffix(d.Summary, "."))
		if d.Detail != "" {
			out.WriteString(". " + d.Detail)
		}
		if d.Subject != nil {
			out.WriteString(snippet(files[d.Subject.Filename], *d.Subject))
		}
	}
	return out.String()
}

// snippet returns the line of a problem. A second line marks the affected text.
func snippet(src []byte, r hcl.Range) string {
	lines := bytes.Split(src, []byte("\n"))
	if r.Start.Line < 1 || r.Start.Line > len(lines) {
		return ""
	}
	line := strings.ToValidUTF8(string(bytes.TrimRight(lines[r.Start.Line-1], "\r")), "\uFFFD")
	line = strings.ReplaceAll(line, "\t", " ")
	if runes := []rune(line); len(runes) > 160 {
		line = string(runes[:160]) + "…"
	}
	width := 1
	if r.End.Line == r.Start.Line && r.End.Column > r.Start.Column {
		width = r.End.Column - r.Start.Column
	}
	start := min(r.Start.Column-1, 160)
	number := fmt.Sprintf("%4d", r.Start.Line)
	return fmt.Sprintf("\n%s | %s\n%s | %s%s", number, line, strings.Repeat(" ", len(number)),
		strings.Repeat(" ", start), strings.Repeat("^", min(width, max(1, 160-start))))
}

// Problemf returns an error diagnostic for a position in a file.
func Problemf(at hcl.Range, summary, detail string, a ...any) *hcl.Diagnostic {
	return &hcl.Diagnostic{
		Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(detail, a...), Subject: at.Ptr(),
	}
}

// Capital returns s with a capital first letter. The text must not be empty.
func Capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
