package editor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/plugins/edit/strategy"
	"toolhost.dev/plugins/edit/validate"
)

type editArgs struct {
	FilePath   string      `json:"file_path,omitempty" path:"write" jsonschema:"The file to change. Optional only with diff."`
	OldString  *string     `json:"old_string,omitempty" jsonschema:"The text to replace, exactly as in the file and unique. If it is empty, the file is created."`
	NewString  *string     `json:"new_string,omitempty" jsonschema:"The new text, taken literally."`
	ReplaceAll bool        `json:"replace_all,omitempty" default:"false"`
	Edits      []editInput `json:"edits,omitempty" jsonschema:"Several edits, in place of old_string and new_string. Each applies to the result of the previous one. If one fails, none is made."`
	Diff       string      `json:"diff,omitempty" path:"diff" jsonschema:"A unified diff of one or several files, or a patch that begins with *** Begin Patch, in place of old_string and new_string."`
}

type editInput struct {
	OldString  string `json:"old_string"`
	NewString  string `json:"new_string"`
	ReplaceAll bool   `json:"replace_all,omitempty" default:"false"`
}

func (e *editor) editTool() sdk.Tool {
	return sdk.NewTool(sdk.Definition{
		Name: "edit",
		Role: tool.RoleEdit,
		Description: "Change a file by replacing one text with another, several at once (edits), or by a unified diff. Read the file first. old_string must match " +
			"one place, unless replace_all is set. The rest of the file is unchanged. Copy old_string exactly: if only blanks, indentation or quotes differ, " +
			"a single similar place is still found, and the result reports this.",
		Keywords: []string{"change", "modify", "replace", "substitute", "update", "alter", "fix", "rename",
			"insert", "patch", "rewrite"},
		Category:       tool.CategoryBuiltin,
		Traits:         sdk.Traits{Dangerous: true},
		StdinParameter: "diff",
		Examples: []string{
			`edit main.go --old_string 'Println("helo")' --new_string 'Println("hello")'`,
			"edit main.go --old_string <<'OLD' --new_string <<'NEW'\nfunc a() {\nOLD\nfunc b() {\nNEW",
			`edit notes.txt --old_string colour --new_string color --replace_all`,
			`edit notes.txt --edits '[{"old_string":"one","new_string":"1"},{"old_string":"two","new_string":"2"}]'`,
			"edit --diff <<'EOF'\n--- a/notes.txt\n+++ b/notes.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\nEOF",
		},
	}, e.edit)
}

// edit is the handler of the tool edit. The arguments have one of three forms.
func (e *editor) edit(ctx context.Context, call *sdk.Call, in editArgs) (*sdk.Result, error) {
	pair := in.OldString != nil || in.NewString != nil
	switch {
	case in.Diff != "" && (pair || len(in.Edits) > 0), pair && len(in.Edits) > 0:
		return nil, tool.Errorf(tool.InvalidArguments, "More than one kind of change is given. Give only one of these: old_string with new_string, edits, or diff.")
	case in.Diff != "":
		return e.applyDiff(ctx, call, in.FilePath, in.Diff)
	case len(in.Edits) > 0 && in.FilePath != "":
		return e.applyEdits(ctx, call, in.FilePath, in.Edits)
	case in.FilePath != "" && in.OldString != nil && in.NewString != nil:
		return e.applyEdits(ctx, call, in.FilePath, []editInput{{*in.OldString, *in.NewString, in.ReplaceAll}})
	}
	var missing []string
	for _, p := range []struct {
		name  string
		given bool
	}{{"file_path", in.FilePath != ""}, {"old_string", in.OldString != nil || len(in.Edits) > 0},
		{"new_string", in.NewString != nil || len(in.Edits) > 0}} {
		if !p.given {
			missing = append(missing, p.name)
		}
	}
	return nil, tool.Errorf(tool.InvalidArguments, "edit: missing %s. Give file_path with old_string and new_string, file_path with edits, or diff.", strings.Join(missing, ", "))
}

// applyEdits applies edits to one file and saves it.
func (e *editor) applyEdits(ctx context.Context, call *sdk.Call, name string, edits []editInput) (*sdk.Result, error) {
	for i, in := range edits {
		if in.OldString == in.NewString {
			return nil, numbered(i, len(edits), validate.Refuse(validate.NothingToChange, tool.InvalidArguments, "There is nothing to change: old_string and new_string are equal. Set new_string to the new text."))
		}
	}
	var texts []string
	for _, in := range edits {
		texts = append(texts, in.OldString, in.NewString)
	}
	b, err := newBudget(texts...)
	if err != nil {
		return nil, err
	}
	c, unlock, err := e.open(ctx, call, name, edits[0].OldString == "", false)
	if err != nil {
		return nil, err
	}
	defer unlock()
	f := &edited{change: *c}
	f.after = f.oldText()
	defer b.release()
	err = e.make(f, edits, b)
	if unread := f.target.Read(); unread != nil { // report an unread file instead of a failed edit
		return nil, unread
	}
	if err != nil {
		return nil, err
	}
	f.told = func() { f.tell() }
	if err := e.save(ctx, call, &f.change); err != nil {
		return nil, err
	}
	res := result([]*edited{f})
	f.release()
	return res, nil
}

// make applies the edits of one file in order.
func (e *editor) make(f *edited, edits []editInput, b *budget) error {
	if err := b.open(len(f.after)); err != nil {
		return err
	}
	for i, in := range edits {
		if i > 0 {
			if err := b.next(len(f.after)); err != nil {
				return numbered(i, len(edits), err)
			}
		}
		if in.OldString == "" && len(f.after) == 0 {
			f.create(in.NewString)
			continue
		}
		if in.OldString == "" {
			return numbered(i, len(edits), validate.Refuse(validate.FileExists, tool.Conflict, "old_string is empty, but the file has text after the earlier edits. Set old_string to the text to replace."))
		}
		c, err := strategy.Apply(f.after, strategy.Edit{Old: in.OldString, New: in.NewString, File: f.name,
			All: in.ReplaceAll}, e.strategies(f.target.Path.String()))
		if err != nil {
			return numbered(i, len(edits), refusal(err))
		}
		f.add(c, len(in.OldString), len(in.NewString))
	}
	return f.changed()
}

// numbered adds the number of the failed edit to an error if the call has several edits.
func numbered(i, of int, err error) error {
	if of == 1 {
		return err
	}
	e := tool.AsError(err)
	return tool.Errorf(e.Kind, "Nothing was changed, because edit %d of %d failed: %s", i+1, of, e.Message).WithCode(e.Code).WithCause(err)
}

// refusal converts an error of package strategy to an error with the code of the validation layer.
func refusal(err error) error {
	var e *strategy.Error
	if !errors.As(err, &e) {
		return err
	}
	layer, kind := validate.NotFound, tool.InvalidArguments
	switch e.Kind {
	case strategy.NotFound:
		kind = tool.NotFound
	case strategy.Ambiguous:
		layer = validate.NotUnique
	case strategy.NoChange:
		layer = validate.NothingToChange
	case strategy.Incomplete:
		layer = validate.Incomplete
	case strategy.Refused:
	}
	return validate.Refuse(layer, kind, "%s", e.Message)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
