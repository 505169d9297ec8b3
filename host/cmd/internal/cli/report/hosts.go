package report

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"toolhost.dev/host"
	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

// watchInterval is the time between two requests for the status.
const watchInterval = 500 * time.Millisecond

// watchStatus prints the status of the running hosts after each change.
func watchStatus(ctx context.Context, s *globals.Settings) error {
	last := ""
	for {
		hosts, err := runningHosts(ctx, s)
		if err != nil {
			return err
		}
		var out bytes.Buffer
		if s.JSON {
			err = screen.PrintJSON(&out, hosts)
		} else {
			err = hostsText(&out, hosts)
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the user ended the command
		}
		if err != nil {
			return err
		}
		if text := out.String(); text != last {
			last = text
			if !s.JSON && screen.IsTerminal(s.Out) {
				_, _ = io.WriteString(s.Out, "\x1b[H\x1b[2J")
			}
			if _, err := screen.New(s.Out).Write([]byte(text)); err != nil {
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
		fmt.Fprintf(out, "\nHOST %d\t%s\n", h.PID, screen.Printable(h.Error))
		return
	}
	fmt.Fprintf(out, "\nHOST %d\tsince %s in %s\n", h.PID, h.Began.Local().Format(time.DateTime),
		screen.Printable(h.Workspace))
	if h.ConfigRefused != "" {
		fmt.Fprintf(out, "! the new configuration is not used: %s\n", screen.Indented(h.ConfigRefused))
	}
	pluginsText(out, h.Plugins)
	callsText(out, h.Calls)
	quotasText(out, h.Quotas)
	for _, t := range h.Tools {
		if t.State == "ready" {
			continue
		}
		fmt.Fprintf(out, "tool %s\t%s", screen.Printable(t.Name), t.State)
		if t.Running > 0 {
			fmt.Fprintf(out, " (%s)", screen.Count(int(t.Running), "call"))
		}
		if t.Why != "" && t.State != "executing" {
			fmt.Fprintf(out, ": %s", screen.Indented(t.Why))
		}
		fmt.Fprintln(out)
	}
	for _, p := range h.Problems {
		if !shown(h.Signals.Alarms, p) {
			fmt.Fprintf(out, "! %s\n", screen.Indented(p))
		}
	}
}

// quotasText prints one line for each quota.
func quotasText(out io.Writer, quotas []host.QuotaStatus) {
	for _, q := range quotas {
		var refused []string
		total := uint64(0)
		for _, limit := range slices.Sorted(maps.Keys(q.Refused)) {
			total += q.Refused[limit]
			refused = append(refused, fmt.Sprintf("%d %s", q.Refused[limit], limit))
		}
		fmt.Fprintf(out, "quota %s\t%d running, %d permitted, %d refused", screen.Printable(string(q.Subject)), q.Running, q.Calls, total)
		if total > 0 {
			fmt.Fprintf(out, " (%s)", strings.Join(refused, ", "))
		}
		if q.Breaker == "open" || q.Breaker == "trying" {
			fmt.Fprintf(out, ", breaker %s", q.Breaker)
		}
		if q.RetryAfter > 0 {
			fmt.Fprintf(out, ", next call in %s",
				time.Duration(q.RetryAfter*float64(time.Second)).Round(100*time.Millisecond))
		}
		fmt.Fprintln(out)
	}
}

// runningHosts queries the status of all running hosts.
func runningHosts(ctx context.Context, s *globals.Settings) ([]runningHost, error) {
	hosts, err := admin.Running(s.Options())
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

// callsText prints the running and waiting calls.
func callsText(out io.Writer, calls []host.CallStatus) {
	if len(calls) == 0 {
		return
	}
	fmt.Fprintln(out, "\nCALL\tSTATE\tSINCE\tSESSION")
	for _, c := range calls {
		state := "running"
		if !c.Running {
			state = "waits for " + c.WaitsFor + " (" + c.Reason + ")"
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", screen.Printable(c.Call), screen.Printable(state),
			c.Since.Local().Format(time.TimeOnly), screen.Printable(c.Session))
	}
}

// shown reports whether an alarm already shows the given problem, at the configuration or at the plugin that has it.
func shown(alarms []host.Alarm, problem string) bool {
	return slices.ContainsFunc(alarms, func(a host.Alarm) bool {
		return a.Message == problem &&
			slices.Contains([]string{"config_refused", "plugin_refused", "plugin_suspended", "approval_needed"}, a.Kind)
	})
}
