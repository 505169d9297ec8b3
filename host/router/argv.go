package router

import (
	"encoding/json"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"toolhost.dev/sdk/tool"
)

// Argv routes a command that a shell already split and expanded. The argument "name" is the name of the program:
// "tool:NAME", "field:NAMESPACE" or "SERVER:TOOL". The shell removed all quotes. Therefore Argv treats every word that
// begins with dashes as a flag. To pass a value that looks like a flag, write "--flag=value".
//
// If no argument sets the tool's stdin parameter, Argv calls the function "stdin" for the text of standard input. Argv
// sets its argument "required" if the tool cannot run without the text. If its result "ok" is false, standard input
// contains no text. A nil stdin means that the command has no standard input.
func Argv(name string, args []string, stdin func(required bool) (text string, ok bool, err error),
	tools Tools) *Command {
	c := &Command{Layer: Native, Name: name, Args: []string{}, Kwargs: map[string]json.RawMessage{}, Simple: true}
	s := &simple{words: make([]word, 0, 1+len(args)), stdin: stdin}
	var raw strings.Builder
	for i, a := range append([]string{name}, args...) {
		if i > 0 {
			raw.WriteByte(' ')
		}
		quoted, err := syntax.Quote(a, syntax.LangBash)
		if err != nil || a == name && i == 0 {
			quoted = a
		}
		start := raw.Len()
		raw.WriteString(quoted)
		s.words = append(s.words, word{text: a, bare: a, offset: start, end: raw.Len()})
	}
	c.Raw = raw.String()
	for _, a := range args {
		if err := checkText(a); err != nil {
			return c.refuse(err)
		}
	}
	if _, known := resolve(name, s.words[1:], tools); !known {
		return c.refuse(unknownTool(name, tools))
	}
	return c.toTool(s, tools, Options{})
}

// bindStdin binds the text of standard input to the tool's stdin parameter, unless an argument already sets this
// parameter.
func (b *binder) bindStdin(stdin func(required bool) (string, bool, error)) {
	p := b.sig.Schema.Param(b.sig.Stdin)
	if stdin == nil || p == nil || b.out[p.Name] != nil || len(b.problems) > 0 {
		return
	}
	text, ok, err := stdin(p.Required)
	var bad *tool.Error
	if err == nil && ok {
		bad = checkText(text)
	}
	switch {
	case err != nil:
		b.problems = append(b.problems, "standard input cannot be read: "+err.Error())
	case bad != nil:
		b.problems = append(b.problems, "standard input cannot be read: "+bad.Message)
	case ok:
		b.set(p, 0, text)
		b.closeLists()
	}
}
