package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/state"
)

// Sessions keeps the state of sessions. Its fields must not change after the first call.
type Sessions struct{ State *state.DB }

// Stage loads the session's state before the call and saves the effects of the call afterwards. It loads the state as
// late as possible, because earlier calls can change the state.
func (s *Sessions) Stage() Stage {
	return Stage{Name: "session", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			if err := s.loadState(c); err != nil {
				return call.Refused(err)
			}
			confinement, roots := c.Identity.Confinement, c.Request.Session.Roots
			after, err := confinement.Watch(c.Request.Session.Principal.Owner(), roots)
			if err != nil {
				return call.Refused(err)
			}
			res := next(ctx, c)
			if after != nil {
				call.NoteQuarantined(res, after())
			}
			call.NoteDeprecated(res, &c.Identity.Tool.Definition, c.Identity.Tool.Schema(), c.Decision.Arguments)
			cwd := s.saveState(c, res)
			directory(c, res, cwd)
			if label, passed := c.Ticket.Passed(); passed {
				call.NoteOldDirectory(res, c.Request.Session.Cwd, label)
			}
			if changed := c.Request.Changed; changed != nil && !c.Identity.Tool.Definition.Traits.ReadOnly {
				changed()
			}
			printed := ends(res.Output)
			if res.Error != nil {
				printed = ends(res.Error.Message)
			}
			limited := printed
			if res.Error != nil && res.Error.Source == tool.SourceHost { // the host reached its own limits, and not those of the plugin
				limited = ""
			}
			all := confinement.Denied(roots, c.Identity.Started.Add(res.Run.QueueTime), printed)
			s.warn(c, res)
			s.introduce(c, res)
			all = append(append(c.Outcome.Refused, all...), confinement.Exceeded(roots, limited, res.Error != nil)...)
			call.NoteDenials(res, all)
			if len(all) == 0 {
				hint(c, res, printed)
			}
			return res
		}
	}}
}

// maxEnd limits what is searched for the messages of programs, in bytes.
const maxEnd = 256 << 10

// ends returns the beginning and the end of a long text. The result of a plugin can have many megabytes here.
func ends(s string) string {
	if len(s) <= 2*maxEnd {
		return s
	}
	return s[:maxEnd] + "\n" + s[len(s)-maxEnd:]
}

// directory adds a note about the session's directory to a result in two cases: the command changed to a
// directory that is not a root, or the command failed in such a directory. Without this note, a model can use wrong
// relative paths.
func directory(c *Call, res *tool.Result, cwd string) {
	s := c.Request.Session
	switch {
	case res.Cwd == "" || c.Identity.Depth > 0 || cwd == s.Cwd && res.Success():
	case slices.ContainsFunc(s.Roots, func(r tool.Root) bool { return r.Path == cwd }):
	default:
		call.NoteElsewhere(res, cwd)
	}
}

// hint adds a note to the result if the sandbox probably caused the failure of a command.
func hint(c *Call, res *tool.Result, printed string) {
	if len(res.Data) > 4*maxEnd {
		return
	}
	if res.Error == nil && !bytes.Contains(res.Data, []byte(`"exit_code"`)) { // no command has ended, and the data can be large
		return
	}
	e := call.Ended{Printed: printed}
	var data struct {
		Stderr *string
		Exit   int `json:"exit_code"`
	}
	if json.Unmarshal(res.Data, &data) == nil && data.Stderr != nil {
		e.Printed, e.Exit = *data.Stderr, data.Exit
	} else if res.Error == nil {
		return
	}
	if err := res.Error; err != nil {
		if err.Kind != tool.ExecutionFailed && err.Kind != tool.Timeout {
			return
		}
		e.TimedOut = err.Kind == tool.Timeout
		if e.Exit == 0 {
			e.Exit = 1
		}
	}
	var arguments struct{ Command string }
	_ = json.Unmarshal(c.Decision.Sent.Arguments, &arguments) // ignore the error: other tools have no command
	e.Command = arguments.Command
	if text := c.Identity.Confinement.Hint(c.Request.Session.Roots, e); text != "" {
		call.NoteHint(res, text)
	}
}

// loadState adds the state that the plugin stored for the session to the call.
func (s *Sessions) loadState(c *Call) error {
	known, err := s.State.PluginState(c.Decision.Sent.SessionID, c.Identity.Tool.Plugin)
	if err != nil {
		return fmt.Errorf("cannot read the session's state: %w", err)
	}
	c.Decision.Sent.SessionState = known
	return nil
}

// saveState saves the effects of the call, the state of the plugin and the working directory. It returns the session's
// working directory after the call. For a child call, it does not save the directory and the state of a plugin that
// serves a parent call, because the parent call depends on both. It also does not save a state from a read-only tool,
// because a read-only call can run concurrently with a call that changes the state.
func (s *Sessions) saveState(c *Call, res *tool.Result) (cwd string) {
	of := c.Request.Session
	save := of.Later
	if save == nil {
		save = func(f func()) { f() }
	}
	effects := res.Effects
	save(func() { s.State.Apply(of.ID, effects) })
	plugin := c.Identity.Tool.Plugin
	if res.SessionState != nil && !c.Identity.Tool.Definition.Traits.ReadOnly &&
		!slices.Contains(c.Identity.Above, plugin) {
		now := res.SessionState
		save(func() { s.State.SavePluginState(of.ID, plugin, now) })
	}
	switch {
	case c.Identity.Depth > 0:
	case res.Cwd == "" || res.Cwd == of.Cwd && !of.Displaced:
	case !of.Contains(res.Cwd):
		call.NoteDirectory(res, of.Cwd, res.Cwd+" is outside of its roots")
	case strings.ContainsRune(res.Cwd, utf8.RuneError) && !isDirectory(res.Cwd): // the name is not UTF-8, so the protocol replaced bytes
		call.NoteDirectory(res, of.Cwd, "the name of the directory "+res.Cwd+" is not UTF-8")
	default:
		of.Cwd = filepath.Clean(res.Cwd)
		now := of.Stored()
		save(func() { s.State.SaveSession(now) })
	}
	return of.Cwd
}

func isDirectory(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// introduced is a pseudo plugin name like the constant "warned". Under this name, the session records that its note
// about the copy was shown.
const introduced = "(copy)"

// introduce adds a note to the first result of a session whose branch is a copy, because paths in the copy differ from
// paths in the workspace.
func (s *Sessions) introduce(c *Call, res *tool.Result) {
	m := c.Request.Session.Mount
	if m.Note == "" || c.Identity.Depth > 0 {
		return
	}
	if known, err := s.State.PluginState(c.Request.Session.ID, introduced); err == nil && string(known) == m.Note {
		return
	}
	s.State.SavePluginState(c.Request.Session.ID, introduced, []byte(m.Note))
	call.NoteWarning(res, m.Note)
}

// warned is a pseudo plugin name. The session stores its last warning under this name. No plugin can have the name.
const warned = "(sandbox)"

// warn adds a warning to the first result of a session if the sandbox of the tool is weaker than it can be.
func (s *Sessions) warn(c *Call, res *tool.Result) {
	if c.Identity.Depth > 0 {
		return
	}
	text := c.Identity.Confinement.Weaker(c.Request.Session.Roots)
	if text == "" {
		return
	}
	// If the stored warning cannot be read, the session receives the warning again.
	if known, err := s.State.PluginState(c.Request.Session.ID, warned); err == nil && string(known) == text {
		return
	}
	s.State.SavePluginState(c.Request.Session.ID, warned, []byte(text))
	call.NoteWarning(res, text)
}
