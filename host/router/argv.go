package router

import (
	"encoding/json"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"toolhost.dev/sdk/tool"
)

// Argv routes a command that a shell has already split and expanded. name names the program: "tool:NAME", "field:NAMESPACE" or
// "SERVER:TOOL". Quotes are gone, so every word that begins with dashes counts as a flag. Write a value that looks
// like a flag as "--flag=value".
//
// If stdin is not nil and no argument sets the tool's stdin parameter, stdin returns its text. required reports
// whether the tool needs the text. If ok is false, there is no text.
func Argv(name string, args []string, stdin func(required bool) (text string, ok bool, err error), tools Tools) *Command {
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
		return c.refuse(unknownName("tool", name, tools.AgentNames()))
	}
	return c.toTool(s, tools, Options{})
}

// bindStdin fills the stdin parameter from standard input if it has no value.
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
	}
}
