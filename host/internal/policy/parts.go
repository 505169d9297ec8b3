package policy

import (
	"encoding/json"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/shellscript"
)

// part is an element of a call that the policy judges separately: a command, a path, or the whole call.
type part struct {
	kind, tool string
	subject    string
	command    *shellscript.Command
	// removal is a command that removes the same files as the diffs in the call.
	removal *shellscript.Command
	doubt   bool // whether the part represents unknown commands
	unread  bool // whether the parser could not read the script, so that the built-in rules saw none of its commands
	// paths contains the paths with all symbolic links resolved. The field "written" contains the paths as the caller
	// wrote them.
	paths, written []string
	// loose contains the paths that are unknown before the command runs. The field "outside" contains the
	// known paths of the command that are outside of the roots.
	loose    []loosePath
	outside  []string
	domains  []string
	shell    bool // whether the part belongs to a script
	builtins []*Builtin
	// execution is set if the command is a program that is about to run. The field "spellings" contains the command
	// with other names of the same program.
	execution *Execution
	// gated reports whether each program of the script is judged again when it is executed.
	gated     bool
	spellings []*shellscript.Command
}

// Kind returns the kind of permission that the call needs.
func (req *Request) Kind() string {
	switch {
	case req.Shell:
		return KindBash
	case req.Definition.Category == tool.CategoryRelay:
		return KindRelay
	case req.Definition.Traits.ReadOnly:
		return req.Name
	}
	for _, p := range req.Schema.Params() {
		if p.Path != "" && p.Path != tool.PathRead {
			return KindEdit
		}
	}
	return req.Name
}

// parts splits a call into the elements that the policy judges separately.
func (p *Policy) parts(req *Request, d *Decision) []part {
	if req.Shell {
		return p.scriptParts(req, d)
	}
	var out []part
	var domains []string
	for _, param := range req.Schema.Params() {
		raw, given := req.Args[param.Name]
		if !given {
			continue
		}
		if param.Path == "" {
			for _, s := range pathsIn(raw) {
				domains = append(domains, hosts(s)...)
			}
			continue
		}
		paths := pathsIn(raw)
		if param.Path == "diff" {
			paths = pathsInDiff(paths)
		}
		for _, path := range paths {
			abs := absolute(req.Call, path)
			pt := part{kind: d.Kind, tool: req.Name, subject: abs, paths: []string{abs}}
			if target, err := req.host().Follow(abs); err == nil {
				pt.paths, pt.written = []string{target}, []string{abs}
			}
			out = append(out, pt)
		}
	}
	if len(out) == 0 {
		out = append(out, part{kind: d.Kind, tool: req.Name, subject: req.Name})
	}
	for i := range out {
		out[i].domains = domains
	}
	return out
}

// scriptParts returns the commands in a script and the files that its redirects open.
func (p *Policy) scriptParts(req *Request, d *Decision) []part {
	dir := req.Call.Cwd
	if cwd := textIn(req.Args["cwd"]); cwd != "" {
		dir = absolute(req.Call, cwd)
	}
	a := shellscript.Analyze(textIn(req.Args["command"]), shellscript.Options{
		Dir: dir, Home: homeDir(), Stdin: textIn(req.Args["stdin"]), Gated: req.Gated,
		MoreStdin: string(req.Args["keep_stdin_open"]) == "true", Subset: p.rules.AllowList && !req.Gated,
		Listed: p.lists,
	})
	d.analysis = a
	var out []part
	if dir != req.Call.Cwd && !p.idle { // judge the working directory of the call as a cd command, because path rules apply to it
		c := &shellscript.Command{Words: []shellscript.Word{{Text: "cd"}, {Text: dir}}, Dir: req.Call.Cwd}
		pt := part{kind: KindBash, tool: req.Name, subject: c.String(), command: c, shell: true, gated: req.Gated}
		p.operands(req, c, &pt)
		out = append(out, pt)
	}
	for i := range a.Commands {
		c := &a.Commands[i]
		pt := part{kind: KindBash, tool: req.Name, subject: c.String(), command: c, shell: true, gated: req.Gated,
			spellings: corrections(c)}
		if !p.idle {
			p.operands(req, c, &pt)
		}
		if !slices.ContainsFunc(out, func(o part) bool {
			return o.subject == pt.subject && o.command != nil && o.command.Dir == c.Dir &&
				o.command.Obscure == c.Obscure
		}) || len(out) > maxCompared {
			out = append(out, pt)
			d.Commands = append(d.Commands, pt.subject)
		}
	}
	d.Unknown = slices.Concat(d.Unknown, a.Doubts, a.Unknown)
	for _, doubt := range slices.Concat(a.Doubts, a.Refused) {
		if req.Gated {
			break
		}
		out = append(out, part{
			kind: KindBash, tool: req.Name, subject: doubt, doubt: true, unread: a.Unread, shell: true,
		})
	}
	if p.rules.AllowList {
		d.Programs = ByAnalysis
		if req.Gated {
			d.Programs = AtExecution
		}
	}
	if a.ForkBomb {
		out = append(out, part{
			kind: KindBash, tool: req.Name, subject: "a fork bomb",
			command: &shellscript.Command{Words: []shellscript.Word{{Text: bombName}}}, shell: true,
		})
	}
	out = append(out, p.redirects(req, a)...)
	if p.pathRules {
		d.doubtPaths(out)
	}
	return out
}

