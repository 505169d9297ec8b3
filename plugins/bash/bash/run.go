package bash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"toolhost.dev/plugins/bash/jobs"
	"toolhost.dev/plugins/bash/session"
	"toolhost.dev/plugins/bash/shell"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/spill"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/toolrpc"
)

// run is the handler of the tool bash.
func (b *bash) run(ctx context.Context, call *sdk.Call, in args) (*sdk.Result, error) {
	if err := check(&in); err != nil {
		return nil, err
	}
	path, err := shell.Find()
	if err != nil {
		return nil, sdk.Errorf(tool.NotFound, "The program bash was not found on PATH (%s): %w. Install bash, or add its directory to the plugin's PATH.", os.Getenv("PATH"), err)
	}
	at, err := workdir(call, in.Cwd)
	if err != nil {
		return nil, err
	}
	shells, err := b.shells()
	if err != nil {
		return nil, sdk.Errorf(tool.Unavailable, "The bash plugin is stopping and accepts no more commands. Try again.")
	}
	if in.Background && !b.jobs.Room(call.SessionID) {
		return nil, tooManyJobs()
	}
	r := &report{in: in, bash: path, at: at, hadState: len(call.SessionState) > 0}
	r.seal = func(s session.State) []byte { return b.vault.Seal(call.SessionID, s) }
	state, lost, err := b.vault.Open(call.SessionID, call.SessionState)
	if len(lost) > 0 {
		r.note(fmt.Sprintf("These variables are not kept on disk, because they can contain secrets, and are gone: %s. Set them again if they are needed.", strings.Join(lost, ", ")))
	}
	if err != nil {
		r.note("The session's state could not be read, so the command ran in a new session: earlier variables, functions and options are lost.")
	}
	env := b.environment(ctx, call, shells, &state, r)
	seed := shell.Seed{
		Bash: path, Dir: at.dir, Env: env, State: state, StateBytes: call.SessionState, Tools: call.Commands,
	}
	c := b.start(shells, call, &in, seed)
	defer c.stopLive()
	c.shown = c.job(call, &in, r.title())
	if !in.Background {
		b.jobs.Show(c.shown)
		defer b.jobs.Hide(c.shown)
	}
	ending, reason := b.await(ctx, call.SessionID, c, &in)
	r.screen = c.screen
	r.stdout, r.stderr, r.waiting = c.stdout.buffer, c.stderr.buffer,
		reason == becauseStdin || reason == becauseTerminal
	if ending == goesOn {
		c.stopLive()
		if r.job = c.shown; b.jobs.Add(r.job) == nil {
			r.note(reason.text(r.job.ID))
			shells.Prepare(call.SessionID, seed)
			return r.running(), nil
		}
		r.job = nil
		c.process.Kill()
		if in.Background {
			return nil, tooManyJobs()
		}
	}
	c.stopLive()
	if r.out, err = c.process.Outcome(); err != nil {
		return nil, sdk.Errorf(tool.ExecutionFailed, "The command did not run: %w. If this happens again, restart the plugin (toolhost plugin reload).", err)
	}
	if r.out.Fresh {
		r.note("The session's state could not be restored, so the command ran in a new session: earlier variables, functions and options are lost.")
		state = session.State{Login: state.Login}
	}
	r.keep(state, env)
	if bytes.Equal(r.state, call.SessionState) {
		r.state = nil // a nil state tells the host to keep the session's state
	}
	b.left(call, c, r)
	b.prepare(shells, call, seed, r)
	return r.result(ctx)
}

// left creates a job for the processes that continue after the command has ended.
func (b *bash) left(call *sdk.Call, c *running, r *report) {
	if len(r.out.Background) == 0 {
		return
	}
	j := &jobs.Job{Session: call.SessionID, Title: r.title(), Process: c.process, Left: true,
		Stdout: []*spill.Buffer{c.restOut}, Stderr: []*spill.Buffer{c.restErr}}
	if b.jobs.Add(j) != nil {
		r.note(fmt.Sprintf("The command left processes running: %s. They are not a job, because too many jobs are running.", pids(r.out.Background)))
		return
	}
	r.job = j
	r.note(fmt.Sprintf("The command left processes running as the job %s: %s.", j.ID, pids(r.out.Background)))
}

func pids(list []int) string {
	if len(list) == 1 {
		return fmt.Sprintf("process %d", list[0])
	}
	return "processes " + strings.Trim(fmt.Sprint(list), "[]")
}

// prepare starts a shell for the session's next command. The directory of the next command is not known yet. prepare
// assumes that the next command has the same cwd as the current command. If the current command has no cwd, prepare
// uses the session's directory.
func (b *bash) prepare(shells *shell.Runner, call *sdk.Call, seed shell.Seed, r *report) {
	if r.state != nil {
		next, _, err := b.vault.Open(call.SessionID, r.state)
		if err != nil {
			return
		}
		seed.State, seed.StateBytes = next, r.state
	}
	if r.in.Cwd == "" {
		seed.Dir = r.at.session
	}
	shells.Prepare(call.SessionID, seed)
}

func check(in *args) error {
	if strings.TrimSpace(in.Command) == "" {
		return sdk.Errorf(tool.InvalidArguments, "The command is empty. Set command to the commands to run.")
	}
	if i := strings.IndexByte(in.Command, 0); i >= 0 {
		return sdk.Errorf(tool.InvalidArguments, "The command has a NUL byte at offset %d, which bash scripts cannot contain. Write the byte with printf '\\0', or pass the text in stdin.", i)
	}
	if in.Timeout == 0 {
		in.Timeout = int(defaultTimeout.Milliseconds())
	}
	if in.Timeout < 0 || in.Timeout > int(maxTimeout.Milliseconds()) {
		return sdk.Errorf(tool.InvalidArguments, "The timeout is %d ms. Set timeout to a number from 1 to %d, or start a longer command with run_in_background.", in.Timeout, maxTimeout.Milliseconds())
	}
	return nil
}

// keep sets the session's state and directory in the report.
func (r *report) keep(state session.State, env []string) {
	o := r.out
	if o.Ending != shell.Exited {
		return // a killed command leaves the session unchanged
	}
	if s := o.Snapshot; s != nil && s.Cwd != "" {
		r.at.moved(s.Cwd)
	}
	next := session.State{Base: env, Login: state.Login, Last: o.Exit, Snapshot: o.Snapshot}
	switch {
	case o.Kept:
		next.Base, next.Snapshot = state.Base, state.Snapshot
	case o.StateErr == nil:
	case errors.Is(o.StateErr, session.ErrNoDump):
		r.note("The session is unchanged, because the command ended without reporting bash's state (exec, exit under an EXIT trap of its own, or a killed shell).")
		next.Base, next.Snapshot = state.Base, state.Snapshot
	default:
		r.note("The command's changes of variables, functions and options could not be read. The session keeps the earlier values.")
		next.Base, next.Snapshot = state.Base, state.Snapshot
	}
	if !r.hadState && next.Snapshot == nil && next.Login == nil && next.Last == 0 {
		return // store no state: the session has none, and the new state equals that of a new session
	}
	encoded := r.seal(next)
	if len(encoded) > toolrpc.MaxSessionState {
		r.note(fmt.Sprintf("Variables and functions of the session take %d bytes, and the limit is %d. The session keeps the earlier values. Put large data in files.",
			len(encoded), toolrpc.MaxSessionState))
		next.Base, next.Snapshot = state.Base, state.Snapshot
		encoded = r.seal(next)
	}
	r.state = encoded
}
