// Package notebook formats Jupyter notebooks as text for a language model. [Format] shows the number, id, source and
// outputs of each cell. It shortens long outputs and replaces images by their sizes.
package notebook

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"toolhost.dev/sdk/workspace/text"
)

// The following constants limit each output of a cell.
const (
	maxOutputLines = 60
	maxOutputBytes = 4 << 10
)

// ErrFormat means that a text is not a notebook in the notebook format 4.
var ErrFormat = errors.New("it is not a notebook of version 4")

type document struct {
	Cells    *[]cell `json:"cells"`
	Metadata struct {
		Kernel struct {
			Name     string `json:"display_name"`
			Language string `json:"language"`
		} `json:"kernelspec"`
	} `json:"metadata"`
}

type cell struct {
	ID        string   `json:"id"`
	Type      string   `json:"cell_type"`
	Source    lines    `json:"source"`
	Execution *int     `json:"execution_count"`
	Outputs   []output `json:"outputs"`
}

type output struct {
	Type      string                     `json:"output_type"`
	Name      string                     `json:"name"`
	Text      lines                      `json:"text"`
	Data      map[string]json.RawMessage `json:"data"`
	Error     string                     `json:"ename"`
	Value     string                     `json:"evalue"`
	Traceback []string                   `json:"traceback"`
}

// lines is a text that notebooks store as a string or as an array of lines.
type lines string

// UnmarshalJSON implements [json.Unmarshaler].
func (l *lines) UnmarshalJSON(raw []byte) error {
	var parts []string
	if json.Unmarshal(raw, &parts) == nil {
		*l = lines(strings.Join(parts, ""))
		return nil
	}
	return json.Unmarshal(raw, (*string)(l))
}

// Format returns a notebook as text, and the number of its cells. The result "complete" is false if an output is
// shortened or is not text.
func Format(content []byte) (shown string, cells int, complete bool, err error) {
	var d document
	if err := json.Unmarshal(content, &d); err != nil {
		return "", 0, false, err
	}
	if d.Cells == nil {
		return "", 0, false, ErrFormat
	}
	f := formatter{complete: true}
	if name := d.Metadata.Kernel.Name; name != "" {
		fmt.Fprintf(&f.out, "Kernel: %s\n\n", strings.Join(strings.Fields(name), " "))
	}
	for i, c := range *d.Cells {
		if i > 0 {
			f.out.WriteByte('\n')
		}
		f.cell(i, c)
	}
	return f.out.String(), len(*d.Cells), f.complete, nil
}

type formatter struct {
	out      strings.Builder
	complete bool
}

func (f *formatter) cell(number int, c cell) {
	fmt.Fprintf(&f.out, "=== cell %d: %s", number, c.Type)
	if c.ID != "" {
		fmt.Fprintf(&f.out, ", id %q", c.ID)
	}
	if c.Execution != nil {
		fmt.Fprintf(&f.out, ", run as [%d]", *c.Execution)
	}
	f.out.WriteString(" ===\n")
	f.write(string(c.Source))
	for _, o := range c.Outputs {
		f.output(o)
	}
}

// write writes a text. If the text is not empty and does not end with a line feed, write adds a line feed.
func (f *formatter) write(s string) {
	f.out.WriteString(s)
	if s != "" && !strings.HasSuffix(s, "\n") {
		f.out.WriteByte('\n')
	}
}

func (f *formatter) output(o output) {
	switch o.Type {
	case "stream":
		f.block(o.Name, string(o.Text))
	case "error":
		trace := strings.Join(o.Traceback, "\n")
		if trace == "" {
			trace = o.Error + ": " + o.Value
		}
		f.block("error", trace)
	default:
		f.data(o.Data)
	}
}

// data shows one output: the plain text, and the types and sizes of all other representations, which it omits.
func (f *formatter) data(data map[string]json.RawMessage) {
	var plain *lines
	var others []string
	for _, kind := range slices.Sorted(maps.Keys(data)) {
		var value lines
		isText := json.Unmarshal(data[kind], &value) == nil
		switch {
		case kind == "text/plain" && isText:
			plain = &value
		case strings.HasPrefix(kind, "image/") && kind != "image/svg+xml" && isText:
			others = append(others, fmt.Sprintf("%s, %s", kind, text.FormatSize(decodedSize(string(value)))))
		case isText:
			others = append(others, fmt.Sprintf("%s, %s", kind, text.FormatSize(int64(len(value)))))
		default:
			others = append(others, fmt.Sprintf("%s, %s", kind, text.FormatSize(int64(len(data[kind])))))
		}
	}
	if plain != nil {
		f.block("result", string(*plain))
	}
	for _, name := range others {
		f.complete = false
		fmt.Fprintf(&f.out, "--- output: %s (not shown) ---\n", name)
	}
}

// decodedSize returns the size in bytes of the data that a base64 text encodes.
func decodedSize(s string) int64 {
	n := 0
	for i := range len(s) {
		if c := s[i]; c != '\n' && c != '\r' && c != '=' {
			n++
		}
	}
	return int64(n * 3 / 4)
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

// block shows an output after it removes control sequences for terminals.
func (f *formatter) block(name, s string) {
	s = escapes.ReplaceAllString(s, "")
	fmt.Fprintf(&f.out, "--- output: %s ---\n", name)
	kept := s
	if len(kept) > maxOutputBytes {
		kept = strings.ToValidUTF8(kept[:maxOutputBytes], "")
	}
	at := 0
	for range maxOutputLines {
		i := strings.IndexByte(kept[at:], '\n')
		if i < 0 {
			at = len(kept)
			break
		}
		at += i + 1
	}
	kept = kept[:at]
	f.write(kept)
	if rest := len(s) - len(kept); rest > 0 {
		f.complete = false
		fmt.Fprintf(&f.out, "… [output cut here: %s more]\n", text.FormatSize(int64(rest)))
	}
}
