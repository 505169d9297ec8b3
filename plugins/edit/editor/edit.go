package editor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"

	"toolhost.dev/plugins/edit/match"
	"toolhost.dev/plugins/edit/validate"
)

type editArgs struct {
	FilePath   string `json:"file_path" path:"write" jsonschema:"The file to change, relative to the working directory or absolute."`
	OldString  string `json:"old_string" jsonschema:"The text to replace, exactly as it stands in the file, with enough lines around it to be unique. Empty: create the file with new_string."`
	NewString  string `json:"new_string" jsonschema:"The text to put in its place. Taken literally."`
	ReplaceAll bool   `json:"replace_all,omitempty" default:"false" jsonschema:"Replace every occurrence instead of the only one."`
}

// editData is the structured result of edit.
type editData struct {
	Path         string  `json:"path"`
	Strategy     string  `json:"strategy"`
	StartLine    int     `json:"start_line"`
	EndLine      int     `json:"end_line"`
	Replacements int     `json:"replacements"`
	Similarity   float64 `json:"similarity"`
	Diff         string  `json:"diff"`
	Snippet      string  `json:"snippet"`
	OldLength    int     `json:"old_length"`
	NewLength    int     `json:"new_length"`
}

func editTool() sdk.Tool {
	return sdk.NewTool(sdk.Definition{
		Name: "edit",
		Description: "Change a file by replacing one text with another. Read the file first. old_string must be in the file exactly once, " +
			"unless replace_all is set; the rest of the file stays as it is, byte for byte. The result shows the change as a diff.",
		Category: tool.CategoryBuiltin,
		Examples: []string{
			`edit main.go --old_string 'Println("helo")' --new_string 'Println("hello")'`,
			"edit main.go --old_string <<'OLD' --new_string <<'NEW'\nfunc a() {\nOLD\nfunc b() {\nNEW",
			`edit notes.txt --old_string colour --new_string color --replace_all`,
		},
	}, edit)
}

func edit(ctx context.Context, call *sdk.Call, in editArgs) (*sdk.Result, error) {
	if in.OldString == in.NewString {
		return nil, validate.Refuse(validate.NothingToChange, tool.InvalidArguments, "There is nothing to change: old_string and new_string are equal. Give the text as it should become in new_string.")
	}
	ws, err := call.Workspace()
	if err != nil {
		return nil, err
	}
	unlock, err := lock(ctx, ws, call.Cwd, in.FilePath)
	if err != nil {
		return nil, err
	}
	defer unlock()
	target, err := validate.File(ctx, ws, call, call.Cwd, in.FilePath, in.OldString == "", false)
	if err != nil {
		return nil, err
	}
	c := &change{ws: ws, target: target, name: target.Path.RelTo(call.Cwd)}
	data := editData{Path: target.Path.String(), Strategy: "exact", Similarity: 1, OldLength: len(in.OldString), NewLength: len(in.NewString)}
	if in.OldString == "" {
		c.after = []byte(in.NewString)
		data.Strategy, data.StartLine, data.EndLine, data.Replacements = "create", 1, lines(in.NewString), 1
	} else if err := replace(c, in, &data); err != nil {
		return nil, err
	}
	done, diff, err := c.save(ctx)
	if err != nil {
		return nil, err
	}
	data.Diff, data.Snippet = diff, snippet(c.after, data.StartLine, data.EndLine)
	what := fmt.Sprintf("Edited %s: %s, lines %d-%d.", c.name, plural(data.Replacements, "replacement"), data.StartLine, data.EndLine)
	if done.Created {
		what = fmt.Sprintf("Created %s: %s.", c.name, plural(data.EndLine, "line"))
	}
	return &sdk.Result{
		Output: what + note(done) + "\n" + shown(diff), Title: "Edit " + c.name,
		Data: sdk.Data(data), Effects: []tool.Effect{done.Effect()},
	}, nil
}

// lock keeps other edits of the file away until this one is written. A path that does
// not resolve is left to the validation.
func lock(ctx context.Context, ws *workspace.Workspace, cwd, name string) (func(), error) {
	p, err := ws.Resolve(cwd, name)
	if err != nil {
		return func() {}, nil //nolint:nilerr // see above
	}
	return ws.Lock(ctx, p)
}

// replace finds the old text: layers 8 and 9.
func replace(c *change, in editArgs, data *editData) error {
	src := match.NewSource(c.target.Text.Content)
	found := src.Exact(in.OldString)
	switch {
	case len(found) == 0:
		return validate.Refuse(validate.NotFound, tool.NotFound, "old_string was not found in %s.%s Read the file again and copy the text exactly, blanks included.", c.name, hint(c.target.Text.Content, in.OldString))
	case len(found) > 1 && !in.ReplaceAll:
		var at []string
		for _, r := range found[:min(len(found), 10)] {
			at = append(at, fmt.Sprint(src.Line(r.Start)))
		}
		if len(found) > len(at) {
			at = append(at, "…")
		}
		return validate.Refuse(validate.NotUnique, tool.InvalidArguments, "old_string stands %d times in %s, on lines %s. Add lines around it to make it unique, or set replace_all to change them all.",
			len(found), c.name, strings.Join(at, ", "))
	}
	found = match.Disjoint(found)
	c.after = src.Replace(found, in.NewString, workspace.CountLineEndings(c.target.Text.Content).Main().Bytes())
	data.Replacements = len(found)
	data.StartLine = src.Line(found[0].Start)
	last := found[len(found)-1]
	grown := len(c.after) - len(c.target.Text.Content)
	data.EndLine = match.NewSource(c.after).LastLine(match.Range{Start: 0, End: max(last.End+grown, 1)})
	data.EndLine = max(data.EndLine, data.StartLine)
	return nil
}

// hint says where the first line of the text stands, when the rest differs.
func hint(content []byte, old string) string {
	first := strings.TrimSpace(strings.SplitN(strings.TrimLeft(old, " \t\r\n"), "\n", 2)[0])
	if len(first) < 4 {
		return ""
	}
	n := 0
	for line := range strings.Lines(string(content)) {
		n++
		if strings.TrimSpace(line) == first {
			return fmt.Sprintf(" Its first line stands on line %d, but what follows or its blanks differ.", n)
		}
	}
	return ""
}

// snippetContext is how many lines are shown before and after a change.
const snippetContext = 3

// snippet shows the changed lines and a few around them, with their numbers.
func snippet(content []byte, start, end int) string {
	all := slices.Collect(strings.Lines(string(content)))
	first, last := max(1, start-snippetContext), min(len(all), end+snippetContext)
	if last-first > 60 {
		last = first + 60
	}
	var out strings.Builder
	width := len(fmt.Sprint(last))
	for n := first; n <= last; n++ {
		fmt.Fprintf(&out, "%*d| %s\n", width, n, strings.TrimRight(all[n-1], "\r\n"))
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// lines counts the lines of a text; a final newline begins no further one.
func lines(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}
