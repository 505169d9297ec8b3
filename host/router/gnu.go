package router

import (
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"
)

// gnuGrepTakes maps the options of GNU grep to flags of the tool "grep". An empty flag means that the tool always behaves
// as with this option.
var gnuGrepTakes = map[string]gnuOption{
	"r": {}, "R": {}, "recursive": {}, "dereference-recursive": {},
	"s": {}, "no-messages": {}, "I": {}, "H": {}, "with-filename": {},
	"color": {optional: true}, "colour": {optional: true}, "line-buffered": {},
	"G": {flag: "dialect=bre"}, "basic-regexp": {flag: "dialect=bre"},
	"E": {flag: "dialect=ere"}, "extended-regexp": {flag: "dialect=ere"},
	"F": {flag: "dialect=fixed"}, "fixed-strings": {flag: "dialect=fixed"},
	"n": {flag: "line_numbers=true"}, "line-number": {flag: "line_numbers=true"},
	"i": {flag: "ignore_case=true"}, "ignore-case": {flag: "ignore_case=true"},
	"l": {flag: "output_mode=files_with_matches"}, "files-with-matches": {flag: "output_mode=files_with_matches"},
	"c": {flag: "output_mode=count"}, "count": {flag: "output_mode=count"},
	"o": {flag: "only_matching=true"}, "only-matching": {flag: "only_matching=true"},
	"v": {flag: "invert_match=true"}, "invert-match": {flag: "invert_match=true"},
	"L": {flag: "files_without_match=true"}, "files-without-match": {flag: "files_without_match=true"},
	"a": {flag: "text=true"}, "text": {flag: "text=true"},
	"m": {flag: "max_count=", value: true}, "max-count": {flag: "max_count=", value: true},
	"A": {flag: "after=", value: true}, "after-context": {flag: "after=", value: true},
	"B": {flag: "before=", value: true}, "before-context": {flag: "before=", value: true},
	"C": {flag: "context=", value: true}, "context": {flag: "context=", value: true},
	"e": {flag: "pattern=", value: true}, "regexp": {flag: "pattern=", value: true},
	"include": {flag: "glob=", value: true}, "exclude": {flag: "glob=!", value: true}, "exclude-dir": {flag: "glob=!**/", value: true, suffix: "/**"},
}

// gnuOption describes an option of GNU grep and the corresponding flag of the tool. The field is empty if the tool needs no
// flag for the option.
type gnuOption struct {
	flag     string
	value    bool // whether the option takes a value
	optional bool // whether the option takes an optional value after "="
	suffix   string
}

// fromGNU translates arguments of GNU grep to arguments of the tool "grep". It sets the tool's parameter "dialect",
// because the pattern syntax differs. If the tool does not support an option, ok is false.
func fromGNU(args []word, sig tool.Signature) (out []word, ok bool) {
	if sig.Schema.Param("dialect") == nil {
		return args, true
	}
	g := &gnuReader{sig: sig, gnu: true, out: make([]word, 0, len(args)+1)}
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
	if g.gnu && g.dialect == "" && (g.used || strings.ContainsAny(g.pattern, `\+?(){}|`)) {
		g.emit(word{}, "dialect=bre")
	}
	return g.out, true
}

// gnuReader translates the words of a grep command.
type gnuReader struct {
	sig     tool.Signature
	rest    []word
	out     []word
	pattern string
	have    bool   // whether the earlier words contain the pattern
	dialect string // pattern syntax that an option selects
	used    bool   // whether the earlier words contain an option of GNU grep
	gnu     bool   // false if the command contains a flag that only the tool has
	refused bool   // whether the tool cannot run the command
}

func (g *gnuReader) emit(at word, flag string) {
	if name, value, _ := strings.Cut(flag, "="); name == "dialect" {
		// If several options select a pattern syntax, the last one applies, as in GNU grep.
		g.out = slices.DeleteFunc(g.out, func(w word) bool { return strings.HasPrefix(w.bare, "--dialect=") })
		g.dialect = value
	} else if name == "output_mode" || name == "line_numbers" || name == "ignore_case" {
		g.out = slices.DeleteFunc(g.out, func(w word) bool { return strings.HasPrefix(w.bare, "--"+name+"=") })
	} else if name == "pattern" {
		g.refused = g.refused || g.have // the tool supports only one pattern
		g.have, g.pattern = true, value
	}
	g.out = append(g.out, word{text: "--" + flag, bare: "--" + flag, offset: at.offset, end: at.end})
}

func (g *gnuReader) operand(w word) {
	if !g.have {
		g.have, g.pattern = true, w.text
		// Mark the pattern as quoted. Otherwise, the binder would treat a pattern with a leading dash as a flag.
		w.quoted, w.bare = true, ""
	}
	g.out = append(g.out, w)
}

// take translates one option. If the argument "has" is true, the argument "given" is the value of the option.
func (g *gnuReader) take(at word, o gnuOption, given string, has bool) {
	g.used = true
	switch {
	case o.flag == "":
		g.refused = has && !o.optional
		return
	case !o.value:
		g.refused, given = has, ""
	case !has && len(g.rest) == 0:
		g.refused = true
		return
	case !has:
		given, g.rest = g.rest[0].text, g.rest[1:]
	}
	g.emit(at, o.flag+given+o.suffix)
}

// long translates a word that begins with two dashes. The word is an option of GNU grep or a flag of the tool.
func (g *gnuReader) long(w word) {
	name, value, has := strings.Cut(strings.TrimPrefix(w.text, "--"), "=")
	if o, ok := gnuGrepTakes[name]; ok && len(name) > 1 {
		g.take(w, o, value, has)
		return
	}
	p := g.sig.Schema.Param(strings.ReplaceAll(name, "-", "_"))
	if p == nil {
		g.refused = true
		return
	}
	g.gnu = false
	g.have = g.have || p.Name == "pattern"
	g.out = append(g.out, w)
	if !has && !p.Only("boolean") && len(g.rest) > 0 {
		g.out = append(g.out, g.rest[0])
		g.rest = g.rest[1:]
	}
}

// short translates a word with one-letter options. It also translates a number of context lines, such as -3.
func (g *gnuReader) short(w word) {
	letters := w.text[1:]
	if strings.Trim(letters, "0123456789") == "" {
		g.take(w, gnuGrepTakes["C"], letters, true)
		return
	}
	for i := range len(letters) {
		o, ok := gnuGrepTakes[letters[i:i+1]]
		if !ok {
			g.refused = true
			return
		}
		given := ""
		if o.value {
			given = letters[i+1:]
		}
		g.take(w, o, given, given != "")
		if o.value {
			return
		}
	}
}
