// Package plugincmd implements the subcommands of "toolhost plugin". See [New].
package plugincmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"toolhost.dev/host"
	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/registrycmd"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

// New returns the command "toolhost plugin".
func New(s *globals.Settings) *cobra.Command {
	c := &cobra.Command{Use: "plugin", Short: "Inspect, pin, install, replace and create plugins"}
	c.AddCommand(newPluginList(s), newPluginInfo(s), newPluginPin(s), newPluginVerify(s), newPluginApprove(s),
		NewReload(s, true), newEnable(s, true), newEnable(s, false), newPluginTest(s), newPluginNew(s), newPluginDev(s),
		newPluginDocs(s), newPluginLogs(s), newRollout(s))
	c.AddCommand(registrycmd.New(s)...)
	return c
}

// newEnable returns the command "toolhost plugin enable" if on is true. Otherwise it returns "toolhost plugin disable".
func newEnable(s *globals.Settings, on bool) *cobra.Command {
	verb := map[bool]string{true: "enable", false: "disable"}[on]
	return &cobra.Command{
		Use:   verb + " NAME",
		Short: map[bool]string{true: "Enable", false: "Disable"}[on] + " a tool or plugin in running hosts",
		Long: `The running hosts of this user that share the state directory ` + verb + ` the tool, or all tools
of the plugin with that name. The change lasts until the hosts end; the configuration makes it
permanent. The exit status is 1 if no host knows the name.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			hosts, err := admin.Running(s.Options())
			if err != nil {
				return err
			}
			if len(hosts) == 0 {
				fmt.Fprintln(s.Out, "No host runs with this state directory. To "+verb+" a tool permanently, use the configuration.")
			}
			done := 0
			for _, h := range hosts {
				if err := h.Enable(c.Context(), args[0], on); err != nil {
					fmt.Fprintf(s.Err, "host %d: %s\n", h.PID, screen.Printable(err.Error()))
					continue
				}
				done++
				fmt.Fprintf(s.Out, "host %d: %s is %sd\n", h.PID, screen.Printable(args[0]), verb)
			}
			if len(hosts) > 0 && done == 0 {
				return process.ExitError(process.ExitFailure)
			}
			return nil
		},
	}
}

// reloaded is the result of a reload in one host.
type reloaded struct {
	PID int `json:"pid"`
	*host.Reload
	Error string `json:"error,omitempty"`
}

// NewReload returns the command "toolhost plugin reload" if plugins is true. Otherwise it returns "toolhost config
// reload".
func NewReload(s *globals.Settings, plugins bool) *cobra.Command {
	var opts host.ReloadOptions
	c := &cobra.Command{
		Use:   "reload",
		Short: "Reload configuration and plugins in running hosts",
		Long: `Apply changes of the configuration and of plugin binaries in all running hosts of this user
that share the state directory. A new version is started beside the old one
and checked before calls go to it; running calls end on the old one. The exit status is 1 if
anything is refused; then the old version or configuration stays in use.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, args []string) error {
			opts.Plugins = args
			hosts, err := admin.Running(s.Options())
			if err != nil {
				return err
			}
			all := reloadAll(c.Context(), hosts, opts)
			if s.JSON {
				err = screen.PrintJSON(s.Out, all)
			} else {
				reloadText(screen.New(s.Out), all)
			}
			for _, r := range all {
				if r.Error != "" || r.Refused() {
					return errors.Join(err, process.ExitError(process.ExitFailure))
				}
			}
			return err
		},
	}
	c.Flags().BoolVar(&opts.AcceptChanges, "accept-changes", false, "also apply versions that break callers of their tools, such as one that lacks a tool")
	if !plugins {
		const usage = "apply a configuration that increases privileges, even if reload { privilege_increases = \"approve\" } is in force"
		c.Flags().BoolVar(&opts.ApprovePrivileges, "approve-privileges", false, usage)
		c.Flags().BoolVar(&opts.ApprovePrivileges, "approve-widening", false, usage)
		// The library would print its own note about a deprecated flag to standard output.
		_ = c.Flags().MarkHidden("approve-widening") // ignore the error: the flag exists
		c.PreRun = func(c *cobra.Command, _ []string) {
			if c.Flags().Changed("approve-widening") {
				fmt.Fprintln(s.Err, "Flag --approve-widening has been deprecated, use --approve-privileges")
			}
		}
	}
	if plugins {
		c.Use = "reload [PLUGIN]..."
		c.Args = cobra.ArbitraryArgs
		c.Long += "\n\nNamed plugins are replaced whether they changed or not, and nothing else is reloaded."
	}
	return c
}

// reloadAll reloads all hosts concurrently.
func reloadAll(ctx context.Context, hosts []admin.Remote, opts host.ReloadOptions) []reloaded {
	all := make([]reloaded, len(hosts))
	done := make(chan struct{})
	for i, h := range hosts {
		go func() {
			r, err := h.Reload(ctx, opts)
			all[i] = reloaded{PID: h.PID, Reload: r}
			if err != nil {
				all[i].Error = err.Error()
			}
			done <- struct{}{}
		}()
	}
	for range hosts {
		<-done
	}
	return all
}

func reloadText(w io.Writer, all []reloaded) {
	if len(all) == 0 {
		fmt.Fprintln(w, "No host runs with this state directory. The next host reads the current files.")
	}
	for _, r := range all {
		line := func(format string, a ...any) {
			for i, l := range strings.Split(strings.TrimSuffix(fmt.Sprintf(format, a...), "\n"), "\n") {
				if i == 0 {
					fmt.Fprintf(w, "host %d: %s\n", r.PID, screen.Printable(l))
				} else {
					fmt.Fprintf(w, "  %s\n", screen.Printable(l))
				}
			}
		}
		if r.Error != "" {
			line("%s", r.Error)
			continue
		}
		switch {
		case r.Config.Refused != "":
			line("configuration refused: %s", r.Config.Refused)
		case r.Config.Changed:
			line("configuration reloaded")
		}
		for _, p := range r.Plugins {
			reloadedPlugin(line, p)
		}
		for _, p := range r.Problems {
			line("%s", p)
		}
		if len(r.Plugins) == 0 && !r.Config.Changed && r.Config.Refused == "" {
			line("nothing changed")
		}
	}
}

func reloadedPlugin(line func(string, ...any), p host.PluginReload) {
	text := fmt.Sprintf("plugin %s %s", p.Name, p.Outcome)
	if p.Outcome == host.Swapped {
		text += fmt.Sprintf(", %s → %s", p.From, p.To)
	}
	if p.Draining > 0 {
		text += fmt.Sprintf(" (%d calls finish on the old one)", p.Draining)
	}
	if p.Refused != "" {
		text += ": " + p.Refused
	}
	line("%s", text)
	for _, c := range p.Changes {
		line("  %s", c)
	}
}
