package finder

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"toolhost.dev/plugins/grep/definition"
	"toolhost.dev/plugins/grep/index"
	"toolhost.dev/plugins/grep/outline"
	"toolhost.dev/plugins/grep/symbol"
	"toolhost.dev/plugins/grep/syntax"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"
)

type codeArgs struct {
	Query     string `json:"query" jsonschema:"A name, Server.Close for one in Server, a glob (get*User), or a regular expression (/^(get|set)User/i)."`
	Type      string `json:"type,omitempty" default:"all" enum:"function,class,method,variable,file,all" jsonschema:"What to find. function includes methods and macros; class includes all types and namespaces; variable includes constants, fields and members of enums."`
	Path      string `json:"path,omitempty" default:"." path:"read" jsonschema:"A directory with all below it, or a file."`
	Language  string `json:"language,omitempty" jsonschema:"Only files in this language: go, python, typescript, ..."`
	Match     string `json:"match,omitempty" default:"ranked" enum:"ranked,exact,prefix,substring" jsonschema:"How a plain name matches. ranked finds all names that contain it, the best first."`
	Context   int    `json:"context,omitempty" default:"0" min:"0" max:"50" jsonschema:"Lines to show before and after each declaration."`
	HeadLimit int    `json:"head_limit,omitempty" default:"50" min:"0" max:"10000" jsonschema:"The maximum number of results; 0 returns all. The total is always reported."`
	Offset    int    `json:"offset,omitempty" default:"0" min:"0" max:"1000000" jsonschema:"Results to skip."`
}

func (f *finder) codeTool() sdk.Tool {
	return sdk.NewTool(sdk.Definition{
		Name:        "code_query",
		Role:        tool.RoleSymbols,
		Description: "Find where functions, types, methods, variables and files are declared, by name, in a whole tree without ignored files. Go, Python, TypeScript, JavaScript, Rust, Java, C and C++ are parsed; in other languages, lines that look like declarations are marked as [pattern]. The best matches come first. The query * with the path of a file returns its outline. To find uses, use grep.",
		Traits:      looking,
		Keywords: []string{
			"definition", "declaration", "symbol", "outline", "jump", "functions", "classes", "defined",
		},
		Category: tool.CategoryBuiltin,
		Examples: []string{
			"code_query ServeHTTP",
			"code_query Server.Close --type method",
			"code_query 'get*' --type function --language python --path src",
			"code_query '*' --path host/host.go",
			"code_query '/^New[A-Z]/' --type function --head_limit 20",
			"code_query config --type file",
		},
	}, f.code)
}

// codeData is the structured result of code_query.
type codeData struct {
	Query     string             `json:"query"`
	Type      string             `json:"type"`
	Matches   []codeMatch        `json:"matches"`
	Total     int                `json:"total"`
	Truncated bool               `json:"truncated"`
	Skipped   definition.Skipped `json:"skipped"`
	// NotParsed is the number of files that were not parsed within the time limit although they can declare the
	// name.
	NotParsed int `json:"not_parsed"`
	// Problems lists files that were not parsed completely, with the reasons. In these files, the tool searches for
	// lines that look like declarations.
	Problems []codeProblem `json:"problems"` // at most ten files
}

type codeProblem struct {
	File   string `json:"file"`
	Reason string `json:"reason"`
}

