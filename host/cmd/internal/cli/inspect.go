package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
	"toolhost.dev/host/cmd/internal/cli/toolscmd"
	"toolhost.dev/host/export"
	"toolhost.dev/host/router"
)

func newExplain(s *globals.Settings) *cobra.Command {
	c := &cobra.Command{
		Use:     "explain [flags] [--] COMMAND",
		Short:   "Explain a command without running it",
		Example: `  toolhost explain 'grep -rn TODO src | head'`,
		Args:    needCommand,
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
			means := explained{Command: h.Explain(req)}
			means.decide(h, req)
			if err := h.Close(); err != nil {
				return err
			}
			if s.JSON {
				err = screen.PrintJSON(s.Out, means)
			} else {
				err = explainText(screen.New(s.Out), means)
			}
			if err == nil && means.Error != nil {
				err = process.ExitError(process.ExitFailure)
			}
			return err
		},
	}
	c.Flags().SetInterspersed(false)
	return c
}

// explained describes a command together with its defaults and the decision of the policy.
type explained struct {
	*router.Command
	// Defaults contains the values of the parameters that the command does not set.
	Defaults map[string]json.RawMessage `json:"defaults"`
	// Decision is the decision of the policy. It is nil for a request for help and for an invalid command.
	Decision *decision `json:"decision"`
}

// decision is the summary of the policy's decision in the explanation. The command "policy check" shows the whole
// decision.
type decision struct {
	Effect string `json:"decision"`
	Kind   string `json:"kind"`
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
	// Answered names the earlier answer that decides.
	Answered string `json:"answered,omitempty"`
}

// decide sets the defaults and the decision.
func (e *explained) decide(h *host.Host, req host.Request) {
	e.Defaults = make(map[string]json.RawMessage)
	for name, value := range e.Arguments {
		if _, set := e.Kwargs[name]; !set {
			e.Defaults[name] = value
		}
	}
	if e.Error != nil || e.IsHelp {
		return
	}
	if d, err := h.Judge(req); err == nil { // ignore the error: Explain already reports the error of the command
		e.Decision = &decision{
			Effect: string(d.Effect), Kind: d.Kind, Rule: d.Rule, Reason: d.Reason, Answered: d.Answered,
		}
	}
}

func explainText(w io.Writer, c explained) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, value string) { fmt.Fprintf(out, "%s\t%s\n", name, value) }
	row("layer", string(c.Layer))
	if c.Namespace != "" {
		row("namespace", c.Namespace)
	}
	row("name", c.Name)
	if c.Layer != router.Native {
		for _, name := range slices.Sorted(maps.Keys(c.Kwargs)) {
			row("  --"+name, string(c.Kwargs[name]))
		}
		for _, name := range slices.Sorted(maps.Keys(c.Defaults)) {
			row("  --"+name, string(c.Defaults[name])+"  (default)")
		}
	}
	if c.IsHelp {
		row("help", map[bool]string{true: "in detail", false: "in short"}[c.HelpVerbose])
	}
	row("rule", fmt.Sprintf("%s: %s", c.Rule, c.Reason))
	if d := c.Decision; d != nil {
		text := d.Effect
		if d.Rule != "" {
			text += ", by rule " + d.Rule
		}
		if d.Reason != "" {
			text += ": " + d.Reason
		}
		row("decision", text)
	}
	if c.Error != nil {
		row("error", strings.ReplaceAll(c.Error.Message, "\n", "\n\t"))
	}
	return out.Flush()
}

