package bash

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"toolhost.dev/plugins/bash/jobs"
	"toolhost.dev/plugins/bash/session"
	"toolhost.dev/plugins/bash/shell"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/spill"
	"toolhost.dev/sdk/tool"
)

// maxText limits the output in a result, in characters, for both streams together.
const maxText = 50_000

// report collects the data for the result of a command.
type report struct {
	in             args
	bash           string
	at             *place
	out            *shell.Outcome
	stdout, stderr *spill.Buffer
	state          []byte
	hadState       bool
	seal           func(session.State) []byte // encodes a session state without its secrets
	notes          []string
	// job is the background job that the command became. It is nil if the command ended. The field "waiting" is true if
	// the job waits for input.
	job     *jobs.Job
	waiting bool
	screen  string // the full-screen program that made the tool end the command; empty if there was none
}

func (r *report) note(s string) { r.notes = append(r.notes, s) }

func (r *report) result(ctx context.Context) (*sdk.Result, error) {
	if lost := r.at.lost; lost != "" {
		r.note(fmt.Sprintf("The session's working directory %s no longer exists; the session is now in %s.", lost, r.at.session))
	}
	o := r.out
	if last, _ := r.stderr.Tail(20); o.Ending == shell.Exited && o.Exit != 0 && noTerminal.MatchString(last) {
		r.note("Commands have no terminal. Use the program without a screen, such as top -b -n 1, or another tool.")
	}
	notes := r.noteText()
	stdout, stderr := r.texts(notes, (*spill.Buffer).Text)
	d := r.data(stdout, stderr)
	d.ExitCode, d.Signal, d.TimedOut, d.Duration = o.Exit, o.Signal, o.Ending == shell.TimedOut,
		o.Duration.Milliseconds()
	res := &sdk.Result{Title: r.title(), Metadata: r.metadata(), Data: sdk.Data(d), SessionState: r.state}
	if o.Ending == shell.Exited {
		res.Cwd = r.at.session
	}
	if r.screen != "" {
		d.Stdout, d.Stderr = "", screenAdvice(r.screen)+".\n"
		res.Data = sdk.Data(d)
	}
	text := streams(stdout.Shown, stderr.Shown)
	if o.Ending == shell.Exited && o.Exit == 0 {
		res.Output = joinLines(text, notes)
		return res, nil
	}
	return res, r.failure(ctx, text, notes)
}

// running returns the result of a command that continues as a job.
func (r *report) running() *sdk.Result {
	notes := r.noteText()
	stdout, stderr := r.texts(notes, (*spill.Buffer).Peek)
	d := r.data(stdout, stderr)
	d.ExitCode, d.Duration, d.Waiting = -1, time.Since(r.job.Process.Began()).Milliseconds(), r.waiting
	return &sdk.Result{Title: r.title(), Metadata: r.metadata(), Data: sdk.Data(d),
		Output: joinLines(streams(stdout.Shown, stderr.Shown), notes)}
}

// data returns the fields of the structured result that are the same for ended commands and for jobs.
func (r *report) data(stdout, stderr spill.Text) data {
	d := data{Stdout: stdout.Shown, Stderr: stderr.Shown, Truncated: stdout.Cut || stderr.Cut, Cwd: r.at.session}
	if d.SpillPath = stdout.Path; d.SpillPath == "" {
		d.SpillPath = stderr.Path
	} else {
		d.StderrSpillPath = stderr.Path
	}
	if r.job != nil {
		d.JobID = r.job.ID
	}
	return d
}

// texts returns both streams, shortened to the space that the notes leave in the result. Each stream gets half of
// the space, plus the unused part of the other half. The function "show" returns the text of a stream, shortened to at
// most the given number of characters.
func (r *report) texts(notes string, show func(*spill.Buffer, int) spill.Text) (stdout, stderr spill.Text) {
	room := maxText - utf8.RuneCountInString(notes) - 200 // 200 characters are reserved for headings
	forErr := max(room/2, room-int(min(r.stdout.Size(), int64(room))))
	stderr = show(r.stderr, forErr)
	return show(r.stdout, room-min(forErr, utf8.RuneCountInString(stderr.Shown))), stderr
}

