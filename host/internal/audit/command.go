package audit

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"toolhost.dev/shellscript/recursion"
)

// maxNested limits the nesting depth of scripts inside scripts.
const maxNested = 4

// The type "span" is the position of a secret in a text, in bytes.
type span struct{ from, to int }

// shellSecrets returns the positions of secrets in a shell script. It recognizes them by the syntax of the script:
// values of variables, and arguments of known programs. The positions are sorted and do not overlap.
func shellSecrets(script string) []span {
	f := &finder{}
	f.script(script, 0, func(from, to int) { f.found = append(f.found, span{from, to}) })
	slices.SortFunc(f.found, func(a, b span) int { return a.from - b.from })
	var out []span
	for _, s := range f.found {
		if n := len(out); n > 0 && s.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, s.to)
		} else {
			out = append(out, s)
		}
	}
	return out
}

type finder struct{ found []span }

// The function "type" "mask" receives the position of each secret in the analyzed text.
type mask func(from, to int)

// The method "script" analyzes a script. If the script cannot be parsed, each line is analyzed separately.
func (f *finder) script(text string, depth int, m mask) {
	if depth > maxNested {
		return
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(recursion.NewReader(text), "")
	if file != nil {
		f.file(file, text, depth, m)
	}
	if err == nil {
		return
	}
	at := 0
	for line := range strings.Lines(text) {
		from := at
		at += len(line)
		// Replace quotes and brackets, so that the line can be parsed as a list of words. All offsets stay the same.
		line = unbalanced.Replace(line)
		if file, _ := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(recursion.NewReader(line), ""); file != nil {
			f.file(file, line, depth, func(a, b int) { m(from+a, from+b) })
		}
	}
}

var unbalanced = strings.NewReplacer(`"`, " ", `'`, " ", "`", " ", "(", " ", ")", " ", "{", " ", "}", " ", "<", " ", ">", " ", `\`, " ")

func (f *finder) file(file *syntax.File, text string, depth int, m mask) {
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			assigned(n, text, m)
		case *syntax.CallExpr:
			f.call(flats(n.Args, text), depth, m)
		case *syntax.Stmt:
			f.redirected(n, text, depth, m)
		case *syntax.BinaryCmd:
			if n.Op == syntax.Pipe || n.Op == syntax.PipeAll {
				piped(n, text, m)
			}
		}
		return true
	})
}

// The function "assigned" masks the secret value of a variable. For an array, it masks each element.
func assigned(a *syntax.Assign, text string, m mask) {
	if a.Name == nil {
		return
	}
	var values []*syntax.Word
	if a.Value != nil {
		values = append(values, a.Value)
	}
	if a.Array != nil {
		for _, e := range a.Array.Elems {
			if e.Value != nil {
				values = append(values, e.Value)
			}
		}
	}
	for _, v := range flats(values, text) {
		if secretVariable(a.Name.Value, v.text) {
			v.mask(0, len(v.text), m)
		}
	}
}

// The method "redirected" analyzes heredocs and herestrings of a command, which can contain scripts or passwords.
func (f *finder) redirected(s *syntax.Stmt, text string, depth int, m mask) {
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok {
		return
	}
	args := flats(call.Args, text)
	for _, r := range s.Redirs {
		word := r.Hdoc
		if r.Op == syntax.WordHdoc {
			word = r.Word
		}
		if word == nil || r.Op != syntax.WordHdoc && r.Op != syntax.Hdoc && r.Op != syntax.DashHdoc {
			continue
		}
		in := flatten(word, text)
		switch {
		case readsPassword(args):
			in.mask(0, len(strings.TrimRight(in.text, "\n")), m)
		case slices.ContainsFunc(args, func(a flat) bool { return runsText[path.Base(a.text)] }):
			f.script(in.text, depth+1, func(from, to int) { in.mask(from, to, m) })
		}
	}
}

// The function "piped" masks the output of a command such as "echo" if the next command in the pipeline reads a
// password.
func piped(c *syntax.BinaryCmd, text string, m mask) {
	reader, ok := c.Y.Cmd.(*syntax.CallExpr)
	writer, ok2 := c.X.Cmd.(*syntax.CallExpr)
	if !ok || !ok2 || !readsPassword(flats(reader.Args, text)) {
		return
	}
	args := flats(writer.Args, text)
	if len(args) == 0 || args[0].text != "echo" && args[0].text != "printf" {
		return
	}
	for _, a := range args[1:] {
		if !strings.HasPrefix(a.text, "-") && !strings.HasPrefix(a.text, "%") {
			a.mask(0, len(a.text), m)
		}
	}
}

// readsPassword reports whether a command reads a password from standard input.
func readsPassword(args []flat) bool {
	has := func(names ...string) bool {
		return slices.ContainsFunc(args, func(a flat) bool { return slices.Contains(names, path.Base(a.text)) })
	}
	switch {
	case has("chpasswd", "kinit", "cryptsetup", "--password-stdin", "--with-token", "--passphrase-fd", "--pass-stdin", "--token-stdin"):
		return true
	case has("sudo"):
		return has("-S", "--stdin")
	case has("passwd"):
		return has("--stdin", "passwd")
	case has("docker", "podman", "buildah", "skopeo") && has("login"):
		return true
	}
	return has("secret") && has("gh", "set", "create") || has("vercel", "wrangler") && has("secret", "env")
}

// runsText contains the programs that execute their arguments or their input as a script.
var runsText = func() map[string]bool {
	out := make(map[string]bool)
	for _, name := range words(`sh bash zsh dash ksh ash mksh fish su ssh eval watch parallel xargs script flock docker podman kubectl oc env tmux
		screen nohup timeout sudo doas runuser trap alias mosh vagrant nsenter systemd-run time nice lxc incus wsl entr chroot`) {
		out[name] = true
	}
	return out
}()

// The method "call" masks the secrets in the words of a simple command.
func (f *finder) call(args []flat, depth int, m mask) {
	nested := false
	for i, a := range args {
		name := path.Base(a.text)
		nested = nested || runsText[name]
		if nested && strings.ContainsAny(a.text, " \t\n;") {
			f.script(a.text, depth+1, func(from, to int) { a.mask(from, to, m) })
		}
		if p, ok := programs[name]; ok {
			p.secrets(args[i+1:], m)
		}
	}
	if len(args) > 1 {
		options(args[0].text, args[1:], m)
	}
}

// The function "options" masks the values of options and variables with a secret name. It applies to every program.
func options(program string, args []flat, m mask) {
	for i, a := range args {
		name, value, valued := strings.Cut(a.text, "=")
		option := strings.HasPrefix(name, "-")
		switch {
		case valued && option && strings.Contains(value, "="): // --build-arg=NAME=VALUE
			inner, v, _ := strings.Cut(value, "=")
			if isName(inner) && secretVariable(inner, v) {
				a.mask(len(a.text)-len(v), len(a.text), m)
			}
		case valued && option:
			if SecretName(name) && !harmlessValue(value) {
				a.mask(len(a.text)-len(value), len(a.text), m)
			}
		case valued:
			if _, last, ok := strings.Cut(name, ":"); ok { // the form key:subkey=VALUE
				name = last
			}
			if isName(name) && secretVariable(name, value) {
				a.mask(len(a.text)-len(value), len(a.text), m)
			}
		case option && SecretName(name) && !bareFlags[strings.TrimLeft(name, "-")] && i+1 < len(args) && !strings.HasPrefix(args[i+1].text, "-"):
			if v := args[i+1]; strings.HasPrefix(name, "--") && program != "sort" && !harmlessValue(v.text) {
				v.mask(0, len(v.text), m)
			}
		}
	}
}

// bareFlags contains options without a value whose names look like names of secrets.
var bareFlags = map[string]bool{"password-stdin": true, "no-password": true, "with-token": true, "prompt-password": true, "ask-pass": true, "ask-become-pass": true, "ask-vault-pass": true, "no-auth": true, "list-secret-keys": true, "list-keys": true, "delete-secret-key": true, "recv-keys": true, "export-secret-keys": true}

func isName(s string) bool {
	return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") == "" && strings.Trim(s, "0123456789.-") != ""
}

// The character "hole" replaces an expansion in the text of a word.
const hole = '\x01'

// The type "flat" is a word without its quotes. For each byte of the text, the fields from and to contain its position
// in the source.
type flat struct {
	text     string
	from, to []int
}

// mask replaces a range of the word with the mask m. A range that consists only of expansions stays, because expansions
// contain no secrets.
func (w flat) mask(from, to int, m mask) {
	if from < 0 || to > len(w.text) || from >= to || strings.Trim(w.text[from:to], string(rune(hole))) == "" {
		return
	}
	m(w.from[from], w.to[to-1])
}

func flats(list []*syntax.Word, source string) []flat {
	out := make([]flat, len(list))
	for i, w := range list {
		out[i] = flatten(w, source)
	}
	return out
}

func flatten(w *syntax.Word, source string) flat {
	var b strings.Builder
	var out flat
	add := func(c byte, from, to int) {
		b.WriteByte(c)
		out.from, out.to = append(out.from, from), append(out.to, to)
	}
	literal := func(from, to int, escapes string) {
		for i := from; i < to && i < len(source); i++ {
			if source[i] == '\\' && i+1 < to && (escapes == "" || strings.IndexByte(escapes, source[i+1]) >= 0) {
				i++
				add(source[i], i-1, i+1)
				continue
			}
			add(source[i], i, i+1)
		}
	}
	var parts func(list []syntax.WordPart, quoted bool)
	parts = func(list []syntax.WordPart, quoted bool) {
		for _, p := range list {
			from, to := int(p.Pos().Offset()), int(p.End().Offset())
			switch p := p.(type) {
			case *syntax.Lit:
				escapes := ""
				if quoted {
					escapes = "\"\\$`"
				}
				literal(from, to, escapes)
			case *syntax.SglQuoted:
				begin := from + 1
				if p.Dollar {
					begin++
				}
				for i := begin; i < to-1 && i < len(source); i++ {
					add(source[i], i, i+1)
				}
			case *syntax.DblQuoted:
				parts(p.Parts, true)
			default:
				add(hole, from, to)
			}
		}
	}
	parts(w.Parts, false)
	out.text = b.String()
	return out
}
