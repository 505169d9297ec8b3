package agentfile

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// tomlDocument is a document in TOML. Edits change the text directly. They support only the common form, which has a
// header for each table and one key per line. For any other form, they return an error. Each edit parses the document
// again.
type tomlDocument struct {
	name string
	text []byte
	eol  string
}

func parseTOML(name string, content []byte) (*tomlDocument, error) {
	d := &tomlDocument{name: name, text: slices.Clone(content), eol: newline(content)}
	if _, err := d.decode(); err != nil {
		var at *toml.DecodeError
		if errors.As(err, &at) {
			row, column := at.Position()
			return nil, fmt.Errorf("%s:%d:%d: it is not valid TOML: %w; correct the file", name, row, column, err)
		}
		return nil, fmt.Errorf("%s is not valid TOML: %w; correct the file", name, err)
	}
	return d, nil
}

func (d *tomlDocument) decode() (map[string]any, error) {
	out := make(map[string]any)
	return out, toml.Unmarshal(d.text, &out)
}

func (d *tomlDocument) Bytes() []byte { return d.text }

func (d *tomlDocument) Get(path ...string) (any, bool) {
	all, err := d.decode()
	if err != nil {
		return nil, false
	}
	var at any = all
	for _, name := range path {
		m, ok := at.(map[string]any)
		if !ok {
			return nil, false
		}
		if at, ok = m[name]; !ok {
			return nil, false
		}
	}
	v, err := normal(at)
	return v, err == nil
}

func (d *tomlDocument) Line(path ...string) int {
	for _, s := range d.spans() {
		if len(s.path) >= len(path) && slices.Equal(s.path[:len(path)], path) {
			return bytes.Count(d.text[:s.start], []byte("\n")) + 1
		}
	}
	return 0
}

// Repeated returns nil, because TOML permits no key twice.
func (d *tomlDocument) Repeated(...string) []string { return nil }

// span is the position of a table header, or of a key with its value, in the text.
type span struct {
	path       []string // names of the tables and of the key
	table      bool
	start, end int // offsets of whole lines
}

// spans returns the headers and keys of the text. A value can have several lines. The span of a key ends at the first
// line at which the lines of the key are valid TOML.
func (d *tomlDocument) spans() (out []span) {
	var p unstable.Parser
	p.Reset(d.text)
	var table []string
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind != unstable.Table && e.Kind != unstable.ArrayTable && e.Kind != unstable.KeyValue {
			continue
		}
		var names []string
		first := -1
		for it := e.Key(); it.Next(); {
			if names = append(names, string(it.Node().Data)); first < 0 {
				first = int(it.Node().Raw.Offset)
			}
		}
		s := span{path: names, table: e.Kind != unstable.KeyValue, start: bytes.LastIndexByte(d.text[:first], '\n') + 1}
		if s.end = d.lineEnd(first); s.table {
			table = names
		} else {
			s.path = slices.Concat(table, names)
			for s.end < len(d.text) && toml.Unmarshal(d.text[s.start:s.end], new(map[string]any)) != nil {
				s.end = d.lineEnd(s.end)
			}
		}
		out = append(out, s)
	}
	return out
}

// lineEnd returns the offset of the line that follows the given offset.
func (d *tomlDocument) lineEnd(offset int) int {
	if i := bytes.IndexByte(d.text[offset:], '\n'); i >= 0 {
		return offset + i + 1
	}
	return len(d.text)
}

