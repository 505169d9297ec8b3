package router

import (
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"
)

// translate translates arguments of a program to arguments of the tool with the same name, as the definition of the tool says.
// If the tool does not support an option, ok is false.
func translate(args []word, sig tool.Signature) (out []word, ok bool) {
	program := sig.Program
	otherwise, _, _ := strings.Cut(program.Otherwise, "=")
	g := &programReader{sig: sig, program: program, own: true, set: make(map[string]string), out: make([]word, 0, len(args)+1)}
	for g.rest = args; len(g.rest) > 0; {
		w := g.rest[0]
		g.rest = g.rest[1:]
		switch {
		case !w.quoted && w.text == "--":
			for _, w := range g.rest {
				g.operand(w)
			}
			g.rest = nil
		case longFlag(w):
			g.long(w)
		case len(w.bare) > 1 && w.bare[0] == '-':
			g.short(w)
		default:
			g.operand(w)
		}
		if g.refused {
			return nil, false
		}
	}
	if _, given := g.set[otherwise]; g.own && otherwise != "" && !given && (g.used || strings.ContainsAny(g.set[program.First], program.Special)) {
		g.emit(word{}, program.Otherwise)
	}
	return g.out, true
}

// programReader translates the words of a command.
type programReader struct {
	sig     tool.Signature
	program *tool.Program
	rest    []word
	out     []word
	set     map[string]string // the values of parameters that earlier words set
	used    bool              // whether the earlier words contain an option of the program
	own     bool              // false if the command contains a flag that only the tool has
	refused bool              // whether the tool cannot run the command
}

func (g *programReader) emit(at word, argument string) {
	name, value, _ := strings.Cut(argument, "=")
	_, again := g.set[name]
	switch p := g.sig.Schema.Param(name); {
	case p == nil || again && name == g.program.First: // the tool supports only one pattern
		g.refused = true
		return
	case again && !p.Only("array"): // the last option applies, as in the program
		g.out = slices.DeleteFunc(g.out, func(w word) bool { return strings.HasPrefix(w.bare, "--"+name+"=") })
	}
	g.set[name] = value
	g.out = append(g.out, word{text: "--" + argument, bare: "--" + argument, offset: at.offset, end: at.end})
}

func (g *programReader) operand(w word) {
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
		g.refused = has && !o.Optional
		return
	case !o.Value:
		g.refused, given = has, ""
	case !has && len(g.rest) == 0:
		g.refused = true
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
		g.refused = true
		return
	}
	g.own = false
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
		g.take(w, g.program.Options[g.program.Number], letters, true)
		return
	}
	for i := range len(letters) {
		o, ok := g.program.Options[letters[i:i+1]]
		if !ok {
			g.refused = true
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
