package policy

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"toolhost.dev/host/internal/script"
	"toolhost.dev/sdk/tool"
)

// Execution describes a process that is about to execute a program.
type Execution struct {
	// Path is the program as the process names it. File is the absolute path of the program after all links are resolved.
	// If the process executes an open file, Path is File.
	Path, File string
	// Fingerprint identifies the content of the program, to recognize copies of programs that rules name. It can be empty.
	Fingerprint string
	// Args contains the arguments, beginning with the name that the process chose for the program.
	Args []string
	// Dir is the working directory of the process, as an absolute path. Relative arguments start there.
	Dir string
	// Ancestors contains the programs of the parent processes within the call, the nearest first.
	Ancestors []Ancestor

	// Tool is the full name of the tool that the call runs. Call is the call, whose roots apply. Workspace is the base
	// directory of relative paths in rules.
	Tool      string
	Call      *tool.Call
	Workspace string
	// Since is the start of the session; see [Request.Since].
	Since time.Time
	// Before is the file that the process has executed until now. It can be empty if the program is not one of git's own.
	Before string
	// BeforeArgs contains the arguments with which it was executed. Nil means that they are unknown.
	BeforeArgs []string
	// GitSettings reports that a variable of the program's environment changes the settings of git.
	GitSettings bool
	// WorkTree is the variable GIT_WORK_TREE of the program's environment. GitDir reports that it contains GIT_DIR.
	WorkTree string
	GitDir   bool
	// Files is the file system as the process sees it. Nil means that it is the one of the host.
	Files Files

	copies []string // names of the programs of which the program is a copy
}

// Ancestor is the program of a parent process.
type Ancestor struct {
	Path, File string
	Args       []string
}

// JudgeExecution decides whether a process can execute a program. Deny rules, ask rules and built-in rules apply in
// every mode. With [Rules.AllowList], the program must also be listed. [Rules.Default] does not apply, because it is
// about calls and not about what a program starts. The subject of the judgement is empty if the program is allowed and no
// rule matched.
func (p *Policy) JudgeExecution(x *Execution) Judgement {
	out := p.judgeExecution(x)
	if inner := x.loaded(); inner != nil {
		out = stricter(out, p.judgeExecution(inner))
		out.Loads = inner.File
	}
	return out
}

// loaded returns the program that a dynamic linker runs, or nil for another program.
func (x *Execution) loaded() *Execution {
	if !script.IsLoader(x.Path) && !script.IsLoader(x.File) && !slices.ContainsFunc(x.copies, script.IsLoader) {
		return nil
	}
	words := script.Loaded(x.Args)
	if words == nil {
		return nil
	}
	out := *x
	out.Path, out.File, out.Args, out.Before = words[0], words[0], words, "" // git does not start itself in this way
	if !filepath.IsAbs(out.File) {
		out.File = x.Dir + "/" + words[0] // not cleaned, because .. after a link leads elsewhere
	}
	files := newTree(x.Files)
	out.File = files.follow(out.File)
	out.Fingerprint = files.files.Fingerprint(out.File)
	return &out
}

func (p *Policy) judgeExecution(x *Execution) Judgement {
	out := Judgement{Kind: KindBash, Effect: Allow}
	x.copies = p.originals(x)
	if p.unruled && !p.rules.AllowList && !p.rules.Careful && (p.rules.NoBuiltin || !concerns(x)) {
		return out
	}
	req := &Request{Name: x.Tool, Call: x.Call, Workspace: x.Workspace, Since: x.Since, tree: newTree(x.Files), workTree: x.WorkTree, gitDir: x.GitDir}
	// Git starts itself by this path, for example at the end of "git stash" and "git submodule add", after it has saved what
	// it discards or where nothing can be lost. The command that a caller wrote was already judged. In the shells that git
	// starts, the path is the first one as well: for aliases, hooks and "git bisect run".
	// What git executes for an alias was not.
	req.byGit = slices.Contains(gitPaths, x.Path) && isGit(x.Before) && (x.BeforeArgs == nil || script.IsGitCommand(x.BeforeArgs))
	if req.Call == nil {
		req.Call = new(tool.Call)
	}
	commands, doubts := p.carried(x)
	for _, doubt := range doubts {
		if p.rules.AllowList {
			out = stricter(out, p.judgePart(req, &part{kind: KindBash, tool: x.Tool, subject: doubt, doubt: true, shell: true}))
		}
	}
	for i := range commands {
		c := &commands[i]
		pt := part{kind: KindBash, tool: x.Tool, command: c, shell: true}
		if i == 0 {
			pt.execution, pt.spellings = x, p.spellings(x, c)
		}
		pt.spellings = append(pt.spellings, corrections(c)...)
		if p.pathRules || p.domains {
			p.operands(req, c, &pt)
		}
		out = stricter(out, p.judgePart(req, &pt))
	}
	return out
}

