package policy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"
)

// Asker asks a person. [tool.Peer] and all clients implement Asker. The answer to a permission request can contain a
// scope in the field Values; see [Scopes].
type Asker interface {
	Ask(ctx context.Context, ask tool.Ask) (tool.Answer, error)
}

// These are the scopes of an answer. An answer without a scope has the scope Once.
const (
	Once    = "once"
	Session = "session" // for an accepted or declined permission
	Always  = "always"  // for an accepted permission; applies to the workspace
	Never   = "never"   // for a declined permission; applies to the workspace
)

// ShowDiff is a key of [tool.Permission.Metadata]. It is set if every reason for the permission request requires that
// the person sees what the command would change.
const ShowDiff = "show_diff"

// OnlyFiles is a key of [tool.Permission.Metadata]. It is set if every reason for the permission request is a built-in
// rule about lost files, and if only files of the workspace can be lost. Where no file of the workspace can be lost,
// such as in a branch, these reasons do not apply.
const OnlyFiles = "only_files"

// Scopes lists the scopes in the order in which a client offers them.
var Scopes = []string{Once, Session, Always, Never}

// Answers stores earlier answers.
type Answers interface {
	// Recall returns an earlier answer to the same permission request. If no earlier answer exists, the result "known"
	// is false.
	Recall(kind, tool, subject string) (a Remembered, known bool)
	// Remember saves an answer for the session or for the workspace.
	Remember(kind, tool, subject string, allow, workspace bool) error
}

// Remembered is an earlier answer.
type Remembered struct {
	Allow bool
	// Origin names the answer, as "answer 3 for the workspace /w, 2026-01-31".
	Origin string
}

// Check decides on a call. It asks a person if a rule requires a confirmation. If the call is denied, the error names
// the denied action and the remedy.
func (p *Policy) Check(ctx context.Context, req *Request, asker Asker, answers Answers) (*Decision, error) {
	req.Answers = answers
	d := p.Judge(req)
	d.arguments = string(req.Call.Arguments)
	switch {
	case d.Effect == Deny && d.err != nil:
		return d, d.err
	case d.Effect == Deny:
		return d, denied(req.Name, d)
	case d.Effect == Allow:
		return d, nil
	}
	if err := d.resolve(ctx, req.Name, asker, answers); err != nil {
		d.Effect = Deny
		if d.unopened != nil && !strings.HasPrefix(d.Answered, string(tool.Declined)) &&
			!strings.HasPrefix(d.Answered, Never) {
			return d, d.unopened // nobody answered
		}
		return d, err
	}
	d.Effect = Allow
	return d, nil
}

// Permit decides on a permission that a running call requests.
//
// The result "answered" is [Decision.Answered] of the permission.
func (p *Policy) Permit(ctx context.Context, req *Request, ask *tool.Permission, asker Asker,
	answers Answers) (a tool.Answer, answered string, err error) {
	d := &Decision{Effect: Allow, Kind: ask.Kind}
	if ask.Kind == tool.PermissionEdit {
		if err := p.edit(req.Call, ask.Patterns); err != nil {
			return tool.Answer{Outcome: tool.Declined, Message: tool.AsError(err).Message}, "", nil
		}
	}
	subjects := ask.Patterns
	if len(subjects) == 0 {
		subjects = []string{ask.Title}
	}
	for _, s := range subjects {
		pt := part{kind: ask.Kind, tool: req.Name, subject: s, domains: hosts(s)}
		if strings.HasPrefix(s, "/") {
			pt.paths = []string{s}
		}
		j := p.judgePart(req, &pt)
		if j.rule == nil && j.Effect == Allow && ask.Kind != tool.PermissionEdit {
			j.Effect, j.Reason = Ask, ask.Title // no rule matches, so the tool's own question is used
		}
		d.add(j)
	}
	switch d.Effect {
	case Allow:
		return tool.Answer{Outcome: tool.Accepted}, "", nil
	case Deny:
		return tool.Answer{Outcome: tool.Declined, Message: denied(req.Name, d).Message}, "", nil
	}
	a, err = d.ask(ctx, req.Name, ask, asker, answers)
	return a, d.Answered, err
}

func denied(name string, d *Decision) *tool.Error {
	what := name
	if i := slices.IndexFunc(d.Judged, func(j Judgement) bool { return j.Effect == Deny }); i >= 0 &&
		d.Judged[i].Subject != name {
		what = fmt.Sprintf("%s: %s", name, shorten(d.Judged[i].Subject))
	}
	e := tool.Errorf(tool.PermissionDenied, "%s is denied by %s: %s. Use another way, or ask the operator to change the permissions in the configuration.", what, d.Rule, strings.TrimSuffix(d.Reason, "."))
	if d.Kind == KindEdit && d.Commands == nil { // a denied command gets no code: it fails through its exit status
		e = e.WithCode(CodePathDenied)
	}
	return e
}

