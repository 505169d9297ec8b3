package finder

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"toolhost.dev/plugins/grep/index"
	"toolhost.dev/plugins/grep/listing"
	"toolhost.dev/plugins/grep/query"
	"toolhost.dev/plugins/grep/walk"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"
)

type listArgs struct {
	Path      string `json:"path,omitempty" default:"." path:"read"`
	Recursive bool   `json:"recursive,omitempty" default:"false" jsonschema:"Also list subdirectories without ignored files."`
	Pattern   string `json:"pattern,omitempty" jsonschema:"Only entries that match: *.{ts,tsx} for names, src/**/*.go for paths; !node_modules leaves it out."`
	Hidden    bool   `json:"hidden,omitempty" default:"true" jsonschema:"List names that begin with a dot."`
	NoIgnore  bool   `json:"no_ignore,omitempty" default:"false" jsonschema:"With recursive: also list ignored files."`
	Sort      string `json:"sort,omitempty" default:"path" enum:"path,modified" jsonschema:"By path with directories first, or last modified first."`
	Limit     int    `json:"limit,omitempty" default:"1000" min:"1" max:"10000" jsonschema:"The maximum number of entries."`
}

// listData is the structured result of the tool list.
type listData struct {
	Files     []listFile `json:"files"`
	Total     int        `json:"total"`
	Truncated bool       `json:"truncated"`
}

type listFile struct {
	Name     string `json:"name"`
	Path     string `json:"path"` // absolute path
	Type     string `json:"type"`
	Size     int64  `json:"size"`
	Modified string `json:"modified"`
}

func (f *finder) listTool() sdk.Tool {
	return sdk.NewTool(sdk.Definition{
		Name:        "list",
		Role:        tool.RoleList,
		Description: "List a directory with types, sizes and times (UTC).",
		Traits:      looking,
		Keywords:    []string{"ls", "dir", "directory", "folder", "contents", "entries", "show", "files"},
		Category:    tool.CategoryBuiltin,
		Examples: []string{
			"list",
			"list src --recursive --pattern '*.go'",
			"list --path ~/project/docs --limit 50",
			"list --recursive --sort modified --limit 20",
		},
	}, f.list)
}

func (f *finder) list(ctx context.Context, call *sdk.Call, in listArgs) (*sdk.Result, error) {
	pattern, err := listing.Parse(in.Pattern)
	if err != nil {
		return nil, invalidGlob(err)
	}
	p, err := at(call, in.Path)
	if err != nil {
		return nil, err
	}
	t, err := p.tree(f)
	if err != nil {
		return nil, err
	}
	defer func() { _ = t.Dir.Close() }()
	o := listing.Options{Pattern: pattern, Order: listing.Order(in.Sort), Limit: in.Limit}
	var skipped walk.Skipped
	if !in.Recursive && !pattern.Deep() {
		found, err := listing.Directory(ctx, t.Start, o, in.Hidden, &skipped)
		if err != nil {
			return nil, err
		}
		return listResult(in, p, found, &skipped), nil
	}
	var found *listing.Listing
	var pending *listing.Pending
	w := p.options(in.Hidden, in.NoIgnore)
	w.Closed = listing.Closed
	state, err := t.indexed(w, "list", func(s *index.Snapshot) error {
		pending, err = listing.Indexed(ctx, s, w, o, &skipped)
		return err
	}, func() error {
		found, err = listing.Tree(ctx, t.Start, w, o, &skipped)
		return err
	})
	if err == nil && pending != nil {
		found, err = pending.Listing(ctx, t.Start)
	}
	if err != nil {
		return nil, err
	}
	res := listResult(in, p, found, &skipped)
	res.Metadata = map[string]any{"index": state}
	return res, nil
}

// maxListed limits the text of a listing in bytes.
const maxListed = 50 << 10

func listResult(in listArgs, p *place, found *listing.Listing, skipped *walk.Skipped) *sdk.Result {
	data := listData{Files: make([]listFile, 0, len(found.Entries)), Total: found.Total,
		Truncated: found.Total > len(found.Entries) || found.GivenUp}
	var text strings.Builder
	shown := 0
	for i := range found.Entries {
		e := &found.Entries[i]
		path := filepath.Join(p.path.String(), e.Rel)
		modified := "" // empty if the time is not known
		if !e.Modified.IsZero() {
			modified = e.Modified.UTC().Format(time.RFC3339)
		}
		data.Files = append(data.Files, listFile{
			Name: filepath.Base(path), Path: path, Type: workspace.TypeName(e.Type), Size: e.Size, Modified: modified,
		})
		if line := e.Line(); shown == i && text.Len()+len(line) < maxListed {
			text.WriteString(line + "\n")
			shown++
		}
	}
	return &sdk.Result{
		Output: withNotes(strings.TrimSuffix(text.String(), "\n"), listNotes(in, found, skipped, shown)),
		Title:  "List " + p.shown, Data: sdk.Data(data),
	}
}

func listNotes(in listArgs, found *listing.Listing, skipped *walk.Skipped, shown int) []string {
	var notes []string
	note := func(format string, a ...any) { notes = append(notes, fmt.Sprintf(format, a...)) }
	left := query.Skipped{Hidden: int(skipped.Hidden.Load()), Ignored: int(skipped.Ignored.Load())}
	if len(found.Entries) == 0 {
		if in.Pattern != "" {
			note("nothing matches %s", in.Pattern)
		} else if left.Hidden+left.Ignored == 0 {
			note("the directory is empty")
		}
	}
	if shown < found.Total || found.GivenUp {
		total := fmt.Sprint(found.Total)
		if found.GivenUp {
			total = "more than " + total
		}
		note("%d of %s entries are shown; narrow the listing with pattern or a subdirectory", shown, total)
	}
	if left.Hidden > 0 {
		note("%s not listed; set hidden=true to list them", count(left.Hidden, "hidden entry"))
	}
	if left.Ignored > 0 {
		note("%s not listed because of ignore files; set no_ignore=true to list them", count(left.Ignored, "entry"))
	}
	const most = 10
	for i, rel := range found.Closed {
		if i == most {
			note("%s not listed either", count(len(found.Closed)-most, "other directory"))
			break
		}
		note("contents not listed: %s (version control)", rel)
	}
	if s := list([]reason{{int(skipped.Permission.Load()), "not permitted to be read"},
		{int(skipped.Failed.Load()), "not readable"}}); s != "" {
		note("directories not listed: %s", s)
	}
	return notes
}
