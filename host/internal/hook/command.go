package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"toolhost.dev/sdk/tool"
)

const (
	// maxAnswer limits the size of a program's answer, in bytes. maxWords limits the size of its standard error.
	maxAnswer = 16 << 20
	maxWords  = 64 << 10
	// statusDeny is the exit status of a program that denies a call. The reason is in its standard error.
	statusDeny = 2
)

// Command is a hook that runs a program of the operator. The program reads the event from standard input and writes its
// answer to standard output. The program runs without a sandbox, because the operator trusts it like the configuration.
type Command struct {
	Argv []string
	// Env is the complete environment of the program.
	Env []string
	// Writable returns the directories of a workspace in which tools can write. The hook does not run a program in
	// these directories, because a tool could change the program to escape from its sandbox.
	Writable func(workspace string) []string
	// Check returns an error if the program must not start now. The host calls it before each start. The hook then
	// denies the call, even if it permits calls on failure, because a tool could otherwise turn off the hook by
	// changing its program. A nil Check permits each start.
	Check func() error
	// Run runs a process. When ctx ends, Run kills the process and its child processes.
	Run func(ctx context.Context, cmd *exec.Cmd) error
}

// input is the JSON input of the program. Its fields have the same names as the corresponding fields of
// Claude Code's hooks.
type input struct {
	Event      tool.HookEvent   `json:"hook_event_name"`
	Hook       string           `json:"hook"`
	Tool       string           `json:"tool_name"`
	Arguments  json.RawMessage  `json:"tool_input,omitempty"`
	Result     *tool.Result     `json:"tool_response,omitempty"`
	Definition *tool.Definition `json:"definition,omitempty"`
	CallID     string           `json:"call_id,omitempty"`
	MessageID  string           `json:"message_id,omitempty"`
	SessionID  string           `json:"session_id,omitempty"`
	Cwd        string           `json:"cwd,omitempty"`
	Workspace  string           `json:"workspace,omitempty"`
}

// Hook implements [tool.Hook].
func (c *Command) Hook(ctx context.Context, in *tool.HookInput) (*tool.HookAnswer, error) {
	if err := c.unwritable(in.Workspace); err != nil {
		return nil, err
	}
	if c.Check != nil {
		if err := c.Check(); err != nil {
			return &tool.HookAnswer{Decision: tool.HookDeny, Reason: err.Error()}, nil //nolint:nilerr // the answer has the reason
		}
	}
	text, err := json.Marshal(input{
		Event: in.Event, Hook: in.Hook, Tool: in.Tool, Arguments: in.Arguments, Result: in.Result,
		Definition: in.Definition,
		CallID:     in.CallID, MessageID: in.MessageID, SessionID: in.SessionID, Cwd: in.Cwd, Workspace: in.Workspace,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot encode the event: %w", err)
	}
	cmd := exec.Command(c.Argv[0], c.Argv[1:]...) //nolint:gosec // running what the operator configured is the purpose
	answer, words := &bounded{max: maxAnswer}, &bounded{max: maxWords}
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = "/", c.Env, bytes.NewReader(append(text, '\n')), answer, words
	err = c.Run(ctx, cmd)
	said := strings.TrimSpace(strings.ToValidUTF8(words.kept.String(), "\uFFFD"))
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.As(err, &exit) && exit.ExitCode() == statusDeny:
		return &tool.HookAnswer{Decision: tool.HookDeny, Reason: said}, nil
	case err != nil && said != "":
		return nil, fmt.Errorf("%s: %w; its output: %s", c.Argv[0], err, said)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", c.Argv[0], err)
	case answer.over:
		return nil, fmt.Errorf("%s answered more than %d bytes", c.Argv[0], maxAnswer)
	}
	return parse(answer.kept.Bytes())
}

