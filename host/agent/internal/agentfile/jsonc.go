package agentfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// byteOrderMark is the UTF-8 byte order mark that some editors write at the start of a file.
var byteOrderMark = []byte("\xef\xbb\xbf")

// jsonDocument is a document in JSON with comments and trailing commas.
type jsonDocument struct {
	name string
	root hujson.Value
	mark bool
	// step is the indentation of one level, and eol is the line ending. An empty step means that the whole document is
	// on one line.
	step, eol string
}

func parseJSON(name string, content []byte) (*jsonDocument, error) {
	d := &jsonDocument{name: name, step: "  ", eol: newline(content)}
	content, d.mark = bytes.CutPrefix(content, byteOrderMark)
	text := content
	if len(bytes.TrimSpace(content)) == 0 {
		text = []byte("{}" + d.eol)
	}
	root, err := hujson.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s is not valid JSON: %w; correct the file", name, err)
	}
	object, ok := root.Value.(*hujson.Object)
	if !ok {
		return nil, fmt.Errorf("%s does not contain an object; correct the file", name)
	}
	if len(object.Members) > 0 {
		d.step = lastLine(object.Members[0].Name.BeforeExtra)
	}
	d.root = root
	return d, nil
}

// lastLine returns the text after the last line feed. It returns "" if there is no line feed.
func lastLine(extra hujson.Extra) string {
	i := bytes.LastIndexByte(extra, '\n')
	if i < 0 {
		return ""
	}
	return string(extra[i+1:])
}

// member returns the index of the last member with a name, or -1 if no member has the name. If a name occurs several
// times, the last member applies.
func member(o *hujson.Object, name string) int {
	for i, m := range slices.Backward(o.Members) {
		if l, ok := m.Name.Value.(hujson.Literal); ok && l.String() == name {
			return i
		}
	}
	return -1
}

// find returns the value at a path. It returns nil if the value does not exist.
func (d *jsonDocument) find(path []string) *hujson.Value {
	at := &d.root
	for _, name := range path {
		o, ok := at.Value.(*hujson.Object)
		if !ok {
			return nil
		}
		i := member(o, name)
		if i < 0 {
			return nil
		}
		at = &o.Members[i].Value
	}
	return at
}

func (d *jsonDocument) Get(path ...string) (any, bool) {
	at := d.find(path)
	if at == nil {
		return nil, false
	}
	v := at.Clone()
	v.Standardize()
	var out any
	err := json.Unmarshal(v.Pack(), &out)
	return out, err == nil
}

// object returns the object at a path, or nil.
func (d *jsonDocument) object(path []string) *hujson.Object {
	at := d.find(path)
	if at == nil {
		return nil
	}
	o, _ := at.Value.(*hujson.Object)
	return o
}

func (d *jsonDocument) Line(path ...string) int {
	if len(path) == 0 {
		return 0
	}
	last := len(path) - 1
	o := d.object(path[:last])
	if o == nil {
		return 0
	}
	i := member(o, path[last])
	if i < 0 {
		return 0
	}
	return bytes.Count(d.root.Pack()[:o.Members[i].Name.StartOffset], []byte("\n")) + 1
}

func (d *jsonDocument) Repeated(path ...string) (out []string) {
	o := d.object(path)
	if o == nil {
		return nil
	}
	seen := make(map[string]int)
	for _, m := range o.Members {
		if l, ok := m.Name.Value.(hujson.Literal); ok {
			if seen[l.String()]++; seen[l.String()] == 2 {
				out = append(out, l.String())
			}
		}
	}
	return out
}

func (d *jsonDocument) Set(value any, path ...string) error {
	if was, ok := d.Get(path...); ok && Same(was, value) {
		return nil
	}
	at := &d.root
	for depth, name := range path {
		o, ok := at.Value.(*hujson.Object)
		if !ok {
			return notObject(d.name, path[:depth])
		}
		i := member(o, name)
		if i < 0 {
			i = len(o.Members)
			d.insert(o, depth, name)
		}
		at = &o.Members[i].Value
	}
	parsed, err := d.value(value, len(path))
	at.Value = parsed
	return err
}

// value returns the JSON syntax of a value at a nesting depth.
func (d *jsonDocument) value(value any, depth int) (hujson.ValueTrimmed, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if d.step != "" {
		e.SetIndent(strings.Repeat(d.step, depth), d.step)
	}
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	v, err := hujson.Parse([]byte(strings.ReplaceAll(strings.TrimSpace(text.String()), "\n", d.eol)))
	return v.Value, err
}

// place returns the white space and the comments around a new last element. The result "before" precedes the new
// element. The result "rest" is the text between the new element and the closing bracket. A comment that follows the
// previous last element keeps its position after that element.
func (d *jsonDocument) place(depth int, empty bool, after hujson.Extra) (before, rest hujson.Extra) {
	if d.step == "" {
		if empty {
			return after, nil
		}
		return hujson.Extra(" "), after
	}
	comment := bytes.TrimRight(after, " \t\r\n")
	before = append(slices.Clone(comment), d.eol+strings.Repeat(d.step, depth+1)...)
	return before, hujson.Extra(d.eol + strings.Repeat(d.step, depth))
}

