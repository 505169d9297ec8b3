package policy

import (
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/host/internal/scratch"
	"toolhost.dev/shellscript"
)

// loosePath is a path that is unknown before a command runs. The reason is a variable, a substitution, a pattern or an
// unknown directory in the path.
type loosePath struct {
	// forms contains absolute forms of the path, with [shellscript.Unknown] in place of unknown parts. In the second
	// form, the links in the known beginning are resolved.
	forms []string
	// pattern reports that the shell expands wildcards in the path.
	pattern bool
	shown   string // the path for messages
}

// loose returns the forms of an unknown path. An empty dir means that the working directory is unknown.
func loose(host hostFiles, dir, text string, pattern bool) loosePath {
	out := loosePath{pattern: pattern, shown: strings.ReplaceAll(text, shellscript.Unknown, "…")}
	full := text
	switch {
	case filepath.IsAbs(text):
	case strings.HasPrefix(text, shellscript.Unknown): // the unknown part can begin with a slash
	case dir == "":
		full = shellscript.Unknown + "/" + text
		out.shown = "…/" + out.shown
	default:
		full = dir + "/" + text
	}
	if i := strings.Index(full, shellscript.Unknown); i >= 0 { // the unknown part can contain "..", so drop the known beginning
		if full = full[i:]; hasDotDot(full) {
			full = shellscript.Unknown
		}
		out.forms = []string{full}
		return out
	}
	if hasDotDot(full) {
		out.forms = []string{shellscript.Unknown}
		return out
	}
	i := strings.IndexAny(full, "*?[")
	if i < 0 {
		i = len(full)
	}
	slash := strings.LastIndexByte(full[:i], '/')
	if slash < 0 {
		out.forms = []string{full}
		return out
	}
	head, rest := filepath.Clean(full[:slash+1]), full[slash+1:]
	out.forms = []string{strings.TrimSuffix(head, "/") + "/" + rest}
	if target, err := host.Follow(head); err == nil && target != head {
		out.forms = append(out.forms, strings.TrimSuffix(target, "/")+"/"+rest)
	}
	return out
}

// external reports whether the path can be outside of the roots. The temporary directory of a session counts as
// outside. A pattern matches only files below the directory that precedes the wildcard.
func (l *loosePath) external(req *Request) bool {
	return slices.ContainsFunc(l.forms, func(form string) bool {
		i := strings.IndexAny(form, "*?[")
		if strings.Contains(form, shellscript.Unknown) || !l.pattern || i < 0 {
			return true
		}
		rest, _ := scratch.Split(req.Call.Roots)
		_, inside := containing(rest, filepath.Clean(form[:strings.LastIndexByte(form[:i], '/')+1]))
		return !inside
	})
}

// isStream reports whether a path is a device without stored data, such as /dev/null.
func isStream(path string) bool {
	return slices.Contains([]string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty",
		"/dev/stdout", "/dev/stderr", "/dev/stdin"}, path) || strings.HasPrefix(path, "/dev/fd/")
}

// outsideRoots returns the paths that are outside of the call's roots. The temporary directory of a session counts as
// outside, because sandboxes without a private root file system show the host's temporary directory instead.
func (p *Policy) outsideRoots(req *Request, paths []string) (out []string) {
	if !p.external {
		return nil
	}
	rest, _ := scratch.Split(req.Call.Roots)
	for _, path := range paths {
		if _, inside := containing(rest, path); !inside && !isStream(path) {
			out = append(out, path)
		}
	}
	return out
}

// operands determines the files and hosts that a command can use from its words, and adds them to the part.
func (p *Policy) operands(req *Request, c *shellscript.Command, pt *part) {
	if c.Remote {
		return
	}
	if name := c.Words[0]; name.Known() && strings.Contains(name.Text, "/") &&
		(c.Dir != "" || filepath.IsAbs(name.Text)) {
		pt.written = append(pt.written, locate(c.Dir, name)) // executing a file also reads the file
	}
	// The arguments of echo and printf are plain text. A tool call in a script is judged later, when all its arguments
	// are known.
	text := c.Name() == "echo" || c.Name() == "printf" || strings.HasPrefix(c.Words[0].Text, "tool:")
	for _, w := range c.Words[1:] {
		option := strings.HasPrefix(w.Text, "-")
		if _, value, ok := strings.Cut(w.Text, "="); option && ok {
			pt.domains = append(pt.domains, hosts(value)...)
		} else if !option {
			pt.domains = append(pt.domains, hosts(w.Text)...)
		}
		if text || !p.pathRules {
			continue
		}
		for _, candidate := range candidates(w.Text) {
			p.operand(req, c, candidate, w.Split && w.Known(), pt)
		}
	}
}

// operand treats text as a possible path and adds the path to a part.
func (p *Policy) operand(req *Request, c *shellscript.Command, text string, pattern bool, pt *part) {
	if strings.Contains(text, shellscript.Unknown) || pattern && strings.ContainsAny(text, "*?[") ||
		c.Dir == "" && !filepath.IsAbs(text) {
		if !harmless(c) { // a builtin of the shell reads no file
			pt.loose = append(pt.loose, loose(req.host(), c.Dir, text, pattern))
		}
		if !strings.Contains(text, shellscript.Unknown) && !pattern {
			pt.written = append(pt.written, locate("", shellscript.Word{Text: text})) // the base name is known although the directory is unknown
		}
		return
	}
	at := locate(c.Dir, shellscript.Word{Text: text})
	pt.paths = append(pt.paths, at)
	whole := text // do not clean the path, because ".." after a link leads elsewhere
	if !filepath.IsAbs(text) {
		whole = c.Dir + "/" + text
	}
	target := req.files().follow(whole)
	if target != at {
		pt.paths = append(pt.paths, target)
	}
	if n := len(pt.loose); req.files().uncertain && (n == 0 || pt.loose[n-1].shown != "…") { // add at most one entry
		pt.loose = append(pt.loose, loose(req.host(), c.Dir, shellscript.Unknown, false))
	}
	pt.outside = append(pt.outside, p.outsideRoots(req, []string{target})...)
}

// candidates returns the substrings of a word that can be paths: the word itself, the texts after "=", "@" or an option
// letter, and the texts between colons.
func candidates(word string) (out []string) {
	if strings.HasPrefix(word, "-") {
		_, value, ok := strings.Cut(word, "=")
		switch {
		case ok:
			word = value
		case strings.HasPrefix(word, "--") || len(word) < 3 || word == shellscript.Unknown:
			return nil
		case strings.ContainsAny(word[2:], "/."+shellscript.Unknown):
			word = word[2:]
		default:
			return nil
		}
	}
	word = strings.TrimPrefix(word, "@")
	if word == "" || strings.Contains(word, "://") {
		return nil
	}
	out = append(out, word)
	if name, value, ok := strings.Cut(word, "="); ok && value != "" && !strings.Contains(name, "/") {
		out = append(out, strings.TrimPrefix(value, "@"))
	}
	if strings.Contains(word, ":") && strings.Contains(word, "/") {
		out = append(out, slices.DeleteFunc(strings.Split(word, ":"), func(s string) bool { return s == "" })...)
	}
	return out
}