// doubtPaths records the paths of parts that are unknown before the command runs.
func (d *Decision) doubtPaths(parts []part) {
	for i := range parts {
		for _, l := range parts[i].loose {
			u := "the path " + l.shown + " is unknown before the command runs"
			if len(d.Unknown) < maxUnknown && !slices.Contains(d.Unknown, u) {
				d.Unknown = append(d.Unknown, u)
			}
		}
	}
}

// redirects returns parts for the files that the redirects of a script open.
func (p *Policy) redirects(req *Request, a *shellscript.Analysis) (out []part) {
	for _, l := range []struct {
		files []shellscript.File
		kind  string
	}{{a.Writes, KindEdit}, {a.Reads, "read"}} {
		for _, f := range l.files {
			path := locate(f.Dir, f.Path)
			if isStream(path) {
				continue
			}
			if l.kind == KindEdit && isDisk(path) {
				dd := &shellscript.Command{Words: []shellscript.Word{{Text: "dd"}, {Text: "of=" + path}}}
				out = append(out, part{kind: KindBash, tool: req.Name, subject: "> " + path, command: dd})
			}
			if to, ok := strings.CutPrefix(path, "/dev/tcp/"); ok || strings.HasPrefix(path, "/dev/udp/") { // bash opens a network connection for these paths
				host, _, _ := strings.Cut(strings.TrimPrefix(to, "/dev/udp/"), "/")
				nc := &shellscript.Command{Words: []shellscript.Word{{Text: "nc"}, {Text: host}}}
				out = append(out, part{kind: KindBash, tool: req.Name, subject: "> " + path, command: nc})
			}
			pt := part{
				kind: l.kind, tool: req.Name, subject: path, written: []string{path}, paths: []string{path},
				shell: true,
			}
			if target, err := req.host().Follow(path); err == nil && f.Path.Known() {
				pt.paths = []string{target}
			}
			if f.Path.Known() && (f.Dir != "" || filepath.IsAbs(f.Path.Text)) {
				pt.outside = p.outsideRoots(req, pt.paths)
			} else if !p.idle {
				pt.loose = []loosePath{loose(req.host(), f.Dir, f.Path.Text, false)}
			}
			out = append(out, pt)
		}
	}
	return out
}

// These are the values of [Decision.Programs]. ByAnalysis means that scripts are analyzed before they run. AtExecution
// means that each program is judged when a process executes it.
const (
	ByAnalysis  = "listed, by analysis"
	AtExecution = "listed, at execution"
)

// maxUnknown limits the number of unknown parts in a decision.
const maxUnknown = 20

// lists reports whether a rule lists a program with this name.
func (p *Policy) lists(name string) bool {
	return slices.ContainsFunc(p.rules.Rules, func(r Rule) bool {
		return slices.ContainsFunc(r.patterns, func(pattern shellscript.Pattern) bool { return pattern.Names(name) })
	})
}

// maxCompared limits the search for duplicate commands. After this number of commands, further commands are added
// without a search.
const maxCompared = 200

func textIn(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s) // ignore the error: the result is empty if the argument is not a string
	return s
}

// locate returns the absolute form of a path. If the working directory is unknown, the result is relative.
func locate(dir string, w shellscript.Word) string {
	text := strings.ReplaceAll(w.Text, shellscript.Unknown, "…")
	switch {
	case filepath.IsAbs(text):
		return filepath.Clean(text)
	case dir == "":
		return filepath.Clean("/" + text)
	}
	return filepath.Join(dir, text)
}

// hosts returns the host names in a text. It finds host names in URLs and in user@host:path.
func hosts(s string) []string {
	var out []string
	for _, word := range strings.Fields(s) {
		word = strings.Trim(word, `"'<>()[],;`)
		if strings.Contains(word, "://") {
			if u, err := url.Parse(word[max(0, scheme(word)):]); err == nil && u.Hostname() != "" {
				out = append(out, hostOf(u.Hostname()))
			}
		} else if user, rest, ok := strings.Cut(word, "@"); ok && user != "" && !strings.ContainsAny(user, "/:=") {
			host, _, _ := strings.Cut(rest, ":")
			if strings.Contains(host, ".") && !strings.Contains(host, "/") {
				out = append(out, hostOf(host))
			}
		}
	}
	return out
}

// hostOf returns the form of a host that rules use. An IPv4 address has many notations: "::ffff:127.0.0.1", "0x7f.1"
// and "2130706433" all mean 127.0.0.1.
func hostOf(host string) string {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap().WithZone("").String()
	}
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return host
	}
	var address uint64
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 0, 32) // as in inet_aton(3): a leading 0 means octal, and 0x means hexadecimal
		rest := 8 * (4 - i)                      // number of remaining bits
		switch last := i == len(parts)-1; {
		case err != nil || strings.Contains(part, "_") || !last && n > 255 || last && rest < 64 && n >= 1<<rest:
			return host
		case last:
			address |= n
		default:
			address |= n << (rest - 8)
		}
	}
	return netip.AddrFrom4([4]byte{byte(address >> 24), byte(address >> 16), byte(address >> 8), byte(address)}).
		String()
}

// scheme returns the index at which a URL begins in a word.
func scheme(word string) int {
	i := strings.Index(word, "://")
	for i > 0 && (word[i-1] >= 'a' && word[i-1] <= 'z' || word[i-1] >= 'A' && word[i-1] <= 'Z' || word[i-1] == '+') {
		i--
	}
	return i
}
