package bash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"toolhost.dev/plugins/bash/capture"
	"toolhost.dev/plugins/bash/session"
	"toolhost.dev/plugins/bash/shell"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/toolrpc"
)

// run is the handler: arguments → shell → result.
func (b *bash) run(ctx context.Context, call *sdk.Call, in args) (*sdk.Result, error) {
	if err := check(&in); err != nil {
		return nil, err
	}
	path, err := shell.Find()
	if err != nil {
		return nil, sdk.Errorf(tool.NotFound, "There is no bash on PATH (%s), so no command can run: %w. Install bash, or add its directory to the plugin's PATH.", os.Getenv("PATH"), err)
	}
	at, err := workdir(call, in.Cwd)
	if err != nil {
		return nil, err
	}
	keeper, err := b.processes()
	if err != nil {
		return nil, sdk.Errorf(tool.Unavailable, "The bash plugin is ending and runs no more commands. Try again.")
	}
	r := &report{in: in, bash: path, at: at}
	state, err := session.Decode(call.SessionState)
	if err != nil {
		r.note("The session's state could not be read, so the command ran in a new session: variables, functions and options of before are gone.")
	}
	env := shell.Environment(os.Environ())
	if call.Commands != nil {
		env = shell.AppendPath(env, call.Commands.Dir)
	}
	cmd := shell.Command{
		Tools: call.Commands, Bash: path, Text: in.Command, Stdin: in.Stdin, Dir: at.dir, State: state,
		Env: env, Timeout: time.Duration(in.Timeout) * time.Millisecond,
	}
	run := func() (*shell.Outcome, error) {
		r.stdout, r.stderr = capture.NewBuffer("stdout", b.store), capture.NewBuffer("stderr", b.store)
		out, closeOut := tee(call, tool.Stdout, r.stdout)
		defer closeOut()
		errs, closeErrs := tee(call, tool.Stderr, r.stderr)
		defer closeErrs()
		cmd.Stdout, cmd.Stderr = out, errs
		return shell.Run(ctx, keeper, cmd)
	}
	r.out, err = run()
	if err == nil && r.out.Ending == shell.Exited && errors.Is(r.out.StateErr, session.ErrNotRestored) && state.Snapshot != nil {
		// The command has not run: the shell ends before it when it cannot restore.
		r.note("The session's state could not be restored, so the command ran in a new session: variables, functions and options of before are gone.")
		state = session.State{}
		cmd.State = state
		r.out, err = run()
	}
	if err != nil {
		return nil, sdk.Errorf(tool.ExecutionFailed, "The command did not run: %w. If this stays so, restart the plugin.", err)
	}
	r.keep(state, cmd.Env)
	return r.result(ctx)
}

func check(in *args) error {
	if strings.TrimSpace(in.Command) == "" {
		return sdk.Errorf(tool.InvalidArguments, "The command is empty. Give the commands to run in command.")
	}
	if i := strings.IndexByte(in.Command, 0); i >= 0 {
		return sdk.Errorf(tool.InvalidArguments, "The command has a NUL byte at offset %d, which bash cannot have in a script. Write it as $'\\0' or with printf '\\0', or give the text in stdin.", i)
	}
	if in.Timeout == 0 {
		in.Timeout = int(defaultTimeout.Milliseconds())
	}
	if in.Timeout < 0 || in.Timeout > int(maxTimeout.Milliseconds()) {
		return sdk.Errorf(tool.InvalidArguments, "The timeout is %d ms; it must be from 1 to %d. Start what takes longer in the background, with its output in a file.", in.Timeout, maxTimeout.Milliseconds())
	}
	return nil
}

// tee writes to the buffer and to the call's live output.
func tee(call *sdk.Call, s tool.Stream, b *capture.Buffer) (w *both, closeLive func()) {
	live := capture.NewLive(func(p []byte) { call.Output(s, p) })
	return &both{b, live}, live.Close
}

type both struct {
	buffer *capture.Buffer
	live   *capture.Live
}

func (t *both) Write(p []byte) (int, error) {
	_, _ = t.live.Write(p)
	return t.buffer.Write(p)
}

// keep decides what the session goes on with after the command.
func (r *report) keep(state session.State, env []string) {
	o := r.out
	if o.Ending != shell.Exited {
		return // a killed command leaves the session as it was
	}
	if s := o.Snapshot; s != nil && s.Cwd != "" {
		r.at.moved(s.Cwd)
	}
	next := session.State{Base: env, Last: o.Exit, Snapshot: o.Snapshot}
	switch {
	case o.StateErr == nil:
	case errors.Is(o.StateErr, session.ErrNoDump):
		r.note("The session is as it was before: the command ended without telling bash's state (exec, or exit under an EXIT trap of its own, or the shell was killed).")
		next.Base, next.Snapshot = state.Base, state.Snapshot
	default:
		r.note("What the command changed in variables, functions and options could not be read, so the session keeps those of before.")
		next.Base, next.Snapshot = state.Base, state.Snapshot
	}
	encoded := next.Encode()
	if len(encoded) > toolrpc.MaxSessionState {
		r.note(fmt.Sprintf("Variables and functions of the session take %d bytes, more than the %d that can be kept, so it keeps those of before. Put large data in files.",
			len(encoded), toolrpc.MaxSessionState))
		next.Base, next.Snapshot = state.Base, state.Snapshot
		encoded = next.Encode()
	}
	r.state = encoded
}
