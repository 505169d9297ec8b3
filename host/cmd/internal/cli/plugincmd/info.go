package plugincmd

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"toolhost.dev/sdk/suggest"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/registrycmd"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

// newPluginList returns the command "toolhost plugin list".
func newPluginList(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the plugins with their versions and pins",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			t, err := admin.InspectTrust(c.Context(), s.Inspection())
			if err != nil {
				return err
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, t.Plugins)
			}
			return trustText(screen.New(s.Out), t)
		},
	}
}

func trustText(w io.Writer, t *admin.Trust) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "PLUGIN\tVERSION\tSHA-256\tPINNED\tBINARY")
	for _, p := range t.Plugins {
		version, sum := p.Version, p.SHA256
		if version == "" {
			version = "-"
		}
		if sum == "" {
			sum = "-"
		}
		fmt.Fprintf(out, "%s\t%s\t%.12s\t%s\t%s\n", p.Name, screen.Printable(version), sum, pinState(&p),
			screen.Printable(p.Path))
	}
	return out.Flush()
}

// pinState describes in a few words whether a plugin matches its pin.
func pinState(p *admin.PluginTrust) string {
	switch {
	case p.Error != "":
		return "cannot be loaded"
	case !p.Pinned:
		return "no"
	case p.SHA256 != p.PinnedSHA256:
		return "ANOTHER BINARY"
	case len(p.Changes) > 0:
		return "OTHER TOOLS"
	}
	return "yes"
}

func newPluginInfo(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "info PLUGIN|SOURCE",
		Short: "Show a plugin's binary, pin and tools",
		Long: `Show a plugin of the configuration: its binary, its pin, and the definitions of its tools.
A name with a slash is a source such as registry.example.org/acme/weather, possibly with a version
(…:1.2.3). Such a plugin is read from its registry and not installed.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if strings.Contains(args[0], "/") {
				return registrycmd.Info(c, s, args[0])
			}
			t, err := admin.InspectTrust(c.Context(), s.Inspection())
			if err != nil {
				return err
			}
			i := slices.IndexFunc(t.Plugins, func(p admin.PluginTrust) bool { return p.Name == args[0] })
			if i < 0 {
				var known []string
				for _, p := range t.Plugins {
					known = append(known, p.Name)
				}
				return fmt.Errorf("there is no plugin %q in the configuration.%s", args[0], suggest.DidYouMean(args[0], known))
			}
			p := &t.Plugins[i]
			if s.JSON {
				return screen.PrintJSON(s.Out, p)
			}
			return pluginText(screen.New(s.Out), t, p)
		},
	}
}

func pluginText(w io.Writer, t *admin.Trust, p *admin.PluginTrust) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(out, "%s\t%s\n", name, screen.Printable(value))
		}
	}
	row("plugin", p.Name)
	row("version", p.Version)
	row("binary", p.Path)
	row("sha256", p.SHA256)
	row("pinned", pinState(p))
	row("lock file", t.Lock)
	switch {
	case p.Needs != nil && len(p.Needed) == 0:
		row("needs", "nothing")
	case p.Needs == nil && p.Version != "":
		row("needs", "not declared")
	}
	for _, n := range p.Needed {
		row("needs", n)
	}
	for _, g := range p.Granted {
		row("granted", g)
	}
	for _, u := range p.Unneeded {
		row("not needed", u.What+" ("+u.How+")")
	}
	if p.PinnedSHA256 != p.SHA256 {
		row("pinned to", p.PinnedSHA256)
	}
	for _, c := range p.Changes {
		row("changed", c)
	}
	for _, c := range p.Unapproved {
		row("not approved", c.String())
	}
	row("error", p.Error)
	if err := out.Flush(); err != nil {
		return err
	}
	for _, d := range p.Tools {
		var traits []string
		if d.Traits.ReadOnly {
			traits = append(traits, "read-only")
		}
		if d.Traits.Dangerous {
			traits = append(traits, "dangerous")
		}
		fmt.Fprintf(w, "\n%s %s\n", d.FullName, strings.Join(traits, ", "))
		for line := range strings.Lines(d.Description) {
			fmt.Fprintf(w, "  %s\n", screen.Printable(strings.TrimRight(line, "\n")))
		}
		fmt.Fprintf(w, "  parameters: %s\n", screen.Printable(string(d.Input)))
	}
	return nil
}
