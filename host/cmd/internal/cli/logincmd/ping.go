package logincmd

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

func newPing(s *globals.Settings) *cobra.Command {
	var wait time.Duration
	c := &cobra.Command{
		Use:   "ping [FIELD…]",
		Short: "Connect to mounted MCP servers and describe them",
		Long: `Connect to the mounted MCP servers of the named fields, or of all fields, in a separate host.
For each server it prints the revision of MCP, the name and the version of the server, how many
tools, prompts, resources and templates the server has, the time of one request, and the
capabilities that the server announces. They include features that the field does not offer to
clients.
For a server that cannot be used, it prints the cause and a command that helps. The exit status is
then 1.`,
		Example: "toolhost mcp ping\ntoolhost mcp ping github --json",
		RunE: func(c *cobra.Command, args []string) error {
			list, err := admin.PingServers(c.Context(), s.Options(), args, wait)
			if err != nil {
				return err
			}
			if s.JSON {
				err = screen.PrintJSON(s.Out, list)
			} else {
				err = printPings(screen.New(s.Out), list)
			}
			for i := range list {
				if list[i].Error != nil && err == nil {
					return process.ExitError(process.ExitFailure)
				}
			}
			return err
		},
	}
	c.Flags().DurationVar(&wait, "wait", time.Minute, "how long to wait for the servers")
	return c
}

// printPings prints a table of the servers that answered, and then the failures of the other servers.
func printPings(out io.Writer, list []admin.Pinged) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, "No field has a mounted server. Add one:\nfield \"NAME\" {\n  mcp { command = [\"PROGRAM\"] }\n}")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	header := "FIELD\tREVISION\tSERVER\tVERSION\tTOOLS\tPROMPTS\tRESOURCES\tTEMPLATES\tTIME\n"
	for i := range list {
		p := list[i].Server
		if p == nil {
			continue
		}
		fmt.Fprintf(w, "%s%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%.1f ms\n", header, list[i].Field, screen.Printable(p.Protocol), screen.Printable(p.Name),
			screen.Printable(p.Version),
			p.Tools, p.Prompts, p.Resources, p.Templates, float64(p.RoundTrip)/float64(time.Millisecond))
		header = ""
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i := range list {
		if p := list[i].Server; p != nil && len(p.Capabilities) > 0 {
			if _, err := fmt.Fprintf(out, "%s announces %s\n", list[i].Field,
				screen.Printable(capabilities(p.Capabilities))); err != nil {
				return err
			}
		}
		if e := list[i].Error; e != nil {
			if _, err := fmt.Fprintf(out, "%s: %s\n  next: %s\n", list[i].Field, screen.Clean(e.Message),
				list[i].Next); err != nil {
				return err
			}
		}
	}
	return nil
}

// capabilities returns a text with the names of capabilities. The parts of a capability follow it in parentheses. In
// the sorted list of names, a part follows its capability.
func capabilities(names []string) string {
	var out []string
	parts := make(map[string][]string)
	for _, name := range names {
		if whole, part, ok := strings.Cut(name, "."); ok && slices.Contains(out, whole) {
			parts[whole] = append(parts[whole], part)
		} else {
			out = append(out, name)
		}
	}
	for i, name := range out {
		if len(parts[name]) > 0 {
			out[i] = fmt.Sprintf("%s (%s)", name, strings.Join(parts[name], ", "))
		}
	}
	return strings.Join(out, ", ")
}
