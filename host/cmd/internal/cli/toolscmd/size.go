package toolscmd

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"toolhost.dev/host"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/screen"
	"toolhost.dev/host/mcp"
)

// endpointSize is the size of an endpoint's tool definitions. The name is empty for the list of all tools.
type endpointSize struct {
	Endpoint string `json:"endpoint"`
	mcp.Size
}

// NewSize returns the command "tools size".
func NewSize(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "size",
		Short: "Show the size of the tool definitions",
		Long: `Show the size of the tool definitions that an MCP client gets at /mcp, with --single, and at
each endpoint of the configuration. A token is estimated as four bytes of JSON. A model reads
the definitions in each request.`,
		Example: `  toolhost tools size`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := s.OpenOnce(c)
			if err != nil {
				return err
			}
			sizes := sizesOf(h)
			if err := h.Close(); err != nil {
				return err
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, sizes)
			}
			return sizesText(screen.New(s.Out), sizes)
		},
	}
}

func sizesOf(h *host.Host) []endpointSize {
	all := []mcp.Options{{}, {Single: true}}
	for _, e := range h.Endpoints() {
		all = append(all, mcp.Options{Endpoint: e.Name})
	}
	var out []endpointSize
	for _, opts := range all {
		server, _ := mcp.New(h, opts) // error ignored: the commands "mcp" and "serve" report tools that they cannot offer
		out = append(out, endpointSize{opts.Endpoint, server.Size()})
		server.Close()
	}
	return out
}

func sizesText(w io.Writer, sizes []endpointSize) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, err := fmt.Fprintln(out, "ENDPOINT\tMODE\tLISTED\tREACHABLE\tBYTES\tTOKENS")
	for _, z := range sizes {
		name := "/mcp"
		if z.Endpoint != "" {
			name += "/" + z.Endpoint
		}
		_, e := fmt.Fprintf(out, "%s\t%s\t%d\t%d\t%d\t%d\n", name, z.Mode, z.Tools, z.Reachable, z.Bytes, z.Tokens)
		err = errors.Join(err, e)
	}
	return errors.Join(err, out.Flush())
}