// corrections returns what git can carry out in place of a mistyped command.
func corrections(c *script.Command) (out []*script.Command) {
	all := c.Corrections()
	for i := range all {
		out = append(out, &all[i])
	}
	return out
}

// carried returns the commands that a program carries out, beginning with the program itself.
func (p *Policy) carried(x *Execution) (commands []script.Command, doubts []string) {
	program := p.isProgram(x, x.Path)
	words := x.words(program)
	o := script.Options{Dir: x.Dir, Home: homeDir(), GitSettings: x.GitSettings}
	commands, doubts = script.Carry(words, o)
	commands[0].Wrapper = commands[0].Wrapper && program && (x.invoked() == filepath.Base(x.Path) || script.Starts(x.invoked()))
	seen := []string{filepath.Base(x.Path), ""}
	for _, name := range slices.Concat([]string{x.invoked(), filepath.Base(x.File)}, x.copies) {
		if slices.Contains(seen, name) {
			continue
		}
		seen = append(seen, name)
		words[0] = strings.ReplaceAll(name, script.Unknown, "\x02")
		more, unclear := script.Carry(words, o)
		commands, doubts = append(commands, more[1:]...), append(doubts, unclear...)
	}
	return commands, doubts
}

// ConfirmExecution completes a judgement of [Policy.JudgeExecution] for a tool. If a rule requires a confirmation, it asks
// a person, unless the decision d on the call already contains the person's answer about the same command. The error
// describes a denial.
func ConfirmExecution(ctx context.Context, name string, j Judgement, d *Decision, asker Asker, answers Answers) (Judgement, error) {
	if j.Effect == Allow {
		return j, nil
	}
	e := &Decision{Effect: Allow, Kind: j.Kind}
	e.add(j)
	if j.Effect == Deny {
		return j, denied(name, e)
	}
	if d != nil && d.Effect == Allow && slices.ContainsFunc(d.asks, func(asked Judgement) bool { return asked.Subject == j.Subject && asked.Rule == j.Rule }) {
		j.Effect = Allow
		return j, nil
	}
	if err := e.resolve(ctx, name, asker, answers); err != nil {
		j.Effect = Deny
		return j, err
	}
	j.Effect = Allow
	return j, nil
}

// Listed returns the patterns for the names of all programs that can be executed with [Rules.AllowList]: the listed
// programs, what they can start, shells, and programs that only start others. In a pattern, * matches any text.
func (p *Policy) Listed() (names []string) {
	for i := range p.rules.Rules {
		r := &p.rules.Rules[i]
		if r.Effect == Deny {
			continue
		}
		for _, pattern := range r.patterns {
			names = append(names, pattern.Name())
		}
		names = append(names, r.Starts...)
	}
	names = append(names, script.Starters()...)
	slices.Sort(names)
	return slices.Compact(names)
}

// Lists reports whether only listed programs can be executed.
func (p *Policy) Lists() bool { return p.rules.AllowList }

// Unlisted reports whether a judgement denies a program only because it is not listed.
func (p *Policy) Unlisted(j *Judgement) bool {
	return p.rules.AllowList && j.Effect == Deny && j.Rule == p.rules.ListedBy
}

// Interprets reports whether a program is an interpreter of scripts that tools cannot change.
func (p *Policy) Interprets(x *Execution) bool {
	return script.Interprets(x.Path) && script.Interprets(x.File) && (p.isProgram(x, x.Path) || p.isProgram(x, x.File))
}

// stricter returns the judgement with the stricter effect, or else the one in which a rule matched.
func stricter(a, b Judgement) Judgement {
	rank := map[Effect]int{Allow: 0, Ask: 1, Deny: 2}
	if rank[b.Effect] > rank[a.Effect] || b.Effect == a.Effect && a.Rule == "" {
		return b
	}
	return a
}

