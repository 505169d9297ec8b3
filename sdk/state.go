package sdk

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"toolhost.dev/sdk/store"
)

// errNoStateDir is the error of a plugin that has no state directory.
var errNoStateDir = errors.New("the plugin has no state directory; in a test, set StateDir in Host.Configure")

// Store returns the plugin's persistent values, which all sessions and all processes of the plugin share; see package
// [store].
func (c *Call) Store() (*store.Store, error) {
	if c.stateDir == nil {
		return nil, errNoStateDir
	}
	return openStore(c.stateDir())
}

func openStore(stateDir string) (*store.Store, error) {
	if stateDir == "" {
		return nil, errNoStateDir
	}
	return store.Open(filepath.Join(stateDir, "store"), store.Options{})
}

// Logger returns a logger for the call. Its messages have the tool, the call and the session as fields. The host writes
// them to the plugin's log; see "toolhost plugin logs". For messages outside of a call, use [slog.Default].
func (c *Call) Logger() *slog.Logger {
	return slog.Default().With("tool", c.Tool, "call", c.ID, "session", c.SessionID)
}

// newLogger returns a logger that writes to standard error in the format that hosts parse.
func newLogger() *slog.Logger {
	level := slog.LevelDebug // the host filters
	return slog.New(slog.NewJSONHandler(os.Stderr,
		&slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) > 0 {
				return a
			}
			switch a.Key {
			case slog.TimeKey:
				a.Key = "@timestamp"
			case slog.MessageKey:
				a.Key = "@message"
			case slog.LevelKey:
				a = slog.String("@level", strings.ToLower(a.Value.String()))
			}
			return a
		}}))
}
