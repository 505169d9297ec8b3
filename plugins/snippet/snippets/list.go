package snippets

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"toolhost.dev/plugins/snippet/library"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"
)

const (
	maxQuery = 1000 // maximum length in bytes
	maxShown = 160  // maximum length of a displayed description in characters
)

type listArgs struct {
	Query    string   `json:"query,omitempty" jsonschema:"Words, each the beginning of a word of the snippet."`
	Tags     []string `json:"tags,omitempty" jsonschema:"Only snippets with all these tags."`
	Language string   `json:"language,omitempty" jsonschema:"Only snippets in that language."`
	Limit    int      `json:"limit,omitempty" default:"50" min:"1" max:"500" jsonschema:"The maximum number."`
	Offset   int      `json:"offset,omitempty" default:"0" min:"0" jsonschema:"Snippets to skip."`
}

type listData struct {
	Snippets   []described `json:"snippets"`
	Total      int         `json:"total"`
	Offset     int         `json:"offset"`
	Truncated  bool        `json:"truncated"`
	Persistent bool        `json:"persistent"`
}

func (t *tools) listTool() sdk.Tool {
	return sdk.NewTool(sdk.Definition{
		Name:        "snippet_list",
		Description: "List the snippets of all sessions, or those with given words, tags or language.",
		Keywords:    []string{"show", "search", "find", "stored", "code"},
		Category:    tool.CategoryBuiltin,
		Traits:      looking,
		Examples:    []string{`snippet_list`, `snippet_list 'retry http'`, `snippet_list --tags http --language go`},
	}, t.list)
}

func (t *tools) list(ctx context.Context, _ *sdk.Call, in listArgs) (*sdk.Result, error) {
	f, err := in.filter()
	if err != nil {
		return nil, err
	}
	found, total, err := t.lib.List(ctx, f)
	if err != nil {
		return nil, err
	}
	data := listData{Snippets: []described{}, Total: total, Offset: f.Offset, Truncated: f.Offset+len(found) < total,
		Persistent: t.lib.Persistent()}
	var lines []string
	for _, s := range found {
		data.Snippets = append(data.Snippets, describe(s))
		lines = append(lines, line(s))
	}
	switch {
	case total == 0:
		text, err := t.nothing(ctx, f)
		if err != nil {
			return nil, err
		}
		lines = append(lines, text)
	case len(found) == 0:
		lines = append(lines, fmt.Sprintf("(The offset is past the end of %d snippets. Give a smaller offset.)", total))
	case data.Truncated:
		lines = append(lines, fmt.Sprintf("(%d to %d of %d. Continue with --offset %d.)", f.Offset+1, f.Offset+len(found), total, f.Offset+len(found)))
	}
	if !data.Persistent {
		lines = append(lines, inMemory)
	}
	return &sdk.Result{Title: "List snippets", Output: strings.Join(lines, "\n"), Data: sdk.Data(data)}, nil
}

func (in *listArgs) filter() (library.Filter, error) {
	f := library.Filter{Limit: in.Limit, Offset: in.Offset, Words: library.Words(in.Query)}
	if len(in.Query) > maxQuery {
		return f, sdk.Errorf(tool.InvalidArguments, "The query has %d bytes, and the limit is %d. Give only a few words.", len(in.Query), maxQuery)
	}
	if strings.TrimSpace(in.Query) != "" && len(f.Words) == 0 {
		return f, sdk.Errorf(tool.InvalidArguments, "The query %q contains only punctuation, but the search matches only words. Give a word of the name, the description or the code of a snippet.", in.Query)
	}
	var err error
	if f.Language, err = checkWord("language", in.Language); err != nil {
		return f, err
	}
	f.Tags, err = checkTags(in.Tags)
	return f, err
}

// line formats a snippet as one line of a list.
func line(s *library.Snippet) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d  %s", s.ID, s.Name)
	var notes []string
	if s.Language != "" {
		notes = append(notes, s.Language)
	}
	for _, t := range s.Tags {
		notes = append(notes, "#"+t)
	}
	if s.Version > 1 {
		notes = append(notes, fmt.Sprintf("v%d", s.Version))
	}
	if len(notes) > 0 {
		fmt.Fprintf(&out, "  (%s)", strings.Join(notes, " "))
	}
	if d := []rune(strings.Join(strings.Fields(s.Description), " ")); len(d) > maxShown {
		fmt.Fprintf(&out, "  %s…", string(d[:maxShown]))
	} else if len(d) > 0 {
		fmt.Fprintf(&out, "  %s", string(d))
	}
	return out.String()
}

// nothing returns a text that explains why no snippet is listed.
func (t *tools) nothing(ctx context.Context, f library.Filter) (string, error) {
	_, all, err := t.lib.List(ctx, library.Filter{})
	if err != nil {
		return "", err
	}
	if all == 0 {
		return "The library is empty. Use snippet_save to add a snippet.", nil
	}
	tags, languages, err := t.lib.Facets(ctx)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("None of %s matches.", count(all, "snippet"))
	for _, tag := range f.Tags {
		if !slices.Contains(tags, tag) {
			text += fmt.Sprintf(" No snippet has the tag %q.%s", tag, suggest.DidYouMean(tag, tags))
		}
	}
	if f.Language != "" && !slices.Contains(languages, f.Language) {
		text += fmt.Sprintf(" No snippet is in the language %q.%s", f.Language,
			suggest.DidYouMean(f.Language, languages))
	}
	if len(f.Words) > 1 {
		text += " A snippet must contain all words of the query. Give fewer words."
	}
	return text, nil
}
