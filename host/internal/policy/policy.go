// Package policy decides whether a call can run.
//
// [Policy.Check] decides on a call and asks a person if a rule requires a confirmation. [Policy.Judge] decides without
// asking. Both methods check the call's paths against its roots and apply the operator's rules. Later the tool and the
// kernel check the paths again.
package policy

import (
	"bytes"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/unidiff"

	"toolhost.dev/host/internal/scratch"
	"toolhost.dev/shellscript"
)

// Effect is the decision of a rule.
type Effect string

// These are the effects of rules, in order of precedence. Each effect overrides the effects after it.
const (
	Deny  Effect = "deny"
	Ask   Effect = "ask"
	Allow Effect = "allow"
)

// Rules configures a policy. The zero value allows all calls whose paths are in the roots.
type Rules struct {
	// Strict rejects every path with ".." or with a symbolic link.
	Strict bool
	// Allow and Deny contain globs for absolute paths.
	Allow, Deny []string
	// Private is the host's own directory. Messages name no roots in it, because callers cannot choose paths there. It
	// can be empty.
	Private string

	// Default is the effect for calls without a matching rule. Empty means that such calls are allowed.
	Default Effect
	// AllowList denies every command that no allow or ask rule matches. It also denies every script outside of the
	// subset that [shellscript.Options.Subset] describes. Messages name ListedBy as the setting that causes the denial.
	AllowList bool
	ListedBy  string
	// Search contains the directories of PATH in addition to the directories of the system.
	Search []string
	// NoBuiltin disables the built-in rules; see [Builtin].
	NoBuiltin bool
	// Careful enables the built-in rules for commands that lose work or send data to other machines.
	Careful bool
	// Shells contains the full names of the tools that run commands. Nil means that each tool can run commands.
	Shells []string
	// Rules contains the operator's rules. If several rules match, deny overrides ask, and ask overrides allow.
	Rules []Rule
	// Project contains the deny and ask rules of an untrusted project file. These rules can only make a decision
	// stricter.
	Project []Rule
}

// CodePathDenied is the error code for a denied path. In the validation of an edit, it means that the path check (layer
// 2) failed.
const CodePathDenied = 2

// Policy applies rules to calls. It is safe for concurrent use.
type Policy struct {
	rules Rules
	// idle reports that only built-in rules for commands can apply.
	idle bool
	// unruled reports that only built-in rules exist. The field "domains" reports that some rule contains domains.
	unruled, domains bool
	// starting reports that some rule contains [Rule.Starts].
	starting bool
	// doubtful reports that some rule could apply to an unknown command.
	doubtful bool
	// external reports that some rule matches paths outside the roots. The field "pathRules" reports that some rule
	// matches paths in general.
	external, pathRules bool

	named  sync.Once
	prints map[string][]string // the result of the method fingerprints, computed once
}

// New returns a policy. The caller must first check the rules with [Rule.Prepare].
func New(r Rules) *Policy {
	if r.ListedBy == "" {
		r.ListedBy = `commands = "allow-list"`
	}
	p := &Policy{rules: r, unruled: len(r.Rules) == 0 && len(r.Project) == 0}
	p.idle = p.unruled && !r.Careful && (r.Default == "" || r.Default == Allow)
	for _, rules := range [][]Rule{r.Rules, r.Project} {
		for i := range rules {
			rule := &rules[i]
			outside := rule.names(KindExternal)
			p.doubtful = p.doubtful || rule.Effect != Allow && (outside ||
				rule.aboutCommands(r.Shells) && (rule.Commands != nil || rule.Paths != nil || rule.Domains != nil))
			p.external = p.external || outside
			p.domains = p.domains || rule.Domains != nil
			p.starting = p.starting || len(rule.Starts) > 0
			p.pathRules = p.pathRules || outside || rule.Paths != nil
		}
	}
	return p
}

// Careful reports whether the policy uses [Request.Since].
func (p *Policy) Careful() bool { return p.rules.Careful }

