package editor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"

	"toolhost.dev/plugins/edit/notebook"
	"toolhost.dev/plugins/edit/validate"
)

// notebookArgs contains the arguments of notebook_edit. If a new cell has no type, it becomes a code cell.
type notebookArgs struct {
	NotebookPath string  `json:"notebook_path" path:"write"`
	NewSource    *string `json:"new_source,omitempty"`
	CellID       string  `json:"cell_id,omitempty" jsonschema:"insert adds after it, or first."`
	CellNumber   *int    `json:"cell_number,omitempty" min:"0" jsonschema:"In place of cell_id, from 0; insert adds at it."`
	CellType     string  `json:"cell_type,omitempty" enum:"code,markdown,raw"`
	EditMode     string  `json:"edit_mode,omitempty" enum:"replace,insert,delete" default:"replace"`
}

// notebookData is the structured result of the tool notebook_edit.
type notebookData struct {
	Path       string `json:"path"`
	EditMode   string `json:"edit_mode"`
	CellNumber int    `json:"cell_number"`
	CellID     string `json:"cell_id,omitempty"`
	CellType   string `json:"cell_type"`
	// Cells is the number of cells after the change.
	Cells          int  `json:"cells"`
	OutputsCleared bool `json:"outputs_cleared"`
	// Diff is the change of the cell's source.
	Diff string `json:"diff"`
}

func (e *editor) notebookTool() sdk.Tool {
	return sdk.NewTool(sdk.Definition{
		Name:           "notebook_edit",
		Role:           tool.RoleNotebook,
		Description:    "Change a cell of a Jupyter notebook, which must have been read. Outputs of a changed cell are removed.",
		Keywords:       []string{"jupyter", "ipynb", "cell", "notebook"},
		Category:       tool.CategoryBuiltin,
		Traits:         sdk.Traits{Dangerous: true},
		StdinParameter: "new_source",
		Examples: []string{
			`notebook_edit plot.ipynb --cell_number 2 --new_source 'print(1)'`,
			`notebook_edit plot.ipynb --edit_mode insert --cell_type markdown --new_source '# Title'`,
			`notebook_edit plot.ipynb --edit_mode delete --cell_id 4f1c2a90`,
		},
	}, e.editNotebook)
}

func (e *editor) editNotebook(ctx context.Context, call *sdk.Call, in notebookArgs) (*sdk.Result, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	c, unlock, err := e.openWith(ctx, call, in.NotebookPath, func(ws *workspace.Workspace) (*validate.Target, error) {
		return validate.Notebook(ctx, ws, call, call.Cwd, in.NotebookPath)
	})
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := c.target.Read(); err != nil {
		return nil, err
	}
	edit := notebook.Edit{Mode: in.EditMode, ID: in.CellID, Number: in.CellNumber, Type: in.CellType}
	if in.NewSource != nil {
		edit.Source = *in.NewSource
	}
	done, err := notebook.Apply(c.oldText(), edit)
	if err != nil {
		return nil, notebookRefusal(err)
	}
	if string(done.Content) == string(c.oldText()) {
		return nil, validate.Refuse(validate.NothingToChange, tool.InvalidArguments, "There is nothing to change: cell %d has this source and no outputs.", done.Number)
	}
	c.after = done.Content
	c.diff = sync.OnceValue(func() string { // compare only the source, because the JSON of the notebook contains outputs
		name := fmt.Sprintf("%s, cell %d", strings.TrimPrefix(c.name, "/"), done.Number)
		return diff("a/"+name, "b/"+name, []byte(done.Before), []byte(done.After))
	})
	if err := e.save(ctx, call, c); err != nil {
		return nil, err
	}
	data := notebookData{
		c.target.Path.String(), in.EditMode, done.Number, done.ID, done.Type, done.Cells, done.Cleared, c.diff(),
	}
	return &sdk.Result{Output: notebookText(c, in.EditMode, done), Title: "Edit " + c.name, Data: sdk.Data(data),
		Effects: []tool.Effect{c.effect}}, nil
}

// check reports all problems of the arguments that can be found without the notebook.
func (in *notebookArgs) check() error {
	var problems []string
	if in.NewSource == nil && in.EditMode != notebook.Delete {
		problems = append(problems, "new_source is missing")
	}
	if in.CellID != "" && in.CellNumber != nil {
		problems = append(problems, "cell_id and cell_number are both given; give only one of them")
	}
	if in.CellID == "" && in.CellNumber == nil && in.EditMode != notebook.Insert {
		problems = append(problems, "neither cell_id nor cell_number is given; read shows both")
	}
	if len(problems) > 0 {
		return tool.Errorf(tool.InvalidArguments, "notebook_edit: %s.", strings.Join(problems, "; "))
	}
	return nil
}

func notebookRefusal(err error) error {
	var e *notebook.Error
	if !errors.As(err, &e) {
		return err
	}
	if e.Missing {
		return validate.Refuse(validate.NotFound, tool.NotFound, "%s", e.Error())
	}
	return validate.Refuse(validate.WrongType, tool.InvalidArguments, "%s", e.Error())
}

func notebookText(c *change, mode string, done *notebook.Result) string {
	verb := map[string]string{notebook.Replace: "Replaced", notebook.Insert: "Inserted",
		notebook.Delete: "Deleted"}[mode]
	out := fmt.Sprintf("%s cell %d (%s", verb, done.Number, done.Type)
	if done.ID != "" {
		out += fmt.Sprintf(", id %q", done.ID)
	}
	out += fmt.Sprintf(") of %s, which has %s now.", c.name, plural(done.Cells, "cell"))
	if done.Cleared {
		out += " Its outputs were removed."
	}
	return out + c.note() + "\n" + shown(c.diff())
}
