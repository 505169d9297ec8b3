package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"toolhost.dev/host"
	"toolhost.dev/host/admin"
)

// statusTimeout bounds what a running host may take to answer.
const statusTimeout = 5 * time.Second

// status is what the command prints: this configuration, and what runs.
type status struct {
	host.Status
	// Error is why this configuration cannot be used; what runs may do so with another.
	Error string        `json:"error,omitempty"`
	Hosts []runningHost `json:"hosts"`
}

type runningHost struct {
	*admin.RemoteStatus
	Error string `json:"error,omitempty"`
}

func newStatus(s *settings) *cobra.Command {
	var watch bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the configuration in use, the plugins, the running hosts and the sessions",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if watch {
				return s.watchStatus(c.Context())
			}
			st, err := s.status(c)
			if err != nil {
				return err
			}
			if s.json {
				err = printJSON(os.Stdout, st)
			} else {
				err = statusText(os.Stdout, *st)
			}
			if err == nil && st.Error != "" {
				err = exitError(exitUsage)
			}
			return err
		},
	}
	c.Flags().BoolVar(&watch, "watch", false, "show the running hosts again whenever something changes, until Ctrl-C")
	return c
}

// status asks what there is. A configuration that cannot be used does not keep those from being
// shown that run with the one before it: it may be why somebody asks.
func (s *settings) status(c *cobra.Command) (*status, error) {
	hosts, err := s.runningHosts(c.Context())
	if err != nil {
		return nil, err
	}
	st := &status{Hosts: hosts}
	h, refused := s.openWith(c, host.Options{RetryFailed: true})
	switch {
	case refused == nil:
		st.Status = h.Status()
		return st, h.Close()
	case len(hosts) == 0:
		return nil, refused
	}
	st.Error, st.Version, st.Config = refused.Error(), host.Version, admin.FindConfig(s.config)
	return st, nil
}

// watchInterval is how often running hosts are asked.
const watchInterval = 500 * time.Millisecond

// watchStatus shows the running hosts whenever what is shown changes.
func (s *settings) watchStatus(ctx context.Context) error {
	last := ""
	for {
		hosts, err := s.runningHosts(ctx)
		if err != nil {
			return err
		}
		var out bytes.Buffer
		if s.json {
			err = printJSON(&out, hosts)
		} else {
			err = hostsText(&out, hosts)
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // that is how it ends
		}
		if err != nil {
			return err
		}
		if text := out.String(); text != last {
			last = text
			if !s.json && term.IsTerminal(int(os.Stdout.Fd())) {
				text = "\x1b[H\x1b[2J" + text
			}
			if _, err := os.Stdout.WriteString(text); err != nil {
				return err
			}
		}
		select {
		case <-time.After(watchInterval):
		case <-ctx.Done():
			return nil
		}
	}
}

func hostsText(w io.Writer, hosts []runningHost) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(hosts) == 0 {
		fmt.Fprintln(out, "No host runs with this state directory.")
	}
	for _, h := range hosts {
		hostText(out, h)
	}
	return out.Flush()
}

func hostText(out io.Writer, h runningHost) {
	if h.Error != "" {
		fmt.Fprintf(out, "\nHOST %d\t%s\n", h.PID, printable(h.Error))
		return
	}
	fmt.Fprintf(out, "\nHOST %d\tsince %s in %s\n", h.PID, h.Began.Local().Format(time.DateTime), printable(h.Workspace))
	if h.ConfigRefused != "" {
		fmt.Fprintf(out, "! the configuration that is there now is not used: %s\n", lines(h.ConfigRefused))
	}
	pluginsText(out, h.Plugins)
	for _, t := range h.Tools {
		if t.State == "ready" {
			continue
		}
		fmt.Fprintf(out, "tool %s\t%s", printable(t.Name), t.State)
		if t.Running > 0 {
			fmt.Fprintf(out, " (%d calls)", t.Running)
		}
		if t.Why != "" && t.State != "executing" {
			fmt.Fprintf(out, ": %s", lines(t.Why))
		}
		fmt.Fprintln(out)
	}
	for _, p := range h.Problems {
		fmt.Fprintf(out, "! %s\n", lines(p))
	}
}

func (s *settings) runningHosts(ctx context.Context) ([]runningHost, error) {
	hosts, err := admin.Running(s.options())
	if err != nil {
		return nil, err
	}
	out := []runningHost{}
	for _, remote := range hosts {
		ctx, cancel := context.WithTimeout(ctx, statusTimeout)
		st, err := remote.Status(ctx)
		cancel()
		r := runningHost{RemoteStatus: st}
		if err != nil {
			r.RemoteStatus, r.Error = &admin.RemoteStatus{PID: remote.PID}, err.Error()
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
	if st.Error != "" {
		fmt.Fprintf(out, "toolhost\t%s\nconfiguration\t%s\n! it cannot be used: %s\n", st.Version, printable(st.Config), lines(st.Error))
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
		for _, c := range p.Unapproved {
			fmt.Fprintf(out, "! %s: since %s not as it was: %s (toolhost plugin approve %s)\n", p.Name, p.UnapprovedSince.Local().Format(time.DateTime), printable(c.String()), p.Name)
		}
		for _, u := range p.Unneeded {
			fmt.Fprintf(out, "! %s: not needed: %s (%s)\n", p.Name, printable(u.What), printable(u.How))
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

// lines makes a text of several lines fit for the terminal, those after the first indented.
func lines(text string) string { return strings.ReplaceAll(clean(text), "\n", "\n  ") }

// clean makes a text of several lines fit for the terminal.
func clean(text string) string {
	var out []string
	for l := range strings.SplitSeq(text, "\n") {
		out = append(out, printable(l))
	}
	return strings.Join(out, "\n")
}