// streams combines the two outputs. If both contain text, a heading precedes standard error.
func streams(stdout, stderr string) string {
	if stdout == "" || stderr == "" {
		return stdout + stderr
	}
	return joinLines(stdout, "[stderr]\n"+stderr)
}

// joinLines joins two texts. The second text begins on a new line.
func joinLines(a, b string) string {
	if a == "" || b == "" || strings.HasSuffix(a, "\n") {
		return a + b
	}
	return a + "\n" + b
}

func (r *report) noteText() string {
	var s strings.Builder
	for _, n := range r.notes {
		fmt.Fprintf(&s, "[%s]\n", n)
	}
	return s.String()
}

// failure returns the error of a command whose exit status was not 0. The message contains the output, because the
// model reads only the message of a failed call.
func (r *report) failure(ctx context.Context, text, notes string) error {
	body := joinLines(text, notes)
	switch r.out.Ending {
	case shell.TimedOut:
		advice := fmt.Sprintf("Set a longer timeout (up to %d ms), do less in one command, or set yield_ms or run_in_background to let the command continue as a job.", maxTimeout.Milliseconds())
		if body == "" {
			advice += " The command printed nothing."
		} else {
			advice += " Its output was:"
		}
		return sdk.Errorf(tool.Timeout, "The command was not done after %s and was killed with everything it had started. The session is unchanged. %s",
			r.limit(), joinLines(advice, body))
	case shell.Canceled:
		if r.screen != "" { // the output is a drawn screen, which does not help the model
			return sdk.Errorf(tool.ExecutionFailed, "%s. The command was ended. The session is unchanged.", screenAdvice(r.screen)).WithCode(128 + 15)
		}
		if ctx.Err() == nil {
			head := "The tool job killed the command, with everything it had started. The session is unchanged."
			return sdk.Errorf(tool.ExecutionFailed, "%s", joinLines(head, body)).WithCode(128 + 9)
		}
		head := "The call was canceled"
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
			head += fmt.Sprintf(" (%v)", cause)
		}
		head += ". The command was killed with everything it had started. The session is unchanged."
		if body != "" {
			head += " Its output was:"
		}
		return sdk.Errorf(tool.Canceled, "%s", joinLines(head, body))
	}
	head := fmt.Sprintf("exit status %d", r.out.Exit)
	if r.out.Signal != "" {
		head += " (" + r.out.Signal + ")"
	}
	return sdk.Errorf(tool.ExecutionFailed, "%s", joinLines(head, body)).WithCode(r.out.Exit)
}

// limit returns the timeout that ended the command: the command's own timeout, or a shorter timeout of the host.
func (r *report) limit() time.Duration {
	if t := time.Duration(r.in.Timeout) * time.Millisecond; r.out.Duration >= t {
		return t
	}
	return r.out.Duration.Round(time.Millisecond)
}

const maxTitle = 80

// title returns the description of the command. Without a description, it returns the first line of the command.
func (r *report) title() string {
	t := strings.TrimSpace(r.in.Description)
	if t == "" {
		t = strings.TrimSpace(r.in.Command)
	}
	t, _, more := strings.Cut(t, "\n")
	if runes := []rune(t); len(runes) > maxTitle {
		return string(runes[:maxTitle-1]) + "…"
	}
	if more {
		return t + " …"
	}
	return t
}

func (r *report) metadata() map[string]any {
	m := map[string]any{"shell": r.bash, "user_shell": shell.Users()}
	if r.in.Description != "" {
		m["description"] = r.in.Description
	}
	if r.out != nil && len(r.out.Background) > 0 {
		m["background_pids"] = r.out.Background
	}
	return m
}
