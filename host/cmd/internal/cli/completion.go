package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"toolhost.dev/host/cmd/internal/cli/globals"
)

// completeTimeout limits the duration of a completion.
const completeTimeout = 2 * time.Second

// completions registers functions that complete names. If such a function fails, it returns no completions.
func completions(s *globals.Settings, root *cobra.Command) {
	plugins := completed(s.PluginNames)
	tools := completed(s.ToolNames)
	both := completed(func(ctx context.Context) []string { return append(s.PluginNames(ctx), s.ToolNames(ctx)...) })
	for _, c := range allCommands(root) {
		switch c.CommandPath() {
		case "toolhost plugin info", "toolhost plugin pin", "toolhost plugin reload":
			c.ValidArgsFunction = plugins
		case "toolhost plugin enable", "toolhost plugin disable":
			c.ValidArgsFunction = both
		case "toolhost run", "toolhost explain", "toolhost policy check":
			c.ValidArgsFunction = first(tools)
		}
		if c.ValidArgsFunction == nil && c.Args != nil && c.Args(c, []string{"any"}) != nil { // the command accepts no arguments
			c.ValidArgsFunction = cobra.NoFileCompletions
		}
		for name, f := range map[string]cobra.CompletionFunc{"tool": tools, "session": completed(s.SessionNames)} {
			if c.LocalFlags().Lookup(name) != nil {
				_ = c.RegisterFlagCompletionFunc(name, f) // ignore the error: each flag is registered only once
			}
		}
	}
	choices := func(all ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp)
	}
	_ = root.RegisterFlagCompletionFunc("on-ask", choices("allow", "deny", "prompt"))
	_ = root.RegisterFlagCompletionFunc("log-format", choices("text", "json"))
	_ = root.RegisterFlagCompletionFunc("log-level", choices("debug", "info", "warn", "error"))
	_ = root.MarkPersistentFlagDirname("workspace")
	_ = root.MarkPersistentFlagDirname("state")
}

// first returns a completion function that calls f for the first argument. For all other arguments, it
// completes file names.
func first(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return f(c, args, begun)
	}
}

func allCommands(c *cobra.Command) []*cobra.Command {
	out := []*cobra.Command{c}
	for _, inner := range c.Commands() {
		out = append(out, allCommands(inner)...)
	}
	return out
}

// completed returns a completion function that offers the strings from the function "names".
func completed(names func(context.Context) []string) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx := c.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completeTimeout)
		defer cancel()
		var out []cobra.Completion
		for _, n := range names(ctx) {
			if strings.HasPrefix(n, begun) {
				out = append(out, n)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}