// insert adds a member to an object. The value of the member is an empty object.
func (d *jsonDocument) insert(o *hujson.Object, depth int, name string) {
	before, rest := d.place(depth, len(o.Members) == 0, o.AfterExtra)
	m := hujson.ObjectMember{
		Name:  hujson.Value{BeforeExtra: before, Value: hujson.String(name)},
		Value: hujson.Value{BeforeExtra: hujson.Extra(" "), Value: &hujson.Object{}},
	}
	if n := len(o.Members); n > 0 && o.Members[n-1].Value.AfterExtra != nil { // keep the style with a trailing comma
		m.Value.AfterExtra = hujson.Extra{}
	}
	o.Members, o.AfterExtra = append(o.Members, m), rest
}

func (d *jsonDocument) Add(item string, path ...string) error {
	at := d.find(path)
	if at == nil {
		return d.Set([]string{item}, path...)
	}
	list, ok := at.Value.(*hujson.Array)
	if !ok {
		return fmt.Errorf("%s: %s is not a list; change it by hand", d.name, shown(path))
	}
	if index(list, item) >= 0 {
		return nil
	}
	n := len(list.Elements)
	e := hujson.Value{Value: hujson.String(item)}
	if n > 0 && !bytes.ContainsRune(list.Elements[n-1].BeforeExtra, '\n') { // keep the list on one line
		e.BeforeExtra = hujson.Extra(" ")
	} else {
		e.BeforeExtra, list.AfterExtra = d.place(len(path), n == 0, list.AfterExtra)
	}
	if n > 0 && list.Elements[n-1].AfterExtra != nil {
		e.AfterExtra = hujson.Extra{}
	}
	list.Elements = append(list.Elements, e)
	return nil
}

func index(list *hujson.Array, item string) int {
	return slices.IndexFunc(list.Elements, func(v hujson.Value) bool {
		l, ok := v.Value.(hujson.Literal)
		return ok && l.Kind() == '"' && l.String() == item
	})
}

func (d *jsonDocument) Delete(path ...string) error {
	parent := d.find(path[:len(path)-1])
	if parent == nil {
		return nil
	}
	o, ok := parent.Value.(*hujson.Object)
	if !ok {
		return notObject(d.name, path[:len(path)-1])
	}
	i := member(o, path[len(path)-1])
	if i < 0 {
		return nil
	}
	next := &o.AfterExtra
	if i+1 < len(o.Members) {
		next = &o.Members[i+1].Name.BeforeExtra
	}
	keepComment(o.Members[i].Name.BeforeExtra, next)
	trailing := i == len(o.Members)-1 && o.Members[i].Value.AfterExtra != nil
	if o.Members = slices.Delete(o.Members, i, i+1); trailing && i > 0 && o.Members[i-1].Value.AfterExtra == nil {
		o.Members[i-1].Value.AfterExtra = hujson.Extra{}
	}
	if len(o.Members) == 0 {
		o.AfterExtra = onlyComment(o.AfterExtra)
	}
	return nil
}

func (d *jsonDocument) Remove(item string, path ...string) error {
	at := d.find(path)
	if at == nil {
		return nil
	}
	list, ok := at.Value.(*hujson.Array)
	if !ok {
		return nil
	}
	i := index(list, item)
	if i < 0 {
		return nil
	}
	next := &list.AfterExtra
	if i+1 < len(list.Elements) {
		next = &list.Elements[i+1].BeforeExtra
	}
	keepComment(list.Elements[i].BeforeExtra, next)
	trailing := i == len(list.Elements)-1 && list.Elements[i].AfterExtra != nil
	if list.Elements = slices.Delete(list.Elements, i, i+1); trailing && i > 0 && list.Elements[i-1].AfterExtra == nil {
		list.Elements[i-1].AfterExtra = hujson.Extra{}
	}
	if len(list.Elements) == 0 {
		list.AfterExtra = onlyComment(list.AfterExtra)
	}
	return nil
}

// keepComment moves the comment before a removed element to the start of next.
func keepComment(removed hujson.Extra, next *hujson.Extra) {
	if comment := bytes.TrimRight(removed, " \t\r\n"); len(comment) > 0 {
		*next = append(slices.Clone(comment), *next...)
	}
}

// onlyComment returns nil if the text contains only white space. Otherwise it returns the text.
func onlyComment(extra hujson.Extra) hujson.Extra {
	if len(bytes.TrimSpace(extra)) == 0 {
		return nil
	}
	return extra
}

func (d *jsonDocument) Bytes() []byte {
	out := d.root.Pack()
	if d.mark {
		out = append(slices.Clone(byteOrderMark), out...)
	}
	return out
}