// Request is a call on which the policy decides.
type Request struct {
	// Name is the tool's full name.
	Name       string
	Definition *tool.Definition
	Schema     *tool.Schema
	// Call is the call to judge. The policy can add roots to the call and change its arguments; see
	// [Decision.Rewritten].
	Call *tool.Call
	// Args contains the arguments. They must be valid according to the schema.
	Args map[string]json.RawMessage
	// Workspace is the base directory of relative paths in rules.
	Workspace string
	// Shell reports that the parameters "command" and "stdin" are shell scripts.
	Shell bool
	// Gated reports that [Policy.JudgeExecution] judges every program that the call executes. The unknown parts of a
	// script are then no reason to refuse the script.
	Gated bool
	// Bundled reports that the tool is distributed with the host. The sandbox and the built-in rules confine such a
	// tool, so the trait "dangerous" alone causes no question.
	Bundled bool
	// Since is the start of the session. Files with a later creation time belong to the session. A zero time means that
	// the start is unknown.
	Since time.Time
	// Past knows the paths that existed before the session, even if their files were replaced since. It can be nil.
	Past *scratch.Past

	// Person reports that a person can be asked. In this case, a path outside of the roots causes a question, unless a
	// rule decides.
	Person bool
	// Answers contains earlier answers. An answer that allows a path outside of the roots also applies if nobody can be
	// asked. The field can be nil.
	Answers Answers

	byGit bool                   // whether git itself starts the program
	tree  *tree                  // a cache that the method files creates
	past  func(path string) bool // a cache that the method existed creates
	// workTree is the value of GIT_WORK_TREE in the environment of a program. gitDir reports whether GIT_DIR is set.
	workTree string
	gitDir   bool
}

// Decision is the policy's decision on a call.
type Decision struct {
	Effect Effect `json:"decision"`
	// Kind is the kind of the permission: external_directory, bash, edit, or the tool's full name.
	Kind string `json:"kind"`
	// Temporary reports that a path in the arguments is in the temporary directory of the session.
	Temporary bool `json:"-"`
	// Reason explains the decision to a person. It is empty if no rule matched.
	Reason string `json:"reason"`
	// Rule is the rule that determined the decision, with its position in the configuration. It is empty if no rule
	// determined the decision.
	Rule string `json:"rule"`
	// Commands contains the commands that a script would run, as far as they are known.
	Commands []string `json:"commands"`
	// Unknown describes the parts of the call whose effect is unknown before the call runs. The commands of these parts
	// are missing in Commands.
	Unknown []string `json:"unknown"`
	// Programs describes how the list of programs is enforced. It is empty if every program can run.
	Programs string `json:"programs,omitempty"`
	// Judged contains the judgements about the parts of the call for which a rule matched.
	Judged []Judgement `json:"judged,omitempty"`
	// Rewritten contains the names of the parameters that rules set.
	Rewritten []string `json:"rewritten,omitempty"`
	// Pinned reports that a path in the arguments was replaced by the target of its links.
	Pinned bool `json:"-"`
	// Answered describes the answer of a person: "remembered" or "never" with the origin of an earlier answer, or the
	// outcome or scope of a new answer.
	Answered string `json:"answered,omitempty"`

	arguments string      // arguments as shown to a person
	err       *tool.Error // reason for a denial that no rule caused
	asks      []Judgement
	unopened  *tool.Error // error for a path outside of the roots, if nobody answers
	analysis  *shellscript.Analysis
	runs      *runs // files that the call runs, if a person must be asked
}

// Judgement is the decision on one part of a call, such as a command or a path.
type Judgement struct {
	// Subject is a command, a path, or the tool's name.
	Subject string `json:"subject"`
	Effect  Effect `json:"decision"`
	Kind    string `json:"kind"`
	Rule    string `json:"rule,omitempty"`
	Reason  string `json:"reason,omitempty"`

	rule    *Rule  // nil if the default or a built-in rule decides
	builtin string // name of the built-in rule that decides
	show    bool   // whether the permission request shows what the command changes; see [Rule.Show]
	// held means that a built-in rule about lost files decides, and that the command can only lose files of the
	// workspace. In a branch or a preview, the workspace keeps such files.
	held bool

	runs *runs // files that the execution of a program runs, if a person must be asked

	// Answered is [Decision.Answered] of the execution of a program.
	Answered string `json:"-"`
	// Loads is the file of the program that a dynamic linker loads, if the subject is the dynamic linker.
	Loads string `json:"-"`
}