func (d *tomlDocument) Set(value any, path ...string) error {
	if m, ok := value.(map[string]any); ok {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if err := d.Set(m[key], slices.Concat(path, []string{key})...); err != nil {
				return err
			}
		}
		return nil
	}
	if was, ok := d.Get(path...); ok && Same(was, value) {
		return nil
	}
	line, err := keyLine(path[len(path)-1], value)
	if err != nil {
		return err
	}
	before, table := slices.Clone(d.text), path[:len(path)-1]
	all := d.spans()
	same := func(s span, table bool, path []string) bool { return s.table == table && slices.Equal(s.path, path) }
	switch i, h := slices.IndexFunc(all, func(s span) bool { return same(s, false, path) }),
		slices.IndexFunc(all, func(s span) bool { return same(s, true, table) }); {
	case i >= 0:
		d.replace(all[i].start, all[i].end, line+d.eol)
	case h >= 0: // insert the line after the last key of the table
		at := all[h].end
		for _, s := range all[h+1:] {
			if s.table {
				break
			}
			at = s.end
		}
		d.insertLine(at, line)
	case len(table) == 0: // insert the line before the first table
		at := len(d.text)
		if i := slices.IndexFunc(all, func(s span) bool { return s.table }); i >= 0 {
			if at = d.beforeComments(all[i].start); !bytes.HasPrefix(d.text[at:], []byte(d.eol)) {
				line += d.eol // add an empty line before the table
			}
		}
		d.insertLine(at, line)
	default:
		header := "[" + strings.Join(quoted(table), ".") + "]"
		if len(bytes.TrimSpace(d.text)) > 0 {
			header = d.eol + header
		}
		d.insertLine(len(d.text), header+d.eol+line)
	}
	if now, ok := d.Get(path...); !ok || !Same(now, value) {
		d.text = before
		return fmt.Errorf("%s: %s cannot be added to the form in which it is written; write it by hand: %s", d.name, shown(path), line)
	}
	return nil
}

// beforeComments returns the start of the comments and empty lines directly above the line at the offset.
func (d *tomlDocument) beforeComments(offset int) int {
	for offset > 0 {
		start := bytes.LastIndexByte(d.text[:offset-1], '\n') + 1
		if line := bytes.TrimSpace(d.text[start:offset]); len(line) > 0 && line[0] != '#' {
			break
		}
		offset = start
	}
	return offset
}

func (d *tomlDocument) replace(start, end int, text string) {
	d.text = slices.Concat(d.text[:start], []byte(text), d.text[end:])
}

// insertLine inserts a line. If the preceding text has no line ending, insertLine adds one.
func (d *tomlDocument) insertLine(at int, line string) {
	if at > 0 && d.text[at-1] != '\n' {
		line = d.eol + line
	}
	d.replace(at, at, line+d.eol)
}

func (d *tomlDocument) Delete(path ...string) error {
	for {
		all := d.spans()
		i := len(all) - 1 // delete backwards: keys without their header would belong to the table above
		for i >= 0 && (len(all[i].path) < len(path) || !slices.Equal(all[i].path[:len(path)], path)) {
			i--
		}
		if i < 0 {
			break
		}
		start := all[i].start
		if all[i].table && start > 0 && bytes.HasSuffix(d.text[:start], []byte(d.eol+d.eol)) { // also remove the empty line above the header
			start -= len(d.eol)
		}
		d.replace(start, all[i].end, "")
	}
	if _, ok := d.Get(path...); ok {
		return fmt.Errorf("%s: %s cannot be removed from the form in which it is written; remove it by hand", d.name, shown(path))
	}
	return nil
}

// Add returns an error, because TOML files need no additions to lists.
func (d *tomlDocument) Add(string, ...string) error { return errors.ErrUnsupported }

// Remove returns an error, because TOML files need no removals from lists.
func (d *tomlDocument) Remove(string, ...string) error { return errors.ErrUnsupported }

func keyLine(key string, value any) (string, error) {
	b, err := toml.Marshal(map[string]any{key: value})
	return strings.TrimRight(string(b), "\n"), err
}

func quoted(names []string) []string {
	var out []string
	for _, n := range names {
		if n == "" || strings.ContainsFunc(n, func(r rune) bool {
			return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
		}) {
			n = fmt.Sprintf("%q", n)
		}
		out = append(out, n)
	}
	return out
}
