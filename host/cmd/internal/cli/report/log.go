package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

// followEvery is the interval at which "log --follow" checks for new entries.
const followEvery = 200 * time.Millisecond

// NewLog returns the command "toolhost log".
func NewLog(s *globals.Settings) *cobra.Command {
	var q host.LogQuery
	var since, until string
	var follow, programs, administration bool
	c := &cobra.Command{
		Use:   "log",
		Short: "Show the audit log of all calls",
		Long: `Show the audit log: every call, also those that commands made and those that were refused. Each
entry has the arguments (secrets masked), the decision and its rule, the duration, and the
outcome. With --json, the output is an array; with both --json and --follow, it is one object per line.`,
		Example: `  toolhost log --decision deny --since 24h
  toolhost log --tool bash --kind timeout --json
  toolhost log --tool bash --programs
  toolhost log --administration --until 24h
  toolhost log --follow`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			if q.Since, err = parseTime("--since", since, time.Now()); err != nil {
				return err
			}
			if q.Until, err = parseTime("--until", until, time.Now()); err != nil {
				return err
			}
			if follow && until != "" {
				return errors.New("--follow and --until exclude each other: leave one out")
			}
			if administration {
				q.Layer = host.LayerAdministration
			}
			if q.Limit < 0 {
				return fmt.Errorf("--limit %d: use a number from 1 on, or 0 for all", q.Limit)
			}
			switch q.Decision {
			case "", "allow", "deny":
			default:
				return fmt.Errorf("--decision %q: use allow or deny", q.Decision)
			}
			q.Session = s.Session
			r, err := s.Records()
			if err != nil {
				return err
			}
			return errors.Join(showLog(c.Context(), s.Out, r, q, logFormat{s.JSON, follow, programs, s.Err}), r.Close())
		},
	}
	f := c.Flags()
	f.StringVar(&q.Tool, "tool", "", "only calls of the tool of this `name`")
	f.StringVar(&q.Outcome, "kind", "", "only calls with this outcome: success, or a `kind` of error such as permission_denied")
	f.StringVar(&q.Decision, "decision", "", "only calls that were `allow|deny`")
	f.StringVar(&q.Principal, "principal", "", "only calls of the principal of this `name`")
	f.StringVar(&since, "since", "", "only calls since then: a `time` such as 2026-01-31 or 2026-01-31T12:00:00Z, or how long ago, such as 90m")
	f.StringVar(&until, "until", "", "only calls until then, in the same forms")
	f.BoolVar(&administration, "administration", false, "only actions of operators: reloads, approvals, pins, rollbacks, trust, tokens")
	f.IntVar(&q.Limit, "limit", 100, "maximum number of entries, the newest ones; 0 means all")
	f.BoolVar(&programs, "programs", false, "show the programs that each call executed")
	f.BoolVar(&follow, "follow", false, "continue with new entries")
	return c
}

func parseTime(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := tool.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%s %q: use a time such as 2026-01-31 or 2026-01-31T12:00:00Z, or how long ago, such as 90m", flag, s)
}

func showLog(ctx context.Context, w io.Writer, r *admin.Records, q host.LogQuery, how logFormat) error {
	entries, err := r.Log(q)
	if err != nil {
		return err
	}
	if q.Limit > 0 && len(entries) == q.Limit && !how.follow {
		fmt.Fprintf(how.notes, "toolhost: only the newest %d entries are shown, and there can be more. All: --limit 0.\n", q.Limit)
	}
	if how.json && !how.follow {
		return screen.PrintJSON(w, entries)
	}
	titled := how.json
	for {
		for _, e := range entries {
			if !titled {
				titled = true
				fmt.Fprintf(w, "%-23s  %-5s  %-17s  %9s  %s\n", "time", "rules", "outcome", "duration",
					"tool and arguments")
			}
			if how.json {
				err = screen.PrintJSON(w, e)
			} else {
				err = logText(screen.New(w), e, how.programs)
			}
			if err != nil {
				return err
			}
			q.After = e.ID
		}
		if !how.follow {
			return nil
		}
		q.Limit = 0
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followEvery):
		}
		if entries, err = r.Log(q); err != nil {
			return err
		}
	}
}

// logFormat determines the format of log entries.
type logFormat struct {
	json, follow, programs bool
	notes                  io.Writer // for messages about the output
}

func logText(w io.Writer, e host.LogEntry, programs bool) error {
	decision := e.Decision
	if decision == "" {
		decision = "-"
	}
	_, err := fmt.Fprintf(w, "%s  %-5s  %-17s  %7.1fms  %s  %s\n", e.At.Format("2006-01-02 15:04:05.000"), decision,
		e.Outcome, float64(e.Duration.Microseconds())/1000, screen.Printable(e.Tool),
		screen.Printable(string(e.Arguments)))
	if err == nil && e.Layer == host.LayerAdministration {
		_, err = fmt.Fprintf(w, "    by %s%s\n", screen.Printable(e.Principal), screen.Printable(refusal(e.Error)))
	}
	if err == nil && e.Rule != "" {
		_, err = fmt.Fprintf(w, "    by %s\n", screen.Printable(e.Rule))
	}
	if err == nil && e.Answered != "" {
		_, err = fmt.Fprintf(w, "    answered %s\n", screen.Printable(e.Answered))
	}
	for _, h := range e.Hooks {
		if err == nil {
			_, err = fmt.Fprintf(w, "    hook %s\n", screen.Printable(h))
		}
	}
	if programs && err == nil {
		err = programsText(w, &e)
	}
	return err
}

// refusal formats the reason why an operator's action was refused. It returns "" if the action was not refused.
func refusal(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// programsText prints the programs that a call executed.
func programsText(w io.Writer, e *host.LogEntry) error {
	if e.Programs == nil {
		return nil
	}
	for _, p := range e.Programs.First {
		by := ""
		if p.Loads != "" {
			by = "  loads " + p.Loads
		}
		if p.Times > 1 {
			by += fmt.Sprintf("  (%d times)", p.Times)
		}
		if p.Rule != "" {
			by += "  by " + p.Rule
		}
		if p.Answered != "" {
			by += "  answered " + p.Answered
		}
		if _, err := fmt.Fprintf(w, "    %-5s  %s  %s%s\n", p.Decision, screen.Printable(p.Path),
			screen.Printable(p.Command), screen.Printable(by)); err != nil {
			return err
		}
	}
	if e.Programs.Omitted == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "    and %d more programs, %d of them denied\n", e.Programs.Omitted, e.Programs.OmittedDenied)
	return err
}
