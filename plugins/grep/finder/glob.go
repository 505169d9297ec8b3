package finder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"toolhost.dev/plugins/grep/index"
	"toolhost.dev/plugins/grep/locate"
	"toolhost.dev/plugins/grep/query"
	"toolhost.dev/plugins/grep/walk"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

type globArgs struct {
	Pattern   string `json:"pattern" jsonschema:"**/*.go finds Go files at any depth, *.go only in the directory itself. A glob that ends with / finds directories."`
	Path      string `json:"path,omitempty" default:"." path:"read" jsonschema:"The directory to search."`
	HeadLimit int    `json:"head_limit,omitempty" default:"100" min:"0" max:"100000" jsonschema:"The maximum number of files; 0 returns all."`
	Offset    int    `json:"offset,omitempty" default:"0" min:"0" max:"1000000" jsonschema:"Files to skip."`
	Hidden    bool   `json:"hidden,omitempty" default:"false" jsonschema:"Also find hidden files."`
	NoIgnore  bool   `json:"no_ignore,omitempty" default:"false" jsonschema:"Also find ignored files."`
}

func (f *finder) globTool() sdk.Tool {
	return sdk.NewTool(sdk.Definition{
		Name:        "glob",
		Role:        tool.RoleFind,
		Description: "Find files by a pattern of their paths in a whole tree without hidden and ignored files. The last modified files come first.",
		Traits:      looking,
		Keywords: []string{
			"find", "locate", "files", "names", "filename", "wildcard", "extension", "recent", "newest", "fd",
		},
		Category: tool.CategoryBuiltin,
		Examples: []string{
			"glob '**/*_test.go'",
			"glob '*.{json,yaml}' config",
			"glob 'src/**/index.ts' --head_limit 20",
			"glob '**/testdata/'",
		},
	}, f.glob)
}

// globData is the structured result of the tool glob.
type globData struct {
	Files     []globFile  `json:"files"`
	Total     int         `json:"total"`
	Truncated bool        `json:"truncated"`
	Skipped   globSkipped `json:"skipped"`
}