// words returns the words of the command. A program that the shell would find without a path has only its name.
func (x *Execution) words(program bool) []string {
	out := make([]string, max(1, len(x.Args)))
	for i, a := range x.Args {
		out[i] = strings.ReplaceAll(a, script.Unknown, "\x02") // all arguments are known
	}
	if out[0] = x.Path; program {
		out[0] = filepath.Base(x.Path)
	}
	out[0] = strings.ReplaceAll(out[0], script.Unknown, "\x02")
	return out
}

// invoked returns the base name under which the program runs. The dash of a login shell is not a part of it.
func (x *Execution) invoked() string {
	if len(x.Args) == 0 || x.Args[0] == "" {
		return ""
	}
	return filepath.Base(strings.TrimPrefix(x.Args[0], "-"))
}

// gitPaths contains the paths by which git starts itself.
var gitPaths = []string{"/usr/lib/git-core/git", "/usr/libexec/git-core/git"}

// isGit reports whether a file is git or one of its programs. Tools cannot change these files.
func isGit(file string) bool {
	dir, name := filepath.Dir(file), filepath.Base(file)
	return (name == "git" || strings.HasPrefix(name, "git-")) && (slices.Contains(gitPaths, dir+"/git") || slices.Contains(script.SystemDirs, dir))
}

// isProgram reports whether a path is in a directory that is searched for programs, and which tools cannot change. A path
// with ".." is not, because the kernel follows a link before "..", so it can lead to another directory.
func (p *Policy) isProgram(x *Execution, path string) bool {
	dir := filepath.Dir(path)
	if !filepath.IsAbs(path) || path != filepath.Clean(path) || !slices.Contains(script.SystemDirs, dir) && !slices.Contains(p.rules.Search, dir) {
		return false
	}
	if x.Call != nil {
		if root, inside := containing(x.Call.Roots, dir); inside && root.Writable {
			return false
		}
	}
	return true
}

// originals returns the names of the programs that rules name and of which an execution's program is a copy.
func (p *Policy) originals(x *Execution) []string {
	if x.Fingerprint == "" || p.isProgram(x, x.File) || slices.Contains(gitPaths, filepath.Dir(x.File)+"/git") {
		return nil
	}
	p.named.Do(func() { p.prints = p.fingerprints() })
	return p.prints[x.Fingerprint]
}

// loaders lists globs for dynamic linkers.
var loaders = []string{"/lib/ld-*.so*", "/lib64/ld-*.so*", "/lib/*-linux-gnu*/ld-*.so*", "/libexec/ld-*.so*"}

// fingerprints returns the names of the programs of the system that rules name, by their fingerprints.
func (p *Policy) fingerprints() map[string][]string {
	globs, dirs := slices.Clone(loaders), []string(nil)
	for _, dir := range slices.Concat(script.SystemDirs, p.rules.Search) {
		if target, err := filepath.EvalSymlinks(dir); err == nil && !slices.Contains(dirs, target) {
			dirs = append(dirs, target)
		}
	}
	for name := range p.ruled() {
		if strings.HasPrefix(name, "/") {
			globs = append(globs, name)
			continue
		}
		for _, dir := range dirs {
			globs = append(globs, filepath.Join(dir, name))
		}
	}
	out := make(map[string][]string)
	for _, glob := range globs {
		paths, _ := filepath.Glob(glob) // an invalid pattern matches nothing
		for _, path := range paths {
			file, err := filepath.EvalSymlinks(path)
			if err != nil {
				continue
			}
			content := hostFiles{}.Fingerprint(file)
			for _, name := range []string{filepath.Base(path), filepath.Base(file), path} { // rules can name a path
				if content != "" && !slices.Contains(out[content], name) {
					out[content] = append(out[content], name)
				}
			}
		}
	}
	return out
}