// Judge decides on a call without asking a person.
func (p *Policy) Judge(req *Request) *Decision {
	d := &Decision{Effect: Allow, Kind: req.Kind()}
	req.tree = nil // discard the cache, because the file system can change between judgements
	var parts []part
	removal := removals(req)
	if !p.idle || req.Shell || req.Definition.Traits.Dangerous && !req.Bundled || removal != nil {
		if parts = p.parts(req, d); removal != nil {
			parts = append(parts, *removal)
		}
		p.judge(req, parts, d)
	}
	if d.Effect != Deny {
		if err := p.rewrite(req, parts, d); err != nil {
			d.refuse(err)
		}
	}
	var further []tool.Root // additional roots, each only for the path that a rule allowed
	for _, param := range req.Schema.Params() {
		raw, given := req.Args[param.Name]
		if param.Path == "" || !given {
			continue
		}
		paths, write := pathsIn(raw), param.Path != tool.PathRead
		if param.Path == "diff" {
			paths = pathsInDiff(paths)
		}
		for _, path := range paths {
			temporary, err := p.checkPath(req.Call, path, write)
			if err == nil {
				if temporary && p.judgeTemporary(req, path, d) {
					return d
				}
				continue
			}
			root, target, ok := p.openOutside(req, path, write, d, err)
			pinned := param.Path != "diff" // a path in a diff is not replaced, so it must not be a link
			if ok && (pinned || target == absolute(req.Call, path)) {
				further = append(further, root)
				if pinned {
					d.pin(req, param.Name, path, target)
				}
			} else {
				d.Kind = KindExternal
				if e := tool.AsError(err); e.Kind == tool.PermissionDenied {
					d.Kind = req.Kind()
				}
				d.refuse(tool.AsError(err).WithCode(CodePathDenied))
				return d
			}
		}
	}
	if len(further) > 0 {
		req.Call.Roots = slices.Concat(req.Call.Roots, further)
	}
	if d.Effect == Ask && d.analysis != nil {
		d.runs = runsOf(req, req.Call.Cwd, d.analysis.Commands, d.analysis.Reads)
	}
	return d
}

// judgeTemporary applies the rules about paths outside of the roots to a path in the temporary directory of the
// session. It reports whether a rule denies the path.
func (p *Policy) judgeTemporary(req *Request, path string, d *Decision) (denied bool) {
	d.Temporary = true
	if !p.external {
		return false
	}
	abs := absolute(req.Call, path)
	target, err := req.host().Follow(abs)
	if err != nil {
		target = abs
	}
	pt := part{kind: KindExternal, tool: req.Name, subject: target, paths: []string{target}, written: []string{abs}}
	j := p.judgeRules(req, &pt)
	if j.rule == nil || j.Effect != Deny && !j.rule.names(KindExternal) {
		return false
	}
	j = p.restrict(req, &pt, j)
	d.add(j)
	return j.Effect == Deny
}

func (d *Decision) refuse(err error) {
	if d.Effect != Deny {
		e := tool.AsError(err)
		d.Effect, d.Reason, d.Rule, d.err = Deny, e.Message, "", e
	}
}

// edit checks the paths of files that a running call intends to change. These paths are missing in the arguments of the
// call.
func (p *Policy) edit(call *tool.Call, paths []string) error {
	for _, path := range paths {
		if _, err := p.checkPath(call, path, true); err != nil {
			return tool.AsError(err).WithCode(CodePathDenied)
		}
	}
	return nil
}

// Reads returns an error if a call may not read a path.
func (p *Policy) Reads(call *tool.Call, path string) error {
	_, err := p.checkPath(call, path, false)
	return err
}

// pathsIn returns the paths in an argument, which is a string or an array of strings.
func pathsIn(raw json.RawMessage) []string {
	if n := len(raw); n >= 2 && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 {
		return []string{string(raw[1 : n-1])} // an earlier check ensured that raw is valid JSON
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}
	}
	var many []string
	_ = json.Unmarshal(raw, &many) // ignore the error: an argument of another type contains no paths
	return many
}

// removals returns a part for the files that the diffs in a call delete or rename. The part is judged as an equivalent
// command. The result is nil if the diffs remove no file.
func removals(req *Request) *part {
	words := []shellscript.Word{{Text: "rm"}, {Text: "-f"}, {Text: "--"}}
	none := len(words)
	for _, param := range req.Schema.Params() {
		raw, given := req.Args[param.Name]
		if param.Path != "diff" || !given {
			continue
		}
		for _, diff := range pathsIn(raw) {
			files, err := unidiff.Parse(diff)
			if err != nil {
				continue // skip an invalid diff, because the tool reports the error
			}
			for _, f := range files {
				if f.Old != "" && f.Old != f.New {
					words = append(words, shellscript.Word{Text: absolute(req.Call, f.Old)})
				}
			}
		}
	}
	if len(words) == none {
		return nil
	}
	c := &shellscript.Command{Words: words, Dir: req.Call.Cwd}
	return &part{kind: KindEdit, tool: req.Name, subject: "remove " + words[none].Text, removal: c}
}

// pathsInDiff returns the paths in unified diffs. It skips an invalid diff, because the tool reports the error.
func pathsInDiff(diffs []string) []string {
	var paths []string
	for _, diff := range diffs {
		files, err := unidiff.Parse(diff)
		if err == nil {
			paths = append(paths, unidiff.Paths(files)...)
		}
	}
	return paths
}

