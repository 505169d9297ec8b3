// Package policy decides whether a call may run.
//
// [Policy.Check] decides on a call and asks a person if a rule requires a confirmation. [Policy.Judge] decides without
// asking. Both check the call's paths against its roots and apply the operator's rules. The tool and the kernel check
// the paths again later.
package policy

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/unidiff"
)

// Effect is the decision of a rule.
type Effect string

// The effects of rules, in order of precedence. Each effect overrides the effects after it.
const (
	Deny  Effect = "deny"
	Ask   Effect = "ask"
	Allow Effect = "allow"
)

// Rules configure a policy. The zero value allows all calls whose paths are in the roots.
type Rules struct {
	// Strict refuses any ".." and any symbolic link.
	Strict bool
	// Allow and Deny are globs over absolute paths.
	Allow, Deny []string

	// Default applies to calls that no rule matches. An empty Default allows them.
	Default Effect
	// AllowList denies each command that no allow rule matches.
	AllowList bool
	// NoBuiltin disables the built-in rules; see [Builtin].
	NoBuiltin bool
	// Rules are the operator's rules. All rules that match count: deny overrides ask, and ask overrides allow.
	Rules []Rule
	// Project are deny and ask rules from a file that nobody trusts. They make a decision stricter, never laxer.
	Project []Rule
}

// CodePathDenied is the error code of a denied path. In the validation of an edit it means that layer 2 failed.
const CodePathDenied = 2

// Policy applies rules to calls. It is safe for concurrent use.
type Policy struct {
	rules Rules
	// idle means that no rule can match a call that is not a command.
	idle bool
	// doubtful means that a rule could miss an unknown command.
	doubtful bool
	// external means that a rule matches paths outside the roots.
	external bool
}

// New returns a policy. The rules must have been checked with [Rule.Prepare].
func New(r Rules) *Policy {
	p := &Policy{rules: r, idle: len(r.Rules) == 0 && len(r.Project) == 0 && (r.Default == "" || r.Default == Allow)}
	for _, rules := range [][]Rule{r.Rules, r.Project} {
		for i := range rules {
			rule := &rules[i]
			p.doubtful = p.doubtful || rule.Effect != Allow && rule.about(KindBash) && (rule.Commands != nil || rule.Paths != nil || rule.Domains != nil)
		}
	}
	p.external = slices.ContainsFunc(r.Rules, func(r Rule) bool { return r.names(KindExternal) })
	return p
}

// Request is a call on which the policy decides.
type Request struct {
	// Name is the tool's full name.
	Name       string
	Definition *tool.Definition
	Schema     *tool.Schema
	// Call is the call. The policy can add roots to it and change its arguments; see [Decision.Rewritten].
	Call *tool.Call
	// Args contains the arguments, which must have passed the check against the schema.
	Args map[string]json.RawMessage
	// Workspace is the base directory of relative paths in rules.
	Workspace string
	// Shell means that the parameters "command" and "stdin" are scripts.
	Shell bool
}

// Decision is the policy's decision on a call.
type Decision struct {
	Effect Effect `json:"decision"`
	// Kind is the kind of the permission: external_directory, bash, edit, or the tool's full name.
	Kind string `json:"kind"`
	// Reason explains the decision to a person. It is empty if no rule matches.
	Reason string `json:"reason"`
	// Rule is the rule that decided, with its position in the configuration. It is empty if no rule decided.
	Rule string `json:"rule"`
	// Commands contains all commands that a script would run.
	Commands []string `json:"commands"`
	// Judged contains the judgement of each part of the call that a rule matches.
	Judged []Judgement `json:"judged,omitempty"`
	// Rewritten contains the names of the parameters that rules set.
	Rewritten []string `json:"rewritten,omitempty"`
	// Answered is the result of a question to a person: "remembered", or the outcome or the scope of the answer.
	Answered string `json:"answered,omitempty"`

	arguments string      // the arguments in the form shown to a person
	err       *tool.Error // the reason of a denial without a rule
	asks      []Judgement
}

// Judgement is the decision on one part of a call.
type Judgement struct {
	// Subject is a command, a path, or the tool's name.
	Subject string `json:"subject"`
	Effect  Effect `json:"decision"`
	Kind    string `json:"kind"`
	Rule    string `json:"rule,omitempty"`
	Reason  string `json:"reason,omitempty"`

	rule *Rule // nil for the default and for built-in rules
}

