// Package statecmd implements the command "toolhost state", which backs up, restores and cleans the state directory.
package statecmd

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

// New returns the command state.
func New(s *globals.Settings) *cobra.Command {
	c := &cobra.Command{
		Use:   "state",
		Short: "Back up, restore and clean the state directory",
		Long: `The state directory has sessions, the audit log, remembered answers, undo data, tokens and the
data of plugins. A backup can be made while hosts use the directory.`,
		Example: `  toolhost state backup /srv/backups/toolhost.tar.gz
  toolhost state restore /srv/backups/toolhost.tar.gz
  toolhost state gc --dry-run`,
	}
	c.AddCommand(newBackup(s), newRestore(s), newGC(s))
	return c
}

func newBackup(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "backup [FILE]",
		Short: "Write the state directory to an archive",
		Long: `Writes the state directory to a new archive with the mode 0600, which can contain secrets like the
directory itself. Without FILE, the archive gets a name with the time in the current directory.
The archive lacks branches, caches and what hosts make anew.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			path := "toolhost-state-" + time.Now().Format("20060102-150405") + ".tar.gz"
			if len(args) > 0 {
				path = args[0]
			}
			out, err := admin.BackUpState(c.Context(), s.Options(), s.Path(path))
			if err != nil {
				return err
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, out)
			}
			fmt.Fprintf(s.Out, "%s: %s (%s), %s\n", screen.Printable(out.Path), screen.Count(out.Files, "file"),
				screen.Count(out.Databases, "database"), screen.Size(out.Bytes))
			for _, l := range out.LeftOut {
				fmt.Fprintln(s.Out, "  left out:", screen.Printable(l))
			}
			return nil
		},
	}
}

func newRestore(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore the state directory from an archive",
		Long: `Checks the whole archive, and then puts its content in the place of the state directory in one
step. No process may use the directory. Its earlier content stays beside it, until you remove it.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			out, err := admin.RestoreState(c.Context(), s.Options(), s.Path(args[0]))
			if err != nil {
				return err
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, out)
			}
			fmt.Fprintf(s.Out, "%s has the state of %s: %s, %s\n", screen.Printable(out.To),
				out.At.Local().Format(time.DateTime), screen.Count(out.Files, "file"), screen.Size(out.Bytes))
			if out.Before != "" {
				fmt.Fprintf(s.Out, "Its earlier content is in %s. Remove it when you no longer need it.\n", screen.Printable(out.Before))
			}
			return nil
		},
	}
}

func newGC(s *globals.Settings) *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use:   "gc",
		Short: "Delete data that the configuration no longer keeps",
		Long: `Deletes sessions, history, audit entries and files with long output that exceed the limits in the
blocks retention and audit of the configuration. Hosts do the same from time to time.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			out, err := admin.CollectState(c.Context(), s.Options(), dry)
			if err != nil {
				return err
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, out)
			}
			return printGarbage(s.Out, out)
		},
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would be deleted")
	return c
}

func printGarbage(w io.Writer, out *admin.StateGarbage) error {
	did := "deleted"
	if out.Dry {
		did = "would delete"
	}
	fmt.Fprintf(w, "%s %d sessions, %d commands of histories, %d audit entries, %d output files (%s), %d copies of plugins (%s)\n",
		did, out.Sessions, out.History, out.Audit, out.Output, screen.Size(out.OutputBytes), out.Versions,
		screen.Size(out.VersionBytes))
	if out.Freed > 0 {
		fmt.Fprintf(w, "the database is %s smaller\n", screen.Size(out.Freed))
	}
	for _, k := range out.Kept {
		fmt.Fprintln(w, k)
	}
	t := tabwriter.NewWriter(screen.New(w), 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PART\tSIZE")
	for _, part := range slices.Sorted(maps.Keys(out.Sizes)) {
		fmt.Fprintf(t, "%s\t%s\n", part, screen.Size(out.Sizes[part]))
	}
	return t.Flush()
}
