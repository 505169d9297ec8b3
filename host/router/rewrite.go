package router

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"toolhost.dev/sdk/tool"
)

// rewrite finds commands in a native script that would fail in the shell but name a tool, such as "read main.go". It
// inserts "tool:" before such a command. It does not change commands that can succeed in the shell, such as "while read
// line" and "… | grep x". rewrite returns the new text and the names of the changed commands.
func rewrite(src string, file *syntax.File, tools Tools) (text string, names []string) {
	var at []int
	defined := make(map[string]bool)
	fed := make(map[*syntax.CallExpr]bool) // commands on the right side of a pipe
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.FuncDecl:
			defined[n.Name.Value] = true
		case *syntax.BinaryCmd:
			if call, ok := n.Y.Cmd.(*syntax.CallExpr); ok && (n.Op == syntax.Pipe || n.Op == syntax.PipeAll) {
				fed[call] = true
			}
		case *syntax.CallExpr:
			if len(n.Args) == 0 || len(n.Assigns) > 0 {
				return true
			}
			name := n.Args[0].Lit()
			if !isName(name) || defined[name] || !failsNatively(src, name, n.Args[1:], fed[n], tools) {
				return true
			}
			at = append(at, int(n.Args[0].Pos().Offset()))
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		return true
	})
	text = src
	slices.Sort(at)
	for _, offset := range slices.Backward(at) {
		text = text[:offset] + "tool:" + text[offset:]
	}
	return text, names
}

// failsNatively reports whether a command would fail in the shell but is a valid command of a tool. If fed is true, the
// command reads from a pipe. In this case, the tool must be able to read standard input.
func failsNatively(src, name string, args []*syntax.Word, fed bool, tools Tools) bool {
	sig, ok := tools.Agent(name)
	if !ok || fed && sig.Stdin == "" {
		return false
	}
	words := make([]word, 0, len(args))
	for _, a := range args {
		words = append(words, unquote(src, a))
	}
	if sig.Program != nil {
		_, v := judge(words, sig, Options{})
		return len(words) > 0 && v == refuses
	}
	// A system program with the same name rarely accepts the flags of the tool, or has its operands.
	return slices.ContainsFunc(words, func(w word) bool {
		flag, _, _ := strings.Cut(strings.TrimPrefix(w.bare, "--"), "=")
		return longFlag(w) && sig.Schema.Param(strings.ReplaceAll(flag, "-", "_")) != nil
	}) || complete(src, sig, words)
}

// complete reports whether the words of a command are valid arguments of a tool that requires several.
func complete(src string, sig tool.Signature, words []word) bool {
	required := 0
	for _, p := range sig.Schema.Params() {
		if p.Required {
			required++
		}
	}
	if required < 2 {
		return false
	}
	b := newBinder(src, sig, nil)
	b.words(words)
	_, bad := sig.Schema.Check(sig.Schema.Coerce(b.out))
	return b.help == "" && len(b.problems)+len(bad) == 0
}

// isName reports whether a text contains no quotes, slashes or expansions.
func isName(s string) bool { return s != "" && !strings.ContainsAny(s, "\\/:$`\"'*?[") }
