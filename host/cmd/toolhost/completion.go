package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"toolhost.dev/host"
	"toolhost.dev/host/admin"
)

// completeTimeout bounds what somebody waits who pressed Tab.
const completeTimeout = 2 * time.Second

// maxCompleted bounds the sessions that are proposed.
const maxCompleted = 100

// completions says how names are completed. What goes wrong completes nothing.
func (s *settings) completions(root *cobra.Command) {
	plugins := s.completed(s.pluginNames)
	tools := s.completed(s.toolNames)
	both := s.completed(func(ctx context.Context) []string { return append(s.pluginNames(ctx), s.toolNames(ctx)...) })
	for _, c := range allCommands(root) {
		switch c.CommandPath() {
		case "toolhost plugin info", "toolhost plugin pin", "toolhost plugin reload":
			c.ValidArgsFunction = plugins
		case "toolhost plugin enable", "toolhost plugin disable":
			c.ValidArgsFunction = both
		case "toolhost run", "toolhost explain", "toolhost policy check":
			c.ValidArgsFunction = first(tools)
		}
		if c.ValidArgsFunction == nil && c.Args != nil && c.Args(c, []string{"any"}) != nil { // it takes none
			c.ValidArgsFunction = cobra.NoFileCompletions
		}
		for name, f := range map[string]cobra.CompletionFunc{"tool": tools, "session": s.completed(s.sessionNames)} {
			if c.LocalFlags().Lookup(name) != nil {
				_ = c.RegisterFlagCompletionFunc(name, f) // registered once each
			}
		}
	}
	choices := func(all ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp)
	}
	_ = root.RegisterFlagCompletionFunc("on-ask", choices("allow", "deny", "prompt"))
	_ = root.RegisterFlagCompletionFunc("log-level", choices("debug", "info", "warn", "error"))
	_ = root.MarkPersistentFlagDirname("workspace")
	_ = root.MarkPersistentFlagDirname("state")
}

// first has f complete the first argument alone; those after it may be files.
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

// completed makes a completion of names that are looked up.
func (s *settings) completed(names func(context.Context) []string) cobra.CompletionFunc {
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

func (s *settings) pluginNames(context.Context) []string {
	names, _ := admin.PluginNames(s.options()) // what is wrong is no answer to Tab
	return names
}

func (s *settings) toolNames(ctx context.Context) []string {
	h, err := host.New(ctx, s.options())
	if err != nil {
		return nil
	}
	var out []string
	for _, t := range h.Tools() {
		if t.Enabled {
			out = append(out, t.FullName)
		}
	}
	_ = h.Close() // as above
	return out
}

func (s *settings) sessionNames(context.Context) []string {
	r, err := admin.OpenRecords(s.options())
	if err != nil {
		return nil
	}
	names, _ := r.SessionNames(maxCompleted)
	_ = r.Close() // as above
	return names
}