// ruled returns the names of the programs about which rules ask or which they deny.
func (p *Policy) ruled() map[string]bool {
	out := make(map[string]bool)
	if !p.rules.NoBuiltin {
		maps.Copy(out, concerned)
	}
	if p.rules.Careful && !p.rules.NoBuiltin {
		for _, all := range []map[string][]script.Pattern{publishing, telling, reverting} {
			for name := range all {
				out[name] = true
			}
		}
		for _, name := range senders {
			out[name] = true
		}
	}
	for _, r := range slices.Concat(p.rules.Rules, p.rules.Project) {
		for _, pattern := range r.patterns {
			if name := pattern.Name(); r.Effect != Allow && strings.Trim(name, "*?/") != "" {
				out[name] = true
			}
		}
	}
	return out
}

// spellings returns the command with other names of the program: its paths, the name of its file, and the name under
// which it runs. A rule that denies or asks applies if it matches one of them.
func (p *Policy) spellings(x *Execution, c *script.Command) (out []*script.Command) {
	seen := []string{c.Words[0].Text}
	for _, name := range slices.Concat([]string{x.Path, x.File, filepath.Base(x.Path), filepath.Base(x.File), x.invoked()}, x.copies) {
		name = strings.ReplaceAll(name, script.Unknown, "\x02")
		if name == "" || name == "." || name == "/" || slices.Contains(seen, name) {
			continue
		}
		seen = append(seen, name)
		other := *c
		other.Words = slices.Concat([]script.Word{{Text: name}}, c.Words[1:])
		out = append(out, &other)
	}
	return out
}

// match compares the command of a part with a pattern of a rule that denies or asks.
func (pt *part) match(pattern script.Pattern) script.Match {
	best := pattern.Match(pt.command)
	for _, c := range pt.spellings {
		best = max(best, pattern.Match(c))
	}
	return best
}

// exact reports whether a pattern of a rule that allows or lists matches the command of a part. For a program that is
// about to run, it must match the program that the process asks for, and also the name under which the program runs:
// some programs do the work of many, and choose by this name.
func (pt *part) exact(pattern script.Pattern) bool {
	x := pt.execution
	if x == nil {
		return pattern.Exact(pt.command)
	}
	asked := pattern.Exact(pt.command)
	for _, c := range pt.spellings {
		if name := c.Words[0].Text; filepath.IsAbs(name) && (name == x.Path || name == x.File) {
			asked = asked || pattern.NamesPath() && pattern.Exact(c)
		}
	}
	if !asked {
		return false
	}
	name := x.invoked()
	if name == filepath.Base(x.Path) {
		return true
	}
	as := *pt.command
	as.Words = slices.Concat([]script.Word{{Text: name}}, as.Words[1:])
	return name != "" && pattern.Exact(&as)
}

// starters returns the rules that list an ancestor of the program of a part, and permit it to start the program.
func (p *Policy) starters(pt *part) (out []*Rule) {
	x := pt.execution
	if x == nil || !p.starting {
		return nil
	}
	name := filepath.Base(x.Path)
	for i := range x.Ancestors {
		a := &x.Ancestors[i]
		up := &Execution{Path: a.Path, File: a.File, Args: a.Args, Call: x.Call}
		words := up.words(p.isProgram(up, a.Path))
		c := &script.Command{Words: make([]script.Word, len(words))}
		for i, text := range words {
			c.Words[i].Text = text
		}
		above := part{command: c, execution: up, spellings: p.spellings(up, c)}
		for k := range p.rules.Rules {
			r := &p.rules.Rules[k]
			if r.Effect != Deny && r.starts(name) && (x.invoked() == name || r.starts(x.invoked())) && r.lists(&above) {
				out = append(out, r)
			}
		}
	}
	return out
}

// starts reports whether a program that the rule lists can start a program with this name.
func (r *Rule) starts(name string) bool {
	return slices.ContainsFunc(r.Starts, func(glob string) bool { return script.MatchName(glob, name) })
}

// maxSubject limits the length of a command in a judgement.
const maxSubject = 4096

// describe returns the command of a part for messages. The digest of a shortened command makes different commands
// different subjects, because answers are remembered for a subject.
func (pt *part) describe() string {
	if pt.subject != "" || pt.command == nil {
		return pt.subject
	}
	s := pt.command.String()
	if len(s) > maxSubject {
		s = fmt.Sprintf("%s… (sha256 %x)", strings.ToValidUTF8(s[:maxSubject], ""), sha256.Sum256([]byte(s)))
	}
	pt.subject = s
	return s
}
