package files

import (
	"strings"
	"testing"

	"toolhost.dev/sdk/tooltest"
)

const smallNotebook = `{"cells":[{"cell_type":"code","id":"a","execution_count":1,"metadata":{},"source":["x = 1\n","x"],"outputs":[{"output_type":"execute_result","data":{"text/plain":["1"]}}]}],"metadata":{},"nbformat":4,"nbformat_minor":5}`

// TestReadNotebook checks that the tool shows the cells of a notebook, unless the call requests an encoding.
func TestReadNotebook(t *testing.T) {
	h := newHost(t, "nb.ipynb="+smallNotebook, "large.IPYNB="+strings.Replace(smallNotebook, `"1"`, `"`+strings.Repeat("x", maxInMemory)+`"`, 1), "old.ipynb={\"worksheets\":[]}", "bad.ipynb=text\n", "empty.ipynb=")
	for _, c := range []struct {
		args   args
		output string
		cells  int
	}{
		{args{"file_path": "nb.ipynb"}, "=== cell 0: code, id \"a\", run as [1] ===\nx = 1\nx\n--- output: result ---\n1\n\n[note: these are the cells of a notebook: change them with notebook_edit, or read the JSON with encoding=utf8]", 1},
		{args{"file_path": "nb.ipynb", "offset": 2, "limit": 1, "show_line_numbers": true}, "2| x = 1\n\n[note: these", 1},
		{args{"file_path": "nb.ipynb", "encoding": "utf8"}, smallNotebook, -1},
		{args{"file_path": "large.IPYNB"}, " more]\n\n[note: ", 1},
		{args{"file_path": "old.ipynb"}, "{\"worksheets\":[]}\n\n[note: the JSON of the file is shown, because it is not a notebook of version 4]", -1},
		{args{"file_path": "bad.ipynb"}, "text\n\n[note: the file is shown as text, because it is not the JSON of a notebook: ", -1},
		{args{"file_path": "empty.ipynb"}, "[note: the file is empty]", -1},
	} {
		output, data, res := tooltest.Do[readData](h, "read", c.args)
		cells := -1
		if data.Cells != nil {
			cells = *data.Cells
		}
		if !strings.Contains(output, c.output) || cells != c.cells {
			t.Errorf("%v: %d cells, %q", c.args, cells, output[:min(len(output), 1000)])
		}
		if whole := c.args["file_path"] == "large.IPYNB" || c.args["limit"] != nil; res.Effects[0].File.Partial != whole {
			t.Errorf("%v: partial is %v", c.args, res.Effects[0].File.Partial)
		}
	}
}
