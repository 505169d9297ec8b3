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

	"toolhost.dev/host/internal/scratch"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/shellscript"
)

// Execution describes a process that is about to execute a program.
type Execution struct {
	// Path is the path of the program in the system call. File is the absolute path of the program after all links are
	// resolved. If the process executes an open file, Path equals File.
	Path, File string
	// Fingerprint identifies the content of the program. It reveals copies of programs that rules name. It can be
	// empty.
	Fingerprint string
	// Args contains the arguments. The first argument is the name that the process chose for the program.
	Args []string
	// Dir is the absolute working directory of the process. Relative arguments are relative to Dir.
	Dir string
	// Ancestors contains the programs of the parent processes within the call, the nearest first.
	Ancestors []Ancestor

	// Tool is the full name of the tool that the call runs. Call is the call whose roots apply. Workspace is the base
	// directory of relative paths in rules.
	Tool      string
	Call      *tool.Call
	Workspace string
	// Since is the start of the session; see [Request.Since].
	Since time.Time
	// Past knows the paths that existed before the session; see [Request.Past].
	Past *scratch.Past
	// Before is the file that the process executed before the program. It can be empty unless the program belongs to
	// git.
	Before string
	// BeforeArgs contains the arguments of Before. Nil means that the arguments are unknown.
	BeforeArgs []string
	// GitSettings reports that a variable of the program's environment changes the settings of git.
	GitSettings bool
	// WorkTree is the value of GIT_WORK_TREE in the program's environment. GitDir reports whether GIT_DIR is set there.
	WorkTree string
	GitDir   bool
	// Files is the file system as the process sees it. Nil means the file system of the host.
	Files Files

	copies []string // names of the programs with the same content
}

// Ancestor is the program of a parent process.
type Ancestor struct {
	Path, File string
	Args       []string
}

// JudgeExecution decides whether a process can execute a program. Deny rules, ask rules and built-in rules apply in
// every mode. With [Rules.AllowList], the program must also be listed. [Rules.Default] does not apply, because it
// concerns only calls. The subject of the judgement is empty if the program is allowed and no rule matched.
func (p *Policy) JudgeExecution(x *Execution) Judgement {
	out := p.judgeExecution(x)
	if inner := x.loaded(); inner != nil {
		out = stricter(out, p.judgeExecution(inner))
		out.Loads = inner.File
	}
	return out
}

