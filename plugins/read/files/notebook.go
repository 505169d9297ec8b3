package files

import (
	"errors"
	"path/filepath"
	"strings"

	"toolhost.dev/plugins/read/notebook"
	"toolhost.dev/sdk/workspace/text"
)

// isNotebook reports whether the result shows the cells of a notebook instead of the JSON. An explicit encoding
// requests the JSON.
func (r *request) isNotebook() bool {
	return r.in.Encoding == "auto" && strings.EqualFold(filepath.Ext(r.path.String()), ".ipynb")
}

// toCells replaces the JSON of a notebook by a text with its cells. The result "complete" is false if the text omits a
// part of the notebook. If the file is not a notebook, toCells changes nothing.
func (d *decoded) toCells() (complete bool) {
	shown, cells, complete, err := notebook.Format(d.content)
	switch {
	case errors.Is(err, notebook.ErrFormat):
		d.note = "the JSON of the file is shown, because " + err.Error()
		return true
	case err != nil:
		d.note = "the file is shown as text, because it is not the JSON of a notebook: " + err.Error()
		return true
	}
	d.content, d.cells, d.ending = []byte(shown), &cells, text.LF
	d.note = "these are the cells of a notebook: change them with notebook_edit, or read the JSON with encoding=utf8"
	return complete
}
