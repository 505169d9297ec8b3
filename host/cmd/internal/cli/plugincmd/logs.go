package plugincmd

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/screen"
	"toolhost.dev/sdk/tool"
)

// newPluginLogs returns the command "toolhost plugin logs".
func newPluginLogs(s *globals.Settings) *cobra.Command {
	l := pluginLogs{settings: s}
	c := &cobra.Command{
		Use:   "logs PLUGIN",
		Short: "Show the output and log of a plugin",
		Long: `Show the lines that a plugin printed to standard output and standard error, and the lines of its
logger with their fields, from all hosts with this state directory. Secrets of the configuration
are masked. About the last 8 MB are kept. With --json, each line is an object.`,
		Example: `  toolhost plugin logs weather --follow
  toolhost plugin logs weather --level warn --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if !tool.ValidName(args[0]) {
				return fmt.Errorf("%q is not the name of a plugin", args[0])
			}
			if l.least = slices.Index(logLevels, l.level); l.least < 0 {
				return fmt.Errorf("--level %q: use one of %s", l.level, strings.Join(logLevels, ", "))
			}
			if l.lines < 0 {
				return fmt.Errorf("--lines %d: use a number from 1 on, or 0 for all", l.lines)
			}
			return l.run(c.Context(), args[0])
		},
	}
	f := c.Flags()
	f.BoolVar(&l.follow, "follow", false, "continue with new lines")
	f.IntVar(&l.lines, "lines", 200, "maximum number of lines, the newest ones; 0 means all")
	f.StringVar(&l.level, "level", "debug", "only lines of at least this level: `debug|info|warn|error`")
	return c
}

var logLevels = []string{"debug", "info", "warn", "error"}

// pluginLogs holds the settings of one run of "toolhost plugin logs".
type pluginLogs struct {
	settings *globals.Settings
	follow   bool
	lines    int
	level    string
	least    int // index of level
}

// followPause is the interval at which "plugin logs --follow" checks for new lines.
const followPause = 200 * time.Millisecond

func (l *pluginLogs) run(ctx context.Context, plugin string) error {
	log, err := admin.OpenPluginLog(l.settings.Options(), plugin)
	if err != nil {
		return err
	}
	defer log.Close()
	for first := true; ; first = false {
		entries, err := log.Read()
		if err != nil {
			return err
		}
		if len(entries) == 0 && first && !l.follow {
			fmt.Fprintf(l.settings.Err, "Plugin %s has printed nothing since its log was begun.\n", plugin)
		}
		entries = slices.DeleteFunc(entries, func(e admin.PluginLine) bool {
			return slices.Index(logLevels, e.Level) < l.least
		})
		if first && l.lines > 0 {
			entries = entries[max(0, len(entries)-l.lines):]
		}
		for i := range entries {
			if err := l.print(&entries[i]); err != nil {
				return err
			}
		}
		if !l.follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followPause):
		}
	}
}

func (l *pluginLogs) print(e *admin.PluginLine) error {
	if l.settings.JSON {
		return screen.PrintJSON(l.settings.Out, e)
	}
	return logLine(screen.New(l.settings.Out), e)
}

func logLine(w io.Writer, e *admin.PluginLine) error {
	var fields strings.Builder
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		value := e.Fields[name]
		if value == "" || strings.ContainsAny(value, " \"=\n") {
			value = strconv.Quote(value)
		}
		fields.WriteString(" " + name + "=" + value)
	}
	_, err := fmt.Fprintf(w, "%s %-5s %s%s\n", e.Time.Local().Format("2006-01-02 15:04:05.000"),
		strings.ToUpper(e.Level), screen.Printable(e.Message), screen.Printable(fields.String()))
	return err
}
