package finder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"

	"toolhost.dev/plugins/grep/filetype"
	"toolhost.dev/plugins/grep/glob"
	"toolhost.dev/plugins/grep/ignore"
	"toolhost.dev/plugins/grep/index"
	"toolhost.dev/plugins/grep/pattern"
	"toolhost.dev/plugins/grep/query"
	"toolhost.dev/plugins/grep/search"
	"toolhost.dev/plugins/grep/walk"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"
)

type grepArgs struct {
	Pattern     string   `json:"pattern" jsonschema:"A regular expression in the dialect's syntax."`
	Path        string   `json:"path,omitempty" default:"." path:"read" jsonschema:"A directory with all below it, or a file."`
	Glob        []string `json:"glob,omitempty" jsonschema:"Only files that match one of these: *.go, src/**/*.{ts,tsx}; !*_test.go leaves files out."`
	IgnoreCase  bool     `json:"ignore_case,omitempty" default:"false" jsonschema:"Ignore case."`
	OutputMode  string   `json:"output_mode,omitempty" default:"content" enum:"content,files_with_matches,count" jsonschema:"Matching lines, paths of files, or the number of matching lines of each file."`
	LineNumbers bool     `json:"line_numbers,omitempty" default:"true" jsonschema:"Number lines."`
	After       int      `json:"after,omitempty" default:"0" min:"0" max:"1000" jsonschema:"Lines to show after each match."`
	Before      int      `json:"before,omitempty" default:"0" min:"0" max:"1000" jsonschema:"Lines to show before each match."`
	Context     int      `json:"context,omitempty" default:"0" min:"0" max:"1000" jsonschema:"Lines to show before and after each match."`
	HeadLimit   int      `json:"head_limit,omitempty" default:"100" min:"0" max:"100000" jsonschema:"The maximum number of results; 0 returns all."`
	Offset      int      `json:"offset,omitempty" default:"0" min:"0" max:"1000000" jsonschema:"Results to skip."`
	Multiline   bool     `json:"multiline,omitempty" default:"false" jsonschema:"Allow a match to span several lines: \\n and classes such as [^x] and \\s match line breaks. The dot does so with (?s) in front of the pattern."`
	Type        string   `json:"type,omitempty" jsonschema:"Only files of this type: go, py, js, ts, rust, java, cpp, md, ..."`
	Dialect     string   `json:"dialect,omitempty" default:"rust" enum:"rust,bre,ere,fixed" jsonschema:"rust is ripgrep's syntax; bre and ere are those of grep and grep -E; fixed is literal text."`
	Hidden      bool     `json:"hidden,omitempty" default:"false" jsonschema:"Also search hidden files."`
	NoIgnore    bool     `json:"no_ignore,omitempty" default:"false" jsonschema:"Also search ignored files."`

	rareArgs
}

// rareArgs contains options of ripgrep that few calls need. The definition for models omits these options, but many
// models guess them.
type rareArgs struct {
	OnlyMatching      bool     `json:"only_matching,omitempty" default:"false" rare:"true" jsonschema:"Show each match by itself instead of its line."`
	InvertMatch       bool     `json:"invert_match,omitempty" default:"false" rare:"true" jsonschema:"Find the lines without a match."`
	MaxCount          int      `json:"max_count,omitempty" default:"0" min:"0" max:"1000000" rare:"true" jsonschema:"The maximum number of matching lines of each file; 0 means no limit."`
	CountMatches      bool     `json:"count_matches,omitempty" default:"false" rare:"true" jsonschema:"Count matches instead of matching lines, as the output mode count does."`
	FilesWithoutMatch bool     `json:"files_without_match,omitempty" default:"false" rare:"true" jsonschema:"List the files without a match."`
	IGlob             []string `json:"iglob,omitempty" rare:"true" jsonschema:"As glob, but letters match in upper and lower case."`
	Text              bool     `json:"text,omitempty" default:"false" rare:"true" jsonschema:"Search binary files as if they were text."`
	MaxColumns        *int     `json:"max_columns,omitempty" min:"0" max:"100000" rare:"true" jsonschema:"The number of characters of a line to show, around its match; 0 shows all."`
	Follow            bool     `json:"follow,omitempty" default:"false" rare:"true" jsonschema:"Follow symbolic links that stay in the allowed directories."`
	PCRE2             bool     `json:"pcre2,omitempty" default:"false" hidden:"true" jsonschema:"Not available: for lookaround and backreferences, run grep -P with bash."`
}

