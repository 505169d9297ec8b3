package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"toolhost.dev/plugins/read/excerpt"
	"toolhost.dev/plugins/read/media"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"
	"toolhost.dev/sdk/workspace/language"
	"toolhost.dev/sdk/workspace/text"
)

const (
	// maxInMemory is the maximum size in bytes of a text that is read into memory. Larger texts are read in chunks.
	maxInMemory = 8 << 20
	// maxNotebook is the maximum size in bytes of a notebook that is shown as cells. The limit is high because images
	// make notebooks large.
	maxNotebook = 64 << 20
	// maxBase64 is the maximum size in bytes of a file that is returned in base64.
	maxBase64 = 1 << 20
	// maxImage is the maximum size of an attached image in bytes, and maxDocument is the maximum size of an attached
	// document.
	maxImage    = 10 << 20
	maxDocument = 32 << 20
	// maxScaled is the maximum size in bytes of an image that can be scaled down.
	maxScaled = 64 << 20
)

type readArgs struct {
	FilePath        string `json:"file_path" path:"read" jsonschema:"The file to read. A directory is listed."`
	Offset          int    `json:"offset,omitempty" default:"1" jsonschema:"The line to begin at, counted from 1."`
	Limit           *int   `json:"limit,omitempty" min:"1" jsonschema:"The number of lines to read."`
	ShowLineNumbers bool   `json:"show_line_numbers,omitempty" default:"false" jsonschema:"Put the line number and \"| \" before each line."`
	Encoding        string `json:"encoding,omitempty" default:"auto" enum:"utf8,ascii,base64,auto" jsonschema:"auto detects it and shows the cells of notebooks; utf8 refuses anything else; ascii shows other bytes as \\xHH; base64 returns the bytes of any file up to 1 MiB."`
	IfChanged       bool   `json:"if_changed,omitempty" default:"false" jsonschema:"Return the text only if it changed since this session last read or wrote all of it."`

	rareArgs
}

// rareArgs contains parameters that few calls need. The tool's description for models omits these parameters, but some
// models guess them.
type rareArgs struct {
	Tail      int      `json:"tail,omitempty" default:"0" min:"0" rare:"true" jsonschema:"The number of lines to read from the end, as a negative offset does."`
	MoreFiles []string `json:"more_files,omitempty" path:"read" rare:"true" jsonschema:"Further files to read, each after a line with its name."`
	Pages     string   `json:"pages,omitempty" hidden:"true" jsonschema:"Not available: documents are attached whole. For some pages, run pdftotext with bash."`
}

// readData is the structured result of the tool read.
type readData struct {
	Path       string `json:"path"`
	TotalLines int    `json:"total_lines"`
	// AtLeast is true if TotalLines is a lower bound, because not all lines were counted.
	AtLeast        bool   `json:"total_lines_at_least,omitempty"`
	StartLine      int    `json:"start_line"`
	EndLine        int    `json:"end_line"`
	Language       string `json:"language"`
	Encoding       string `json:"encoding"`
	Truncated      bool   `json:"truncated"`
	RecommendRange bool   `json:"recommend_range"`
	IsDirectory    bool   `json:"is_directory"`
	// Cells is the number of cells of a notebook. It is nil unless the result shows the file as cells.
	Cells *int `json:"cells,omitempty"`
	// Unchanged is true if the text is omitted. The text is omitted if the argument if_changed is set and the
	// session already knows the text.
	Unchanged bool `json:"unchanged,omitempty"`
}

// severalData is the structured result of a call that reads several files. It contains the data of the first file,
// followed by the data of all files.
type severalData struct {
	readData
	Files []readData `json:"files"`
}

func (p *plugin) readTool() sdk.Tool {
	return sdk.NewTool(sdk.Definition{
		Name:        "read",
		Role:        tool.RoleRead,
		Program:     builtin,
		Description: "Read a file: all of it, or a range of lines. Read a file before you edit it. At most 2000 lines, 2000 characters of a line and 50 KB are returned at once; a note in square brackets then explains how to continue. Images and PDF documents are attached.",
		Traits:      looking,
		Keywords: []string{
			"open", "show", "view", "display", "print", "look", "cat", "contents", "file", "image", "picture",
		},
		Category: tool.CategoryBuiltin,
		Examples: []string{
			"read main.go",
			"read src/server.ts --offset 120 --limit 60 --show_line_numbers",
			"read assets/logo.png",
			"read data.bin --encoding base64",
		},
	}, p.read)
}