// loaded returns the execution of the program that a dynamic linker loads. It returns nil if the program
// is not a dynamic linker.
func (x *Execution) loaded() *Execution {
	if !shellscript.IsLoader(x.Path) && !shellscript.IsLoader(x.File) &&
		!slices.ContainsFunc(x.copies, shellscript.IsLoader) {
		return nil
	}
	words := shellscript.LoaderCommand(x.Args)
	if words == nil {
		return nil
	}
	out := *x
	out.Path, out.File, out.Args, out.Before = words[0], words[0], words, "" // git never starts itself through a dynamic linker
	if !filepath.IsAbs(out.File) {
		out.File = x.Dir + "/" + words[0] // do not clean the path, because ".." after a link leads elsewhere
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
	req := &Request{Name: x.Tool, Call: x.Call, Workspace: x.Workspace, Since: x.Since, Past: x.Past,
		tree: newTree(x.Files), workTree: x.WorkTree, gitDir: x.GitDir}
	// Git executes its own programs by these paths, for example at the end of "git stash" and "git submodule add". At
	// this point no work can be lost, and the command of the caller was already judged. But in the shells of aliases,
	// hooks and "git bisect run", PATH also leads to these paths. Commands of an alias were not judged before.
	req.byGit = slices.Contains(gitPaths, x.Path) && isGit(x.Before) &&
		(x.BeforeArgs == nil || shellscript.IsGitCommand(x.BeforeArgs))
	if req.Call == nil {
		req.Call = new(tool.Call)
	}
	commands, doubts := p.carried(x)
	for _, doubt := range doubts {
		if p.rules.AllowList {
			out = stricter(out, p.judgePart(req, &part{
				kind: KindBash, tool: x.Tool, subject: doubt, doubt: true, shell: true,
			}))
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
	if out.Effect == Ask {
		out.runs = runsOf(req, x.Dir, commands, nil)
	}
	return out
}

// corrections returns the commands that git can run instead of a mistyped command.
func corrections(c *shellscript.Command) (out []*shellscript.Command) {
	all := c.Corrections()
	for i := range all {
		out = append(out, &all[i])
	}
	return out
}

// carried returns the commands that a program carries out. The first command is the program itself.
func (p *Policy) carried(x *Execution) (commands []shellscript.Command, doubts []string) {
	program := p.isProgram(x, x.Path)
	words := x.words(program)
	o := shellscript.Options{Dir: x.Dir, Home: homeDir(), GitSettings: x.GitSettings}
	commands, doubts = shellscript.AnalyzeProcess(words, o)
	commands[0].Wrapper = commands[0].Wrapper && program &&
		(x.invoked() == filepath.Base(x.Path) || shellscript.IsWrapper(x.invoked()))
	seen := []string{filepath.Base(x.Path), ""}
	for _, name := range slices.Concat([]string{x.invoked(), filepath.Base(x.File)}, x.copies) {
		if slices.Contains(seen, name) {
			continue
		}
		seen = append(seen, name)
		words[0] = strings.ReplaceAll(name, shellscript.Unknown, "\x02")
		more, unclear := shellscript.AnalyzeProcess(words, o)
		commands, doubts = append(commands, more[1:]...), append(doubts, unclear...)
	}
	return commands, doubts
}

// ConfirmExecution completes a judgement of [Policy.JudgeExecution] for a tool. If a rule requires a confirmation,
// ConfirmExecution asks a person. It does not ask if the decision "d" on the call already contains an answer about the
// same command. The error describes a denial.
func ConfirmExecution(ctx context.Context, name string, j Judgement, d *Decision, asker Asker,
	answers Answers) (Judgement, error) {
	if j.Effect == Allow {
		return j, nil
	}
	e := &Decision{Effect: Allow, Kind: j.Kind}
	e.add(j)
	if j.Effect == Deny {
		return j, denied(name, e)
	}
	if d != nil && d.Effect == Allow && slices.ContainsFunc(d.asks, func(asked Judgement) bool {
		return asked.Subject == j.Subject && asked.Rule == j.Rule && (j.held || !asked.held)
	}) {
		j.Effect = Allow
		return j, nil
	}
	e.runs = j.runs
	err := e.resolve(ctx, name, asker, answers)
	if err == nil {
		err = e.runs.changed()
	}
	if j.Effect, j.Answered = Allow, e.Answered; err != nil {
		j.Effect = Deny
	}
	return j, err
}

// Listed returns patterns for the names of all programs that can be executed with [Rules.AllowList]. These are the
// listed programs, the programs in [Rule.Starts], shells, and programs whose only effect is to start other programs. In
// a pattern, * matches any text.
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
	names = append(names, shellscript.Wrappers()...)
	slices.Sort(names)
	return slices.Compact(names)
}

// Lists reports whether only listed programs can be executed.
func (p *Policy) Lists() bool { return p.rules.AllowList }

// Unlisted reports whether a judgement denies a program because the program is not listed.
func (p *Policy) Unlisted(j *Judgement) bool {
	return p.rules.AllowList && j.Effect == Deny && j.Rule == p.rules.ListedBy
}

// Interprets reports whether a program is a script interpreter whose program file tools cannot change.
func (p *Policy) Interprets(x *Execution) bool {
	return shellscript.IsInterpreter(x.Path) && shellscript.IsInterpreter(x.File) &&
		(p.isProgram(x, x.Path) || p.isProgram(x, x.File))
}

// stricter returns the judgement with the stricter effect. For equal effects, it prefers the judgement
// in which a rule matched.
func stricter(a, b Judgement) Judgement {
	rank := map[Effect]int{Allow: 0, Ask: 1, Deny: 2}
	if rank[b.Effect] > rank[a.Effect] || b.Effect == a.Effect && a.Rule == "" {
		return b
	}
	return a
}

// words returns the words of the command. If the argument "program" is true, the first word is the base name of the
// path.
func (x *Execution) words(program bool) []string {
	out := make([]string, max(1, len(x.Args)))
	for i, a := range x.Args {
		out[i] = strings.ReplaceAll(a, shellscript.Unknown, "\x02") // replace the mark of unknown text, because all arguments are known
	}
	if out[0] = x.Path; program {
		out[0] = filepath.Base(x.Path)
	}
	out[0] = strings.ReplaceAll(out[0], shellscript.Unknown, "\x02")
	return out
}

// invoked returns the base name of the first argument. It removes the leading dash of a login shell.
func (x *Execution) invoked() string {
	if len(x.Args) == 0 || x.Args[0] == "" {
		return ""
	}
	return filepath.Base(strings.TrimPrefix(x.Args[0], "-"))
}

// gitPaths contains the paths under which git executes itself.
var gitPaths = []string{"/usr/lib/git-core/git", "/usr/libexec/git-core/git"}

// isGit reports whether a file is git or a program of git, in a directory that tools cannot change.
func isGit(file string) bool {
	dir, name := filepath.Dir(file), filepath.Base(file)
	return (name == "git" || strings.HasPrefix(name, "git-")) &&
		(slices.Contains(gitPaths, dir+"/git") || slices.Contains(shellscript.SystemDirs, dir))
}

// isProgram reports whether a path is in a directory of PATH that tools cannot change. It returns false for a path with
// "..", because ".." after a link leads to another directory.
func (p *Policy) isProgram(x *Execution, path string) bool {
	dir := filepath.Dir(path)
	if !filepath.IsAbs(path) || path != filepath.Clean(path) ||
		!slices.Contains(shellscript.SystemDirs, dir) && !slices.Contains(p.rules.Search, dir) {
		return false
	}
	if x.Call != nil {
		if root, inside := containing(x.Call.Roots, dir); inside && root.Writable {
			return false
		}
	}
	return true
}

// originals returns the names of programs in rules whose files have the same content as the program of x.
func (p *Policy) originals(x *Execution) []string {
	if x.Fingerprint == "" || p.isProgram(x, x.File) || slices.Contains(gitPaths, filepath.Dir(x.File)+"/git") {
		return nil
	}
	p.named.Do(func() { p.prints = p.fingerprints() })
	return p.prints[x.Fingerprint]
}

// loaders lists globs for dynamic linkers.
var loaders = []string{"/lib/ld-*.so*", "/lib64/ld-*.so*", "/lib/*-linux-gnu*/ld-*.so*", "/libexec/ld-*.so*"}

// fingerprints maps the fingerprint of each system program that rules name to the names of the program.
func (p *Policy) fingerprints() map[string][]string {
	globs, dirs := slices.Clone(loaders), []string(nil)
	for _, dir := range slices.Concat(shellscript.SystemDirs, p.rules.Search) {
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
		paths, _ := filepath.Glob(glob) // ignore the error: an invalid pattern matches no files
		for _, path := range paths {
			file, err := filepath.EvalSymlinks(path)
			if err != nil {
				continue
			}
			content := hostFiles{}.Fingerprint(file)
			for _, name := range []string{filepath.Base(path), filepath.Base(file), path} { // the full path is a name too, because rules can contain paths
				if content != "" && !slices.Contains(out[content], name) {
					out[content] = append(out[content], name)
				}
			}
		}
	}
	return out
}

// ruled returns the names of the programs in ask rules and deny rules.
func (p *Policy) ruled() map[string]bool {
	out := make(map[string]bool)
	if !p.rules.NoBuiltin {
		maps.Copy(out, concerned)
	}
	if p.rules.Careful && !p.rules.NoBuiltin {
		for _, all := range []map[string][]shellscript.Pattern{publishing(), telling(), reverting()} {
			for name := range all {
				out[name] = true
			}
		}
		for _, name := range slices.Concat(senders, modeChangers) {
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

// spellings returns the command with other names of the program: its paths, its file name, and its first argument. An
// ask rule or a deny rule applies if it matches one of these commands.
func (p *Policy) spellings(x *Execution, c *shellscript.Command) (out []*shellscript.Command) {
	seen := []string{c.Words[0].Text}
	for _, name := range slices.Concat([]string{x.Path, x.File, filepath.Base(x.Path), filepath.Base(x.File),
		x.invoked()}, x.copies) {
		name = strings.ReplaceAll(name, shellscript.Unknown, "\x02")
		if name == "" || name == "." || name == "/" || slices.Contains(seen, name) {
			continue
		}
		seen = append(seen, name)
		other := *c
		other.Words = slices.Concat([]shellscript.Word{{Text: name}}, c.Words[1:])
		out = append(out, &other)
	}
	return out
}

// match compares the command of a part with a pattern of a rule that denies or asks.
func (pt *part) match(pattern shellscript.Pattern) shellscript.Match {
	best := pattern.Match(pt.command)
	for _, c := range pt.spellings {
		best = max(best, pattern.Match(c))
	}
	return best
}

// exact reports whether a pattern of an allow rule or a list matches the command of a part. For a program
// that is about to run, the pattern must match the path and also the first argument. The reason is that some programs
// select their function by the first argument.
func (pt *part) exact(pattern shellscript.Pattern) bool {
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
	as.Words = slices.Concat([]shellscript.Word{{Text: name}}, as.Words[1:])
	return name != "" && pattern.Exact(&as)
}

// starters returns the rules that list an ancestor of the program and that permit this ancestor to start the program.
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
		c := &shellscript.Command{Words: make([]shellscript.Word, len(words))}
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
	return slices.ContainsFunc(r.Starts, func(glob string) bool { return shellscript.MatchName(glob, name) })
}

// maxSubject limits the length of a command in a judgement.
const maxSubject = 4096

// describe returns the command of a part for messages. It shortens a long command and adds a digest. The digest keeps
// different commands apart, because answers are stored by subject.
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