// check returns an error if the call combines options that exclude each other.
func (in *grepArgs) check(crossing bool) error {
	switch {
	case in.InvertMatch && in.OnlyMatching:
		return sdk.Errorf(tool.InvalidArguments, "invert_match finds lines without a match, so only_matching has nothing to show. Leave one of them out.")
	case crossing && (in.InvertMatch || in.OnlyMatching):
		return sdk.Errorf(tool.InvalidArguments, "invert_match and only_matching need a pattern that matches within lines. Leave multiline out.")
	case in.CountMatches && in.FilesWithoutMatch:
		return sdk.Errorf(tool.InvalidArguments, "count_matches and files_without_match exclude each other. Leave one of them out.")
	}
	return nil
}

// mode returns the output mode. The options count_matches and files_without_match override the argument output_mode.
func (in *grepArgs) mode() string {
	switch {
	case in.CountMatches:
		return "count"
	case in.FilesWithoutMatch:
		return "files_with_matches"
	}
	return in.OutputMode
}

func (f *finder) grepTool() sdk.Tool {
	return sdk.NewTool(sdk.Definition{
		Name:        "grep",
		Role:        tool.RoleSearch,
		Program:     gnuGrep(),
		Description: "Search the content of files for a regular expression, as ripgrep does: a whole tree without hidden, binary and ignored files. Matches are path:line:text, lines around them path-line-text, sorted by path.",
		Traits:      looking,
		Keywords:    []string{"search", "find", "text", "string", "word", "regex", "look", "occurrences", "rg", "used"},
		Category:    tool.CategoryBuiltin,
		Examples: []string{
			`grep 'func \w+Handler\(' --type go`,
			`grep TODO src --glob '*.ts' --glob '!*.test.ts' --context 2`,
			`grep 'a.b[0]' --dialect fixed --output_mode files_with_matches`,
			`grep '(?s)struct \{.*?mutex' --multiline --head_limit 20`,
		},
	}, f.grep)
}

// grepData is the structured result of the tool grep.
type grepData struct {
	// Matches contains the returned matches in the output mode "content".
	Matches []grepMatch `json:"matches"`
	// Files contains the files of the returned results. Counts contains the number of matches in each file. In the
	// output mode "files_with_matches", matches are not counted.
	Files  []string       `json:"files"`
	Counts map[string]int `json:"counts"`
	// Total is the number of all matches. In the output mode "files_with_matches", it is the number of all matching
	// files.
	Total     int           `json:"total"`
	Truncated bool          `json:"truncated"`
	Searched  int           `json:"searched"`
	Skipped   query.Skipped `json:"skipped"`
}

type grepMatch struct {
	File string `json:"file"`
	Line int    `json:"line"`
	// Column is the start of the match in the line, in bytes, counted from 1.
	Column int `json:"column"`
	// Text is the text of the line. If the match spans several lines, it contains line breaks.
	Text string `json:"text"`
	// Before and After are the requested context lines around the match.
	Before []string `json:"before"`
	After  []string `json:"after"`
	// Cut is true if the line was shortened.
	Cut bool `json:"cut,omitempty"`
}

var modes = map[string]search.Mode{"content": search.Lines, "files_with_matches": search.First, "count": search.Count}

