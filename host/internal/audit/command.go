package audit

import (
	"path"
	"slices"
	"strings"

	"toolhost.dev/shellscript/source"
)

// maxNested limits the nesting depth of scripts inside scripts.
const maxNested = 4

// span is the position of a secret in a text, in bytes.
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

// mask receives the position of each secret in the analyzed text.
type mask func(from, to int)

// script masks the secrets in a script.
func (f *finder) script(text string, depth int, m mask) {
	if depth > maxNested {
		return
	}
	for n := range source.Scan(text) {
		switch n := n.(type) {
		case source.Assignment:
			for _, v := range n.Values {
				if secretVariable(n.Name, v.Text) {
					hide(v, 0, len(v.Text), m)
				}
			}
		case source.Command:
			f.call(n.Words, depth, m)
			f.inputs(n, depth, m)
			if readsPassword(n.Words) {
				piped(n.Writer, m)
			}
		}
	}
}

// inputs analyzes here-documents and here-strings of a command, which can contain scripts or passwords.
func (f *finder) inputs(c source.Command, depth int, m mask) {
	for _, in := range c.Inputs {
		switch {
		case readsPassword(c.Words):
			hide(in, 0, len(strings.TrimRight(in.Text, "\n")), m)
		case slices.ContainsFunc(c.Words, func(a source.Word) bool { return runsText[path.Base(a.Text)] }):
			f.script(in.Text, depth+1, func(from, to int) { hide(in, from, to, m) })
		}
	}
}

// piped masks the output of a command such as "echo", which a command reads as a password.
func piped(args []source.Word, m mask) {
	if len(args) == 0 || args[0].Text != "echo" && args[0].Text != "printf" {
		return
	}
	for _, a := range args[1:] {
		if !strings.HasPrefix(a.Text, "-") && !strings.HasPrefix(a.Text, "%") {
			hide(a, 0, len(a.Text), m)
		}
	}
}

// readsPassword reports whether a command reads a password from standard input.
func readsPassword(args []source.Word) bool {
	has := func(names ...string) bool {
		return slices.ContainsFunc(args, func(a source.Word) bool { return slices.Contains(names, path.Base(a.Text)) })
	}
	switch {
	case has("chpasswd", "kinit", "cryptsetup", "--password-stdin", "--with-token", "--passphrase-fd", "--pass-stdin",
		"--token-stdin"):
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

// call masks the secrets in the words of a simple command.
func (f *finder) call(args []source.Word, depth int, m mask) {
	nested := false
	for i, a := range args {
		name := path.Base(a.Text)
		nested = nested || runsText[name]
		if nested && strings.ContainsAny(a.Text, " \t\n;") {
			f.script(a.Text, depth+1, func(from, to int) { hide(a, from, to, m) })
		}
		if p, ok := programs[name]; ok {
			p.secrets(args[i+1:], m)
		}
	}
	if len(args) > 1 {
		options(args[0].Text, args[1:], m)
	}
}

// options masks the values of options and variables with a secret name. It applies to every program.
func options(program string, args []source.Word, m mask) {
	for i, a := range args {
		name, value, valued := strings.Cut(a.Text, "=")
		option := strings.HasPrefix(name, "-")
		switch {
		case valued && option && strings.Contains(value, "="): // --build-arg=NAME=VALUE
			inner, v, _ := strings.Cut(value, "=")
			if isName(inner) && secretVariable(inner, v) {
				hide(a, len(a.Text)-len(v), len(a.Text), m)
			}
		case valued && option:
			if SecretName(name) && !harmlessValue(value) {
				hide(a, len(a.Text)-len(value), len(a.Text), m)
			}
		case valued:
			if _, last, ok := strings.Cut(name, ":"); ok { // the form key:subkey=VALUE
				name = last
			}
			if isName(name) && secretVariable(name, value) {
				hide(a, len(a.Text)-len(value), len(a.Text), m)
			}
		case option && SecretName(name) && !bareFlags[strings.TrimLeft(name, "-")] && i+1 < len(args) &&
			!strings.HasPrefix(args[i+1].Text, "-"):
			if v := args[i+1]; strings.HasPrefix(name, "--") && program != "sort" && !harmlessValue(v.Text) {
				hide(v, 0, len(v.Text), m)
			}
		}
	}
}

// bareFlags contains options without a value whose names look like names of secrets.
var bareFlags = map[string]bool{
	"password-stdin": true, "no-password": true, "with-token": true, "prompt-password": true, "ask-pass": true,
	"ask-become-pass": true, "ask-vault-pass": true, "no-auth": true, "list-secret-keys": true, "list-keys": true, "delete-secret-key": true, "recv-keys": true, "export-secret-keys": true,
}

func isName(s string) bool {
	return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") == "" && strings.Trim(s, "0123456789.-") != ""
}

// hide masks a part of a word. A part that consists only of expansions stays, because expansions contain no secrets.
func hide(w source.Word, from, to int, m mask) {
	if from < 0 || to > len(w.Text) || from >= to || strings.Trim(w.Text[from:to], string(rune(source.Hole))) == "" {
		return
	}
	m(w.Span(from, to))
}
