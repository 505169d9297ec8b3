package tape

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"toolhost.dev/sdk/tool"
)

// Verdict is the outcome of a comparison.
type Verdict string

// The values of [Verdict].
const (
	// Equal means that the results are the same.
	Equal Verdict = "equal"
	// Masked means that the results differ only in parts that vary: times, temporary paths, and the parts that the
	// tool's definition declares as varying.
	Masked Verdict = "masked"
	// Different means that the results differ.
	Different Verdict = "different"
)

// Difference is one part in which two results differ.
type Difference struct {
	// Part is the part of the result, such as "output", "error.kind" or "data/matches/0/line".
	Part string `json:"part"`
	Want string `json:"want"`
	Got  string `json:"got"`
}

func (d Difference) String() string {
	return fmt.Sprintf("%s: want %s, got %s", d.Part, d.Want, d.Got)
}

// maxDifferences limits the differences of one comparison.
const maxDifferences = 20

// Compare compares two results of a tool. It uses the lists Varying and Unordered in the tool's definition. Metadata is
// for people, so it is not compared.
func Compare(def *tool.Definition, want, got *Result) (Verdict, []Difference) {
	exact := comparison{}
	exact.results(want, got)
	if len(exact.out) == 0 {
		return Equal, nil
	}
	masked := comparison{def: def}
	masked.results(want, got)
	if len(masked.out) == 0 {
		return Masked, nil
	}
	return Different, masked.out
}

// comparison collects differences. Without a definition, it masks nothing, so that all differences count.
type comparison struct {
	def *tool.Definition
	out []Difference
}

func (c *comparison) add(part string, want, got any) {
	if len(c.out) < maxDifferences {
		c.out = append(c.out, Difference{Part: part, Want: shown(want), Got: shown(got)})
	}
}

// maxShown is the maximum length of a value in a difference, in bytes.
const maxShown = 400

func shown(v any) string {
	s, ok := v.(string)
	if !ok {
		b, err := json.Marshal(v)
		if err != nil {
			return fmt.Sprint(v)
		}
		s = string(b)
	} else {
		s = strconv.Quote(s)
	}
	if len(s) > maxShown {
		return strings.ToValidUTF8(s[:maxShown], "") + "…"
	}
	return s
}

func (c *comparison) results(want, got *Result) {
	switch {
	case (want.Error == nil) != (got.Error == nil):
		c.add("error", errorOf(want), errorOf(got))
		return
	case want.Error != nil:
		c.errors(want.Error, got.Error)
	default:
		c.text("output", want.Output, got.Output)
	}
	c.text("title", want.Title, got.Title)
	c.data(want.Data, got.Data)
	c.attachments(want.Attachments, got.Attachments)
	c.effects(want.Effects, got.Effects)
	c.text("cwd", want.Cwd, got.Cwd)
}

func errorOf(r *Result) string {
	if r.Error == nil {
		return "success"
	}
	return string(r.Error.Kind) + ": " + r.Error.Message
}

func (c *comparison) errors(want, got *tool.Error) {
	if want.Kind != got.Kind {
		c.add("error.kind", string(want.Kind), string(got.Kind))
	}
	if want.Code != got.Code {
		c.add("error.code", want.Code, got.Code)
	}
	c.text("error.message", want.Message, got.Message)
}

// text compares two texts. For different texts, it reports only the first line that differs.
func (c *comparison) text(part, want, got string) {
	if want == got {
		return
	}
	if c.def != nil {
		want, got = mask(want), mask(got)
		if slices.Contains(c.def.Unordered, part) {
			want, got = sortedLines(want), sortedLines(got)
		}
		if want == got {
			return
		}
	}
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a):
			c.add(fmt.Sprintf("%s, line %d", part, i+1), nil, b[i])
		case i >= len(b):
			c.add(fmt.Sprintf("%s, line %d", part, i+1), a[i], nil)
		case a[i] != b[i]:
			c.add(fmt.Sprintf("%s, line %d", part, i+1), a[i], b[i])
		default:
			continue
		}
		return
	}
}

