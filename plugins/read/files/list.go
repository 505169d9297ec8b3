package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"toolhost.dev/plugins/read/excerpt"
	"toolhost.dev/plugins/read/listing"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

type listArgs struct {
	Path      string `json:"path,omitempty" default:"." path:"read" jsonschema:"The directory to list, relative to the working directory or absolute."`
	Recursive bool   `json:"recursive,omitempty" default:"false" jsonschema:"List what is in subdirectories, too. Symbolic links are not followed."`
	Pattern   string `json:"pattern,omitempty" jsonschema:"Only entries that match this glob, such as *.go or *.{ts,tsx}. With a slash in it, it is matched against the path beneath the directory (src/**/*.go), subdirectories included."`
	Hidden    bool   `json:"hidden,omitempty" default:"true" jsonschema:"List names that begin with a dot."`
	Limit     int    `json:"limit,omitempty" default:"1000" min:"1" max:"10000" jsonschema:"How many entries to give; the others are counted."`
}

// listData is the structured result of list.
type listData struct {
	Files     []listFile `json:"files"`
	Total     int        `json:"total"`
	Truncated bool       `json:"truncated"`
}

type listFile struct {
	Name     string `json:"name"`
	Path     string `json:"path"`
	Type     string `json:"type"`
	Size     int64  `json:"size"`
	Modified string `json:"modified"`
}

func listTool() sdk.Tool {
	return sdk.NewTool(sdk.Definition{
		Name: "list",
		Description: "List a directory with types, sizes and times. Use it to see what is there; to find files by name in a whole tree use glob, to find text use grep. " +
			"Times are in UTC.",
		Traits:   looking,
		Category: tool.CategoryBuiltin,
		Examples: []string{
			"list",
			"list src --recursive --pattern '*.go'",
			"list --path ~/project/docs --limit 50",
		},
	}, list)
}

func list(ctx context.Context, call *sdk.Call, in listArgs) (*sdk.Result, error) {
	ws, err := call.Workspace()
	if err != nil {
		return nil, err
	}
	r := &request{ctx: ctx, call: call, ws: ws, in: readArgs{FilePath: in.Path}}
	if r.path, err = ws.Resolve(call.Cwd, in.Path); err != nil {
		return nil, err
	}
	r.name = r.path.RelTo(call.Cwd)
	found, err := listing.Read(ctx, ws, r.path, listing.Options{
		Recursive: in.Recursive || strings.Contains(in.Pattern, "/"), Pattern: in.Pattern, Hidden: in.Hidden, Limit: in.Limit,
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, r.missing()
	}
	if err != nil {
		return nil, err
	}
	data := listData{Files: make([]listFile, 0, len(found.Entries)), Total: found.Total, Truncated: found.Total > len(found.Entries) || found.GivenUp}
	for _, e := range found.Entries {
		data.Files = append(data.Files, listFile{Name: e.Name, Path: e.Path, Type: e.Type, Size: e.Size, Modified: e.Modified.UTC().Format(time.RFC3339)})
	}
	e := excerpt.Excerpt{Text: strings.Join(found.Lines(), "\n")}
	if text := []byte(e.Text); len(text) > excerpt.MaxBytes {
		e = excerpt.Of(text, excerpt.Window{})
	}
	return &sdk.Result{Output: withNotes(e.Text, listNotes(found, e, in.Pattern)), Title: "List " + r.name, Data: sdk.Data(data)}, nil
}

func listNotes(found *listing.Listing, shown excerpt.Excerpt, pattern string) []string {
	var notes []string
	note := func(format string, a ...any) { notes = append(notes, fmt.Sprintf(format, a...)) }
	if len(found.Entries) == 0 {
		if pattern != "" {
			note("nothing matches %s", pattern)
		} else if found.Hidden == 0 {
			note("the directory is empty")
		}
	}
	number := len(found.Entries)
	if shown.Capped != excerpt.NotCapped {
		number = shown.End
	}
	if number < found.Total || found.GivenUp {
		total := fmt.Sprint(found.Total)
		if found.GivenUp {
			total = "more than " + total
		}
		note("%d of %s entries; narrow it down with pattern or a subdirectory", number, total)
	}
	if found.Hidden > 0 {
		note("%s left out; hidden=true lists them", count(found.Hidden, "hidden entry"))
	}
	const most = 10
	for i, s := range found.Skipped {
		if i == most {
			note("%s not gone into, too", count(len(found.Skipped)-most, "other directory"))
			break
		}
		note("not gone into: %s", s)
	}
	return notes
}

// directory lists the directory that read was given.
func (r *request) directory() (*sdk.Result, error) {
	if r.in.Encoding == "base64" {
		return nil, sdk.Errorf(tool.InvalidArguments, "%s is a directory and has no bytes to give as base64. Leave encoding out to list it.", r.name)
	}
	found, err := listing.Read(r.ctx, r.ws, r.path, listing.Options{Hidden: true})
	if err != nil {
		return nil, err
	}
	e := excerpt.Of([]byte(strings.Join(found.Lines(), "\n")), r.window())
	if e.Start == 0 && r.in.Offset > 1 {
		return nil, sdk.Errorf(tool.InvalidArguments, "offset %d is past the end: the directory %s has %s. Give an offset from 1 on.", r.in.Offset, r.name, count(e.Total, "entry"))
	}
	data := readData{Path: r.path.String(), TotalLines: found.Total, StartLine: e.Start, EndLine: e.End, IsDirectory: true,
		Truncated: e.Capped != excerpt.NotCapped || found.GivenUp, RecommendRange: found.Total > excerpt.MaxLines}
	notes := []string{fmt.Sprintf("%s is a directory with %s", r.name, count(found.Total, "entry"))}
	switch {
	case found.GivenUp:
		notes[0] = fmt.Sprintf("%s is a directory with more than %s; look for what you need with list and a pattern", r.name, count(found.Total, "entry"))
	case e.Capped != excerpt.NotCapped:
		notes[0] += fmt.Sprintf("; entries %d-%d are shown. Go on with offset=%d", e.Start, e.End, e.End+1)
	}
	return &sdk.Result{Output: withNotes(e.Text, notes), Title: "List " + r.name, Data: sdk.Data(data)}, nil
}
