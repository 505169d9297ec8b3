// Package source finds the words of a script and where they are in its text. [Scan] iterates over the commands and the
// assignments of a bash script. Package shellscript analyzes what the commands do. This package expands nothing and
// knows no program, so that its caller can replace or mark parts of the text.
package source

import (
	"iter"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"toolhost.dev/shellscript/recursion"
)

// Hole is the byte that replaces an expansion in the text of a word.
const Hole = '\x01'

// Word is a word of a script.
type Word struct {
	// Text is the word without its quotes. [Hole] replaces each expansion.
	Text string
	// For each byte of Text, from and to have its position in the script.
	from, to []int
}

// Span returns the part of the script, from its first byte up to its last one, that a part of the word's text stands
// for. Both parts are not empty.
func (w Word) Span(from, to int) (begin, end int) { return w.from[from], w.to[to-1] }

// Node is an [Assignment] or a [Command].
type Node interface{ node() }

// Assignment sets a variable, also in a declaration.
type Assignment struct {
	Name string
	// Values has the value. For an array, it has each element.
	Values []Word
}

// Command is a simple command.
type Command struct {
	// Words has the name and the arguments. It has at least one element.
	Words []Word
	// Inputs has the here-documents and here-strings of the command.
	Inputs []Word
	// Writer has the words of the simple command before the command in its pipeline.
	Writer []Word
}

func (Assignment) node() {}
func (Command) node()    {}

// Scan iterates over the commands and assignments of a script, also in functions and substitutions, in no particular
// order. If the script cannot be parsed, it continues with each line as a list of words.
func Scan(script string) iter.Seq[Node] {
	return func(yield func(Node) bool) {
		file, err := parse(script)
		if file != nil && !scan(file, script, 0, yield) || err == nil {
			return
		}
		at := 0
		for line := range strings.Lines(script) {
			from := at
			at += len(line)
			// Replace quotes and brackets, so that the line can be parsed as a list of words. All offsets stay the
			// same.
			line = unbalanced.Replace(line)
			if file, _ := parse(line); file != nil && !scan(file, line, from, yield) {
				return
			}
		}
	}
}

var unbalanced = strings.NewReplacer(`"`, " ", `'`, " ", "`", " ", "(", " ", ")", " ", "{", " ", "}", " ", "<", " ",
	">", " ", `\`, " ")

func parse(text string) (*syntax.File, error) {
	return syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(recursion.NewReader(text), "")
}

// scan calls yield for each node of a file until yield returns false. It returns the last result. The text of the file
// begins at the offset base of the script.
func scan(file *syntax.File, text string, base int, yield func(Node) bool) bool {
	more := true
	inputs := make(map[*syntax.CallExpr][]*syntax.Word)
	writers := make(map[*syntax.CallExpr]*syntax.CallExpr)
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name != nil {
				more = more && yield(Assignment{n.Name.Value, words(values(n), text, base)})
			}
		case *syntax.Stmt: // visited before its command
			if call, ok := n.Cmd.(*syntax.CallExpr); ok {
				inputs[call] = documents(n.Redirs)
			}
		case *syntax.BinaryCmd:
			reader, ok := n.Y.Cmd.(*syntax.CallExpr)
			writer, ok2 := n.X.Cmd.(*syntax.CallExpr)
			if ok && ok2 && (n.Op == syntax.Pipe || n.Op == syntax.PipeAll) {
				writers[reader] = writer
			}
		case *syntax.CallExpr:
			if len(n.Args) == 0 {
				break
			}
			c := Command{Words: words(n.Args, text, base), Inputs: words(inputs[n], text, base)}
			if w := writers[n]; w != nil {
				c.Writer = words(w.Args, text, base)
			}
			more = more && yield(c)
		}
		return more
	})
	return more
}

// values returns the words that an assignment evaluates.
func values(a *syntax.Assign) (out []*syntax.Word) {
	if a.Value != nil {
		out = append(out, a.Value)
	}
	if a.Array != nil {
		for _, e := range a.Array.Elems {
			if e.Value != nil {
				out = append(out, e.Value)
			}
		}
	}
	return out
}

// documents returns the texts of here-documents and here-strings.
func documents(redirects []*syntax.Redirect) (out []*syntax.Word) {
	for _, r := range redirects {
		switch {
		case r.Op == syntax.WordHdoc && r.Word != nil:
			out = append(out, r.Word)
		case (r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc) && r.Hdoc != nil:
			out = append(out, r.Hdoc)
		}
	}
	return out
}

func words(list []*syntax.Word, text string, base int) (out []Word) {
	for _, w := range list {
		b := builder{source: text, base: base}
		b.parts(w.Parts, false)
		b.word.Text = b.text.String()
		out = append(out, b.word)
	}
	return out
}

// builder collects the bytes of a word.
type builder struct {
	source string
	base   int
	text   strings.Builder
	word   Word
}

func (b *builder) add(c byte, from, to int) {
	b.text.WriteByte(c)
	b.word.from, b.word.to = append(b.word.from, b.base+from), append(b.word.to, b.base+to)
}

func (b *builder) parts(list []syntax.WordPart, quoted bool) {
	for _, p := range list {
		from, to := int(p.Pos().Offset()), int(p.End().Offset())
		switch p := p.(type) {
		case *syntax.Lit:
			if end := from + len(p.Value); strings.HasPrefix(b.source[min(from, len(b.source)):], p.Value) {
				to = min(to, end) // the end of a here-document includes its delimiter
			}
			b.literal(from, to, quoted)
		case *syntax.SglQuoted:
			from++
			if p.Dollar {
				from++
			}
			for i := from; i < to-1 && i < len(b.source); i++ {
				b.add(b.source[i], i, i+1)
			}
		case *syntax.DblQuoted:
			b.parts(p.Parts, true)
		default:
			b.add(Hole, from, to)
		}
	}
}

// literal adds literal text without its backslashes. Between double quotes, a backslash escapes only some characters.
func (b *builder) literal(from, to int, quoted bool) {
	for i := from; i < to && i < len(b.source); i++ {
		if b.source[i] == '\\' && i+1 < to && (!quoted || strings.IndexByte("\"\\$`", b.source[i+1]) >= 0) {
			i++
			b.add(b.source[i], i-1, i+1)
			continue
		}
		b.add(b.source[i], i, i+1)
	}
}
