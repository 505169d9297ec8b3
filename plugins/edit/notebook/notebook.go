// Package notebook changes cells of Jupyter notebooks. [Apply] changes the bytes of one cell and keeps all other bytes.
// Therefore the file keeps its indentation and the order of its members.
package notebook

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The values of [Edit.Mode].
const (
	Replace = "replace"
	Insert  = "insert"
	Delete  = "delete"
)

// code is the cell type that can have outputs.
const code = "code"

// Edit is a change of one cell.
type Edit struct {
	Mode string
	// ID and Number select a cell. At most one of the two fields is set. An ID of the form "cell-N" selects the cell
	// with the number N, unless a cell has this ID. The mode Insert adds a cell after the cell with the ID, or at the
	// position Number. If neither field is set, Insert adds the cell at the beginning.
	ID     string
	Number *int
	// Source is the new source. The mode Delete ignores Source.
	Source string
	// Type is the new type. If Type is empty, an existing cell keeps its type, and a new cell gets the type "code".
	Type string
}

// Result is a changed notebook.
type Result struct {
	Content []byte
	// Number, ID and Type describe the changed cell. Cells is the number of cells after the change.
	Number   int
	ID, Type string
	Cells    int
	// Before is the old source of the cell, and After is the new source.
	Before, After string
	// Cleared reports that outputs were removed.
	Cleared bool
}

// Error is the reason why a notebook cannot be changed. Missing means that the notebook does not contain the selected
// cell.
type Error struct {
	Missing bool
	text    string
}

func (e *Error) Error() string { return e.text }

func refuse(format string, a ...any) error { return &Error{text: fmt.Sprintf(format, a...)} }

// file is a parsed notebook.
type file struct {
	content []byte
	cells   []span
	array   span // the array of cells, without the closing bracket
	ids     bool // true if cells have ids
	style   style
}

// parse finds the cells of a notebook.
func parse(content []byte) (*file, error) {
	const remedy = "To change such a file, use a program for notebooks in the shell"
	if err := json.Unmarshal(content, new(json.RawMessage)); err != nil {
		return nil, refuse("The file is not valid JSON: %v. %s.", err, remedy)
	}
	start := skipBlanks(content, 0)
	if content[start] != '{' {
		return nil, refuse("The file is not a notebook, because its JSON is not an object. %s.", remedy)
	}
	top, err := members(content, start)
	if err != nil {
		return nil, refuse("The file is not a notebook: %v. %s.", err, remedy)
	}
	f := &file{content: content}
	var format, minor int
	for _, m := range top {
		raw := content[m.value.start:m.value.end]
		switch m.key {
		case "nbformat":
			_ = json.Unmarshal(raw, &format) // ignore the error: a value that is not a number leaves 0, which is not supported
		case "nbformat_minor":
			_ = json.Unmarshal(raw, &minor)
		case "cells":
			if raw[0] == '[' {
				f.cells, f.array.end = elements(content, m.value.start)
				f.array.start = m.value.start
			}
		}
	}
	if format != 4 || f.array.end == 0 {
		return nil, refuse("The file is not a notebook of version 4. Convert it first: jupyter nbconvert --to notebook --inplace FILE")
	}
	for i, c := range f.cells {
		if content[c.start] != '{' {
			return nil, refuse("Cell %d of the notebook is not an object. %s.", i, remedy)
		}
	}
	f.ids, f.style = minor >= 5, styleOf(content, top)
	return f, nil
}

// cell is a cell that can be changed. The values of its members are JSON texts.
type cell struct {
	names  []string
	values map[string]json.RawMessage
}

func (f *file) cell(i int) (*cell, error) {
	all, err := members(f.content, f.cells[i].start)
	if err != nil {
		return nil, refuse("Cell %d of the notebook cannot be changed: %v.", i, err)
	}
	c := &cell{values: make(map[string]json.RawMessage, len(all))}
	for _, m := range all {
		c.names = append(c.names, m.key)
		c.values[m.key] = f.content[m.value.start:m.value.end]
	}
	return c, nil
}

func (c *cell) text(name string) (s string) {
	_ = json.Unmarshal(c.values[name], &s) // ignore the error: a value that is not a string counts as empty
	return s
}

// source returns the source of the cell. The JSON contains the source as a string or as an array of lines.
func (c *cell) source() string {
	var lines []string
	if json.Unmarshal(c.values["source"], &lines) == nil {
		return strings.Join(lines, "")
	}
	return c.text("source")
}

// set sets a member. If the existing members are in alphabetical order, a new member keeps this order. Otherwise
// a new member is added at the end.
func (c *cell) set(name string, value json.RawMessage) {
	if _, known := c.values[name]; !known {
		sorted := slices.IsSorted(c.names)
		if c.names = append(c.names, name); sorted {
			slices.Sort(c.names)
		}
	}
	c.values[name] = value
}

func (c *cell) remove(name string) {
	delete(c.values, name)
	c.names = slices.DeleteFunc(c.names, func(n string) bool { return n == name })
}

// Apply makes the change in the text of a notebook. It does not modify the slice content. Every error is an [*Error].
func Apply(content []byte, e Edit) (*Result, error) {
	f, err := parse(content)
	if err != nil {
		return nil, err
	}
	at, err := f.find(e)
	if err != nil {
		return nil, err
	}
	switch e.Mode {
	case Insert:
		return f.insert(at, e)
	case Delete:
		return f.remove(at)
	}
	return f.replace(at, e)
}

var numbered = regexp.MustCompile(`^cell-(\d{1,9})$`)

