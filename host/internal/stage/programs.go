package stage

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/scratch"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/sandbox/execgate"
	"toolhost.dev/shellscript"
)

// Programs judges the programs of calls. Its fields must not change after the first call.
type Programs struct {
	Policy *policy.Policy
	State  *state.DB
	Began  Began
}

// Began knows when sessions began.
type Began interface {
	// Since returns the start of the session of a call. It is zero if the policy does not need it.
	Since(c *call.Call) time.Time
}

// Stage records the programs that a call executes, and judges each program before the kernel executes it.
func (p *Programs) Stage() Stage {
	return Stage{Name: "programs", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *call.Call) *tool.Result {
			p.record(c)
			sent, token := c.Decision.Sent, ""
			if sent.Commands != nil {
				token = sent.Commands.Token
			}
			executed := c.Identity.Confinement.Programs(ctx, c.Request.Session.Principal.Owner(), sent.Roots, token,
				p.judgeOf(c))
			if executed == nil {
				return next(ctx, c)
			}
			res := next(ctx, c)
			c.Outcome.Programs, c.Outcome.Refused = executed.End()
			return res
		}
	}}
}

// record records the files of before the session, before the first call that can change them.
func (p *Programs) record(c *call.Call) {
	if past := c.Request.Session.Past; past != nil && p.Policy.Careful() &&
		!c.Identity.Tool.Definition.Traits.ReadOnly {
		_ = past.Record(c.Decision.Sent.Roots, policy.IsReplaceable) // ignore the error: without a record, all files count as older
	}
}

// judge applies the policy to the programs that a call executes. It stores the data of the call that it needs, because
// background processes can outlive the call.
type judge struct {
	policy    *policy.Policy
	decision  *policy.Decision
	asker     policy.Asker
	answers   policy.Answers
	name      string
	call      *tool.Call
	workspace string
	// commands reports whether the tool runs commands of the model. The list of programs applies only to these
	// commands, because the operator chooses the programs of all other tools.
	commands bool
	// since is the start of the session. It is zero if the policy does not need it.
	since time.Time
	past  *scratch.Past

	mu sync.Mutex
	// permitted contains the scripts that a person permitted to run.
	permitted map[permit]bool
}

// permit is the answer about a script: the process that runs it, its path, and the rule that asked.
type permit struct {
	pid          int
	script, rule string
}

func (p *Programs) judgeOf(c *call.Call) execgate.Judge {
	return &judge{
		policy: p.Policy, decision: c.Decision.Policy, asker: c.Client, answers: c.Answers(p.State),
		name: c.Identity.Tool.FullName(), call: c.Decision.Sent, workspace: c.Request.Session.Top(),
		commands: c.Identity.Tool.Commands,
		since:    p.Began.Since(c), past: c.Request.Session.Past,
	}
}

// execution converts an execution for the policy.
func (j *judge) execution(e *execgate.Execution) *policy.Execution {
	x := &policy.Execution{
		Path: e.Asked, File: e.Path, Args: e.Argv, Dir: e.Dir, Tool: j.name, Call: j.call, Workspace: j.workspace,
		Since: j.since, Past: j.past, Before: e.Before, BeforeArgs: e.BeforeArgs, GitSettings: e.GitSettings,
		WorkTree: e.WorkTree, GitDir: e.GitDir, Fingerprint: e.Fingerprint, Files: e.Files,
	}
	for _, a := range e.Ancestors {
		x.Ancestors = append(x.Ancestors, policy.Ancestor{Path: a.Asked, File: a.Path, Args: a.Argv})
	}
	return x
}

// Judge implements [execgate.Judge].
func (j *judge) Judge(e *execgate.Execution) execgate.Verdict {
	if len(e.Preloads) > 0 && j.commands && j.policy.Lists() {
		return execgate.Verdict{Effect: execgate.Deny, Rule: "listed programs",
			Reason: fmt.Sprintf("%s was not executed, because only listed programs can be executed, and %s makes the dynamic linker load code that is not listed. Unset the variable and try again", e.Path, strings.Join(e.Preloads, ", "))}
	}
	continued := j.continues(e)
	out := j.verdict(e, j.commands && !continued)
	if continued && out.Effect == execgate.Ask {
		out = j.withoutPermitted(e, out)
	}
	for i := e.Interpreter; i != nil && out.Effect != execgate.Deny; i = i.Interpreter {
		// If a rule lists a script, its interpreters are also allowed, because the kernel executes them. Tools can
		// change the scripts. Therefore a program that is not a known interpreter must be listed separately.
		known := j.policy.Interprets(j.execution(i))
		by := j.verdict(i, j.commands && !known)
		asks := pending(out)
		for _, ask := range pending(by) {
			// An answer about a script is one about the interpreter in its first line, too, if the same rule asks.
			if !known || !slices.ContainsFunc(asks, func(a policy.Judgement) bool { return a.Rule == ask.Rule }) {
				asks = append(asks, ask)
			}
		}
		if by.Effect == execgate.Deny || out.Effect == execgate.Allow {
			out = by
		}
		out.Pending = asks
	}
	return out
}

