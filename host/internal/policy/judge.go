package policy

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/shellscript"
)

// judge judges all parts of a call and adds the judgements to the decision.
func (p *Policy) judge(req *Request, parts []part, d *Decision) {
	for i := range parts {
		j := p.judgePart(req, &parts[i])
		if j.Effect != Allow || j.rule != nil {
			d.add(j)
		}
	}
	if d.Effect == Allow && req.Definition.Traits.Dangerous && !req.Bundled && !p.allowed(parts, d) {
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
	j := p.restrict(req, pt, p.judgeRules(req, pt))
	j.held = slices.Contains(shownLosses, j.builtin) && pt.inWorkspace(req)
	j.show = j.rule != nil && j.rule.Show == "diff" && pt.tool == KindBash || p.rules.Careful && j.held
	return j
}

// shownLosses lists the built-in rules about lost files. In careful mode, the permission requests of these rules show
// which files would be lost.
var shownLosses = append([]string{"discard-files", "delete"}, losses...)

// restrict applies the rules of an untrusted project file to a judgement. The result is never less strict than the
// judgement.
func (p *Policy) restrict(req *Request, pt *part, j Judgement) Judgement {
	for i := range p.rules.Project {
		r := &p.rules.Project[i]
		m := r.match(req, pt)
		switch {
		case m == shellscript.No, m == shellscript.Maybe && pt.gated:
		case r.Effect == Deny && m == shellscript.Yes:
			if j.Effect != Deny {
				j = Judgement{Subject: pt.describe(), Kind: pt.kind}.decidedBy(r, "")
			}
			return j
		case j.Effect == Allow:
			j = Judgement{Subject: pt.describe(), Kind: pt.kind}.decidedBy(r, "")
			j.Effect = Ask
		}
	}
	return j
}

// matched contains the rules that match a part of a call.
type matched struct {
	deny, ask, allow *Rule
	// maybe is true if the rule in the field "ask" matches only if the unknown parts of the command have
	// certain values.
	maybe bool
	// listed reports that a rule lists the command. The field "lowered" names the built-in rules that
	// matching rules replace.
	listed  bool
	lowered []string
	// starters contains the rules that permit an ancestor of the program to start the program.
	starters []*Rule
}

// rulesFor returns the operator's rules that match a part of a call.
func (p *Policy) rulesFor(req *Request, pt *part) (found matched) {
	found.starters = p.starters(pt)
	for i := range p.rules.Rules {
		r := &p.rules.Rules[i]
		m := r.match(req, pt)
		if m == shellscript.No || m == shellscript.Maybe && pt.gated { // the later execution is judged with all arguments known
			continue
		}
		if r.Effect != Deny && m == shellscript.Yes {
			found.lowered = append(found.lowered, r.Builtins...)
			found.listed = found.listed || r.lists(pt)
		}
		switch {
		case r.Effect == Deny && m == shellscript.Yes:
			found.deny = r
			return found
		case r.Effect == Ask && slices.Contains(found.starters, r): // a person already confirmed the ancestor that starts this program
		case r.Effect == Allow:
			if found.allow == nil || found.allow.patterns == nil {
				found.allow = r
			}
		case found.ask == nil || found.maybe && m == shellscript.Yes:
			found.ask, found.maybe = r, m == shellscript.Maybe || r.Effect == Deny
		}
	}
	return found
}

// judgeRules applies the operator's rules and the built-in rules to one part of a call. The strictest effect applies. A
// built-in rule has no effect if a matching rule names it.
func (p *Policy) judgeRules(req *Request, pt *part) Judgement {
	switch {
	case pt.removal != nil:
		pt.builtins = p.builtins(req, pt.removal)
	case pt.command == nil:
		pt.builtins = p.builtinsOfPaths(pt)
	case !pt.gated || pt.command.Words[0].Known():
		pt.builtins = p.builtins(req, pt.command)
		for _, c := range pt.spellings {
			pt.builtins = append(pt.builtins, p.builtins(req, c)...)
		}
	}
	found := p.rulesFor(req, pt)
	floor := pt.floor(found.lowered)
	listing := p.rules.AllowList && pt.kind == KindBash && (pt.command != nil || pt.doubt)
	out := Judgement{Kind: pt.kind, Effect: Allow}
	if floor != nil || listing || found.deny != nil || found.ask != nil || found.allow != nil || pt.execution == nil {
		out.Subject = pt.describe()
	}
	listed := found.listed || listing && len(found.starters) > 0
	if listing && !listed && found.deny == nil && (floor == nil || floor.Effect != Deny) {
		if j := p.otherwise(pt, out); j.Effect == Deny {
			return j
		}
		if found.allow != nil && found.allow.patterns == nil {
			found.allow = nil // an allow rule without commands does not list the command
		}
	}
	switch {
	case found.deny != nil:
		return out.decidedBy(found.deny, "")
	case floor != nil && floor.Effect == Deny:
		return out.byBuiltin(floor)
	case found.ask != nil && found.maybe:
		j := out.decidedBy(found.ask, fmt.Sprintf("it cannot be determined in advance whether the rule applies to %q", pt.subject))
		j.Effect = Ask
		return j
	case found.ask != nil:
		return out.decidedBy(found.ask, "")
	case floor != nil && (found.allow != nil || listed || p.otherwise(pt, out).Effect != Deny):
		return out.byBuiltin(floor)
	case found.allow != nil:
		return out.decidedBy(found.allow, "")
	case listing && listed:
		return out
	}
	return p.otherwise(pt, out)
}

// lists reports whether a rule lists the command of a part. An ask rule can also list a command. In both
// cases, a pattern must match the command exactly.
func (r *Rule) lists(pt *part) bool {
	return pt.command != nil && slices.ContainsFunc(r.patterns, pt.exact)
}

// byBuiltin returns the judgement of a built-in rule.
func (j Judgement) byBuiltin(b *Builtin) Judgement {
	j.Effect, j.Rule, j.Reason, j.builtin = b.Effect, fmt.Sprintf("%s %q (built-in)", b.Effect, b.Name),
		b.Reason, b.Name
	return j
}

// otherwise judges a part of a call to which no rule applies.
func (p *Policy) otherwise(pt *part, out Judgement) Judgement {
	isCommand := pt.command != nil || pt.doubt
	listed := p.rules.AllowList && pt.kind == KindBash && isCommand
	switch {
	case pt.command != nil && (pt.command.Wrapper || harmless(pt.command) || pt.gated && unknownProgram(pt.command)) &&
		(listed || p.rules.Default != ""):
		return out // the wrapped command is a separate part
	case listed && pt.doubt:
		out.Effect, out.Reason = Deny, "only listed commands are allowed, and "+pt.subject
		out.Rule = p.rules.ListedBy
	case listed:
		out.Effect, out.Reason = Deny, fmt.Sprintf("only listed commands are allowed, and %q is not listed", pt.subject)
		out.Rule = p.rules.ListedBy
	case pt.execution != nil: // keep the effect, because the default concerns only calls
	case p.rules.Default != "" && p.rules.Default != Allow:
		out.Effect, out.Reason, out.Rule = p.rules.Default, "no rule allows it",
			fmt.Sprintf("default = %q", p.rules.Default)
	case pt.doubt && (p.doubtful || pt.unread && !p.rules.NoBuiltin):
		out.Effect, out.Reason = Ask, "rules for commands exist, and "+pt.subject
	}
	return out
}

// harmless reports whether a command is a shell builtin that runs no program and changes only the shell.
func harmless(c *shellscript.Command) bool {
	switch c.Words[0].Text {
	case "cd", ":", "true", "false", "test", "[", "pwd", "echo", "printf", "exit", "return", "break", "continue",
		"shift", "set", "unset", "export", "local",
		"declare", "typeset", "readonly", "wait", "read", "getopts", "type", "umask":
		return true
	}
	return c.Words[0].Text == "command" && len(c.Words) > 1 && strings.HasPrefix(c.Words[1].Text, "-")
}

// unknownProgram reports whether a command name is a shell builtin or is unknown before the script runs.
func unknownProgram(c *shellscript.Command) bool {
	return !c.Words[0].Known() || c.Words[0].Split || shellscript.IsBuiltin(c.Words[0].Text)
}

// Decides reports whether the judgement is the result of the rule with the given name.
func (j Judgement) Decides(name string) bool {
	return j.rule != nil && j.rule.Name == name ||
		j.rule == nil && j.Rule == fmt.Sprintf("%s %q (built-in)", j.Effect, name)
}

func (j Judgement) decidedBy(r *Rule, reason string) Judgement {
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
		if len(r.Set) == 0 ||
			!slices.ContainsFunc(parts, func(pt part) bool { return r.match(req, &pt) == shellscript.Yes }) {
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

// Outlook is what a policy decides about calls of a tool while their arguments are unknown.
type Outlook struct {
	// Effect is the decision on every call, or Depends.
	Effect Effect `json:"decision"`
	// Kind is the kind of the permission, as in [Decision].
	Kind string `json:"kind"`
	// Rule and Reason name the rule that decides, or, for Depends, one that can decide. They are empty if the calls are
	// allowed.
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Depends is the effect of an [Outlook] if the arguments of a call decide.
const Depends Effect = "depends"

// Outlook returns what the policy decides about calls of a tool, for any arguments with paths in the roots. It reads
// the name, the definition, the schema, Shell and Bundled of the request.
func (p *Policy) Outlook(req *Request) Outlook {
	out := Outlook{Effect: Allow, Kind: req.Kind()}
	rules := p.applicable(req, out.Kind)
	by := func(e Effect, of Effect) Outlook {
		j := Judgement{Subject: req.Name}.decidedBy(rules[of].rule, "")
		return Outlook{Effect: e, Kind: out.Kind, Rule: j.Rule, Reason: j.Reason}
	}
	switch {
	case rules[Deny].match == shellscript.Yes:
		return by(Deny, Deny)
	case rules[Ask].match == shellscript.Yes:
		return by(Ask, Ask)
	case req.Shell:
		out.Effect, out.Reason = Depends, "each command is judged"
		return out
	case rules[Allow].match == shellscript.Yes:
	case p.rules.Default == Ask || p.rules.Default == Deny:
		out.Effect, out.Rule, out.Reason = p.rules.Default, fmt.Sprintf("default = %q", p.rules.Default),
			"no rule allows it"
	case req.Definition.Traits.Dangerous && !req.Bundled:
		out.Effect, out.Reason = Ask, "it is marked as dangerous"
	}
	for _, e := range []Effect{Deny, Ask, Allow} { // a rule that can apply, and that changes something
		if rules[e].match == shellscript.Maybe && e != out.Effect && (e != Deny || out.Effect == Allow) {
			return by(Depends, e)
		}
	}
	if out.Effect == Allow && takesPaths(req) {
		for _, b := range p.builtinsOfPaths(&part{kind: out.Kind, paths: []string{"/.env"}}) { // a file that the built-in rules concern
			j := Judgement{}.byBuiltin(b)
			out.Effect, out.Rule, out.Reason = Depends, j.Rule, j.Reason
		}
	}
	return out
}

// applicableRule is a rule, together with whether it applies to calls of a tool.
type applicableRule struct {
	rule  *Rule
	match shellscript.Match
}

// applicable returns one rule for each effect. A rule that applies to all calls of the tool precedes a rule that
// applies to some of them.
func (p *Policy) applicable(req *Request, kind string) map[Effect]applicableRule {
	out := make(map[Effect]applicableRule)
	for _, rules := range [][]Rule{p.rules.Rules, p.rules.Project} {
		for i := range rules {
			r := &rules[i]
			if m := r.outlook(req, kind); m > out[r.Effect].match {
				out[r.Effect] = applicableRule{r, m}
			}
		}
	}
	return out
}

// takesPaths reports whether a tool has a parameter for a path.
func takesPaths(req *Request) bool {
	return slices.ContainsFunc(req.Schema.Params(), func(p *tool.Param) bool { return p.Path != "" })
}

// takesOthers reports whether a tool has a parameter for something other than a path.
func takesOthers(req *Request) bool {
	return slices.ContainsFunc(req.Schema.Params(), func(p *tool.Param) bool { return p.Path == "" })
}
