// Package report implements the commands that show the status, statistics and audit log of hosts, and the command that
// shows how this machine confines plugins.
package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"toolhost.dev/host"
	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

// statusTimeout is the maximum time for the answer of a running host.
const statusTimeout = 5 * time.Second

// status is the output of "toolhost status". It contains the status of a host with this configuration and the status of
// all running hosts.
type status struct {
	host.Status
	// Error is the reason why this configuration cannot be used. A running host can still use an older configuration.
	Error string        `json:"error,omitempty"`
	Hosts []runningHost `json:"hosts"`
}

type runningHost struct {
	*admin.RemoteStatus
	Error string `json:"error,omitempty"`
}

// NewStatus returns the command "toolhost status".
func NewStatus(s *globals.Settings) *cobra.Command {
	var watch bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the configuration, plugins, hosts and sessions",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if watch {
				return watchStatus(c.Context(), s)
			}
			st, err := currentStatus(c, s)
			if err != nil {
				return err
			}
			if s.JSON {
				err = screen.PrintJSON(s.Out, st)
			} else {
				err = statusText(screen.New(s.Out), *st)
			}
			if err == nil && st.Error != "" {
				err = process.ExitError(process.ExitUsage)
			}
			return err
		},
	}
	c.Flags().BoolVar(&watch, "watch", false, "show the running hosts again whenever something changes, until Ctrl-C")
	return c
}

// currentStatus returns the status of a host with this configuration and the status of all running hosts. If this
// configuration is invalid but hosts are running, the result contains the error and these hosts, which use an older
// configuration.
func currentStatus(c *cobra.Command, s *globals.Settings) (*status, error) {
	hosts, err := runningHosts(c.Context(), s)
	if err != nil {
		return nil, err
	}
	st := &status{Hosts: hosts}
	// An invalid project file does not prevent a start, but the status must show its errors.
	refused := admin.CheckSyntax(s.Options())
	var h *host.Host
	if refused == nil {
		h, refused = s.OpenWith(c, host.Options{RetryFailed: true})
	}
	switch {
	case refused == nil:
		st.Status = h.Status()
		return st, h.Close()
	case len(hosts) == 0:
		return nil, refused
	}
	st.Error, st.Version, st.Config = refused.Error(), host.Version, s.Options().Config
	return st, nil
}

// Status prints the status of a host as text.
func Status(w io.Writer, st host.Status) error { return statusText(w, status{Status: st}) }

func statusText(w io.Writer, st status) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	db := st.StateDB
	if db == "" {
		db = "in memory"
	}
	if st.Error != "" {
		fmt.Fprintf(out, "toolhost\t%s\nconfiguration\t%s\n! invalid: %s\n", st.Version, screen.Printable(st.Config), screen.Indented(st.Error))
	} else {
		fmt.Fprintf(out, "toolhost\t%s\nconfiguration\t%s\nworkspace\t%s\nstate\t%s\n\n", st.Version, st.Config, st.Workspace, db)
		pluginsText(out, st.Plugins)
	}
	for _, h := range st.Hosts {
		hostText(out, h)
	}
	if len(st.Sessions) > 0 {
		fmt.Fprintln(out, "\nSESSION\tDIRECTORY\tLAST USED")
		for _, s := range st.Sessions {
			fmt.Fprintf(out, "%s\t%s\t%s", screen.Printable(s.ID), screen.Printable(s.Cwd),
				s.Used.Format(time.DateTime))
			for _, plugin := range slices.Sorted(maps.Keys(s.Summaries)) {
				fmt.Fprintf(out, "\t%s: %s", screen.Printable(plugin), screen.Printable(s.Summaries[plugin]))
			}
			fmt.Fprintln(out)
		}
	}
	return out.Flush()
}

func pluginsText(out io.Writer, plugins []host.PluginStatus) {
	fmt.Fprintln(out, "PLUGIN\tSTATE\tTOOLS\tBINARY")
	for _, p := range plugins {
		tools := strings.Join(p.Tools, " ")
		if tools == "" {
			tools = "-"
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", p.Name, pluginState(p), tools, p.Path)
		if p.LastFailure != "" && (!p.Running || p.Breaker != "closed") {
			fmt.Fprintf(out, "! %s: last failure at %s: %s\n", p.Name, p.LastFailureAt.Local().Format(time.TimeOnly),
				screen.Indented(p.LastFailure))
		}
		for _, c := range p.Unapproved {
			fmt.Fprintf(out, "! %s: changed since %s: %s (toolhost plugin approve %s)\n", p.Name, p.UnapprovedSince.Local().Format(time.DateTime),
				screen.Printable(c.String()), p.Name)
		}
		for _, u := range p.Unneeded {
			fmt.Fprintf(out, "! %s: not needed: %s (%s)\n", p.Name, screen.Printable(u.What), screen.Printable(u.How))
		}
		if p.Refused != "" {
			fmt.Fprintf(out, "! %s: the new binary is not used: %s\n", p.Name, screen.Indented(p.Refused))
		}
	}
}

func pluginState(p host.PluginStatus) string {
	state := "not started"
	switch {
	case p.Breaker == "open" && p.NextAttempt != nil:
		state = fmt.Sprintf("suspended after %d failures, next attempt at %s", p.Failures, p.NextAttempt.Local().Format(time.TimeOnly))
	case p.Error != "":
		state = "failed"
	case p.Running:
		state = fmt.Sprintf("running (pid %d)", p.PID)
		if p.Health != nil && p.Health.Message != "" {
			state += ", " + screen.Printable(p.Health.Message)
		}
	}
	return state
}