type codeMatch struct {
	File string `json:"file"`
	Line int    `json:"line"`
	// Column is the start of the name in the line, in bytes, counted from 1.
	Column    int    `json:"column"`
	EndLine   int    `json:"end_line"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Container string `json:"container,omitempty"`
	// Code is the line that contains the name. Context is the same line with the requested number of lines before
	// and after it.
	Code    string `json:"code"`
	Context string `json:"context"`
	// Match describes how well the name matches the query.
	Match    string `json:"match"`
	Language string `json:"language,omitempty"`
	// Parser is "go/parser", "tree-sitter" or "pattern". Matches whose parser is "pattern" can be wrong.
	Parser string `json:"parser,omitempty"`
}

func (f *finder) code(ctx context.Context, call *sdk.Call, in codeArgs) (*sdk.Result, error) {
	names, err := symbol.Parse(in.Query, symbol.Match(in.Match))
	if err != nil {
		return nil, invalidQuery(err)
	}
	language, err := languageOf(in.Language)
	if err != nil {
		return nil, err
	}
	p, err := at(call, in.Path)
	if err != nil {
		return nil, err
	}
	q := &definition.Query{
		Names: names, Group: symbol.Group(in.Type), Language: language, Offset: in.Offset, Limit: in.HeadLimit,
		Context: in.Context, Time: f.timeLimit,
	}
	a, state, err := f.define(ctx, p, q)
	if err != nil {
		return nil, err
	}
	near := ""
	if a.Total == 0 && a.NotParsed == 0 {
		near = f.near(ctx, p, q)
	}
	res := codeResult(in, p, a, f, near)
	res.Metadata["index"] = state
	return res, nil
}

// maxNear limits the declarations that are compared with a misspelled name, and nearTime the duration of the search for
// them.
const (
	maxNear  = 5000
	nearTime = 2 * time.Second
)

// near returns a "Did you mean" question for a query without matches. The question suggests the most similar declared
// names. If no declared name is similar, near returns an empty string.
func (f *finder) near(ctx context.Context, p *place, q *definition.Query) string {
	similar := q.Names.Near(q.Group == symbol.Files)
	if similar == nil {
		return ""
	}
	a, _, err := f.define(ctx, p, &definition.Query{
		Names: similar, Group: q.Group, Language: q.Language, Limit: maxNear, Time: nearTime,
	})
	if err != nil {
		return "" // without a hint, the result is still correct
	}
	written := q.Names.Name()
	var names []string
	for i := range a.Matches {
		s := &a.Matches[i].Symbol
		name := s.Name
		if strings.Contains(written, ".") && s.Container != "" {
			name = s.Container + "." + name
		}
		names = append(names, printable(name))
	}
	slices.Sort(names)
	return suggest.DidYouMean(written, slices.Compact(names))
}

func invalidQuery(err error) error {
	if e, ok := errors.AsType[*syntax.Error](err); ok {
		return sdk.Errorf(tool.InvalidArguments, "%s", capitalized(e.Error())).WithCause(err)
	}
	return sdk.Errorf(tool.InvalidArguments, "%s.", capitalized(strings.TrimSuffix(err.Error(), "."))).WithCause(err)
}

func languageOf(name string) (outline.Language, error) {
	if name == "" {
		return "", nil
	}
	l, ok := outline.Find(name)
	if !ok {
		hint := suggest.DidYouMean(name, outline.Languages())
		if hint == "" {
			hint = " It is one of " + strings.Join(outline.Languages(), ", ") + "."
		}
		return "", sdk.Errorf(tool.InvalidArguments, "Unknown language %q.%s", name, hint)
	}
	return l, nil
}

// define searches for declarations in a place, which is a directory or a single file.
func (f *finder) define(ctx context.Context, p *place,
	q *definition.Query) (a *definition.Answer, state index.State, err error) {
	state = index.None
	progress := func() (index.State, int64) { return index.None, 0 }
	if !p.path.IsDir() {
		defer watch(ctx, p.call, "Look in "+p.shown, &q.Parsed, progress)()
		a, err = p.declared(ctx, f, q)
		return a, state, err
	}
	t, err := p.tree(f)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = t.Dir.Close() }()
	if t.at != nil {
		progress = t.at.State
	}
	defer watch(ctx, p.call, "Look in "+p.shown, &q.Parsed, progress)()
	f.symbols.asking.Add(1)
	defer f.symbols.asking.Add(-1)
	o := p.options(false, false)
	a, used, err := q.Indexed(ctx, f.symbols.source(), o, func(do func(*index.Snapshot) error) (bool, error) {
		return t.snapshot(o, "", do)
	})
	if used || err != nil {
		if err == nil {
			f.symbols.fill(p, t)
		}
		return a, index.Ready, err
	}
	state, err = t.unindexed(func() error {
		a, err = q.Tree(ctx, f.symbols.source(), t.Start, o)
		return err
	})
	return a, state, err
}

// declared searches for declarations in a single file.
func (p *place) declared(ctx context.Context, f *finder, q *definition.Query) (*definition.Answer, error) {
	file, info, err := p.open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if !info.Mode().IsRegular() {
		return nil, sdk.Errorf(tool.InvalidArguments, "%s is not a regular file, so it declares nothing. Give a directory or a file of source code.", p.given)
	}
	return q.File(ctx, f.symbols.source(), file, info.Size(), p.shown)
}
