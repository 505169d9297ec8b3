package logincmd

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/toolhost/internal/cli"
)

func newPing(s *cli.Settings) *cobra.Command {
	var wait time.Duration
	c := &cobra.Command{
		Use:   "ping [FIELD…]",
		Short: "Connect to mounted MCP servers and show what they are",
		Long: `Connect to the mounted MCP servers of the named fields, or of all fields, in a host of its own.
For each server it prints the revision of MCP, the name and the version of the server, how many
tools, prompts, resources and templates the server has, and the time of one request. The numbers
include what the field does not offer to clients.

For a server that cannot be used, it prints the cause and a command that helps. The exit status is
then 1.`,
		Example: "toolhost mcp ping\ntoolhost mcp ping github --json",
		RunE: func(c *cobra.Command, args []string) error {
			list, err := admin.PingServers(c.Context(), s.Options(), args, wait)
			if err != nil {
				return err
			}
			if s.JSON {
				err = cli.PrintJSON(os.Stdout, list)
			} else {
				err = printPings(cli.Screen(os.Stdout), list)
			}
			for i := range list {
				if list[i].Error != nil && err == nil {
					return cli.ExitError(cli.ExitFailure)
				}
			}
			return err
		},
	}
	c.Flags().DurationVar(&wait, "wait", time.Minute, "how long to wait for the servers")
	return c
}

// printPings prints a table of the servers that answered, and then the failures of the others.
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
		fmt.Fprintf(w, "%s%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%.1f ms\n", header, list[i].Field, cli.Printable(p.Protocol), cli.Printable(p.Name), cli.Printable(p.Version),
			p.Tools, p.Prompts, p.Resources, p.Templates, float64(p.RoundTrip)/float64(time.Millisecond))
		header = ""
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i := range list {
		if e := list[i].Error; e != nil {
			if _, err := fmt.Fprintf(out, "%s: %s\n  next: %s\n", list[i].Field, cli.Clean(e.Message), list[i].Next); err != nil {
				return err
			}
		}
	}
	return nil
}