// checkPath returns an error if a call must not use a path. The result "temporary" reports whether the path is in the
// temporary directory of the session.
func (p *Policy) checkPath(call *tool.Call, path string, write bool) (temporary bool, err error) {
	target, root, err := p.resolve(call, path, write)
	if err != nil {
		return false, err
	}
	if write && !root.Writable {
		return false, tool.Errorf(tool.PermissionDenied, "%s is in the read-only root %s. Choose a path in a writable root, or make this root writable in the sandbox block of the configuration.", path, root.Path)
	}
	// Rules can match the original path or the target of its links.
	written := absolute(call, path)
	original := scratch.Original(call.Roots, target)
	for _, g := range p.rules.Deny {
		if doublestar.MatchUnvalidated(g, target) || doublestar.MatchUnvalidated(g, written) ||
			doublestar.MatchUnvalidated(g, original) {
			return false, tool.Errorf(tool.PermissionDenied, "%s is denied by the rule deny = [%q] in the sandbox block of the configuration.", path, g)
		}
	}
	if len(p.rules.Allow) == 0 {
		return root.Source != "", nil
	}
	for _, g := range p.rules.Allow {
		if doublestar.MatchUnvalidated(g, target) || doublestar.MatchUnvalidated(g, original) {
			return root.Source != "", nil
		}
	}
	return false, tool.Errorf(tool.PermissionDenied, "%s is not permitted: it matches none of the globs in the sandbox block of the configuration (allow = %q). Use another path, or ask the operator to add a glob.", path, p.rules.Allow)
}

// pin replaces a path in an argument by the target of its links. The additional root of the call is the directory of
// that target. A link that another process changes later must not lead to another file in the directory.
func (d *Decision) pin(req *Request, param, path, target string) {
	raw := req.Args[param]
	var all []string
	if json.Unmarshal(raw, &all) == nil {
		for i := range all {
			if all[i] == path {
				all[i] = target
			}
		}
		raw, _ = json.Marshal(all) // a list of strings can be encoded
	} else {
		raw, _ = json.Marshal(target)
	}
	req.Args = maps.Clone(req.Args)
	req.Args[param] = raw
	d.Pinned = true
}

// recalls reports whether an earlier answer is about a subject.
func (req *Request) recalls(kind, subject string) bool {
	if req.Answers == nil {
		return false
	}
	_, known := req.Answers.Recall(kind, req.Name, subject)
	return known
}

// openOutside returns an additional root for a path outside of the call's roots, and the target of the path. The result
// "ok" is false if no rule opens the path and no person can be asked. The effect of the decision "d" can change to Ask.
// The argument "refusal" is the error to report if nobody answers.
func (p *Policy) openOutside(req *Request, path string, write bool, d *Decision,
	refusal error) (root tool.Root, target string, ok bool) {
	if !p.external && !req.Person && req.Answers == nil || strings.IndexByte(path, 0) >= 0 || path == "" {
		return root, "", false
	}
	var err error
	abs := absolute(req.Call, path)
	target, _, err = follow(nil, abs)
	if err != nil {
		return root, "", false
	}
	rest, _ := scratch.Split(req.Call.Roots)
	if _, inside := containing(rest, target); inside {
		return root, "", false // another rule denies the path
	}
	dir := target
	if !isDir(dir) {
		dir = filepath.Dir(dir)
	}
	if dir == "/" { // do not turn the whole file system into a root
		return root, "", false
	}
	root = tool.Root{Path: dir, Writable: write}
	call := *req.Call
	call.Roots = slices.Concat(rest, []tool.Root{root})
	if _, err := p.checkPath(&call, path, write); err != nil {
		return root, "", false
	}
	pt := part{kind: KindExternal, tool: req.Name, subject: target, paths: []string{target}, written: []string{abs}}
	j := p.judgeRules(req, &pt)
	switch opened := j.rule != nil && (j.Effect == Deny || j.rule.names(KindExternal)); {
	case opened:
	case j.Effect != Deny && (req.Person || req.recalls(KindExternal, target)):
		j = Judgement{Subject: target, Kind: KindExternal, Effect: Ask, Reason: target + " is outside of the roots"}
		if d.unopened == nil {
			d.unopened = tool.AsError(refusal).WithCode(CodePathDenied)
		}
	default:
		return root, "", false
	}
	j = p.restrict(req, &pt, j)
	d.add(j)
	return root, target, j.Effect != Deny
}