// find returns the number of the cell that an edit selects. For an insertion, it returns the number of the new cell.
func (f *file) find(e Edit) (int, error) {
	end := len(f.cells)
	switch {
	case e.ID != "":
		found, err := f.withID(e.ID)
		if err == nil && e.Mode == Insert {
			found++
		}
		return found, err
	case e.Number != nil:
		if e.Mode == Insert {
			end++
		}
	case e.Mode == Insert:
		return 0, nil
	default:
		return 0, refuse("Neither cell_id nor cell_number is given. Give one of them; read shows both.")
	}
	at := *e.Number
	if at < 0 || at >= end {
		return 0, &Error{true, fmt.Sprintf("The notebook has no cell %d. It has %d cells, counted from 0; read shows them.", at, len(f.cells))}
	}
	return at, nil
}

func (f *file) withID(id string) (int, error) {
	found := -1
	for i := range f.cells {
		c, err := f.cell(i)
		if err != nil {
			return 0, err
		}
		if c.text("id") != id {
			continue
		}
		if found >= 0 {
			return 0, refuse("The cells %d and %d have the id %q. Give cell_number in place of cell_id.", found, i, id)
		}
		found = i
	}
	if found >= 0 {
		return found, nil
	}
	if m := numbered.FindStringSubmatch(id); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil && n < len(f.cells) {
			return n, nil
		}
	}
	return 0, &Error{true, fmt.Sprintf("The notebook has no cell with the id %q. read shows the ids.", id)}
}

func (f *file) replace(at int, e Edit) (*Result, error) {
	c, err := f.cell(at)
	if err != nil {
		return nil, err
	}
	res := &Result{Number: at, ID: c.text("id"), Type: c.text("cell_type"), Cells: len(f.cells), Before: c.source(),
		After: e.Source}
	style := f.style.cellStyle(f.content, f.cells[at].start)
	if raw := c.values["source"]; len(raw) > 0 && raw[0] == '"' {
		c.set("source", encode(e.Source))
	} else {
		c.set("source", style.source(e.Source))
	}
	if e.Type != "" && e.Type != res.Type {
		res.Type = e.Type
		c.set("cell_type", encode(e.Type))
	}
	outputs := bytes.TrimSpace(c.values["outputs"])
	if len(outputs) > 0 {
		list, _ := elements(outputs, 0)
		res.Cleared = outputs[0] == '[' && len(list) > 0
	}
	if res.Type == code {
		c.remove("attachments")
		c.set("execution_count", json.RawMessage("null"))
		if len(outputs) == 0 || res.Cleared {
			c.set("outputs", json.RawMessage("[]"))
		}
	} else {
		c.remove("execution_count")
		c.remove("outputs")
	}
	res.Content = slices.Concat(f.content[:f.cells[at].start], style.cell(c), f.content[f.cells[at].end:])
	return res, nil
}

func (f *file) insert(at int, e Edit) (*Result, error) {
	res := &Result{Number: at, Type: e.Type, Cells: len(f.cells) + 1, After: e.Source}
	if res.Type == "" {
		res.Type = code
	}
	style := f.style
	if len(f.cells) > 0 {
		style = style.cellStyle(f.content, f.cells[min(at, len(f.cells)-1)].start)
	}
	c := &cell{values: make(map[string]json.RawMessage)}
	c.set("cell_type", encode(res.Type))
	c.set("metadata", json.RawMessage("{}"))
	c.set("source", style.source(e.Source))
	if res.Type == code {
		c.set("execution_count", json.RawMessage("null"))
		c.set("outputs", json.RawMessage("[]"))
	}
	if f.ids {
		res.ID = f.newID()
		c.set("id", encode(res.ID))
	}
	text := style.cell(c)
	switch n := len(f.cells); {
	case n == 0:
		lead, tail := style.frame()
		res.Content = slices.Concat(f.content[:f.array.start+1], lead, text, tail, f.content[f.array.end:])
	case at < n:
		i := f.cells[at].start
		res.Content = slices.Concat(f.content[:i], text, f.separator(), f.content[i:])
	default:
		i := f.cells[n-1].end
		res.Content = slices.Concat(f.content[:i], f.separator(), text, f.content[i:])
	}
	return res, nil
}

// separator returns the text between two cells.
func (f *file) separator() []byte {
	if len(f.cells) > 1 {
		return f.content[f.cells[0].end:f.cells[1].start]
	}
	lead := f.content[f.array.start+1 : f.cells[0].start]
	if bytes.IndexByte(lead, '\n') < 0 {
		return []byte(f.style.comma)
	}
	return slices.Concat([]byte{','}, lead)
}

// newID returns an id that no cell has yet.
func (f *file) newID() string {
	for {
		var b [4]byte
		_, _ = rand.Read(b[:]) // ignore the error: crypto/rand never fails
		id := hex.EncodeToString(b[:])
		if !bytes.Contains(f.content, []byte(id)) {
			return id
		}
	}
}

func (f *file) remove(at int) (*Result, error) {
	c, err := f.cell(at)
	if err != nil {
		return nil, err
	}
	res := &Result{Number: at, ID: c.text("id"), Type: c.text("cell_type"), Cells: len(f.cells) - 1, Before: c.source()}
	from, to := f.cells[at].start, f.cells[at].end
	switch last := len(f.cells) - 1; {
	case last == 0:
		from, to = f.array.start+1, f.array.end
	case at < last:
		to = f.cells[at+1].start
	default:
		from = f.cells[at-1].end
	}
	res.Content = slices.Concat(f.content[:from], f.content[to:])
	return res, nil
}