// builtin describes the command "read" of bash. The tool never replaces what the command accepts.
var builtin = &tool.Program{Operand: tool.OperandVariable, Others: strings.Split("a d e i n N p r s t u", " ")}

// request is the state of one call of the tool.
type request struct {
	ctx  context.Context
	call *sdk.Call
	ws   *workspace.Workspace
	in   readArgs
	path workspace.Path
	name string // path as displayed in results
	max  int64  // the largest file that the operator permits, in bytes; 0 means no limit
}

// read is the handler of the tool. A call can read one file or several.
func (p *plugin) read(ctx context.Context, call *sdk.Call, in readArgs) (*sdk.Result, error) {
	if in.Pages != "" {
		return nil, sdk.Errorf(tool.InvalidArguments, "pages is not available: a PDF document is attached as a whole. Leave pages out, or extract the text of these pages with a shell command: pdftotext -f FIRST -l LAST FILE -")
	}
	if in.Tail > 0 {
		in.Offset = -in.Tail
	}
	if len(in.MoreFiles) > 0 {
		return p.several(ctx, call, in)
	}
	return p.one(ctx, call, in)
}

// one reads one file.
func (p *plugin) one(ctx context.Context, call *sdk.Call, in readArgs) (*sdk.Result, error) {
	ws, err := call.Workspace()
	if err != nil {
		return nil, err
	}
	r := &request{ctx: ctx, call: call, ws: ws, in: in, max: p.maxFile}
	r.path, err = ws.Resolve(call.Cwd, in.FilePath)
	if err != nil {
		return nil, err
	}
	r.name = r.path.RelTo(call.Cwd)
	if r.path.IsDir() {
		return r.directory()
	}
	if err := r.checkSize(); err != nil {
		return nil, err
	}
	limit := int64(maxInMemory)
	switch {
	case in.Encoding == "base64":
		limit = maxBase64
	case r.isNotebook():
		limit = maxNotebook
	}
	snap, err := ws.ReadFile(r.path, limit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, r.missing()
	case errors.Is(err, workspace.ErrTooLarge) && in.Encoding == "base64":
		return nil, sdk.Errorf(tool.InvalidArguments, "%s is too large for encoding=base64 (the limit is %s). Read a part of the file with a shell command, such as: head -c 65536 FILE | base64", r.name, text.FormatSize(maxBase64))
	case errors.Is(err, workspace.ErrTooLarge):
		return r.large()
	case err != nil:
		return nil, err
	}
	if in.IfChanged {
		state, known, err := call.FileState(ctx, r.path.String())
		if err != nil {
			return nil, err
		}
		if known && !state.Partial && state.Hash == snap.Hash() {
			return &sdk.Result{
				Output: fmt.Sprintf("[note: %s is unchanged since this session last read or wrote it (%s)]", r.name, text.FormatSize(state.Size)), Title: "Read " + r.name,
				Data: sdk.Data(readData{Path: r.path.String(), Unchanged: true}), Effects: []tool.Effect{snap.Effect()},
			}, nil
		}
	}
	return r.small(snap)
}

// small returns the result for a file that was read into memory.
func (r *request) small(snap *workspace.Snapshot) (*sdk.Result, error) {
	if r.in.Encoding == "base64" {
		return r.base64(snap), nil
	}
	if kind, ok := media.Sniff(snap.Data); ok {
		return r.attach(snap, kind)
	}
	d, err := r.decode(snap.Data)
	if err != nil {
		return nil, err
	}
	if d.ending == text.CR {
		d.content = text.LF.Normalize(d.content)
	}
	complete := true
	if r.isNotebook() && len(d.content) > 0 {
		complete = d.toCells()
	}
	r.fromEnd(func() int { return excerpt.CountLines(d.content) })
	e := excerpt.Of(d.content, r.window())
	effect := snap.Effect()
	effect.File.Partial = !e.Whole() || !complete
	return r.show(e, d, int64(len(snap.Data)), &effect)
}

func (r *request) window() excerpt.Window {
	w := excerpt.Window{Start: max(r.in.Offset, 1), Numbers: r.in.ShowLineNumbers}
	if r.in.Limit != nil {
		w.Lines = max(*r.in.Limit, 1)
	}
	return w
}

