package notebook

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
)

// indented is a notebook in Jupyter's format, with one space of indentation for each level.
const indented = `{
 "cells": [
  {
   "cell_type": "markdown",
   "id": "intro",
   "metadata": {},
   "source": [
    "# Title"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 7,
   "id": "run",
   "metadata": {
    "tags": [ "odd" , "form" ]
   },
   "outputs": [
    {
     "name": "stdout",
     "output_type": "stream",
     "text": ["1\n"]
    }
   ],
   "source": [
    "a = 1\n",
    "print(a)"
   ]
  }
 ],
 "metadata": {},
 "nbformat": 4,
 "nbformat_minor": 5
}
`

// compact is a notebook without ids, in one line.
const compact = `{"nbformat": 4, "nbformat_minor": 4, "cells": [{"source": "x", "cell_type": "code", "outputs": [], "execution_count": null, "metadata": {}}, {"source": ["y"], "cell_type": "raw", "metadata": {}}]}`

func number(n int) *int { return &n }

// TestApply checks the text that each change replaces. All other bytes must stay the same.
func TestApply(t *testing.T) {
	for name, c := range map[string]struct {
		content  string
		edit     Edit
		old, now string
		want     Result
	}{
		"source": {indented, Edit{Mode: Replace, ID: "intro", Source: "# New <b>\n\n\"ä\"\n"}, `    "# Title"`, "    \"# New <b>\\n\",\n    \"\\n\",\n    \"\\\"ä\\\"\\n\"",
			Result{Number: 0, ID: "intro", Type: "markdown", Cells: 2, Before: "# Title", After: "# New <b>\n\n\"ä\"\n"}},
		"by cell-N": {indented, Edit{Mode: Replace, ID: "cell-0", Source: ""}, "[\n    \"# Title\"\n   ]", "[]", Result{ID: "intro", Type: "markdown", Cells: 2, Before: "# Title"}},
		"to code": {indented, Edit{Mode: Replace, Number: number(0), Source: "# Title", Type: "code"},
			"\"markdown\",\n   \"id\": \"intro\",\n   \"metadata\": {},\n", "\"code\",\n   \"execution_count\": null,\n   \"id\": \"intro\",\n   \"metadata\": {},\n   \"outputs\": [],\n",
			Result{ID: "intro", Type: "code", Cells: 2, Before: "# Title", After: "# Title"}},
		"delete the first": {indented, Edit{Mode: Delete, Number: number(0)}, indented[strings.Index(indented, "{\n   \"cell_type\": \"mark"):strings.Index(indented, "{\n   \"cell_type\": \"code\"")], "",
			Result{ID: "intro", Type: "markdown", Cells: 1, Before: "# Title"}},
		"delete the last":    {compact, Edit{Mode: Delete, Number: number(1)}, `, {"source": ["y"], "cell_type": "raw", "metadata": {}}`, "", Result{Number: 1, Type: "raw", Cells: 1, Before: "y"}},
		"a string stays one": {compact, Edit{Mode: Replace, Number: number(0), Source: "a\nb"}, `"x"`, `"a\nb"`, Result{Type: "code", Cells: 2, Before: "x", After: "a\nb"}},
		"a list in one line": {compact, Edit{Mode: Replace, Number: number(1), Source: "a\nb"}, `["y"]`, `["a\n", "b"]`, Result{Number: 1, Type: "raw", Cells: 2, Before: "y", After: "a\nb"}},
		"insert first":       {compact, Edit{Mode: Insert, Source: "z"}, `[{"source": "x"`, `[{"cell_type": "code", "execution_count": null, "metadata": {}, "outputs": [], "source": ["z"]}, {"source": "x"`, Result{Type: "code", Cells: 3, After: "z"}},
		"insert at the end":  {compact, Edit{Mode: Insert, Number: number(2), Type: "markdown"}, `}]}`, `}, {"cell_type": "markdown", "metadata": {}, "source": []}]}`, Result{Number: 2, Type: "markdown", Cells: 3}},
		"insert after":       {compact, Edit{Mode: Insert, ID: "cell-0", Type: "raw", Source: "z"}, ` {"source": ["y"]`, ` {"cell_type": "raw", "metadata": {}, "source": ["z"]}, {"source": ["y"]`, Result{Number: 1, Type: "raw", Cells: 3, After: "z"}},
		"only cell":          {"{\r\n\t\"nbformat\":4,\r\n\t\"cells\": []}", Edit{Mode: Insert, Type: "raw", Source: "z"}, "[]", "[\r\n\t\t{\r\n\t\t\t\"cell_type\":\"raw\",\r\n\t\t\t\"metadata\":{},\r\n\t\t\t\"source\":[\r\n\t\t\t\t\"z\"\r\n\t\t\t]\r\n\t\t}\r\n\t]", Result{Type: "raw", Cells: 1, After: "z"}},
		"none left":          {`{"nbformat":4,"cells":[ {"cell_type":"raw","source":"x"} ]}`, Edit{Mode: Delete, ID: "cell-0"}, ` {"cell_type":"raw","source":"x"} `, "", Result{Type: "raw", Before: "x"}},
	} {
		before := []byte(c.content)
		got, err := Apply(before, c.edit)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if strings.Count(c.content, c.old) != 1 || string(before) != c.content || !json.Valid(got.Content) {
			t.Errorf("%s: the old text occurs %d times", name, strings.Count(c.content, c.old))
		}
		if want := strings.Replace(c.content, c.old, c.now, 1); string(got.Content) != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got.Content, want)
		}
		c.want.Content = got.Content
		if !equal(got, &c.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func equal(a, b *Result) bool {
	x, y := *a, *b
	x.Content, y.Content = nil, nil
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return bytes.Equal(p, q)
}

// TestChangedCode checks that a changed code cell loses its outputs and keeps its metadata. It also checks that a cell
// loses its outputs if its type changes.
func TestChangedCode(t *testing.T) {
	got, err := Apply([]byte(indented), Edit{Mode: Replace, ID: "run", Source: "b"})
	if err != nil || !got.Cleared {
		t.Fatalf("%+v %v", got, err)
	}
	want := strings.NewReplacer("\"execution_count\": 7", "\"execution_count\": null", indented[strings.Index(indented, "[\n    {\n     \"name\""):strings.Index(indented, ",\n   \"source\": [\n    \"a")], "[]", "\"a = 1\\n\",\n    \"print(a)\"", "\"b\"").Replace(indented)
	if string(got.Content) != want {
		t.Errorf("%s", got.Content)
	}
	got, err = Apply([]byte(indented), Edit{Mode: Replace, ID: "run", Source: "b", Type: "markdown"})
	if err != nil || !got.Cleared || bytes.Contains(got.Content, []byte("execution_count")) || bytes.Contains(got.Content, []byte("outputs")) || !bytes.Contains(got.Content, []byte(`[ "odd" , "form" ]`)) {
		t.Errorf("%s %v", got.Content, err)
	}
}

// TestNewID checks that a new cell gets an id only if the notebook has cell ids.
func TestNewID(t *testing.T) {
	got, err := Apply([]byte(indented), Edit{Mode: Insert, ID: "run", Source: "b"})
	if err != nil || got.Number != 2 || !regexp.MustCompile(`^[0-9a-f]{8}$`).MatchString(got.ID) {
		t.Fatalf("%+v %v", got, err)
	}
	cell := "  },\n  {\n   \"cell_type\": \"code\",\n   \"execution_count\": null,\n   \"id\": \"" + got.ID + "\",\n   \"metadata\": {},\n   \"outputs\": [],\n   \"source\": [\n    \"b\"\n   ]\n  }\n ],"
	if want := strings.Replace(indented, "  }\n ],", cell, 1); string(got.Content) != want {
		t.Errorf("%s", got.Content)
	}
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		edit    Edit
		missing bool
		want    string
	}{
		"no JSON":      {"{", Edit{Mode: Insert}, false, "not valid JSON"},
		"no object":    {"[]", Edit{Mode: Insert}, false, "not an object"},
		"version 3":    {`{"nbformat":3,"worksheets":[]}`, Edit{Mode: Insert}, false, "not a notebook of version 4"},
		"no cells":     {`{"nbformat":4,"cells":{}}`, Edit{Mode: Insert}, false, "not a notebook of version 4"},
		"twice":        {`{"nbformat":4,"cells":[],"cells":[]}`, Edit{Mode: Insert}, false, `"cells" occurs twice`},
		"twice inside": {`{"nbformat":4,"cells":[{"source":"","source":""}]}`, Edit{Mode: Replace, Number: number(0)}, false, `"source" occurs twice`},
		"odd cell":     {`{"nbformat":4,"cells":[5]}`, Edit{Mode: Replace, Number: number(0)}, false, "Cell 0 of the notebook is not an object"},
		"same id":      {strings.ReplaceAll(indented, `"run"`, `"intro"`), Edit{Mode: Replace, ID: "intro"}, false, "The cells 0 and 1 have the id"},
		"no such id":   {indented, Edit{Mode: Replace, ID: "x"}, true, `no cell with the id "x"`},
		"cell-2":       {indented, Edit{Mode: Delete, ID: "cell-2"}, true, `no cell with the id "cell-2"`},
		"too large":    {indented, Edit{Mode: Replace, Number: number(2)}, true, "no cell 2. It has 2 cells"},
		"a gap":        {indented, Edit{Mode: Insert, Number: number(3)}, true, "no cell 3"},
		"negative":     {indented, Edit{Mode: Insert, Number: number(-1)}, true, "no cell -1"},
		"which":        {indented, Edit{Mode: Delete}, false, "Neither"},
	} {
		_, err := Apply([]byte(c.content), c.edit)
		var e *Error
		if !errors.As(err, &e) || e.Missing != c.missing || !strings.Contains(e.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzApply checks that no text makes Apply panic. It also checks that the changed notebook is valid JSON with the new
// source, and that all other cells are unchanged.
func FuzzApply(f *testing.F) {
	for _, s := range []string{indented, compact, `{"cells":[],"nbformat":4}`, `{"nbformat":4,"cells":[{},{"a":[1,2.5,{}],"b":true} ]}`} {
		f.Add([]byte(s), 0, Replace, "a\nb")
		f.Add([]byte(s), 1, Insert, "")
		f.Add([]byte(s), 1, Delete, "")
	}
	f.Fuzz(func(t *testing.T, content []byte, at int, mode, source string) {
		if mode != Replace && mode != Insert && mode != Delete {
			return
		}
		got, err := Apply(content, Edit{Mode: mode, Number: &at, Source: source})
		if err != nil {
			return
		}
		type document struct {
			Cells []json.RawMessage `json:"cells"`
		}
		var before, after document
		if json.Unmarshal(content, &before) != nil || json.Unmarshal(got.Content, &after) != nil {
			t.Fatalf("%q becomes %q", content, got.Content)
		}
		old, now := before.Cells, after.Cells
		if mode != Insert {
			old = append(old[:at:at], old[at+1:]...)
		}
		if mode != Delete {
			again, err := parse(got.Content)
			if err != nil {
				t.Fatal(err)
			}
			c, err := again.cell(at)
			if valid := strings.ToValidUTF8(source, "\ufffd"); err != nil || c.source() != valid && valid == source {
				t.Fatalf("the source is %q, want %q", c.source(), source)
			}
			now = append(now[:at:at], now[at+1:]...)
		}
		if len(old) != len(now) || len(after.Cells) != got.Cells {
			t.Fatalf("%d cells, want %d", len(now), len(old))
		}
		for i := range old {
			if !bytes.Equal(old[i], now[i]) {
				t.Fatalf("cell %d: %q becomes %q", i, old[i], now[i])
			}
		}
	})
}
