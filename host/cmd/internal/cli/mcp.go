package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"toolhost.dev/host"
	"toolhost.dev/host/api"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/logincmd"
	"toolhost.dev/host/cmd/internal/cli/screen"
	"toolhost.dev/host/cmd/internal/cli/terminal"
	"toolhost.dev/host/mcp"
)

func newMCP(s *globals.Settings) *cobra.Command {
	var opts mcp.Options
	c := &cobra.Command{
		Use:   "mcp",
		Short: "Serve MCP over stdio",
		Long: `Serve MCP over stdio, for one client such as Claude Code, Codex
or an editor. Every enabled tool is a tool of the server; a field tool has the name
NAME_COMMAND. With --single, there is only one tool, bash, whose command string can call all
tools. If the policy asks about a call, the client asks its user. Logs go to standard error.
Each run has its own session, unless --session names a session that is kept.`,
		Example: `  claude mcp add toolhost -- toolhost mcp
  toolhost mcp --tools read,grep,glob`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			out := reserveOutput(s)
			h, err := s.OpenLive(c, host.Options{Prompt: true})
			if err != nil {
				return err
			}
			asks := api.NewAsks(cmp.Or(opts.AskTimeout, 10*time.Minute))
			h.OfferAsks(asks)
			opts.Beside = asks.Supervised(h,
				fmt.Sprintf("%s in process %d (toolhost mcp)", host.LocalUser().Name, os.Getpid()))
			opts.Login = func(ctx context.Context, field string, scopes []string, show func(string)) error {
				err := logincmd.Login(ctx, s, field, scopes, show)
				h.LoggedIn(ctx)
				return err
			}
			opts.Workspace = s.Request().Workspace
			opts.Roots = s.Workspace == "" && s.On == "" // use the client's directories, unless the user selected a workspace
			server, err := newMCPServer(h, s, opts)
			if err != nil {
				return errors.Join(err, h.Close())
			}
			in, release := terminal.Input(s.In)
			defer release()
			ctx, cancel := context.WithCancelCause(c.Context())
			defer cancel(nil)
			terminated := s.Signals.Terminated()
			go func() {
				select {
				case <-terminated:
					h.Drain(ctx)
					cancel(host.ErrStopped)
				case <-ctx.Done():
				}
			}()
			err = server.Serve(ctx, in, out)
			server.Close()
			return errors.Join(err, h.Close())
		},
	}
	s.TapeFlag(c)
	s.OnFlag(c)
	mcpFlags(c, &opts)
	c.Flags().StringVar(&opts.Endpoint, "endpoint", "", "serve the tools of this endpoint of the configuration, by its `name`")
	c.AddCommand(logincmd.Commands(s)...)
	return c
}

// reserveOutput returns the output of the command, which must contain only protocol messages. All other output then
// goes to the errors of the command.
func reserveOutput(s *globals.Settings) io.WriteCloser {
	out := s.Out
	s.Out = s.Err
	if out == io.Writer(os.Stdout) {
		os.Stdout = os.Stderr // a library that prints must not disturb the protocol either
	}
	return closable{out}
}

// closable is a writer for a server that closes its output. It closes the writer only if that can be closed.
type closable struct{ io.Writer }

// Close implements [io.Closer].
func (c closable) Close() error {
	if closer, ok := c.Writer.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

// mcpOptions adds the global settings to the options of a server.
func mcpOptions(s *globals.Settings, opts mcp.Options) mcp.Options {
	opts.Session, opts.Branch, opts.Log = s.Session, s.Branch, slog.New(slog.NewTextHandler(s.Err, &slog.HandlerOptions{
		Level: slog.LevelWarn, ReplaceAttr: globals.WithoutTime,
	}))
	return opts
}

func mcpFlags(c *cobra.Command, opts *mcp.Options) {
	c.Flags().BoolVar(&opts.Single, "single", false, "offer only one tool, bash, which can call all tools")
	c.Flags().StringSliceVar(&opts.Tools, "tools", nil, "offer only these tools, by their full `names`, also inside of commands (default: all that are enabled)")
	c.Flags().DurationVar(&opts.AskTimeout, "ask-timeout", 0, "how long a call waits for an answer of the user (default: 10m)")
}

// newMCPServer creates the server. If opts.Tools contains an unknown tool, it returns an error. If the server cannot
// offer a known tool, it only prints a warning.
func newMCPServer(h *host.Host, s *globals.Settings, opts mcp.Options) (*mcp.Server, error) {
	for _, name := range opts.Tools {
		if !slices.ContainsFunc(h.Tools(), func(t host.Tool) bool { return t.Enabled && t.FullName == name }) {
			return nil, fmt.Errorf("--tools: there is no enabled tool %q: toolhost tools lists them", name)
		}
	}
	if opts.Endpoint != "" {
		if opts.Single || opts.Tools != nil {
			return nil, errors.New("--endpoint excludes --single and --tools: set mode and tools in the endpoint's block")
		}
		if _, err := h.Endpoint(opts.Endpoint, nil); err != nil {
			return nil, fmt.Errorf("--endpoint: %w", err)
		}
	}
	server, err := mcp.New(h, mcpOptions(s, opts))
	if err != nil {
		fmt.Fprintln(s.Err, "toolhost:", screen.Clean(err.Error()))
	}
	return server, nil
}