type globFile struct {
	Name     string    `json:"name"`
	Path     string    `json:"path"` // absolute path
	Type     string    `json:"type"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
}

// globSkipped counts the entries that were not searched, for each reason.
type globSkipped struct {
	Ignored    int `json:"ignored"`
	Hidden     int `json:"hidden"`
	Permission int `json:"permission"`
	Failed     int `json:"failed"`
}

func (f *finder) glob(ctx context.Context, call *sdk.Call, in globArgs) (*sdk.Result, error) {
	if strings.IndexByte(in.Pattern, 0) >= 0 || in.Pattern == "" {
		return nil, sdk.Errorf(tool.InvalidArguments, "The pattern %q is empty or has a NUL byte in it. Give a glob such as **/*.go.", in.Pattern)
	}
	dir, rest := locate.Split(in.Pattern)
	if rest == "" || rest == "." || rest == ".." {
		return nil, sdk.Errorf(tool.InvalidArguments, "The pattern %q matches only the directory itself. Add a pattern for the files in it, such as %s/**.", in.Pattern, strings.TrimSuffix(in.Pattern, "/"))
	}
	pattern, err := locate.Parse(rest)
	if err != nil {
		return nil, invalidGlob(err)
	}
	p, err := at(call, beneath(in.Path, dir))
	if err != nil {
		return nil, err
	}
	t, err := p.tree(f)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) && p.named(in.Path) {
			return globResult(in, p, &locate.Found{}, &walk.Skipped{}), nil
		}
		return nil, err
	}
	defer func() { _ = t.Dir.Close() }()
	var skipped walk.Skipped
	var files *locate.Found
	o := p.options(in.Hidden, in.NoIgnore)
	o.Dotted = pattern.Dotted
	state, err := t.indexed(o, pattern.DottedElements(), func(s *index.Snapshot) error {
		files, err = pattern.FindIndexed(ctx, s, o, &skipped, in.Offset, in.HeadLimit)
		return err
	}, func() error {
		files, err = pattern.Find(ctx, t.Start, o, &skipped, in.Offset, in.HeadLimit)
		return err
	})
	if err != nil {
		return nil, err
	}
	res := globResult(in, p, files, &skipped)
	res.Metadata["index"] = state
	return res, nil
}

// named reports whether the path of a missing place comes from the pattern and not only from the argument "path" of the
// call. In this case, the pattern has no matches, which is not an error.
func (p *place) named(path string) bool {
	base, err := at(p.call, path)
	return err == nil && base.path.String() != p.path.String() && base.path.IsDir()
}

// beneath returns the path of the directory "dir", with which a pattern begins. If dir is relative, it is relative to
// the argument "path".
func beneath(path, dir string) string {
	switch {
	case dir == "":
		return path
	case filepath.IsAbs(dir), strings.HasPrefix(dir, "~/"):
		return dir
	}
	return strings.TrimSuffix(path, "/") + "/" + dir
}

func globResult(in globArgs, p *place, f *locate.Found, skipped *walk.Skipped) *sdk.Result {
	data := globData{Files: []globFile{}, Total: f.Total, Skipped: globSkipped{
		Ignored: int(skipped.Ignored.Load()), Hidden: int(skipped.Hidden.Load()),
		Permission: int(skipped.Permission.Load()), Failed: int(skipped.Failed.Load()),
	}}
	var lines []string
	size := 0
	for _, file := range f.Files {
		path := printable(file.Path)
		if size += 2*len(path) + 128; size > query.MaxText {
			break
		}
		data.Files = append(data.Files, globFile{
			Name: filepath.Base(path), Path: path, Type: file.Type, Size: file.Size, Modified: file.Modified.UTC(),
		})
		lines = append(lines, printable(file.Shown))
	}
	left := in.Offset + len(data.Files)
	data.Truncated = in.Offset > 0 || left < f.Total
	return &sdk.Result{
		Output: withNotes(strings.Join(lines, "\n"), globNotes(in, p, f, data, left)), Data: sdk.Data(data),
		Title:    fmt.Sprintf("Find %s: %s", in.Pattern, count(f.Total, "file")),
		Metadata: map[string]any{"total": f.Total},
	}
}

func globNotes(in globArgs, p *place, f *locate.Found, data globData, left int) []string {
	var notes []string
	switch {
	case f.Total == 0:
		note := fmt.Sprintf("No files match %s in %s; %s searched", in.Pattern, p.shown, count(f.Seen, "file"))
		if !strings.ContainsRune(in.Pattern, '/') {
			note += fmt.Sprintf(". To look in subdirectories too, use **/%s", in.Pattern)
		}
		notes = append(notes, note)
		byRule := query.Skipped{Ignored: data.Skipped.Ignored, Hidden: data.Skipped.Hidden}
		if s := skippedByRule(byRule); s != "" {
			notes = append(notes,
				"not searched: "+s+"."+strings.ReplaceAll(remedies(byRule), "search these", "find these"))
		}
	case len(data.Files) == 0 && in.Offset > 0:
		notes = append(notes, fmt.Sprintf("offset %d is past the end of %s", in.Offset, count(f.Total, "file")))
	case left < f.Total:
		notes = append(notes, fmt.Sprintf("%d-%d of %s shown, the newest first; continue with offset=%d, or use a narrower pattern", in.Offset+1, left, count(f.Total, "file"), left))
	case in.Offset > 0:
		notes = append(notes,
			fmt.Sprintf("%d-%d of %s shown, the last ones", in.Offset+1, left, count(f.Total, "file")))
	}
	if s := list([]reason{{data.Skipped.Permission, "not permitted to be read"},
		{data.Skipped.Failed, "not readable"}}); s != "" {
		notes = append(notes, "directories not searched: "+s)
	}
	return notes
}