func newTools(s *globals.Settings) *cobra.Command {
	var format string
	var single bool
	c := &cobra.Command{
		Use:   "tools",
		Short: "List the tools, or export their definitions",
		Long: `List the tools. With --format, the enabled tools are printed as function definitions:
anthropic, openai (Chat Completions), openai-responses and gemini are the "tools" array of
that API; xml and json-prompt are a part of a system prompt for a model without function
calls; json contains all that toolhost knows about the tools. Calls can use the name of a
function as the name of the tool, also in toolhost batch. With --single, there is only one
function, bash, whose command string can call every tool.`,
		Example: `  toolhost tools
  toolhost tools --format anthropic
  toolhost tools --format openai --single`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := s.Open(c)
			if err != nil {
				return err
			}
			tools := h.Tools()
			if err := h.Close(); err != nil {
				return err
			}
			if s.JSON {
				format = "json"
			}
			switch {
			case single && (format == "text" || format == "json"):
				return fmt.Errorf("--single needs --format with one of these values: %s", formats())
			case format == "json":
				return screen.PrintJSON(s.Out, enabled(tools))
			case format == "text":
				return toolsText(screen.New(s.Out), tools)
			case !slices.Contains(export.Formats, export.Format(format)):
				return fmt.Errorf("--format %q: use text, json, %s", format, formats())
			case single:
				return export.Write(s.Out, export.Format(format), []export.Function{export.Single(tools)})
			}
			functions, err := export.Functions(tools)
			return errors.Join(export.Write(s.Out, export.Format(format), functions), err)
		},
	}
	c.AddCommand(newToolsHealth(s), toolscmd.NewSearch(s), toolscmd.NewForget(s), toolscmd.NewSize(s))
	c.Flags().StringVar(&format, "format", "text", "`form`: text, json, "+formats())
	c.Flags().BoolVar(&single, "single", false, "one function for all tools")
	return c
}

func formats() string {
	var names []string
	for _, f := range export.Formats {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

func enabled(tools []host.Tool) []host.Tool {
	out := []host.Tool{}
	for _, t := range tools {
		if t.Enabled {
			out = append(out, t)
		}
	}
	return out
}

func toolsText(w io.Writer, tools []host.Tool) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "TOOL\tPLUGIN\tTRAITS\tDESCRIPTION")
	for _, t := range tools {
		var traits []string
		for _, trait := range []struct {
			has  bool
			name string
		}{{!t.Enabled, "disabled"}, {t.Traits.ReadOnly, "read-only"}, {t.Traits.ConcurrencySafe, "parallel"},
			{t.Traits.Dangerous, "dangerous"}} {
			if trait.has {
				traits = append(traits, trait.name)
			}
		}
		if len(traits) == 0 {
			traits = []string{"-"}
		}
		text := strings.Join(strings.Fields(t.Description), " ")
		if i := strings.Index(text, ". "); i > 0 {
			text = text[:i+1]
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", t.FullName, t.Plugin, strings.Join(traits, ","), text)
	}
	return out.Flush()
}

// toolHealth is the health of a tool in JSON.
type toolHealth struct {
	Tool string `json:"tool"`
	tool.Health
}

// newToolsHealth returns the command "tools health".
func newToolsHealth(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "health [TOOL]...",
		Short: "Check the health of tools",
		Long: `Ask the plugins for the health of the named tools, or of all enabled tools. Plugins that
do not run are started. A tool is healthy, unhealthy, not_found, or error if its plugin does
not answer. The exit status is 1 if a tool is not healthy.`,
		Example: `  toolhost tools health
  toolhost tools health read jira:search`,
		RunE: func(c *cobra.Command, names []string) error {
			h, err := s.Open(c)
			if err != nil {
				return err
			}
			list, good := checkTools(c.Context(), h, names)
			if err := h.Close(); err != nil {
				return err
			}
			if s.JSON {
				err = screen.PrintJSON(s.Out, list)
			} else {
				err = healthText(screen.New(s.Out), list)
			}
			if err == nil && !good {
				return process.ExitError(process.ExitFailure)
			}
			return err
		},
	}
}

// checkTools checks the named tools. If names is empty, it checks all enabled tools. The result "good" reports whether
// all checked tools are healthy.
func checkTools(ctx context.Context, h *host.Host, names []string) (list []toolHealth, good bool) {
	if len(names) == 0 {
		for _, t := range enabled(h.Tools()) {
			names = append(names, t.FullName)
		}
	}
	list, good = []toolHealth{}, true
	for _, name := range names {
		health := h.Health(ctx, name)
		good = good && health.Status == tool.Healthy
		list = append(list, toolHealth{name, health})
	}
	return list, good
}

func healthText(w io.Writer, list []toolHealth) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "TOOL\tHEALTH\tDETAILS")
	for _, t := range list {
		details := t.Message
		if len(t.Details) > 0 {
			details += " " + string(t.Details)
		}
		fmt.Fprintf(out, "%s\t%s\t%s\n", screen.Printable(t.Tool), t.Status, screen.Printable(details))
	}
	return out.Flush()
}
