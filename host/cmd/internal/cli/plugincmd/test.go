package plugincmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
	"toolhost.dev/host/recording"
	"toolhost.dev/host/router"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/tooltest/conformance"
)

func newPluginTest(s *globals.Settings) *cobra.Command {
	t := pluginTest{settings: s, opts: conformance.Options{Bind: bindExample}}
	c := &cobra.Command{
		Use:   "test BINARY [ARG]...",
		Short: "Check a plugin against the protocol",
		Long: `Start a plugin as a host does, and check it against docs/protocol.md. The checks include failures of
the host. The plugin runs without a sandbox. The exit status is 1 if a check fails.
Read-only tools are called with arguments made up from their schemas, with the calls in the file of
--calls, and with their examples. Each line of this file has one of these forms:
  {"tool": "greet", "arguments": {"name": "you"}}
  {"tool": "greet", "arguments": {"name": ""}, "error": "invalid_arguments"}
  {"tool": "wait", "arguments": {"seconds": 60}, "long": true}
  {"config": {"greeting": "hello"}}
  {"bad_config": {"greeting": "no such greeting"}}
A call that is "long" takes ten seconds or more; it is canceled. A call of a tool that is not
read-only is made only once, unless its line contains "repeat": true.`,
		Example: `  toolhost plugin test ./greeter
  toolhost plugin test --calls calls.jsonl --junit report.xml ./greeter -- --verbose`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			t.opts.Binary, t.opts.Args = s.Path(args[0]), args[1:]
			return t.run(c.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&t.calls, "calls", "", "`file` of calls and configurations, as JSON Lines")
	f.StringVar(&t.tape, "tape", "", "also replay the plugin's calls of a `tape` of toolhost record, with the plugin's settings in the configuration")
	f.StringVar(&t.junit, "junit", "", "also write the report to this `file`, as JUnit's XML")
	f.BoolVar(&t.opts.AllTools, "all-tools", false, "call tools that are not read-only with made-up arguments, too; what they change stays changed")
	f.StringArrayVar(&t.opts.Env, "env", nil, "`NAME=VALUE` for the plugin, like env in its configuration")
	f.DurationVar(&t.opts.Limit, "limit", time.Minute, "how long all checks together may take")
	f.DurationVar(&t.opts.Patience, "patience", 30*time.Second, "how long a call may take that is not canceled")
	return c
}

// pluginTest contains the settings of one run of "toolhost plugin test".
type pluginTest struct {
	settings     *globals.Settings
	opts         conformance.Options
	calls, junit string // paths: calls is an input file with calls, and junit is the report to write
	tape         string // path of a tape whose calls are replayed
}

func (t *pluginTest) run(ctx context.Context) error {
	for _, e := range t.opts.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" {
			return fmt.Errorf("--env %q: give NAME=VALUE", e)
		}
	}
	if t.calls != "" {
		if err := t.readCalls(); err != nil {
			return err
		}
	}
	r, err := conformance.Run(ctx, t.opts)
	if err != nil {
		return err
	}
	if t.tape != "" {
		if err := t.replay(ctx, r); err != nil {
			return err
		}
	}
	if t.junit != "" {
		b, err := r.JUnit()
		if err == nil {
			err = os.WriteFile(t.settings.Path(t.junit), b, 0o644) //nolint:gosec // a report for others to read
		}
		if err != nil {
			return fmt.Errorf("--junit: %w", err)
		}
	}
	if t.settings.JSON {
		err = screen.PrintJSON(t.settings.Out, r)
	} else {
		conformanceText(screen.New(t.settings.Out), r)
	}
	if err == nil && !r.Passed {
		err = process.ExitError(process.ExitFailure)
	}
	return err
}

// replay adds a check to the report: the calls of a tape must have the recorded results.
func (t *pluginTest) replay(ctx context.Context, r *conformance.Report) error {
	binary, err := filepath.Abs(t.opts.Binary)
	if err != nil {
		return err
	}
	began := time.Now()
	out, err := recording.Replay(ctx, t.settings.Options(), t.settings.Path(t.tape), recording.ReplayOptions{
		Binary: binary,
	})
	if err != nil {
		return fmt.Errorf("--tape: %w", err)
	}
	check := conformance.Result{ID: "tape", Title: fmt.Sprintf("%d calls of the tape have the recorded results", len(out.Calls)), Status: conformance.Passed,
		Seconds: time.Since(began).Seconds()}
	for _, c := range out.Calls {
		for _, d := range c.Differences {
			check.Problems = append(check.Problems, fmt.Sprintf("%s %s: %s", c.Tool, c.Arguments, d))
		}
	}
	if !out.Same() {
		check.Status, check.Fix, r.Passed = conformance.Failed, "If the new results are right, record the tape again.", false
	}
	r.Checks = append(r.Checks, check)
	return nil
}