// withoutPermitted drops the asks of rules whose ask about the same script was answered.
func (j *judge) withoutPermitted(e *execgate.Execution, v execgate.Verdict) execgate.Verdict {
	j.mu.Lock()
	defer j.mu.Unlock()
	asks := slices.DeleteFunc(pending(v), func(ask policy.Judgement) bool {
		return j.permitted[permit{e.PID, e.Ancestors[0].Asked, ask.Rule}]
	})
	if v.Pending = asks; len(asks) == 0 {
		v = execgate.Verdict{Effect: execgate.Allow, Loads: v.Loads}
	}
	return v
}

// continues reports whether an execution completes the start of a script whose first line is "#!/usr/bin/env …". The
// same process must have executed the script. In the second step, env executes the program from the first line, with
// the script as its argument.
func (j *judge) continues(e *execgate.Execution) bool {
	if len(e.Ancestors) == 0 || e.Ancestors[0].PID != e.PID || e.Ancestors[0].Interpreter == nil {
		return false
	}
	last := e.Ancestors[0]
	for last.Interpreter != nil {
		last = last.Interpreter
	}
	want := shellscript.EnvCommand(last.Argv)
	n := len(want)
	if filepath.Base(last.Asked) != "env" || n < 2 || filepath.Base(e.Asked) != want[0] {
		return false
	}
	if strings.HasSuffix(want[n-1], "…") { // a long command line was shortened
		n--
	} else if len(e.Argv) > n {
		return false
	}
	return len(e.Argv) >= n && slices.Equal(e.Argv[:n], want[:n]) && j.policy.Interprets(j.execution(e))
}

// pending returns the judgements that a person must confirm.
func pending(v execgate.Verdict) []policy.Judgement {
	asks, _ := v.Pending.([]policy.Judgement)
	return asks
}

// verdict judges one program. If listed is true, the program must be in the list.
func (j *judge) verdict(e *execgate.Execution, listed bool) execgate.Verdict {
	x := j.execution(e)
	judged := j.policy.JudgeExecution(x)
	if j.past != nil && judged.Effect != policy.Deny {
		for _, m := range j.policy.Moves(x) {
			_ = j.past.Move(j.call.Roots, m.From, m.To) // ignore the error: the file stays, and the next command that deletes it is judged by its time
		}
	}
	if !listed && j.policy.Unlisted(&judged) {
		return execgate.Verdict{Effect: execgate.Allow, Loads: judged.Loads}
	}
	v := execgate.Verdict{Effect: string(judged.Effect), Rule: judged.Rule, Loads: judged.Loads}
	switch judged.Effect {
	case policy.Ask:
		v.Pending = []policy.Judgement{judged}
	case policy.Deny:
		_, err := policy.ConfirmExecution(context.Background(), j.name, judged, j.decision, j.asker, j.answers)
		v.Reason = reason(err)
	}
	return v
}

// Ask implements [execgate.Judge]. It asks about the judgements in v and does not judge again, because the files can
// have changed since the first judgement.
func (j *judge) Ask(ctx context.Context, e *execgate.Execution, v execgate.Verdict) execgate.Verdict {
	asks := pending(v)
	v.Effect, v.Answered = execgate.Allow, ""
	for i := 0; i < len(asks) && v.Effect == execgate.Allow; i++ {
		judged, err := policy.ConfirmExecution(ctx, j.name, asks[i], j.decision, j.asker, j.answers)
		if v.Effect, v.Reason = string(judged.Effect), reason(err); judged.Effect != policy.Allow {
			v.Rule = judged.Rule
		}
		v.Answered = judged.Answered
	}
	if v.Effect == execgate.Allow && e.Interpreter != nil {
		j.permit(e, asks)
	}
	if v.Answered == "" {
		v.Answered = map[bool]string{true: "accepted", false: "declined"}[v.Effect == execgate.Allow]
	}
	return v
}

// permit records that a person permitted a script, so that the program that env executes for it asks no second time.
func (j *judge) permit(e *execgate.Execution, asks []policy.Judgement) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.permitted == nil {
		j.permitted = make(map[permit]bool)
	}
	for _, ask := range asks {
		j.permitted[permit{e.PID, e.Asked, ask.Rule}] = true
	}
}

// reason returns the text of an error without the trailing full stop. The result adds a full stop.
func reason(err error) string {
	if err == nil {
		return ""
	}
	return strings.TrimSuffix(tool.AsError(err).Message, ".")
}
