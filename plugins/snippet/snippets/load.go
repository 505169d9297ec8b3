package snippets

import (
	"context"
	"errors"
	"fmt"
	"time"

	"toolhost.dev/plugins/snippet/library"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"
)

// looking holds the traits of the tools that are read-only.
var looking = sdk.Traits{ReadOnly: true, ConcurrencySafe: true, AutoExecute: true, Idempotent: true}

type loadArgs struct {
	Name    string `json:"name,omitempty" jsonschema:"The name, or the id."`
	ID      int64  `json:"id,omitempty" min:"1" jsonschema:"The id, in place of the name."`
	Version int    `json:"version,omitempty" min:"1" jsonschema:"The version to load. The default is the last one."`
}

// described is the JSON form of a snippet.
type described struct {
	ID          int64     `json:"id"`
	Name        string    `json:"name"`
	Version     int       `json:"version"`
	Description string    `json:"description"`
	Language    string    `json:"language"`
	Tags        []string  `json:"tags"`
	Bytes       int       `json:"bytes"`
	CreatedAt   time.Time `json:"created_at"`
	UpdatedAt   time.Time `json:"updated_at"`
}

func describe(s *library.Snippet) described {
	return described{
		s.ID, s.Name, s.Version, s.Description, s.Language, s.Tags, s.Bytes, s.Created.UTC(), s.Saved.UTC(),
	}
}

type versionData struct {
	Version int       `json:"version"`
	Bytes   int       `json:"bytes"`
	SavedAt time.Time `json:"saved_at"`
}

type loadData struct {
	described
	Code string `json:"code"`
	// Versions lists the kept versions, the last version first.
	Versions []versionData `json:"versions"`
}

func (t *tools) loadTool() sdk.Tool {
	return sdk.NewTool(sdk.Definition{
		Name:        "snippet_load",
		Description: "Return the code of a snippet and nothing else, so that it can be piped. snippet_list finds names.",
		Keywords:    []string{"get", "read", "reuse", "stored", "code"},
		Category:    tool.CategoryBuiltin,
		Traits:      looking,
		Examples: []string{`snippet_load retry`, `snippet_load 12`, `snippet_load retry --version 2`,
			`tool:snippet_load retry > retry.go`},
	}, t.load)
}

func (t *tools) load(ctx context.Context, _ *sdk.Call, in loadArgs) (*sdk.Result, error) {
	ref, err := checkRef(in.Name, in.ID)
	if err != nil {
		return nil, err
	}
	s, kept, err := t.lib.Load(ctx, ref, in.Version)
	if err != nil {
		return nil, t.missing(err)
	}
	data := loadData{described: describe(s), Code: s.Code, Versions: []versionData{}}
	for _, v := range kept {
		data.Versions = append(data.Versions, versionData{v.Version, v.Bytes, v.Saved.UTC()})
	}
	return &sdk.Result{Title: "Load the snippet " + s.Name, Output: s.Code, Data: sdk.Data(data)}, nil
}

// missing converts an error of the library to a NotFound error with a suggestion.
func (t *tools) missing(err error) error {
	var version *library.NoVersionError
	if errors.As(err, &version) {
		return sdk.Errorf(tool.NotFound, "Version %d of %q is no longer stored. Stored are the versions %d to %d.", version.Version, version.Name, version.First, version.Last)
	}
	var none *library.NotFoundError
	if !errors.As(err, &none) {
		return err
	}
	next := " To search, run snippet_list QUERY."
	if none.Ref.Name != "" {
		if near := suggest.DidYouMean(none.Ref.Name, none.Names); near != "" {
			next = near
		}
	}
	if len(none.Names) == 0 {
		next = " The library is empty. Use snippet_save to add a snippet."
		if !t.lib.Persistent() {
			next += " " + inMemory
		}
	}
	return sdk.Errorf(tool.NotFound, "Unknown snippet %s.%s", none.Ref, next)
}

type deleteArgs struct {
	Name string `json:"name,omitempty" jsonschema:"The name, or the id."`
	ID   int64  `json:"id,omitempty" min:"1" jsonschema:"The id, in place of the name."`
}

type deleteData struct {
	described
	VersionsDeleted int `json:"versions_deleted"`
}

func (t *tools) deleteTool() sdk.Tool {
	return sdk.NewTool(sdk.Definition{
		Name:        "snippet_delete",
		Description: "Delete a snippet with all its versions. This cannot be undone.",
		Keywords:    []string{"remove", "stored", "code"},
		Category:    tool.CategoryBuiltin,
		Examples:    []string{`snippet_delete retry`, `snippet_delete --id 12`},
	}, t.delete)
}

func (t *tools) delete(ctx context.Context, _ *sdk.Call, in deleteArgs) (*sdk.Result, error) {
	ref, err := checkRef(in.Name, in.ID)
	if err != nil {
		return nil, err
	}
	s, versions, err := t.lib.Delete(ctx, ref)
	if err != nil {
		return nil, t.missing(err)
	}
	return &sdk.Result{
		Title:  "Delete the snippet " + s.Name,
		Output: fmt.Sprintf("Deleted %q (id %d) with %s.", s.Name, s.ID, count(versions, "version")),
		Data:   sdk.Data(deleteData{describe(s), versions}),
	}, nil
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