// resolve asks a person once about all parts of the call.
func (d *Decision) resolve(ctx context.Context, name string, asker Asker, answers Answers) error {
	title := fmt.Sprintf("Run %s?", name)
	if d.unopened != nil {
		title = fmt.Sprintf("Let %s use files outside of the roots?", name)
	}
	a, err := d.ask(ctx, name, &tool.Permission{Kind: d.Kind, Title: title}, asker, answers)
	if err != nil {
		return tool.AsError(err)
	}
	if a.Outcome == tool.Accepted {
		return nil
	}
	why := strings.TrimSuffix(a.Message, ".")
	if why == "" {
		why = "the request was " + string(a.Outcome)
	}
	return tool.Errorf(tool.PermissionDenied, "%s needs a confirmation and was not confirmed: %s. A confirmation is needed because %s%s. %s",
		d.what(name), why, strings.TrimSuffix(d.Reason, "."), by(d.Rule), d.howToAllow())
}

// The result names the tool and, if known, the command or path that needs a confirmation.
func (d *Decision) what(name string) string {
	if len(d.asks) > 0 && d.asks[0].Subject != name {
		return fmt.Sprintf("%s: %s", name, shorten(d.asks[0].Subject))
	}
	return name
}

func by(rule string) string {
	if rule == "" {
		return ""
	}
	return " (" + rule + ")"
}

// howToAllow returns the last part of the error message: advice for an operator who wants to allow the call.
func (d *Decision) howToAllow() string {
	j := d.asks[0]
	if j.rule != nil {
		return fmt.Sprintf("To allow this call, the operator can answer the question or change the rule %s in the configuration.", j.Rule)
	}
	if slices.Contains(losses, j.builtin) { // propose no rule, because a rule would also allow the next loss
		return "To remove less, name the files or directories that are not needed. To allow this once, the operator can answer the question, or run the command without toolhost."
	}
	if j.builtin != "" {
		return fmt.Sprintf("To allow this call, the operator can answer the question or add an allow rule with command = [%q] and builtin = [%q] to the permissions of the configuration.", proposal(j.Subject), j.builtin)
	}
	about := fmt.Sprintf("tool = [%q]", j.Subject)
	switch j.Kind {
	case KindBash:
		about = fmt.Sprintf("command = [%q]", j.Subject)
	case KindEdit, KindExternal:
		about = fmt.Sprintf("kind = [%q] and path = [%q]", j.Kind, j.Subject)
	}
	return fmt.Sprintf("To allow this call, the operator can answer the question or add an allow rule with %s to the permissions of the configuration.", about)
}

// losses lists the built-in rules for which error messages do not propose an allow rule.
var losses = []string{"remove-system", "remove-workspace", "remove-repository", "discard-changes"}

// maxProposal is the maximum length of a command that a proposed rule repeats in full.
const maxProposal = 60

// proposal returns a pattern for a rule that allows a command. The pattern for a long command contains only the program
// and, if present, its subcommand.
func proposal(subject string) string {
	if len(subject) <= maxProposal && !strings.ContainsAny(subject, "*'\"\\$`") {
		return subject
	}
	words := strings.Fields(subject)
	if len(words) > 1 && strings.Trim(words[1], "abcdefghijklmnopqrstuvwxyz-") == "" && words[1][0] != '-' {
		return words[0] + " " + words[1] + " *"
	}
	return words[0] + " *"
}

// recall returns the parts of the call that no earlier answer is about. If an earlier answer denies a part, the result
// "declined" says so. If earlier answers decide the call, recall sets d.Answered.
func (d *Decision) recall(name string, answers Answers) (open []Judgement, declined string) {
	var origins []string
	for _, j := range d.asks {
		a, known := answers.Recall(j.Kind, name, j.Subject)
		switch {
		case known && !a.Allow:
			d.Answered = fmt.Sprintf("%s (%s)", Never, a.Origin)
			return nil, fmt.Sprintf("%q was denied by %s; toolhost policy list shows the answers", shorten(j.Subject), a.Origin)
		case !known:
			open = append(open, j)
		case !slices.Contains(origins, a.Origin):
			origins = append(origins, a.Origin)
		}
	}
	if len(open) == 0 {
		d.Answered = fmt.Sprintf("remembered (%s)", strings.Join(origins, "; "))
	}
	return open, ""
}

