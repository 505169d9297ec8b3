package report

import (
	"context"
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
	"toolhost.dev/host/cmd/internal/cli/screen"
)

// hostStats contains the statistics of one running host, or the error of the query.
type hostStats struct {
	*admin.RemoteStats
	Error string `json:"error,omitempty"`
}

// NewStats returns the command "toolhost stats".
func NewStats(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "stats",
		Short: "Show statistics by tool and plugin",
		Long: `Show statistics of the calls of running hosts, by tool: their number, the errors by kind, how long
they ran and waited, in milliseconds, how many ran at once (now/most/on average while any ran), and how
many had to wait for others. For plugins, show their starts, crashes, CPU time, memory and I/O. A host
counts from its start. With --json, the output is an array.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			stats, err := runningStats(c.Context(), s)
			if err != nil {
				return err
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, stats)
			}
			return statsText(screen.New(s.Out), stats)
		},
	}
}

func runningStats(ctx context.Context, s *globals.Settings) ([]hostStats, error) {
	hosts, err := admin.Running(s.Options())
	if err != nil {
		return nil, err
	}
	out := []hostStats{}
	for _, remote := range hosts {
		ctx, cancel := context.WithTimeout(ctx, statusTimeout)
		st, err := remote.Stats(ctx)
		cancel()
		r := hostStats{RemoteStats: st}
		if err != nil {
			r.RemoteStats, r.Error = &admin.RemoteStats{PID: remote.PID}, err.Error()
		}
		out = append(out, r)
	}
	return out, nil
}

func statsText(w io.Writer, stats []hostStats) error {
	if len(stats) == 0 {
		_, err := fmt.Fprintln(w, "No host runs with this state directory, and only a running host counts calls. Start one (toolhost serve, mcp, repl or batch), or see toolhost log for earlier calls.")
		return err
	}
	for i, h := range stats {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if h.Error != "" {
			fmt.Fprintf(w, "HOST %d  %s\n", h.PID, screen.Printable(h.Error))
			continue
		}
		fmt.Fprintf(w, "HOST %d  since %s in %s\n", h.PID, h.Began.Local().Format(time.DateTime),
			screen.Printable(h.Workspace))
		if len(h.Tools) == 0 {
			fmt.Fprintln(w, "No call has ended yet.")
		}
		if err := toolStatsText(w, h.Tools); err != nil {
			return err
		}
		if err := adaptiveText(w, h.Tools); err != nil {
			return err
		}
		if err := pluginStatsText(w, h.Plugins); err != nil {
			return err
		}
	}
	return nil
}

func toolStatsText(w io.Writer, tools []host.ToolStats) error {
	if len(tools) == 0 {
		return nil
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "TOOL\tCALLS\tFAILED\tAVG\tP50\tP95\tP99\tMAX\tQUEUE P50\tP95\tWAITED\tRUNNING\tRETRIES\tERRORS")
	for _, t := range tools {
		var errs []string
		for _, kind := range slices.Sorted(maps.Keys(t.Errors)) {
			errs = append(errs, fmt.Sprintf("%s %d", kind, t.Errors[kind]))
		}
		x, q := t.Execution, t.Queue
		fmt.Fprintf(out, "%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d/%d/%.1f\t%d\t%s\n", screen.Printable(t.Name), t.Calls, t.Failures,
			timeText(x, x.Average), timeText(x, x.P50), timeText(x, x.P95), timeText(x, x.P99), timeText(x, x.Max),
			timeText(q, q.P50), timeText(q, q.P95),
			t.Waited, t.Running, t.RunningMax, t.RunningAverage, t.Retries, strings.Join(errs, ", "))
	}
	return out.Flush()
}

// adaptiveText prints the limits that the adaptive mode determined. It prints nothing if the mode is disabled.
func adaptiveText(w io.Writer, tools []host.ToolStats) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := "ADAPTIVE\tTIMEOUT\tAT MOST\tLIMIT\tAT MOST\tRAISED\tLOWERED\tCACHE HITS\n"
	for _, t := range tools {
		a := t.Adaptive
		if a == nil {
			continue
		}
		limit, most := "-", "-"
		if a.Limit > 0 {
			limit, most = fmt.Sprint(a.Limit), fmt.Sprint(a.LimitMost)
		}
		fmt.Fprintf(out, "%s%s\t%.0f\t%.0f\t%s\t%s\t%d\t%d\t%d\n", head, screen.Printable(t.Name), a.Timeout,
			a.TimeoutMost, limit, most, a.Raised, a.Lowered, t.CacheHits)
		head = ""
	}
	return out.Flush()
}

// timeText formats a duration in milliseconds. If there were no calls, it returns "-".
func timeText(of host.Times, ms float64) string {
	switch {
	case of.Count == 0:
		return "-"
	case ms < 10:
		return fmt.Sprintf("%.2f", ms)
	}
	return fmt.Sprintf("%.0f", ms)
}

func pluginStatsText(w io.Writer, plugins []host.PluginStats) error {
	if len(plugins) == 0 {
		return nil
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "PLUGIN\tPROCESSES\tSTARTS\tFAILED\tCRASHES\tCPU\tMEMORY\tREAD\tWRITTEN")
	for _, p := range plugins {
		pids := strings.Trim(fmt.Sprint(p.PIDs), "[]")
		if pids == "" {
			pids = "-"
		}
		cpu, memory, read, written := "-", "-", "-", "-"
		if u := p.Usage; u != nil {
			cpu, memory = fmt.Sprintf("%.2f s", u.CPU), mebibytes(&u.Memory)
			read, written = mebibytes(u.Read), mebibytes(u.Written)
		}
		fmt.Fprintf(out, "%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n", screen.Printable(p.Name), pids, p.Starts,
			p.FailedStarts, p.Crashes, cpu, memory, read, written)
	}
	return out.Flush()
}

func mebibytes(n *uint64) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f MiB", float64(*n)/(1<<20))
}
