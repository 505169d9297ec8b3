package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/notes"
)

// session loads the session's state before the call and saves the effects of the call afterwards. It loads the state as
// late as possible, because earlier calls can change the state.
func (d *Dispatcher) session() Stage {
	denied := d.Denied
	if denied == nil {
		denied = func(string, []tool.Root, time.Time, string) []string { return nil }
	}
	exceeded := d.Exceeded
	if exceeded == nil {
		exceeded = func(string, []tool.Root, string, bool) []string { return nil }
	}
	watch := d.Watch
	if watch == nil {
		watch = func(string, string, []tool.Root) (func() []string, error) { return nil, nil }
	}
	return Stage{Name: "session", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			if err := d.loadState(c); err != nil {
				return call.Refused(err)
			}
			after, err := watch(c.Identity.Tool.Plugin, c.Request.Session.Principal.Owner(), c.Request.Session.Roots)
			if err != nil {
				return call.Refused(err)
			}
			res := next(ctx, c)
			if after != nil {
				notes.Quarantined(res, after())
			}
			cwd := d.saveState(c, res)
			d.directory(c, res, cwd)
			if label, passed := c.Ticket.Passed(); passed {
				notes.OldDirectory(res, c.Request.Session.Cwd, label)
			}
			if changed := c.Request.Changed; changed != nil && !c.Identity.Tool.Definition.Traits.ReadOnly {
				changed()
			}
			printed := res.Output
			if res.Error != nil {
				printed = res.Error.Message
			}
			plugin, roots := c.Identity.Tool.Plugin, c.Request.Session.Roots
			all := denied(plugin, roots, c.Identity.Started.Add(res.Run.QueueTime), printed)
			d.warn(c, res)
			all = append(append(c.Outcome.Refused, all...), exceeded(plugin, roots, printed, res.Error != nil)...)
			notes.Denials(res, all)
			if len(all) == 0 {
				d.hint(c, res, printed)
			}
			return res
		}
	}}
}

// directory adds the session's directory to the answer of a command that left the workspace's own directory, or that failed
// elsewhere. Then a model that does not know the directory writes wrong paths.
func (d *Dispatcher) directory(c *Call, res *tool.Result, cwd string) {
	s := c.Request.Session
	switch {
	case res.Cwd == "" || c.Identity.Depth > 0 || cwd == s.Cwd && res.Success():
	case slices.ContainsFunc(s.Roots, func(r tool.Root) bool { return r.Path == cwd }):
	default:
		notes.Elsewhere(res, cwd)
	}
}

// Ended describes how a command ended, for [Dispatcher.Hint].
type Ended struct {
	Command string
	// Printed is the standard error, or the whole output if the streams are not known.
	Printed  string
	Exit     int
	TimedOut bool
}

// hint adds a note about a failure that the sandbox caused.
func (d *Dispatcher) hint(c *Call, res *tool.Result, printed string) {
	if d.Hint == nil {
		return
	}
	e := Ended{Printed: printed}
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
	_ = json.Unmarshal(c.Decision.Sent.Arguments, &arguments) // the error is ignored, because other tools have no command
	e.Command = arguments.Command
	if text := d.Hint(c.Identity.Tool.Plugin, c.Request.Session.Roots, e); text != "" {
		notes.Hint(res, text)
	}
}

// loadState adds the state that the plugin stored for the session to the call.
func (d *Dispatcher) loadState(c *Call) error {
	s, err := d.State.PluginState(c.Decision.Sent.SessionID, c.Identity.Tool.Plugin)
	if err != nil {
		return fmt.Errorf("cannot read the session's state: %w", err)
	}
	c.Decision.Sent.SessionState = s
	return nil
}

// saveState saves the effects of the call, the state of the plugin and the working directory. It returns the session's
// working directory after the call. For a child call it does not
// save the directory and the state of a plugin that serves a parent call, because both depend on the parent call. It does not
// save a state that a read-only tool returns, because a read-only call can run at the same time as a call that changes the
// state.
func (d *Dispatcher) saveState(c *Call, res *tool.Result) (cwd string) {
	s := c.Request.Session
	d.State.Apply(s.ID, res.Effects)
	plugin := c.Identity.Tool.Plugin
	if res.SessionState != nil && !c.Identity.Tool.Definition.Traits.ReadOnly && !slices.Contains(c.Identity.Above, plugin) {
		d.State.SavePluginState(s.ID, plugin, res.SessionState)
	}
	switch {
	case c.Identity.Depth > 0:
	case res.Cwd == "" || res.Cwd == s.Cwd && !s.Displaced:
	case !s.Contains(res.Cwd):
		notes.Directory(res, s.Cwd, res.Cwd+" is outside of its roots")
	case strings.ContainsRune(res.Cwd, utf8.RuneError) && !isDirectory(res.Cwd): // the protocol replaced bytes of the name
		notes.Directory(res, s.Cwd, "the name of the directory "+res.Cwd+" is not UTF-8")
	default:
		s.Cwd = filepath.Clean(res.Cwd)
		d.State.SaveSession(s.Session)
	}
	return s.Cwd
}

func isDirectory(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// warned is the name under which a session remembers the warning that it got. No plugin can have this name.
const warned = "(sandbox)"

// warn adds a warning to the first result of a session whose tool is confined less than it could be.
func (d *Dispatcher) warn(c *Call, res *tool.Result) {
	if d.Weaker == nil || c.Identity.Depth > 0 {
		return
	}
	text := d.Weaker(c.Identity.Tool.Plugin, c.Request.Session.Roots)
	if text == "" {
		return
	}
	// A session whose state cannot be read gets the warning again.
	if known, err := d.State.PluginState(c.Request.Session.ID, warned); err == nil && string(known) == text {
		return
	}
	d.State.SavePluginState(c.Request.Session.ID, warned, []byte(text))
	notes.Warning(res, text)
}
