package editor

import (
	"bytes"
	"fmt"
	"strings"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/plugins/edit/strategy"
)

// fileData is the structured result for one file.
type fileData struct {
	Path      string `json:"path"`
	Operation string `json:"operation"`
	// RenamedFrom is the old path of a renamed file. It is empty if the file was not renamed.
	RenamedFrom string `json:"renamed_from,omitempty"`
	// Mode is the new mode in octal. It is empty if the mode did not change.
	Mode         string                `json:"mode,omitempty"`
	Strategy     string                `json:"strategy"`
	Equality     string                `json:"equality,omitempty"`
	StartLine    int                   `json:"start_line"`
	EndLine      int                   `json:"end_line"`
	Replacements int                   `json:"replacements"`
	Similarity   float64               `json:"similarity"`
	Indent       []strategy.IndentRule `json:"indent,omitempty"`
	Diff         string                `json:"diff"`
	Snippet      string                `json:"snippet"`
	OldLength    int                   `json:"old_length"`
	NewLength    int                   `json:"new_length"`
	Edits        []step                `json:"edits,omitempty"`
}

// editData is the structured result of the tool edit. It describes the first file. If the call changed several
// files, it also lists all files.
type editData struct {
	fileData
	Files []fileData `json:"files,omitempty"`
}

// result creates the result of the tool edit.
func result(files []*edited) *sdk.Result {
	var data editData
	var texts, diffs, names []string
	var effects []tool.Effect
	for _, f := range files {
		if effects = append(effects, f.effect); f.moved {
			continue // the result reports the new name instead
		}
		d := f.tell()
		texts = append(texts, f.text(d))
		diffs = append(diffs, d.Diff)
		names = append(names, f.name)
		data.Files = append(data.Files, *d)
	}
	data.fileData = data.Files[0]
	if len(data.Files) == 1 {
		data.Files = nil
	}
	title := "Edit " + names[0]
	if len(names) > 1 {
		title = fmt.Sprintf("Edit %d files", len(names))
	}
	return &sdk.Result{Output: strings.Join(texts, "\n") + "\n" + shown(strings.Join(diffs, "")), Title: title,
		Data: sdk.Data(data), Effects: effects}
}

// tell computes the report of a changed file. It can run while the change is saved.
func (f *edited) tell() *fileData {
	if f.data == nil {
		f.data = f.describe()
	}
	return f.data
}

func (f *edited) describe() *fileData {
	s, replacements := f.summary()
	d := &fileData{
		Path: f.target.Path.String(), Operation: "modify", RenamedFrom: f.renamed, Strategy: s.Strategy,
		Equality: s.Equality, StartLine: s.StartLine, EndLine: s.EndLine,
		Replacements: replacements, Similarity: s.Similarity, Indent: s.Indent, OldLength: s.oldLength,
		NewLength: s.newLength,
		Diff:      f.diff(), Snippet: snippet(f.after, s.StartLine, s.EndLine),
	}
	switch {
	case f.remove:
		d.Operation = "delete"
	case f.renamed != "":
		d.Operation = "rename"
	case f.target.Before == nil:
		d.Operation = "create"
	}
	if f.changesMode() {
		d.Mode = fmt.Sprintf("%#o", f.mode.Perm())
	}
	if len(f.steps) == 0 {
		d.Strategy, d.Similarity = d.Operation, 1
	}
	const most = 1000 // maximum number of listed places
	if len(f.steps) > 1 || replacements > 1 {
		d.Edits = f.steps
		for i := range d.Edits {
			d.Edits[i].Sites = d.Edits[i].Sites[:min(len(d.Edits[i].Sites), most)]
		}
	}
	return d
}

// text formats the report of a file as text for the model.
func (f *edited) text(d *fileData) string {
	switch d.Operation {
	case "delete":
		return fmt.Sprintf("Deleted %s.", f.name)
	case "create":
		return fmt.Sprintf("Created %s: %s.", f.name, plural(lines(f.after), "line")) + f.note()
	case "rename":
		if d.Replacements == 0 {
			return fmt.Sprintf("Renamed %s to %s.", d.RenamedFrom, f.name) + f.note()
		}
	}
	if d.Mode != "" && d.Replacements == 0 {
		return fmt.Sprintf("Changed the mode of %s to %s.", f.name, d.Mode) + f.note()
	}
	out := fmt.Sprintf("Edited %s: %s, lines %d-%d.", f.name, plural(d.Replacements, "replacement"),
		d.StartLine, d.EndLine)
	if d.Operation == "rename" {
		out = fmt.Sprintf("Renamed %s to %s and edited it: %s, lines %d-%d.", d.RenamedFrom, f.name, plural(d.Replacements, "replacement"), d.StartLine, d.EndLine)
	}
	if d.Mode != "" {
		out += fmt.Sprintf(" Its mode is %s.", d.Mode)
	}
	for _, s := range strategy.Strategies {
		if s.Name != d.Strategy || s.Name == strategy.Exact || s.Name == "create" {
			continue
		}
		out += fmt.Sprintf(" NOTE: old_string did not match exactly; it was found as %s (%s).", s.Name, s.Matches)
		if d.Equality != "" {
			out += fmt.Sprintf(" Each replaced text is %s.", d.Equality)
		}
		if d.Similarity < 1 {
			out += fmt.Sprintf(" Similarity %.2f.", d.Similarity)
		}
		out += " Check the diff."
	}
	const most = 5
	for i, r := range d.Indent {
		switch {
		case i == 0:
			out += " The indentation of new_string was adapted to the file:"
		case i < most:
			out += ","
		case i == most:
			out += ", …"
		}
		if i < most {
			out += fmt.Sprintf(" %s became %s", blanksShown(r.From), blanksShown(r.To))
		}
	}
	if len(d.Indent) > 0 {
		out += "."
	}
	return out + f.note()
}

const (
	snippetContext = 3   // number of context lines before and after a change
	snippetLines   = 61  // maximum number of lines in a snippet
	snippetWidth   = 500 // maximum number of bytes per line
)

// snippet returns the changed lines and some context lines, with line numbers.
func snippet(content []byte, start, end int) string {
	first, last := max(1, start-snippetContext), end+snippetContext
	last = min(last, first+snippetLines-1)
	at, lineBreak := 0, lineBreak(content)
	for n := 1; n < first; n++ {
		i := bytes.IndexByte(content[at:], lineBreak)
		if i < 0 {
			return ""
		}
		at += i + 1
	}
	var shown []string
	for n := first; n <= last && at < len(content); n++ {
		line := content[at:]
		if i := bytes.IndexByte(line, lineBreak); i >= 0 {
			line = line[:i+1]
		}
		at += len(line)
		line = bytes.TrimRight(line, "\r\n")
		if len(line) > snippetWidth {
			line = append(bytes.ToValidUTF8(line[:snippetWidth], nil), "…"...)
		}
		shown = append(shown, string(line))
	}
	width := len(fmt.Sprint(first + len(shown) - 1))
	for i := range shown {
		shown[i] = fmt.Sprintf("%*d| %s", width, first+i, shown[i])
	}
	return strings.Join(shown, "\n")
}
