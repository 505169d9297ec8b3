package editor

import (
	"bytes"
	"context"
	"fmt"
	"runtime"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace/text"

	"toolhost.dev/plugins/edit/validate"
)

type writeArgs struct {
	FilePath     string `json:"file_path" path:"write" jsonschema:"The file to write. Missing directories are made."`
	Content      string `json:"content" jsonschema:"The whole new content, or the text to append."`
	Mode         string `json:"mode,omitempty" enum:"overwrite,append" default:"overwrite" jsonschema:"Replace the content, or add to its end."`
	LineEndings  string `json:"line_endings,omitempty" enum:"auto,lf,crlf,keep" default:"auto" jsonschema:"auto uses those of the file; keep writes the content as given."`
	FinalNewline bool   `json:"final_newline,omitempty" default:"true" jsonschema:"End the last line with a newline."`
}

// writeData is the structured result of the tool write.
type writeData struct {
	Path         string `json:"path"`
	BytesWritten int    `json:"bytes_written"`
	LineCount    int    `json:"line_count"`
	Created      bool   `json:"created"`
	Overwritten  bool   `json:"overwritten"`
	Diff         string `json:"diff"`
}

func (e *editor) writeTool() sdk.Tool {
	return sdk.NewTool(sdk.Definition{
		Name:           "write",
		Role:           tool.RoleWrite,
		Description:    "Write a file: create it, replace its whole content, or append to it. A file that exists must have been read first.",
		Keywords:       []string{"create", "make", "new", "add", "append", "save", "put", "overwrite", "file"},
		Category:       tool.CategoryBuiltin,
		Traits:         sdk.Traits{Dangerous: true},
		StdinParameter: "content",
		Examples: []string{
			"write --file_path hello.txt <<'EOF'\nHello\nEOF",
			`write notes/today.md --content '# Today'`,
			`write log.txt --content 'one more line' --mode append`,
		},
	}, e.write)
}

func (e *editor) write(ctx context.Context, call *sdk.Call, in writeArgs) (*sdk.Result, error) {
	c, unlock, err := e.open(ctx, call, in.FilePath, true, true)
	if err != nil {
		return nil, err
	}
	defer unlock()
	target := c.target
	if err := target.Read(); err != nil {
		return nil, err
	}
	c.after = content(in, target)
	data := writeData{
		Path: target.Path.String(), BytesWritten: len(c.after), LineCount: lines(c.after),
		Created: target.Before == nil,
	}
	if target.Before != nil && bytes.Equal(c.after, target.Text.Content) {
		return &sdk.Result{
			Output: fmt.Sprintf("%s already has exactly this content (%s); nothing was written.", c.name, plural(data.LineCount, "line")),
			Title:  "Write " + c.name, Data: sdk.Data(data), Effects: []tool.Effect{target.Before.Effect()},
		}, nil
	}
	if err := e.save(ctx, call, c); err != nil {
		return nil, err
	}
	done, diff := c.written, c.diff()
	data.BytesWritten, data.Created, data.Overwritten, data.Diff = int(done.State.Size), done.Created,
		!done.Created && in.Mode != "append", diff
	what := map[bool]string{true: "Created", false: "Overwrote"}[done.Created]
	if in.Mode == "append" && !done.Created {
		what = "Appended to"
		data.BytesWritten -= len(target.Before.Data)
	}
	out := fmt.Sprintf("%s %s: %s, %s.%s", what, c.name, plural(data.BytesWritten, "byte"),
		plural(data.LineCount, "line"), c.note())
	if !done.Created {
		out += "\n" + shown(diff)
	}
	return &sdk.Result{Output: out, Title: "Write " + c.name, Data: sdk.Data(data), Effects: []tool.Effect{c.effect}},
		nil
}

// content returns the new content of the file, with the requested line endings and final newline.
func content(in writeArgs, target *validate.Target) []byte {
	content := []byte(in.Content)
	var before []byte
	if target.Text != nil {
		before = target.Text.Content
	}
	ending := text.LF
	switch {
	case in.LineEndings == "crlf", in.LineEndings == "auto" && len(before) == 0 && runtime.GOOS == "windows":
		ending = text.CRLF
	case in.LineEndings == "auto" && len(before) > 0:
		ending = text.CountLineEndings(before).Main()
	}
	if in.LineEndings != "keep" {
		content = ending.Normalize(content)
	} else if in.FinalNewline {
		ending = text.CountLineEndings(content).Main()
	}
	if in.Mode == "append" {
		if in.FinalNewline && len(before) > 0 && before[len(before)-1] != '\n' && len(content) > 0 {
			before = append(bytes.Clone(before), ending.Bytes()...) // begin the appended text on a new line
		}
		content = append(bytes.Clone(before), content...)
	}
	if in.FinalNewline && len(content) > 0 && !bytes.HasSuffix(content, []byte(ending.Bytes())) {
		content = append(content, ending.Bytes()...)
	}
	return content
}
