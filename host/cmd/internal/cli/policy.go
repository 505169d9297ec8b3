package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"toolhost.dev/host"
	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

func newPolicy(s *globals.Settings) *cobra.Command {
	c := &cobra.Command{Use: "policy", Short: "Check permissions and manage remembered answers"}
	c.AddCommand(newPolicyCheck(s), newPolicyTest(s), newPolicyList(s), newPolicyRevoke(s))
	return c
}

func newPolicyCheck(s *globals.Settings) *cobra.Command {
	c := &cobra.Command{
		Use:   "check [flags] [--] COMMAND",
		Short: "Show the decision about a command",
		Long: `Show whether a command would be allowed, asked about or denied, by which rule, and what a
script would run. Parts that cannot be known before it runs are listed as unknown. Nothing
runs and nobody is asked.`,
		Example: `  toolhost policy check 'git push origin main'
  toolhost policy check --json 'echo "$(curl example.org)" | sh'`,
		Args: needCommand,
		RunE: func(c *cobra.Command, args []string) error {
			command, err := joinCommand(args)
			if err != nil {
				return err
			}
			h, err := s.Open(c)
			if err != nil {
				return err
			}
			req := s.Request()
			req.Command = command
			d, err := h.Judge(req)
			if err := errors.Join(err, h.Close()); err != nil {
				return err
			}
			if s.JSON {
				if d.Commands == nil {
					d.Commands = []string{}
				}
				if d.Unknown == nil {
					d.Unknown = []string{}
				}
				return screen.PrintJSON(s.Out, d)
			}
			return decisionText(screen.New(s.Out), d)
		},
	}
	c.Flags().SetInterspersed(false)
	return c
}

func decisionText(w io.Writer, d *host.Decision) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(out, "%s\t%s\n", name, screen.Printable(value))
		}
	}
	row("decision", string(d.Effect))
	row("kind", d.Kind)
	row("rule", d.Rule)
	row("reason", d.Reason)
	row("answered", d.Answered)
	for _, name := range d.Rewritten {
		row("sets", name)
	}
	row("programs", d.Programs)
	for _, c := range d.Commands {
		row("command", c)
	}
	for _, u := range d.Unknown {
		row("unknown", u)
	}
	if d.Kind == "bash" && len(d.Commands)+len(d.Unknown) == 0 {
		row("command", "(the script runs no command)")
	}
	for _, j := range d.Judged {
		row("  "+string(j.Effect), fmt.Sprintf("%s  [%s]", j.Subject, j.Rule))
	}
	return out.Flush()
}

func newPolicyTest(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "test [FILE…]",
		Short: "Run the tests of the permission rules",
		Long: `Run the test blocks in the permissions of the configuration, and in the given files. Each
test states whether a command must be allowed, asked about or denied. The exit status is 1 if a
test fails.`,
		RunE: func(c *cobra.Command, files []string) error {
			h, err := s.Open(c)
			if err != nil {
				return err
			}
			err = policyTest(s, h, files)
			return errors.Join(err, h.Close())
		},
	}
}

func policyTest(s *globals.Settings, h *host.Host, files []string) error {
	tests := h.PermissionTests()
	for _, f := range files {
		more, err := admin.LoadPermissionTests(s.Path(f))
		if err != nil {
			return err
		}
		tests = append(tests, more...)
	}
	if len(tests) == 0 {
		return errors.New("no tests: write test blocks in the permissions block of the configuration, or name a file that contains them")
	}
	failures := []string{}
	for _, t := range tests {
		if err := h.TestPermissions(t); err != nil {
			failures = append(failures, err.Error())
		}
	}
	if s.JSON {
		if err := screen.PrintJSON(s.Out, map[string]any{"tests": len(tests), "failures": failures}); err != nil {
			return err
		}
	} else {
		for _, f := range failures {
			fmt.Fprintln(s.Err, screen.Printable(f))
		}
		fmt.Fprintf(s.Out, "%d of %d tests passed.\n", len(tests)-len(failures), len(tests))
	}
	if len(failures) > 0 {
		return process.ExitError(process.ExitFailure)
	}
	return nil
}

// newPolicyList returns the command "toolhost policy list".
func newPolicyList(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the remembered answers to asks",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			r, err := s.Records()
			if err != nil {
				return err
			}
			answers, err := r.Answers()
			if err := errors.Join(err, r.Close()); err != nil {
				return err
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, answers)
			}
			if len(answers) == 0 {
				fmt.Fprintln(s.Out, "No answer is remembered.")
				return nil
			}
			out := tabwriter.NewWriter(screen.New(s.Out), 0, 0, 2, ' ', 0)
			fmt.Fprintln(out, "ID\tANSWER\tKIND\tTOOL\tSUBJECT\tHOLDS FOR")
			for _, a := range answers {
				fmt.Fprintf(out, "%d\t%s\t%s\t%s\t%s\t%s %s\n", a.ID,
					map[bool]string{true: "allow", false: "never"}[a.Allow], a.Kind, a.Tool,
					screen.Printable(a.Subject), a.Scope, screen.Printable(a.Owner))
			}
			return out.Flush()
		},
	}
}

func newPolicyRevoke(s *globals.Settings) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "revoke ID | --all",
		Short: "Forget a remembered answer",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			var id int64
			switch {
			case all == (len(args) == 1):
				return errors.New("give one of the two: an id from toolhost policy list, or --all")
			case len(args) == 1:
				n, err := strconv.ParseInt(args[0], 10, 64)
				if err != nil || n < 1 {
					return fmt.Errorf("%q is not an id: use an id from toolhost policy list", args[0])
				}
				id = n
			}
			r, err := s.Records()
			if err != nil {
				return err
			}
			n, err := r.Revoke(id)
			if err := errors.Join(err, r.Close()); err != nil {
				return err
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, map[string]int64{"revoked": n})
			}
			if n == 0 && !all {
				fmt.Fprintf(s.Err, "Unknown answer %d. Run toolhost policy list for a list.\n", id)
				return process.ExitError(process.ExitFailure)
			}
			fmt.Fprintf(s.Out, "Forgotten: %d.\n", n)
			return nil
		},
	}
	c.Flags().BoolVar(&all, "all", false, "forget every answer")
	return c
}