// Judge decides on a call without asking a person.
func (p *Policy) Judge(req *Request) *Decision {
	d := &Decision{Effect: Allow, Kind: req.Kind()}
	var parts []part
	if !p.idle || req.Shell || req.Definition.Traits.Dangerous {
		parts = p.parts(req, d)
		p.judge(req, parts, d)
	}
	if d.Effect != Deny {
		if err := p.rewrite(req, parts, d); err != nil {
			d.refuse(err)
		}
	}
	var further []tool.Root // each root applies only to the path for which it was allowed
	for _, param := range req.Schema.Params() {
		raw, given := req.Args[param.Name]
		if param.Path == "" || !given {
			continue
		}
		paths, write := pathsIn(raw), param.Path != "read"
		if param.Path == "diff" {
			paths = pathsInDiff(paths)
		}
		for _, path := range paths {
			err := p.checkPath(req.Call, path, write)
			if err == nil {
				continue
			}
			if root, ok := p.outside(req, path, write, d); ok {
				further = append(further, root)
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
	return d
}

func (d *Decision) refuse(err error) {
	if d.Effect != Deny {
		e := tool.AsError(err)
		d.Effect, d.Reason, d.Rule, d.err = Deny, e.Message, "", e
	}
}

// edit checks the files that a running call is about to change. Its arguments do not name these files.
func (p *Policy) edit(call *tool.Call, paths []string) error {
	for _, path := range paths {
		if err := p.checkPath(call, path, true); err != nil {
			return tool.AsError(err).WithCode(CodePathDenied)
		}
	}
	return nil
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
	_ = json.Unmarshal(raw, &many) // any other type contains no path
	return many
}

// pathsInDiff returns the paths in unified diffs. It skips invalid diffs, because the tool reports them.
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

func (p *Policy) checkPath(call *tool.Call, path string, write bool) error {
	target, root, err := p.resolve(call, path)
	if err != nil {
		return err
	}
	if write && !root.Writable {
		return tool.Errorf(tool.PermissionDenied, "%s is in the read-only root %s. Choose a path in a writable root, or make this root writable in the sandbox block of the configuration.", path, root.Path)
	}
	// A rule can match the path itself or the target of its links.
	written := absolute(call, path)
	for _, g := range p.rules.Deny {
		if doublestar.MatchUnvalidated(g, target) || doublestar.MatchUnvalidated(g, written) {
			return tool.Errorf(tool.PermissionDenied, "%s is denied by the rule deny = [%q] in the sandbox block of the configuration.", path, g)
		}
	}
	if len(p.rules.Allow) == 0 {
		return nil
	}
	for _, g := range p.rules.Allow {
		if doublestar.MatchUnvalidated(g, target) {
			return nil
		}
	}
	return tool.Errorf(tool.PermissionDenied, "%s matches none of the rules allow = %q in the sandbox block of the configuration.", path, p.rules.Allow)
}

// outside returns the root that a call gets for a path outside of its roots. ok is false if no rule allows the path.
// outside can change the decision to Ask.
func (p *Policy) outside(req *Request, path string, write bool, d *Decision) (root tool.Root, ok bool) {
	if !p.external || strings.IndexByte(path, 0) >= 0 || path == "" {
		return root, false
	}
	abs := absolute(req.Call, path)
	target, _, err := follow(nil, abs)
	if err != nil {
		return root, false
	}
	if _, inside := containing(req.Call.Roots, target); inside {
		return root, false // another rule denies the path
	}
	dir := target
	if !isDir(dir) {
		dir = filepath.Dir(dir)
	}
	if dir == "/" { // the whole file system cannot become a root
		return root, false
	}
	root = tool.Root{Path: dir, Writable: write}
	call := *req.Call
	call.Roots = slices.Concat(call.Roots, []tool.Root{root})
	if p.checkPath(&call, path, write) != nil {
		return root, false
	}
	pt := part{kind: KindExternal, tool: req.Name, subject: target, paths: []string{target}, written: []string{abs}}
	j := p.judgeRules(req, &pt)
	if j.rule == nil || j.Effect != Deny && !j.rule.names(KindExternal) {
		return root, false
	}
	j = p.restrict(req, &pt, j)
	d.add(j)
	return root, j.Effect != Deny
}
