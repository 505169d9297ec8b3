package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"toolhost.dev/host"
)

// statusTimeout bounds what a running host may take to answer.
const statusTimeout = 5 * time.Second

// status is what the command prints: this configuration, and what runs.
type status struct {
	host.Status
	Hosts []runningHost `json:"hosts"`
}

type runningHost struct {
	*host.HostStatus
	Error string `json:"error,omitempty"`
}

func newStatus(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the configuration in use, the plugins, the running hosts and the sessions",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := s.openWith(c, host.Options{RetryFailed: true})
			if err != nil {
				return err
			}
			st := status{Status: h.Status()}
			if err := h.Close(); err != nil {
				return err
			}
			if st.Hosts, err = s.runningHosts(c.Context()); err != nil {
				return err
			}
			if s.json {
				return printJSON(os.Stdout, st)
			}
			return statusText(os.Stdout, st)
		},
	}
}

func (s *settings) runningHosts(ctx context.Context) ([]runningHost, error) {
	hosts, err := host.Running(host.Options{Config: host.FindConfig(s.config), StateDir: s.state})
	if err != nil {
		return nil, err
	}
	out := []runningHost{}
	for _, remote := range hosts {
		ctx, cancel := context.WithTimeout(ctx, statusTimeout)
		st, err := remote.Status(ctx)
		cancel()
		r := runningHost{HostStatus: st}
		if err != nil {
			r.HostStatus, r.Error = &host.HostStatus{PID: remote.PID}, err.Error()
		}
		out = append(out, r)
	}
	return out, nil
}

func statusText(w io.Writer, st status) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	db := st.StateDB
	if db == "" {
		db = "in memory"
	}
	fmt.Fprintf(out, "toolhost\t%s\nconfiguration\t%s\nworkspace\t%s\nstate\t%s\n\n", st.Version, st.Config, st.Workspace, db)
	pluginsText(out, st.Plugins)
	for _, h := range st.Hosts {
		if h.Error != "" {
			fmt.Fprintf(out, "\nHOST %d\t%s\n", h.PID, printable(h.Error))
			continue
		}
		fmt.Fprintf(out, "\nHOST %d\tsince %s in %s\n", h.PID, h.Began.Local().Format(time.DateTime), printable(h.Workspace))
		pluginsText(out, h.Plugins)
		for _, p := range h.Problems {
			fmt.Fprintf(out, "! %s\n", lines(p))
		}
	}
	if len(st.Sessions) > 0 {
		fmt.Fprintln(out, "\nSESSION\tDIRECTORY\tLAST USED")
		for _, s := range st.Sessions {
			fmt.Fprintf(out, "%s\t%s\t%s\n", printable(s.ID), printable(s.Cwd), s.Used.Format(time.DateTime))
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
			fmt.Fprintf(out, "! %s: last failure at %s: %s\n", p.Name, p.LastFailureAt.Local().Format(time.TimeOnly), lines(p.LastFailure))
		}
		if p.Refused != "" {
			fmt.Fprintf(out, "! %s: the binary that is there now is not used: %s\n", p.Name, lines(p.Refused))
		}
	}
}

func pluginState(p host.PluginStatus) string {
	state := "not started"
	switch {
	case p.Breaker == "open" && p.NextAttempt != nil:
		state = fmt.Sprintf("left alone after %d failures, next attempt at %s", p.Failures, p.NextAttempt.Local().Format(time.TimeOnly))
	case p.Error != "":
		state = "failed"
	case p.Running:
		state = fmt.Sprintf("running (pid %d)", p.PID)
		if p.Health != nil && p.Health.Message != "" {
			state += ", " + printable(p.Health.Message)
		}
	}
	return state
}

// lines makes a text of several lines fit for the terminal.
func lines(text string) string {
	var out []string
	for l := range strings.SplitSeq(text, "\n") {
		out = append(out, printable(l))
	}
	return strings.Join(out, "\n  ")
}
