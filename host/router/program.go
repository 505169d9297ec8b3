package router

import (
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"
)

// verdict is what a program does with the arguments of a command, as the definition of the tool with its name describes
// it.
type verdict int

const (
	native  verdict = iota // only the program does what the arguments request
	fits                   // the tool does the same as the program
	refuses                // the program refuses the arguments
)

// judge compares the arguments of a command with the program that has the name of the tool. It also returns the
// arguments for the tool. They are those of the command if they cannot be translated.
func judge(args []word, sig tool.Signature, opts Options) ([]word, verdict) {
	program := sig.Program
	g := &programReader{
		sig: sig, program: program, exists: opts.Exists, set: make(map[string]string),
		out: make([]word, 0, len(args)+1),
	}
	first := sig.Schema.Param(program.First)
	needed := first != nil && first.Required
	if len(args) == 1 && helpFlag(args[0]) {
		switch known := g.knows(strings.TrimLeft(args[0].text, "-")); {
		case !known || needed && args[0].text == "-h":
			return args, refuses
		case args[0].text == "-h":
			return args, native
		}
		return args, fits
	}
	g.read(args)
	_, given := g.set[program.First]
	empty := opts.alone && program.Operand == tool.OperandVariable && g.operands < 2 && g.operands == len(args) &&
		!slices.ContainsFunc(args, func(w word) bool { return w.dynamic })
	switch {
	case g.wrong || g.native && g.own:
		return args, refuses
	case g.native:
		return args, native
	case g.own || needed && !given || empty:
		return g.complete(), refuses
	}
	return g.complete(), fits
}

// programReader translates the words of a command.
type programReader struct {
	sig     tool.Signature
	program *tool.Program
	exists  func(path string) bool
	rest    []word
	out     []word
	set     map[string]string // the values of parameters that earlier words set

	operands int
	used     bool // the command has an option that the tool shares with the program
	flags    bool // it has a flag of the tool
	own      bool // it has a flag of the tool that the program refuses
	native   bool // it needs the program
	wrong    bool // it has a word that the program refuses and that cannot be translated
}

func (g *programReader) read(args []word) {
	for g.rest = args; len(g.rest) > 0 && !g.wrong && (!g.native || g.program.Operand == tool.OperandAny); {
		w := g.rest[0]
		g.rest = g.rest[1:]
		switch {
		case !w.quoted && w.text == "--":
			for len(g.rest) > 0 {
				w, g.rest = g.rest[0], g.rest[1:]
				g.operand(w)
			}
		case longFlag(w):
			g.long(w)
		case len(w.bare) > 1 && w.bare[0] == '-':
			g.short(w)
		default:
			g.operand(w)
		}
	}
}

// complete returns the translated words with the argument that the tool gets otherwise.
func (g *programReader) complete() []word {
	name, _, _ := strings.Cut(g.program.Otherwise, "=")
	if _, given := g.set[name]; !g.flags && name != "" && !given &&
		(g.used || strings.ContainsAny(g.set[g.program.First], g.program.Special)) {
		g.emit(word{}, g.program.Otherwise)
	}
	return g.out
}

// knows reports whether the program has an option. Long options can be abbreviated.
func (g *programReader) knows(name string) bool {
	is := func(option string) bool {
		return option == name || len(name) > 1 && len(option) > 1 && strings.HasPrefix(option, name)
	}
	if slices.ContainsFunc(g.program.Others, is) {
		return true
	}
	for option := range g.program.Options {
		if is(option) {
			return true
		}
	}
	return false
}

// lacks notes an option that the tool does not share with the program.
func (g *programReader) lacks(name string) {
	known := len(g.program.Others) == 0 || g.knows(name)
	g.native, g.wrong = g.native || known, !known
}

func (g *programReader) emit(at word, argument string) {
	name, value, _ := strings.Cut(argument, "=")
	_, again := g.set[name]
	switch p := g.sig.Schema.Param(name); {
	case p == nil || again && name == g.program.First: // the tool supports only one pattern
		g.native = true
		return
	case again && !p.Only("array"): // the last option applies, as in the program
		g.out = slices.DeleteFunc(g.out, func(w word) bool { return strings.HasPrefix(w.bare, "--"+name+"=") })
	}
	g.set[name] = value
	g.out = append(g.out, word{text: "--" + argument, bare: "--" + argument, offset: at.offset, end: at.end})
}

func (g *programReader) operand(w word) {
	g.operands++
	switch g.program.Operand {
	case tool.OperandVariable:
		name, _, _ := strings.Cut(w.text, "[")
		valid := isIdentifier(name) || w.dynamic && isIdentifier("x"+w.bare) // an expansion can be a name
		g.wrong = g.wrong || !valid
	case tool.OperandScript:
		g.wrong = strings.ContainsAny(w.text, " \t\n") && (g.exists == nil || !g.exists(w.text))
		g.out = append(append(g.out, w), g.rest...)
		g.rest = nil
		return
	}
	if _, have := g.set[g.program.First]; !have && g.program.First != "" {
		g.set[g.program.First] = w.text
		// Mark the word as quoted. Otherwise, the binder would treat a pattern with a leading dash as a flag.
		w.quoted, w.bare = true, ""
	}
	g.out = append(g.out, w)
}

// take translates one option. If the argument "has" is true, the argument "given" is the value of the option.
func (g *programReader) take(at word, o tool.ProgramOption, given string, has bool) {
	g.used = true
	switch {
	case o.Argument == "":
		g.native = g.native || has && !o.Optional
		return
	case !o.Value:
		g.native, given = g.native || has, ""
	case !has && len(g.rest) == 0:
		g.native = true
		return
	case !has:
		given, g.rest = g.rest[0].text, g.rest[1:]
	}
	g.emit(at, o.Argument+given+o.Suffix)
}

// long translates a word that begins with two dashes. The word is an option of the program or a flag of the tool.
func (g *programReader) long(w word) {
	name, value, has := strings.Cut(strings.TrimPrefix(w.text, "--"), "=")
	if o, ok := g.program.Options[name]; ok && len(name) > 1 {
		g.take(w, o, value, has)
		return
	}
	p := g.sig.Schema.Param(strings.ReplaceAll(name, "-", "_"))
	if p == nil {
		g.lacks(name)
		return
	}
	g.flags, g.own = true, g.own || !g.knows(name)
	if _, have := g.set[p.Name]; !have {
		g.set[p.Name] = value
	}
	g.out = append(g.out, w)
	if !has && !p.Only("boolean") && len(g.rest) > 0 {
		g.out = append(g.out, g.rest[0])
		g.rest = g.rest[1:]
	}
}

// short translates a word with one-letter options. It also translates a number of context lines, such as -3.
func (g *programReader) short(w word) {
	letters := w.text[1:]
	if strings.Trim(letters, "0123456789") == "" {
		if o, ok := g.program.Options[g.program.Number]; ok {
			g.take(w, o, letters, true)
		} else {
			g.native = true
		}
		return
	}
	for i := range len(letters) {
		o, ok := g.program.Options[letters[i:i+1]]
		if !ok {
			g.lacks(letters[i : i+1])
			return
		}
		given := ""
		if o.Value {
			given = letters[i+1:]
		}
		g.take(w, o, given, given != "")
		if o.Value {
			return
		}
	}
}

func longFlag(w word) bool { return len(w.bare) > 2 && strings.HasPrefix(w.bare, "--") }

func isIdentifier(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
