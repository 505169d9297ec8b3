package policy

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/script"
)

// part is an element of a call that the policy judges separately: a command, a path, or the whole call.
type part struct {
	kind, tool string
	subject    string
	command    *script.Command
	doubt      bool // whether the part represents unknown commands
	// paths contains the paths after all symbolic links are resolved. written contains the paths as the caller wrote
	// them.
	paths, written []string
	// loose contains the paths that are unknown before the command runs. outside contains the known paths of a command
	// outside of the roots.
	loose    []loosePath
	outside  []string
	domains  []string
	shell    bool // whether the part belongs to a script
	builtins []*Builtin
	// execution is set if the command is a program that is about to run. spellings contains the command with other names
	// of the program.
	execution *Execution
	// gated reports that the programs of the script are judged again when they are executed.
	gated     bool
	spellings []*script.Command
}

// Kind returns the kind of the permission that the call needs.
func (req *Request) Kind() string {
	switch {
	case req.Shell:
		return KindBash
	case req.Definition.Traits.ReadOnly:
		return req.Name
	}
	for _, p := range req.Schema.Params() {
		if p.Path != "" && p.Path != "read" {
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
			if target, _, err := follow(nil, abs); err == nil {
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
	a := script.Analyze(textIn(req.Args["command"]), script.Options{
		Dir: dir, Home: homeDir(), Stdin: textIn(req.Args["stdin"]), Gated: req.Gated, Open: string(req.Args["keep_stdin_open"]) == "true", Subset: p.rules.AllowList && !req.Gated, Listed: p.lists,
	})
	var out []part
	for i := range a.Commands {
		c := &a.Commands[i]
		pt := part{kind: KindBash, tool: req.Name, subject: c.String(), command: c, shell: true, gated: req.Gated}
		if !p.idle {
			p.operands(req, c, &pt)
		}
		if !slices.ContainsFunc(out, func(o part) bool { return o.subject == pt.subject && o.command != nil && o.command.Dir == c.Dir }) || len(out) > maxCompared {
			out = append(out, pt)
			d.Commands = append(d.Commands, pt.subject)
		}
	}
	d.Unknown = slices.Concat(d.Unknown, a.Doubts, a.Unknown)
	for _, doubt := range slices.Concat(a.Doubts, a.Refused) {
		if req.Gated {
			break
		}
		out = append(out, part{kind: KindBash, tool: req.Name, subject: doubt, doubt: true, shell: true})
	}
	if p.rules.AllowList {
		d.Programs = ByAnalysis
		if req.Gated {
			d.Programs = AtExecution
		}
	}
	if a.Bomb {
		out = append(out, part{kind: KindBash, tool: req.Name, subject: "a fork bomb", command: &script.Command{Words: []script.Word{{Text: bombName}}}, shell: true})
	}
	out = append(out, p.redirects(req, a)...)
	if p.pathRules {
		for i := range out {
			for _, l := range out[i].loose {
				if u := "the path " + l.shown + " is unknown before the command runs"; len(d.Unknown) < maxUnknown && !slices.Contains(d.Unknown, u) {
					d.Unknown = append(d.Unknown, u)
				}
			}
		}
	}
	return out
}

// redirects returns the files that the redirects of a script open.
func (p *Policy) redirects(req *Request, a *script.Analysis) (out []part) {
	for _, l := range []struct {
		files []script.File
		kind  string
	}{{a.Writes, KindEdit}, {a.Reads, "read"}} {
		for _, f := range l.files {
			path := locate(f.Dir, f.Path)
			if isStream(path) {
				continue
			}
			if l.kind == KindEdit && isDisk(path) {
				dd := &script.Command{Words: []script.Word{{Text: "dd"}, {Text: "of=" + path}}}
				out = append(out, part{kind: KindBash, tool: req.Name, subject: "> " + path, command: dd})
			}
			pt := part{kind: l.kind, tool: req.Name, subject: path, written: []string{path}, paths: []string{path}, shell: true}
			if target, _, err := follow(nil, path); err == nil && f.Path.Known() {
				pt.paths = []string{target}
			}
			if f.Path.Known() && (f.Dir != "" || filepath.IsAbs(f.Path.Text)) {
				pt.outside = p.outsideRoots(req, pt.paths)
			} else if !p.idle {
				pt.loose = []loosePath{loose(f.Dir, f.Path.Text, false)}
			}
			out = append(out, pt)
		}
	}
	return out
}

// Values of [Decision.Programs]. ByAnalysis means that scripts are analyzed before they run, AtExecution that each program
// is judged when a process executes it.
const (
	ByAnalysis  = "listed, by analysis"
	AtExecution = "listed, at execution"
)

// maxUnknown limits the number of unknown parts in a decision.
const maxUnknown = 20

// lists reports whether a rule lists a program with this name.
func (p *Policy) lists(name string) bool {
	return slices.ContainsFunc(p.rules.Rules, func(r Rule) bool {
		return slices.ContainsFunc(r.patterns, func(pattern script.Pattern) bool { return pattern.Names(name) })
	})
}

// maxCompared limits the search for duplicate commands. Commands after this number are added without a search.
const maxCompared = 200

func textIn(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s) // ignore the error: the text stays empty for other types
	return s
}

// locate returns the absolute form of a path. If the working directory is unknown, the result is relative.
func locate(dir string, w script.Word) string {
	text := strings.ReplaceAll(w.Text, script.Unknown, "…")
	switch {
	case filepath.IsAbs(text):
		return filepath.Clean(text)
	case dir == "":
		return filepath.Clean("/" + text)
	}
	return filepath.Join(dir, text)
}

// hosts returns the host names in a text. It finds them in URLs and in user@host:path.
func hosts(s string) []string {
	var out []string
	for _, word := range strings.Fields(s) {
		word = strings.Trim(word, `"'<>()[],;`)
		if strings.Contains(word, "://") {
			if u, err := url.Parse(word[max(0, scheme(word)):]); err == nil && u.Hostname() != "" {
				out = append(out, strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")))
			}
		} else if user, rest, ok := strings.Cut(word, "@"); ok && user != "" && !strings.ContainsAny(user, "/:=") {
			host, _, _ := strings.Cut(rest, ":")
			if strings.Contains(host, ".") && !strings.Contains(host, "/") {
				out = append(out, strings.ToLower(host))
			}
		}
	}
	return out
}

// scheme returns the index at which a URL begins in a word.
func scheme(word string) int {
	i := strings.Index(word, "://")
	for i > 0 && (word[i-1] >= 'a' && word[i-1] <= 'z' || word[i-1] >= 'A' && word[i-1] <= 'Z' || word[i-1] == '+') {
		i--
	}
	return i
}

// judge judges all parts of a call and adds the judgements to the decision.
func (p *Policy) judge(req *Request, parts []part, d *Decision) {
	for i := range parts {
		j := p.judgePart(req, &parts[i])
		if j.Effect != Allow || j.rule != nil {
			d.add(j)
		}
	}
	if d.Effect == Allow && req.Definition.Traits.Dangerous && !p.allowed(parts, d) {
		d.add(Judgement{Subject: req.Name, Effect: Ask, Kind: req.Name, Reason: req.Name + " is marked as dangerous and needs a confirmation"})
	}
}

// allowed reports whether a rule allows every part of a call.
func (p *Policy) allowed(parts []part, d *Decision) bool {
	n := 0
	for _, j := range d.Judged {
		if j.rule != nil && j.Effect == Allow {
			n++
		}
	}
	return len(parts) > 0 && n >= len(parts)
}

func (d *Decision) add(j Judgement) {
	rank := map[Effect]int{Allow: 0, Ask: 1, Deny: 2}
	d.Judged = append(d.Judged, j)
	if j.Effect == Ask {
		d.asks = append(d.asks, j)
	}
	if rank[j.Effect] > rank[d.Effect] || d.Rule == "" && d.Reason == "" && j.Effect == d.Effect {
		d.Effect, d.Kind, d.Rule, d.Reason = j.Effect, j.Kind, j.Rule, j.Reason
	}
}

// judgePart applies all rules to one part of a call.
func (p *Policy) judgePart(req *Request, pt *part) Judgement {
	return p.restrict(req, pt, p.judgeRules(req, pt))
}

// restrict applies the rules of an untrusted project file to a judgement. The result is never less strict than the
// judgement.
func (p *Policy) restrict(req *Request, pt *part, j Judgement) Judgement {
	for i := range p.rules.Project {
		r := &p.rules.Project[i]
		m := r.match(req, pt)
		switch {
		case m == script.No, m == script.Maybe && pt.gated:
		case r.Effect == Deny && m == script.Yes:
			if j.Effect != Deny {
				j = Judgement{Subject: pt.describe(), Kind: pt.kind}.by(r, "")
			}
			return j
		case j.Effect == Allow:
			j = Judgement{Subject: pt.describe(), Kind: pt.kind}.by(r, "")
			j.Effect = Ask
		}
	}
	return j
}

// judgeRules applies the operator's rules and the built-in rules to one part of a call. The strictest effect holds. Only
// a built-in rule that a matching rule names has no effect.
func (p *Policy) judgeRules(req *Request, pt *part) Judgement {
	out := Judgement{Kind: pt.kind, Effect: Allow}
	if pt.command != nil && !p.rules.NoBuiltin && (!pt.gated || pt.command.Words[0].Known()) {
		pt.builtins = builtins(req, pt.command)
		for _, c := range pt.spellings {
			pt.builtins = append(pt.builtins, builtins(req, c)...)
		}
	}
	isCommand := pt.command != nil || pt.doubt
	listing := p.rules.AllowList && pt.kind == KindBash && isCommand
	listed := false // whether a rule lists the command
	var ask, allow *Rule
	var lowered []string
	maybe := false
	for i := range p.rules.Rules {
		r := &p.rules.Rules[i]
		m := r.match(req, pt)
		if m == script.No || m == script.Maybe && pt.gated { // the execution is judged, where all is known
			continue
		}
		if r.Effect != Deny && m == script.Yes {
			lowered = append(lowered, r.Builtins...)
		}
		if out.Subject == "" {
			out.Subject = pt.describe()
		}
		if listing && r.Effect != Deny && m == script.Yes {
			listed = listed || r.lists(pt)
		}
		switch {
		case r.Effect == Deny && m == script.Yes:
			return out.by(r, "")
		case r.Effect == Allow:
			if allow == nil || allow.patterns == nil {
				allow = r
			}
		case ask == nil || maybe && m == script.Yes:
			ask, maybe = r, m == script.Maybe || r.Effect == Deny
		}
	}
	listed = listed || listing && p.startedBy(pt)
	floor := pt.floor(lowered)
	if out.Subject == "" && (pt.subject != "" || floor != nil || listing) {
		out.Subject = pt.describe()
	}
	if floor != nil && floor.Effect == Deny {
		return out.byBuiltin(floor)
	}
	if listing && !listed {
		if j := p.otherwise(pt, out); j.Effect == Deny {
			return j
		}
		if allow != nil && allow.patterns == nil {
			allow = nil // a rule without commands lists nothing
		}
	}
	switch {
	case ask != nil && maybe:
		j := out.by(ask, fmt.Sprintf("it cannot be determined in advance whether the rule applies to %q", pt.subject))
		j.Effect = Ask
		return j
	case ask != nil:
		return out.by(ask, "")
	case floor != nil && (allow != nil || listed || p.otherwise(pt, out).Effect != Deny):
		return out.byBuiltin(floor)
	case allow != nil:
		return out.by(allow, "")
	case listed:
		return out
	}
	return p.otherwise(pt, out)
}

// lists reports whether a rule lists the command of a part. A listed command matches a pattern exactly, also for rules
// that ask.
func (r *Rule) lists(pt *part) bool {
	return pt.command != nil && slices.ContainsFunc(r.patterns, pt.exact)
}

// byBuiltin returns the judgement of a built-in rule.
func (j Judgement) byBuiltin(b *Builtin) Judgement {
	j.Effect, j.Rule, j.Reason, j.builtin = b.Effect, fmt.Sprintf("%s %q (built-in)", b.Effect, b.Name), b.Reason, b.Name
	return j
}

// otherwise judges a part of a call without a matching rule.
func (p *Policy) otherwise(pt *part, out Judgement) Judgement {
	isCommand := pt.command != nil || pt.doubt
	listed := p.rules.AllowList && pt.kind == KindBash && isCommand
	switch {
	case pt.command != nil && (pt.command.Wrapper || harmless(pt.command) || pt.gated && unknownProgram(pt.command)) && (listed || p.rules.Default != ""):
		return out // the wrapped command is a separate part
	case listed && pt.doubt:
		out.Effect, out.Reason = Deny, "only listed commands are allowed, and "+pt.subject
		out.Rule = p.rules.ListedBy
	case listed:
		out.Effect, out.Reason = Deny, fmt.Sprintf("only listed commands are allowed, and %q is not listed", pt.subject)
		out.Rule = p.rules.ListedBy
	case pt.execution != nil: // the default is about calls
	case p.rules.Default != "" && p.rules.Default != Allow:
		out.Effect, out.Reason, out.Rule = p.rules.Default, "no rule allows it", fmt.Sprintf("default = %q", p.rules.Default)
	case pt.doubt && p.doubtful:
		out.Effect, out.Reason = Ask, "rules for commands exist, and "+pt.subject
	}
	return out
}

// harmless reports whether a command is a shell builtin that runs no program and changes only the shell.
func harmless(c *script.Command) bool {
	switch c.Words[0].Text {
	case "cd", ":", "true", "false", "test", "[", "pwd", "echo", "printf", "exit", "return", "break", "continue", "shift", "set", "unset", "export", "local",
		"declare", "typeset", "readonly", "wait", "read", "getopts", "type", "umask":
		return true
	}
	return c.Words[0].Text == "command" && len(c.Words) > 1 && strings.HasPrefix(c.Words[1].Text, "-")
}

// unknownProgram reports whether a command is a builtin of the shell, or a program whose name is unknown before the script
// runs.
func unknownProgram(c *script.Command) bool {
	return !c.Words[0].Known() || c.Words[0].Split || script.IsBuiltin(c.Words[0].Text)
}

// Decides reports whether the judgement is the result of the rule with the given name.
func (j Judgement) Decides(name string) bool {
	return j.rule != nil && j.rule.Name == name || j.rule == nil && j.Rule == fmt.Sprintf("%s %q (built-in)", j.Effect, name)
}

func (j Judgement) by(r *Rule, reason string) Judgement {
	if reason == "" {
		reason = r.Reason
	}
	if reason == "" {
		reason = fmt.Sprintf("the rule applies to %q", j.Subject)
	}
	j.Effect, j.Rule, j.Reason, j.rule = r.Effect, r.String(), reason, r
	return j
}

// rewrite sets parameters according to matching rules. Then it applies the deny rules to the changed call.
func (p *Policy) rewrite(req *Request, parts []part, d *Decision) error {
	var args map[string]json.RawMessage
	for i := range p.rules.Rules {
		r := &p.rules.Rules[i]
		if len(r.Set) == 0 || !slices.ContainsFunc(parts, func(pt part) bool { return r.match(req, &pt) == script.Yes }) {
			continue
		}
		if args == nil {
			args = make(map[string]json.RawMessage, len(req.Args)+len(r.Set))
			for name, v := range req.Args {
				args[name] = v
			}
		}
		for name, v := range r.Set {
			args[name] = v
			if !slices.Contains(d.Rewritten, name) {
				d.Rewritten = append(d.Rewritten, name)
			}
		}
	}
	if args == nil {
		return nil
	}
	slices.Sort(d.Rewritten)
	checked, bad := req.Schema.Check(args)
	if len(bad) > 0 {
		return tool.Errorf(tool.Internal, "The parameters that the configuration sets (%s) are invalid for %s: %s. Correct the set block of the rule.", strings.Join(d.Rewritten, ", "), req.Name, bad[0].Message)
	}
	req.Args = checked
	again := &Decision{Effect: Allow, Kind: d.Kind}
	for _, pt := range p.parts(req, again) {
		if j := p.judgePart(req, &pt); j.Effect == Deny {
			d.add(j)
		}
	}
	return nil
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}