// readCalls reads the calls from the file t.calls.
func (t *pluginTest) readCalls() error {
	f, err := os.Open(t.settings.Path(t.calls))
	if err != nil {
		return fmt.Errorf("--calls: %w", err)
	}
	t.opts.Cases, err = conformance.ReadCases(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("--calls %s: %w", t.calls, err)
	}
	return nil
}

// bindExample parses an example command of a tool in the same way as the host.
func bindExample(def tool.Definition, example string) (map[string]json.RawMessage, bool, error) {
	first, _, _ := strings.Cut(strings.TrimSpace(example), " ")
	if first != def.Name {
		return nil, false, nil
	}
	schema, err := tool.ParseSchema(def.Input)
	if err != nil {
		return nil, false, nil //nolint:nilerr // another check reports invalid schemas
	}
	cmd := router.Parse("tool:"+strings.TrimSpace(example),
		oneTool{def.Name, tool.Signature{Schema: schema, Stdin: def.StdinParameter}}, router.Options{})
	switch {
	case cmd.Error != nil:
		return nil, true, cmd.Error
	case cmd.Layer != router.Agent || cmd.IsHelp:
		return nil, false, nil
	}
	return cmd.Arguments, true, nil
}

// oneTool is a registry with a single tool.
type oneTool struct {
	name string
	sig  tool.Signature
}

func (o oneTool) Agent(name string) (tool.Signature, bool) { return o.sig, name == o.name }
func (o oneTool) Absent(string) string                     { return "" }
func (o oneTool) AgentNames() []string                     { return []string{o.name} }
func (oneTool) Alias(string) (namespace, target string, _ map[string]string, ok bool) {
	return "", "", nil, false
}
func (oneTool) FullName(string) string                                     { return "" }
func (oneTool) Habit(string) (string, map[string]string, router.Converter) { return "", nil, nil }
func (oneTool) Field(string, string) (tool.Signature, bool)                { return tool.Signature{}, false }
func (oneTool) Namespaces() []string                                       { return nil }
func (oneTool) RoleName(tool.Role) string                                  { return "" }
func (oneTool) FieldNames(string) []string                                 { return nil }

func conformanceText(w io.Writer, r *conformance.Report) {
	marks := map[conformance.Status]string{
		conformance.Passed: "ok", conformance.Failed: "FAIL", conformance.Warned: "warn", conformance.Skipped: "skip",
	}
	if r.Name != "" {
		fmt.Fprintf(w, "plugin %s %s: %s\n", screen.Printable(r.Name), screen.Printable(r.Version),
			screen.Printable(strings.Join(r.Tools, ", ")))
	}
	count := make(map[conformance.Status]int)
	var before []string // problems of the previous check, if it was skipped
	for _, c := range r.Checks {
		count[c.Status]++
		fmt.Fprintf(w, "%-5s %-15s %s\n", marks[c.Status], c.ID, c.Title)
		problems := c.Problems
		if slices.Equal(before, problems) {
			problems = nil
		}
		if before = nil; c.Status == conformance.Skipped {
			before = c.Problems
		}
		for _, p := range problems {
			for l := range strings.SplitSeq(p, "\n") {
				fmt.Fprintf(w, "      %s\n", screen.Printable(l))
			}
		}
		if c.Fix != "" {
			fmt.Fprintf(w, "      To do: %s\n", c.Fix)
			if c.Section != "" {
				fmt.Fprintf(w, "      See docs/protocol.md, section %q.\n", c.Section)
			}
		}
	}
	for _, l := range r.LeftOut {
		fmt.Fprintf(w, "left out: %s\n", screen.Printable(l))
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d with warnings, %d skipped\n", count[conformance.Passed], count[conformance.Failed], count[conformance.Warned],
		count[conformance.Skipped])
}