// unwritable returns an error if a tool can write a file in the command.
func (c *Command) unwritable(workspace string) error {
	program, err := exec.LookPath(c.Argv[0])
	if err != nil {
		return fmt.Errorf("cannot run the hook's program: %w", err)
	}
	dirs := c.Writable(workspace)
	for _, path := range append([]string{program}, c.Argv[1:]...) {
		if !filepath.IsAbs(path) {
			continue
		}
		target, err := filepath.EvalSymlinks(path)
		if err != nil { // the argument does not name an existing file
			target = filepath.Clean(path)
		}
		for _, dir := range dirs {
			for _, p := range []string{target, filepath.Clean(path)} {
				if (tool.Root{Path: dir}).Contains(p) {
					return fmt.Errorf("%s is in %s, where tools can write, but the hook would run outside of their sandbox; move it to another directory", path, dir)
				}
			}
		}
	}
	return nil
}

// answerJSON is the JSON answer of a program. Any other answer is an error. Otherwise a mistake in the program could
// permit a call.
type answerJSON struct {
	Decision  string          `json:"decision"`
	Reason    string          `json:"reason"`
	Arguments json.RawMessage `json:"updated_input"`
	Result    *resultJSON     `json:"result"`

	// Specific contains the answer in the format of Claude Code's hooks.
	Specific *struct {
		Event     string          `json:"hookEventName"`
		Decision  string          `json:"permissionDecision"`
		Reason    string          `json:"permissionDecisionReason"`
		Arguments json.RawMessage `json:"updatedInput"`
	} `json:"hookSpecificOutput"`
	Continue   *bool  `json:"continue"`
	StopReason string `json:"stopReason"`
	Suppress   bool   `json:"suppressOutput"`
	Message    string `json:"systemMessage"`
}

type resultJSON struct {
	Output      string            `json:"output"`
	Error       *tool.Error       `json:"error"`
	Title       string            `json:"title"`
	Metadata    map[string]any    `json:"metadata"`
	Data        json.RawMessage   `json:"data"`
	Attachments []tool.Attachment `json:"attachments"`
}

var decisions = map[string]tool.HookDecision{
	"": tool.HookProceed, "allow": tool.HookProceed, "approve": tool.HookProceed,
	"deny": tool.HookDeny, "block": tool.HookDeny, "ask": tool.HookAsk,
}

func parse(text []byte) (*tool.HookAnswer, error) {
	out := new(tool.HookAnswer)
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return out, nil
	}
	var a answerJSON
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return nil, fmt.Errorf("invalid answer %.200q: %w; print a JSON object, or nothing", text, err)
	}
	if d.More() {
		return nil, fmt.Errorf("the hook printed more than one JSON object: %.200q; print only one", text)
	}
	said := []string{a.Decision}
	out.Reason, out.Arguments = a.Reason, a.Arguments
	if s := a.Specific; s != nil {
		said = append(said, s.Decision)
		if s.Reason != "" {
			out.Reason = s.Reason
		}
		if s.Arguments != nil {
			out.Arguments = s.Arguments
		}
	}
	if a.Continue != nil && !*a.Continue {
		said = append(said, "deny")
		if a.StopReason != "" {
			out.Reason = a.StopReason
		}
	}
	for _, word := range said {
		decision, ok := decisions[word]
		if !ok {
			return nil, fmt.Errorf("unknown decision %q; use allow, deny or ask", word)
		}
		if decision == tool.HookDeny || out.Decision == tool.HookProceed {
			out.Decision = decision
		}
	}
	if r := a.Result; r != nil {
		if r.Error != nil && !tool.KnownKind(r.Error.Kind) {
			return nil, fmt.Errorf("unknown error kind %q in the answer; use one of the kinds in the package sdk/tool, such as \"permission_denied\"", r.Error.Kind)
		}
		out.Result = &tool.Result{Output: r.Output, Error: r.Error, Title: r.Title, Metadata: r.Metadata, Data: r.Data,
			Attachments: r.Attachments}
	}
	return out, nil
}

// bounded stores the first bytes of its input and drops the rest. It does not embed the buffer, because the
// buffer's method ReadFrom has no limit.
type bounded struct {
	kept bytes.Buffer
	max  int
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	room := min(b.max-b.kept.Len(), len(p))
	b.over = b.over || room < len(p)
	b.kept.Write(p[:room])
	return len(p), nil
}
