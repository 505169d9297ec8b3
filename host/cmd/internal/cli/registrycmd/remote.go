package registrycmd

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"toolhost.dev/host/admin/registries"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

// exitDue is the exit status of "plugin outdated" if a plugin needs attention.
const exitDue = 2

func newOutdated(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "outdated",
		Short: "List plugins that have a newer version",
		Long: `Compare the lock file with the registries. Exit status 2 when an upgrade fits, or when a locked version
was withdrawn or republished.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			m, err := open(s)
			if err != nil {
				return err
			}
			list, err := m.Outdated(c.Context())
			if s.JSON {
				err = errors.Join(screen.PrintJSON(s.Out, append([]registries.Outdated{}, list...)), failed(s, err))
			} else {
				err = errors.Join(outdatedText(s.Out, list), err)
			}
			if err == nil && slices.ContainsFunc(list, func(o registries.Outdated) bool { return o.Due }) {
				return process.ExitError(exitDue)
			}
			return err
		},
	}
}

func outdatedText(to io.Writer, list []registries.Outdated) error {
	shown := screen.New(to)
	w := tabwriter.NewWriter(shown, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PLUGIN\tLOCKED\tWITHIN CONSTRAINT\tNEWEST\tNOTE")
	for _, o := range list {
		if o.Error == "" {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", o.Name, orDash(o.Locked), orDash(o.Fitting), orDash(o.Newest),
				screen.Printable(o.Note))
		}
	}
	return errors.Join(w.Flush(), shown.Flush())
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return screen.Printable(text)
}

func newMirror(s *globals.Settings) *cobra.Command {
	var to string
	var platforms []string
	c := &cobra.Command{
		Use:   "mirror",
		Short: "Copy the locked plugins to another place",
		Long: `Copy the versions that the lock file names, with their signatures and documents, to a registry or a
directory. Where a configuration names this place in a mirror block, nothing else is reached.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if to == "" {
				return errors.New("say where to copy the plugins: --to file:///srv/mirror, or --to harbor.corp/hub")
			}
			m, err := open(s)
			if err != nil {
				return err
			}
			list, err := m.Mirror(c.Context(), to, platforms)
			if s.JSON {
				return errors.Join(screen.PrintJSON(s.Out, append([]registries.Mirrored{}, list...)), failed(s, err))
			}
			for _, l := range list {
				fmt.Fprintf(s.Out, "%s %s  %s  %s\n", l.Name, l.Version, screen.Size(l.Bytes), screen.Printable(l.To))
			}
			return err
		},
	}
	c.Flags().StringVar(&to, "to", "", "`PLACE`: a registry, or a directory such as file:///srv/mirror")
	c.Flags().StringArrayVar(&platforms, "platform", nil, "copy only this platform (`OS/ARCH`); only to a directory")
	return c
}

func newSearch(s *globals.Settings) *cobra.Command {
	var update bool
	c := &cobra.Command{
		Use:   "search [WORD]...",
		Short: "Search the catalogs for plugins",
		Long: `Search the catalogs of the configuration for plugins whose name, description or tools contain all
words. The copies on this machine are searched; --update downloads the catalogs first.`,
		RunE: func(c *cobra.Command, words []string) error {
			m, err := open(s)
			if err != nil {
				return err
			}
			if update {
				if err := m.UpdateCatalogs(c.Context()); err != nil {
					return err
				}
			}
			found, missing, err := m.Search(words)
			if err != nil {
				return err
			}
			for _, name := range missing {
				warn(s.Err, fmt.Sprintf("The catalog %s was not downloaded yet: toolhost plugin search --update", name))
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, append([]registries.Listed{}, found...))
			}
			for _, p := range found {
				fmt.Fprintf(s.Out, "%s  %s\n", screen.Printable(p.Source), screen.Printable(p.Summary))
				if len(p.Tools) > 0 {
					fmt.Fprintln(s.Out, "  tools:", screen.Printable(strings.Join(p.Tools, ", ")))
				}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&update, "update", false, "download the catalogs first")
	return c
}

func newCollect(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "gc",
		Short: "Remove installed versions that nothing needs",
		Long: `Remove the versions that no lock file on this machine names. The version before the last upgrade of each
plugin stays, and so does what a running host uses. Unfinished downloads are removed too.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			out, err := registries.Collect()
			if err != nil {
				return err
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, out)
			}
			fmt.Fprintf(s.Out, "%d removed, %d kept", out.Removed, out.Kept)
			if out.InUse > 0 {
				fmt.Fprintf(s.Out, ", %d in use by running hosts", out.InUse)
			}
			fmt.Fprintln(s.Out)
			return nil
		},
	}
}

// Info prints a plugin of a registry. The argument is a source, possibly with a version.
func Info(c *cobra.Command, s *globals.Settings, text string) error {
	version := ""
	if ref, err := registries.ParseVersion(text); err == nil {
		text, version = ref.String(), ref.Version.String()
	}
	name, err := registries.ParseName(text)
	if err != nil {
		return err
	}
	m, err := open(s)
	if err != nil {
		return err
	}
	out, err := m.Info(c.Context(), name, version)
	if err != nil {
		return err
	}
	if s.JSON {
		return screen.PrintJSON(s.Out, out)
	}
	shown := screen.New(s.Out)
	return errors.Join(infoText(shown, out), shown.Flush())
}

func infoText(to io.Writer, out *registries.Info) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, screen.Printable(value))
		}
	}
	row("source", out.Source)
	row("version", out.Version)
	row("summary", out.Config.Summary)
	row("versions", strings.Join(out.Versions, ", "))
	row("platforms", strings.Join(out.Platforms, ", "))
	if out.Config.Runtime != "none" {
		row("runtime", out.Config.Runtime)
	}
	switch {
	case out.Unsigned:
		row("signed", "no")
	case out.Publisher != "":
		row("signed", "by "+out.Publisher+" ("+out.Key+")")
	default:
		row("signed", "by "+out.Key+", which no publisher block lists")
	}
	row("yanked", out.Yanked)
	for _, n := range out.Needs {
		row("needs", n)
	}
	for _, d := range out.Documents {
		row("document", d)
	}
	for _, d := range out.Config.Description.Tools {
		row("tool", d.Name+": "+screen.FirstLine(d.Description))
	}
	return w.Flush()
}

// Verify compares the files of the installed plugins with the lock file. If remote is true, it also checks the
// registries.
func Verify(c *cobra.Command, s *globals.Settings, remote bool) ([]registries.Verified, error) {
	m, err := open(s)
	if err != nil {
		return nil, err
	}
	return m.Verify(c.Context(), remote)
}