func (f *finder) grep(ctx context.Context, call *sdk.Call, in grepArgs) (*sdk.Result, error) {
	p, err := at(call, in.Path)
	if err != nil {
		return nil, err
	}
	if in.PCRE2 {
		return nil, sdk.Errorf(tool.InvalidArguments, "pcre2 is not available: patterns have no lookaround and no backreferences. Leave pcre2 out, or run grep -P with the tool bash.")
	}
	compiled, err := pattern.Compile(in.Pattern, pattern.Options{
		Dialect: pattern.Dialect(in.Dialect), IgnoreCase: in.IgnoreCase, Multiline: in.Multiline,
	})
	if err != nil {
		return nil, invalidPattern(in, err)
	}
	if err := in.check(compiled.Crossing()); err != nil {
		return nil, err
	}
	in.OutputMode = in.mode()
	o := p.options(in.Hidden, in.NoIgnore)
	if o.Globs, err = ignore.NewGlobs(in.Glob, in.IGlob); err != nil {
		return nil, invalidGlob(err)
	}
	if o.Type, err = typeOf(in.Type); err != nil {
		return nil, err
	}
	var searched atomic.Int64
	q := &query.Query{
		Pattern: compiled, Offset: in.Offset, Limit: in.HeadLimit, Searched: &searched, Time: f.timeLimit,
		Search: search.Options{
			Mode: modes[in.OutputMode], Before: cmp.Or(in.Before, in.Context), After: cmp.Or(in.After, in.Context),
			MaxLine: f.maxLine,
			Only:    in.OnlyMatching, Invert: in.InvertMatch, MaxCount: in.MaxCount, Each: in.CountMatches,
			Text: in.Text,
		},
		Without: in.FilesWithoutMatch,
	}
	if in.MaxColumns != nil {
		q.Search.MaxLine = *in.MaxColumns
	}
	if in.OnlyMatching {
		q.Search.Before, q.Search.After = 0, 0
	}
	if in.Follow {
		q.Follow, o.LinkToDir = p.follow, p.linkToDir
	}
	a, state, err := f.search(ctx, p, q, o, fmt.Sprintf("%q %q %q", in.Glob, in.IGlob, in.Type))
	if err != nil {
		return nil, err
	}
	other, err := otherSyntax(&in, a.Total, func(q2 *pattern.Pattern) (*query.Answer, error) {
		again := *q
		again.Pattern, again.Offset, again.Limit, again.Searched = q2, 0, 1, new(atomic.Int64)
		found, _, err := f.search(ctx, p, &again, o, fmt.Sprintf("%q %q %q", in.Glob, in.IGlob, in.Type))
		return found, err
	})
	if err != nil {
		return nil, err
	}
	res := grepResult(in, p, a, f, q.Search.MaxLine, other...)
	res.Metadata["index"] = state
	return res, nil
}

// search searches a place, which is a directory or a single file. The argument "key" identifies the file selection of
// the call.
func (f *finder) search(ctx context.Context, p *place, q *query.Query, o walk.Options,
	key string) (*query.Answer, index.State, error) {
	at := func() (index.State, int64) { return index.None, 0 }
	if !p.path.IsDir() {
		defer watch(ctx, p.call, "Search "+p.shown, q.Searched, at)()
		a, err := p.file(ctx, q)
		return a, index.None, err
	}
	t, err := p.tree(f)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = t.Dir.Close() }()
	if t.at != nil {
		at = t.at.State
	}
	defer watch(ctx, p.call, "Search "+p.shown, q.Searched, at)()
	var a *query.Answer
	if !q.Indexable() {
		state, err := t.unindexed(func() error {
			a, err = q.Tree(ctx, t.Start, o)
			return err
		})
		return a, state, err
	}
	state, err := t.indexed(o, key, func(s *index.Snapshot) error {
		a, err = q.Indexed(ctx, s, o)
		return err
	}, func() error {
		a, err = q.Tree(ctx, t.Start, o)
		return err
	})
	return a, state, err
}

// open opens the file at the place.
func (p *place) open() (*os.File, fs.FileInfo, error) {
	file, err := p.ws.Open(p.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, p.missing()
	}
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, info, nil
}

// file searches a place that is a single file.
func (p *place) file(ctx context.Context, q *query.Query) (*query.Answer, error) {
	file, info, err := p.open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return q.File(ctx, file, info.Size(), p.shown)
}

func invalidPattern(in grepArgs, err error) error {
	hint := ""
	if in.Dialect != string(pattern.Fixed) {
		hint = "\nTo search for the text literally, use dialect=fixed."
	}
	return sdk.Errorf(tool.InvalidArguments, "%s%s", capitalized(err.Error()), hint).WithCause(err)
}

func invalidGlob(err error) error {
	if e, ok := errors.AsType[*glob.Error](err); ok {
		return sdk.Errorf(tool.InvalidArguments, "The glob %q is not valid: %s.", e.Glob, e.Reason).WithCause(err)
	}
	return err
}

func capitalized(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func typeOf(name string) (*filetype.Type, error) {
	if name == "" {
		return nil, nil
	}
	t, ok := filetype.Find(name)
	if !ok {
		hint := suggest.DidYouMean(name, filetype.Names())
		if hint == "" {
			hint = " Use glob instead, as in glob=*." + strings.TrimPrefix(strings.TrimPrefix(name, "*"), ".") + "."
		}
		return nil, sdk.Errorf(tool.InvalidArguments, "Unknown file type %q.%s", name, hint)
	}
	return t, nil
}