func sortedLines(s string) string {
	lines := strings.Split(s, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// data compares structured data by its values.
func (c *comparison) data(want, got json.RawMessage) {
	if bytes.Equal(want, got) {
		return
	}
	var a, b any
	if !decode(want, &a) || !decode(got, &b) {
		c.add("data", string(want), string(got))
		return
	}
	c.value("", a, b)
}

// decode decodes JSON and keeps the text of numbers. It accepts an empty text as null.
func decode(raw json.RawMessage, v *any) bool {
	if len(raw) == 0 {
		return true
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode(v) == nil
}

// value compares two values at a JSON pointer.
func (c *comparison) value(at string, want, got any) {
	if c.declared(at, true) {
		return
	}
	switch a := want.(type) {
	case map[string]any:
		b, ok := got.(map[string]any)
		if !ok {
			break
		}
		c.object(at, a, b)
		return
	case []any:
		b, ok := got.([]any)
		if !ok {
			break
		}
		c.array(at, a, b)
		return
	case string:
		if b, ok := got.(string); ok {
			c.text("data"+at, a, b)
			return
		}
	}
	if want != got {
		c.add("data"+at, want, got)
	}
}

func (c *comparison) object(at string, want, got map[string]any) {
	keys := make(map[string]bool)
	for k := range want {
		keys[k] = true
	}
	for k := range got {
		keys[k] = true
	}
	names := make([]string, 0, len(keys))
	for k := range keys {
		names = append(names, k)
	}
	slices.Sort(names)
	for _, k := range names {
		a, inWant := want[k]
		b, inGot := got[k]
		next := at + "/" + escape(k)
		switch {
		case inWant && inGot:
			c.value(next, a, b)
		case !c.declared(next, true):
			c.add("data"+next, a, b)
		}
	}
}

func (c *comparison) array(at string, want, got []any) {
	if c.declared(at, false) {
		byText := func(a, b any) int { return cmp.Compare(c.sortKey(at, a), c.sortKey(at, b)) }
		want, got = slices.SortedFunc(slices.Values(want), byText), slices.SortedFunc(slices.Values(got), byText)
	}
	if len(want) != len(got) {
		c.add("data"+at, fmt.Sprintf("%d elements", len(want)), fmt.Sprintf("%d elements", len(got)))
	}
	for i := range min(len(want), len(got)) {
		c.value(at+"/"+strconv.Itoa(i), want[i], got[i])
	}
}

// sortKey returns the masked text of an element of an array, without the parts that vary.
func (c *comparison) sortKey(array string, v any) string {
	b, err := json.Marshal(c.steady(array+"/0", v))
	if err != nil { // impossible for a decoded value
		return ""
	}
	return mask(string(b))
}

// steady returns a copy of a value without the parts that vary.
func (c *comparison) steady(at string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any)
		for k, inner := range v {
			if next := at + "/" + escape(k); !c.declared(next, true) {
				out[k] = c.steady(next, inner)
			}
		}
		return out
	case []any:
		var out []any
		for i, inner := range v {
			out = append(out, c.steady(at+"/"+strconv.Itoa(i), inner))
		}
		return out
	}
	return v
}

// escape returns a key as a part of a JSON pointer.
func escape(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }

// declared reports whether the tool's definition declares that the value at a pointer varies. If varies is false,
// declared reports instead whether the order of the value is declared as unimportant. A "*" in the definition stands
// for one element of a pointer.
func (c *comparison) declared(at string, varies bool) bool {
	if c.def == nil {
		return false
	}
	list := c.def.Unordered
	if varies {
		list = c.def.Varying
	}
	return slices.ContainsFunc(list, func(pattern string) bool {
		return matches(strings.Split(pattern, "/"), strings.Split(at, "/"))
	})
}

func matches(pattern, pointer []string) bool {
	return slices.EqualFunc(pattern, pointer, func(p, part string) bool { return p == "*" || p == part })
}

func (c *comparison) attachments(want, got []tool.Attachment) {
	if len(want) != len(got) {
		c.add("attachments", len(want), len(got))
		return
	}
	for i := range want {
		part := fmt.Sprintf("attachments/%d", i)
		if want[i].Type != got[i].Type || want[i].MediaType != got[i].MediaType {
			c.add(part, want[i].Type+" "+want[i].MediaType, got[i].Type+" "+got[i].MediaType)
		}
		c.text(part+"/path", want[i].Path, got[i].Path)
		if !bytes.Equal(want[i].Content, got[i].Content) {
			c.add(part+"/content", fmt.Sprintf("%d bytes, %s", len(want[i].Content), sum("", want[i].Content)),
				fmt.Sprintf("%d bytes, %s", len(got[i].Content), sum("", got[i].Content)))
		}
	}
}

// effects compares the files that calls read and changed, in any order.
func (c *comparison) effects(want, got []Effect) {
	list := func(in []Effect) []string {
		var out []string
		for _, e := range in {
			path := e.Path
			if c.def != nil {
				path = mask(path)
			}
			out = append(out, fmt.Sprintf("%s %s %s", e.Operation, path, e.Hash))
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	a, b := list(want), list(got)
	for _, e := range a {
		if !slices.Contains(b, e) {
			c.add("effects", e, nil)
		}
	}
	for _, e := range b {
		if !slices.Contains(a, e) {
			c.add("effects", nil, e)
		}
	}
}

type masking struct {
	find *regexp.Regexp
	put  string
}

// masks lists the patterns of text that can differ between two runs, each with the text that replaces it.
var masks = sync.OnceValue(func() []masking {
	return []masking{
		{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.,]\d+)?)?( ?(Z|[+-]\d\d:?\d\d))?`), "<time>"},
		{regexp.MustCompile(`\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun),? [A-Za-z0-9 ]{4,12}\d\d:\d\d:\d\d( [A-Z]{3,4})?( \d{4})?`), "<time>"},
		{regexp.MustCompile(`\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +\d\d? +(\d\d:\d\d(:\d\d)?|\d{4})`), "<time>"},
		{regexp.MustCompile(`\b\d\d:\d\d:\d\d([.,]\d+)?\b`), "<time>"},
		{regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+([.,]\d+)? ?(ns|µs|us|ms|s|sec|seconds?)\b`), "<duration>"},
		{regexp.MustCompile(`(/var)?/tmp/[^\s"':;,)\]]+`), "<temporary path>"},
		{regexp.MustCompile(`\bjob-[0-9a-f]+\b`), "<job>"},
		{regexp.MustCompile(`\b(pid|PID|process) \d+\b`), "$1 <number>"},
	}
})

// mask replaces times, durations, temporary paths, names of jobs and process IDs.
func mask(s string) string {
	for _, m := range masks() {
		s = m.find.ReplaceAllString(s, m.put)
	}
	return s
}