// Expect decides on a call without asking a person. Unlike [Policy.Judge], it takes earlier answers into account, so it
// returns what would happen.
func (p *Policy) Expect(req *Request) *Decision {
	d := p.Judge(req)
	if d.Effect != Ask || req.Answers == nil {
		return d
	}
	switch open, declined := d.recall(req.Name, req.Answers); {
	case declined != "":
		d.Effect, d.Reason = Deny, declined
	case len(open) == 0:
		d.Effect = Allow
		d.Reason = strings.TrimSuffix(d.Reason, ".") + "; this is " + d.Answered + ", see toolhost policy list"
	}
	return d
}

// ask asks a person about the parts of the call that have no stored answer. It stores the answer if the scope of the
// answer requires it.
func (d *Decision) ask(ctx context.Context, name string, ask *tool.Permission, asker Asker,
	answers Answers) (tool.Answer, error) {
	open, declined := d.recall(name, answers)
	switch {
	case declined != "":
		return tool.Answer{Outcome: tool.Declined, Message: declined}, nil
	case len(open) == 0:
		d.runs = nil // the earlier answer is about the command, whatever its files contain
		return tool.Answer{Outcome: tool.Accepted}, nil
	}
	a, err := asker.Ask(ctx, tool.Ask{Permission: d.request(name, ask, open)})
	if err != nil {
		return a, err
	}
	scope := Once
	if len(a.Values) > 0 {
		scope = a.Values[0]
	}
	allow := a.Outcome == tool.Accepted
	d.Answered = string(a.Outcome)
	if allow {
		d.Answered = scope
	}
	if a.By != "" {
		d.Answered += " by " + a.By
	}
	keep := scope == Session || scope == Always && allow || scope == Never && a.Outcome == tool.Declined
	if scope == Never && allow {
		return tool.Answer{Outcome: tool.Declined, Message: "the user answered never"}, nil
	}
	for _, j := range open {
		if !keep || !allow && a.Outcome != tool.Declined {
			break
		}
		if err := answers.Remember(j.Kind, name, j.Subject, allow, scope != Session); err != nil {
			return a, fmt.Errorf("cannot save the answer: %w", err)
		}
	}
	return a, nil
}

// request returns the permission request for the parts of a call that have no stored answer.
func (d *Decision) request(name string, ask *tool.Permission, open []Judgement) *tool.Permission {
	p := *ask
	p.Patterns = nil
	for _, j := range open {
		if j.Subject == name && d.arguments != "" {
			j.Subject = shorten(d.arguments)
		}
		p.Patterns = append(p.Patterns, j.Subject)
	}
	p.Metadata = map[string]any{"tool": name, "rule": d.Rule, "reason": d.Reason, "scopes": Scopes}
	maps.Copy(p.Metadata, ask.Metadata)
	// A tool must not set these keys, because they can make an answer unnecessary.
	delete(p.Metadata, ShowDiff)
	delete(p.Metadata, OnlyFiles)
	if !slices.ContainsFunc(open, func(j Judgement) bool { return !j.show }) {
		p.Metadata[ShowDiff] = true
	}
	if !slices.ContainsFunc(open, func(j Judgement) bool { return !j.held }) {
		p.Metadata[OnlyFiles] = true
	}
	return &p
}

func shorten(s string) string {
	if r := []rune(s); len(r) > 200 {
		return string(r[:199]) + "…"
	}
	return s
}

// Recheck decides again on an allowed call after a wait, for example for a person's answer. During the wait, other
// calls can change the targets of the call's paths and the scripts that it runs. Recheck does not ask a person. If a
// part of the call now requires a confirmation and the earlier decision did not ask about this part, or if the person
// was asked about a call whose scripts have changed since, Recheck denies the call.
func (p *Policy) Recheck(req *Request, earlier *Decision) (*Decision, error) {
	d := p.Judge(req)
	switch {
	case d.Effect == Deny && d.err != nil:
		return d, d.err
	case d.Effect == Deny:
		return d, denied(req.Name, d)
	}
	for _, j := range d.asks {
		if earlier == nil || !slices.ContainsFunc(earlier.asks,
			func(e Judgement) bool { return e.Kind == j.Kind && e.Subject == j.Subject }) {
			d.Effect = Deny
			return d, tool.Errorf(tool.Security, "A path in the call of %s changed after the call was permitted, and now leads to %s. Repeat the call.", req.Name, shorten(j.Subject))
		}
	}
	if earlier != nil {
		if err := earlier.runs.changed(); err != nil {
			d.Effect = Deny
			return d, err
		}
	}
	return d, nil
}
