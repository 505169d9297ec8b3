package dispatch

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/execgate"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/script"
)

// programs records the programs that a call executes, and judges each program before the kernel executes it.
func (d *Dispatcher) programs() Stage {
	if d.Programs == nil {
		return Stage{}
	}
	return Stage{Name: "programs", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			sent, token := c.Decision.Sent, ""
			if sent.Commands != nil {
				token = sent.Commands.Token
			}
			executed := d.Programs(ctx, c.Identity.Tool.Plugin, c.Request.Session.Principal.Owner(), sent.Roots, token, d.judgeOf(c))
			if executed == nil {
				return next(ctx, c)
			}
			res := next(ctx, c)
			c.Outcome.Programs, c.Outcome.Refused = executed.End()
			return res
		}
	}}
}

// gate determines whether the exec gate judges the programs of a call.
func (d *Dispatcher) gate(c *Call) {
	c.Identity.Gated = d.Gated != nil && c.Identity.Tool.Commands && d.Gated(c.Identity.Tool.Plugin, c.Decision.Sent.Roots)
}

// programJudge applies the policy to the programs that a call executes. It stores the required data of the call, because
// background processes can outlive the call.
type programJudge struct {
	policy    *policy.Policy
	decision  *policy.Decision
	asker     policy.Asker
	answers   policy.Answers
	name      string
	call      *tool.Call
	workspace string
	// commands reports that the tool runs commands of the model. The list of programs applies only to these commands.
	// The operator chooses the programs of other tools.
	commands bool
	// since is the start of the session. It is zero if the policy does not need it.
	since time.Time
}

func (d *Dispatcher) judgeOf(c *Call) execgate.Judge {
	return &programJudge{
		policy: d.Policy, decision: c.Decision.Policy, asker: c.Client, answers: c.Answers(d.State),
		name: c.Identity.Tool.FullName(), call: c.Decision.Sent, workspace: c.Request.Session.Workspace, commands: c.Identity.Tool.Commands,
		since: d.question(c).Since,
	}
}

// execution converts an execution for the policy.
func (j *programJudge) execution(e *execgate.Execution) *policy.Execution {
	x := &policy.Execution{Path: e.Asked, File: e.Path, Args: e.Argv, Dir: e.Dir, Tool: j.name, Call: j.call, Workspace: j.workspace, Since: j.since, Before: e.Before, BeforeArgs: e.BeforeArgs, GitSettings: e.GitSettings, WorkTree: e.WorkTree, GitDir: e.GitDir, Fingerprint: e.Fingerprint, Files: e.Files}
	for _, a := range e.Ancestors {
		x.Ancestors = append(x.Ancestors, policy.Ancestor{Path: a.Asked, File: a.Path, Args: a.Argv})
	}
	return x
}

// Judge implements [execgate.Judge].
func (j *programJudge) Judge(e *execgate.Execution) execgate.Verdict {
	if len(e.Preloads) > 0 && j.commands && j.policy.Lists() {
		return execgate.Verdict{Effect: execgate.Deny, Rule: "listed programs", Reason: fmt.Sprintf("%s was not executed, because %s makes the dynamic linker load other code, and only listed programs can be executed. Unset the variable", e.Path, strings.Join(e.Preloads, ", "))}
	}
	out := j.verdict(e, j.commands && !j.continues(e))
	for i := e.Interpreter; i != nil && out.Effect != execgate.Deny; i = i.Interpreter {
		// If a rule lists a script, its interpreters are also allowed, because the kernel executes them. Tools can
		// change the scripts. Therefore a program that is not a known interpreter must be listed separately.
		by := j.verdict(i, j.commands && !j.policy.Interprets(j.execution(i)))
		asks := append(pending(out), pending(by)...)
		if by.Effect == execgate.Deny || out.Effect == execgate.Allow {
			out = by
		}
		out.Pending = asks
	}
	return out
}

// continues reports whether an execution completes the start of a script whose first line is "#!/usr/bin/env …". The
// same process must have executed the script. In the second step, env executes the program from the first line, with the
// script as its argument.
func (j *programJudge) continues(e *execgate.Execution) bool {
	if len(e.Ancestors) == 0 || e.Ancestors[0].PID != e.PID || e.Ancestors[0].Interpreter == nil {
		return false
	}
	last := e.Ancestors[0]
	for last.Interpreter != nil {
		last = last.Interpreter
	}
	want := script.EnvCommand(last.Argv)
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
func (j *programJudge) verdict(e *execgate.Execution, listed bool) execgate.Verdict {
	judged := j.policy.JudgeExecution(j.execution(e))
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

// Ask implements [execgate.Judge]. It asks about the stored judgements, because the files can have changed since then.
func (j *programJudge) Ask(ctx context.Context, _ *execgate.Execution, v execgate.Verdict) execgate.Verdict {
	asks := pending(v)
	v.Effect = execgate.Allow
	for i := 0; i < len(asks) && v.Effect == execgate.Allow; i++ {
		judged, err := policy.ConfirmExecution(ctx, j.name, asks[i], j.decision, j.asker, j.answers)
		if v.Effect, v.Reason = string(judged.Effect), reason(err); judged.Effect != policy.Allow {
			v.Rule = judged.Rule
		}
	}
	v.Answered = "accepted"
	if v.Effect != execgate.Allow {
		v.Answered = "declined"
	}
	return v
}

// reason returns the text of an error without the trailing full stop. The result adds a full stop.
func reason(err error) string {
	if err == nil {
		return ""
	}
	return strings.TrimSuffix(tool.AsError(err).Message, ".")
}