// show returns the result with an excerpt. If the file was not read to its end, effect is nil.
func (r *request) show(e excerpt.Excerpt, d decoded, size int64, effect *tool.Effect) (*sdk.Result, error) {
	if e.Start == 0 && r.in.Offset > 1 {
		return nil, r.pastEnd(e.Total)
	}
	data := readData{
		Path: r.path.String(), TotalLines: e.Total, AtLeast: !e.Counted, StartLine: e.Start, EndLine: e.End,
		Language: language.Of(r.path.String(), d.content[:min(len(d.content), 8<<10)]), Encoding: d.encoding,
		Cells:          d.cells,
		Truncated:      e.Capped != excerpt.NotCapped || e.CutLines > 0,
		RecommendRange: e.Total > excerpt.MaxLines || size > excerpt.MaxBytes || !e.Counted,
	}
	res := &sdk.Result{
		Output: withNotes(e.Text, r.notes(e, d, size, effect)), Title: "Read " + r.name, Data: sdk.Data(data),
	}
	if effect != nil {
		res.Effects = []tool.Effect{*effect}
	}
	return res, nil
}

func (r *request) pastEnd(total int) error {
	if total == 0 {
		return sdk.Errorf(tool.InvalidArguments, "offset %d is past the end: %s is empty.", r.in.Offset, r.name)
	}
	return sdk.Errorf(tool.InvalidArguments, "offset %d is past the end: %s has %s. Give an offset from 1 to %d.", r.in.Offset, r.name, count(total, "line"), total)
}

// notes returns facts about the file that the model cannot see in the text.
func (r *request) notes(e excerpt.Excerpt, d decoded, size int64, effect *tool.Effect) []string {
	var notes []string
	note := func(format string, a ...any) { notes = append(notes, fmt.Sprintf(format, a...)) }
	if e.Total == 0 && size == 0 {
		note("the file is empty")
	} else if e.Total == 0 {
		note("the file has no text, only a byte order mark")
	}
	total := fmt.Sprintf("%d", e.Total)
	if !e.Counted {
		total = fmt.Sprintf("more than %d (not counted to the end of %s)", e.Total, text.FormatSize(size))
	}
	switch e.Capped {
	case excerpt.ByLines:
		note("lines %d-%d of %s; at most %d are shown at once. Go on with offset=%d", e.Start, e.End, total, excerpt.MaxLines, e.End+1)
	case excerpt.ByBytes:
		note("lines %d-%d of %s; at most %s are shown at once. Go on with offset=%d", e.Start, e.End, total, text.FormatSize(excerpt.MaxBytes), e.End+1)
	case excerpt.NotCapped:
		if !e.Counted {
			note("lines %d-%d of %s", e.Start, e.End, total)
		}
	}
	if e.CutLines > 0 {
		note("%s longer than %d characters and cut; to see the rest use grep or a shell command (cut -c)", isAre(e.CutLines), excerpt.MaxLineChars)
	}
	switch {
	case d.flaw != "":
		note("the file cannot be edited as text, because its encoding is not uniform: %s", d.flaw)
	case d.guessed:
		note("the file is not UTF-8 and is shown as %s, which is a guess; characters beyond ASCII may be wrong", d.encoding)
	case d.detected:
		note("the file is encoded in %s, which edit and write keep", d.encoding)
	}
	switch d.ending {
	case text.CRLF, text.CR:
		note("the lines of the file end with %s", strings.ToUpper(string(d.ending)))
	case text.Mixed:
		note("some lines of the file end with LF, some with CRLF")
	case text.LF, text.NoLines:
	}
	if d.note != "" {
		note("%s", d.note)
	}
	if effect == nil {
		note("the file is too large to be recorded as read; the tool edit will refuse it")
	}
	return notes
}

func isAre(lines int) string {
	if lines == 1 {
		return "1 line is"
	}
	return fmt.Sprintf("%d lines are", lines)
}

// withNotes appends the notes to the output and marks each note.
func withNotes(output string, notes []string) string {
	if len(notes) == 0 {
		return output
	}
	var b strings.Builder
	b.WriteString(output)
	if output != "" {
		if !strings.HasSuffix(output, "\n") {
			b.WriteByte('\n')
		}
		b.WriteByte('\n')
	}
	for i, n := range notes {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("[note: " + n + "]")
	}
	return b.String()
}
