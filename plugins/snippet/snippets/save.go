package snippets

import (
	"context"
	"errors"
	"fmt"

	"toolhost.dev/plugins/snippet/library"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

type saveArgs struct {
	Name        string   `json:"name" jsonschema:"The name, at most 200 characters."`
	Code        string   `json:"code" jsonschema:"The code, at most 1 MiB; stored byte for byte."`
	Description *string  `json:"description,omitempty" jsonschema:"What the code does and when to use it."`
	Language    *string  `json:"language,omitempty" jsonschema:"The language, such as go."`
	Tags        []string `json:"tags,omitempty" jsonschema:"Words to filter by."`
}

type saveData struct {
	described
	Outcome    library.Outcome `json:"outcome"`
	Persistent bool            `json:"persistent"`
}

func (t *tools) saveTool() sdk.Tool {
	return sdk.NewTool(sdk.Definition{
		Name:           "snippet_save",
		Description:    "Save a piece of code under a name for later sessions. An existing name gets a new version, and the earlier ones stay.",
		Keywords:       []string{"store", "keep", "remember", "code"},
		Category:       tool.CategoryBuiltin,
		Traits:         sdk.Traits{Idempotent: true},
		StdinParameter: "code",
		Examples: []string{
			"snippet_save retry --language go --tags http --description 'Retries with backoff' <<'EOF'\nfor try := range 3 {\n}\nEOF",
			`snippet_save one-liner --code 'sort | uniq -c | sort -rn' --language sh`,
		},
	}, t.save)
}

func (t *tools) save(ctx context.Context, _ *sdk.Call, in saveArgs) (*sdk.Result, error) {
	c, err := in.change()
	if err != nil {
		return nil, err
	}
	s, outcome, err := t.lib.Save(ctx, c)
	var full *library.FullError
	if errors.As(err, &full) {
		return nil, sdk.Errorf(tool.ExecutionFailed, "The snippet was not saved because the library is full: it contains %s. Delete snippets that are not needed (snippet_list, snippet_delete).", full.What)
	}
	if err != nil {
		return nil, err
	}
	text := ""
	switch outcome {
	case library.Created:
		text = fmt.Sprintf("Saved %q (id %d).", s.Name, s.ID)
	case library.Updated:
		text = fmt.Sprintf("Saved version %d of %q (id %d).", s.Version, s.Name, s.ID)
	case library.Unchanged:
		text = fmt.Sprintf("%q (id %d) was not changed: version %d is identical.", s.Name, s.ID, s.Version)
	}
	if !t.lib.Persistent() {
		text += "\n" + inMemory
	}
	return &sdk.Result{Title: "Save the snippet " + s.Name, Output: text,
		Data: sdk.Data(saveData{describe(s), outcome, t.lib.Persistent()})}, nil
}

const inMemory = "The plugin has no state directory, so snippets are kept in memory and lost when the plugin exits."

func (in *saveArgs) change() (library.Change, error) {
	name, err := checkName(in.Name)
	if err != nil {
		return library.Change{}, err
	}
	c := library.Change{Name: name, Code: in.Code}
	switch {
	case in.Code == "":
		return c, sdk.Errorf(tool.InvalidArguments, "The code is empty. Pass the code as a heredoc or in the parameter code.")
	case len(in.Code) > maxCode:
		return c, sdk.Errorf(tool.InvalidArguments, "The code has %d bytes, and the limit is %d. Save only the reusable part, or write a file.", len(in.Code), maxCode)
	}
	if in.Description != nil {
		if n := len([]rune(*in.Description)); n > maxDescription {
			return c, sdk.Errorf(tool.InvalidArguments, "The description has %d characters, and the limit is %d. Shorten the description.", n, maxDescription)
		}
		c.Description = in.Description
	}
	if in.Language != nil {
		language, err := checkWord("language", *in.Language)
		if err != nil {
			return c, err
		}
		c.Language = &language
	}
	c.Tags, err = checkTags(in.Tags)
	return c, err
}
