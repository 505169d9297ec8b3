package configcmd

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

// NewQuarantine returns the command quarantine.
func NewQuarantine(s *globals.Settings) *cobra.Command {
	c := &cobra.Command{
		Use:   "quarantine",
		Short: "Review and restore files that were quarantined",
		Long: `Review the files that hosts moved out of git repositories and workspaces. A command of a tool can create a
repository whose hooks or settings run a program. Git outside of the sandbox would run this program without
the sandbox. Editors and agents load their settings in the same way. The host therefore moves such hooks and
settings to the quarantine, in the state directory.
Restore the files that you know, such as the settings of git-lfs or husky. Restored content is not moved again.`,
		Example: `  toolhost quarantine list
  toolhost quarantine show 3f9a01c2d4e5
  toolhost quarantine restore 3f9a01c2d4e5`,
	}
	c.AddCommand(newQuarantineList(s), newQuarantineShow(s), newQuarantineRestore(s))
	return c
}

func newQuarantineList(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the files in the quarantine",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			all, err := admin.Quarantine(s.Options())
			if err != nil {
				return err
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, append([]admin.Quarantined{}, all...))
			}
			t := tabwriter.NewWriter(screen.New(s.Out), 0, 0, 2, ' ', 0)
			for _, e := range all {
				state := "taken out"
				if !e.Restored.IsZero() {
					state = "restored"
				}
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", e.ID, e.At.Local().Format(time.DateTime), state,
					screen.Printable(e.Path), screen.Printable(strings.Join(e.Names, ", ")))
			}
			if len(all) == 0 {
				fmt.Fprintln(t, "The quarantine is empty.")
			}
			return t.Flush()
		},
	}
}

func newQuarantineShow(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show an entry and its content",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			e, err := admin.QuarantineEntry(s.Options(), args[0])
			if err != nil {
				return err
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, struct {
					*admin.Quarantined
					Digest string `json:"digest"`
				}{e, e.Digest()})
			}
			return quarantineText(screen.New(s.Out), e)
		},
	}
}

func quarantineText(w io.Writer, e *admin.Quarantined) error {
	fmt.Fprintf(w, "%s, %s\n%s: %s, also outside of the sandbox.\n", screen.Printable(e.Path), e.Digest(), e.At.Local().Format(time.DateTime), screen.Printable(e.Why))
	if !e.Restored.IsZero() {
		fmt.Fprintf(w, "Restored at %s.\n", e.Restored.Local().Format(time.DateTime))
	}
	if e.Left != "" {
		_, err := fmt.Fprintf(w, "The file was not copied. It is now %s.\n", screen.Printable(e.Left))
		return err
	}
	for line := range strings.Lines(string(e.Content)) {
		fmt.Fprintln(w, " ", screen.Printable(strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "  ")))
	}
	return nil
}

func newQuarantineRestore(s *globals.Settings) *cobra.Command {
	var accept string
	c := &cobra.Command{
		Use:   "restore ID",
		Short: "Restore an entry after a review",
		Long: `Show an entry, ask for confirmation, and restore it. Git, editors and agents that you run there can then run
the program, outside of the sandbox. Without a terminal, no question is asked: pass the digest that show
prints with --accept.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			digest := accept
			if digest == "" {
				var err error
				if digest, err = confirmRestore(s, args[0]); err != nil {
					return err
				}
			}
			e, err := admin.RestoreQuarantined(s.Options(), args[0], digest)
			if err != nil {
				return err
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, e)
			}
			_, err = fmt.Fprintf(s.Out, "Restored %s.\n", screen.Printable(e.Path))
			return err
		},
	}
	c.Flags().StringVar(&accept, "accept", "", "restore the content with this `digest`, without asking")
	return c
}

// confirmRestore shows an entry and asks the user whether to restore it. It returns the digest of the entry.
func confirmRestore(s *globals.Settings, id string) (string, error) {
	e, err := admin.QuarantineEntry(s.Options(), id)
	if err != nil {
		return "", err
	}
	if err := quarantineText(screen.New(s.Err), e); err != nil {
		return "", err
	}
	if !screen.IsTerminal(s.In) {
		fmt.Fprintf(s.Err, "toolhost: there is no terminal to ask on. To restore this content: toolhost quarantine restore %s --accept %s\n", id, e.Digest())
		return "", process.ExitError(process.ExitFailure)
	}
	return e.Digest(), process.Confirm(s.In, s.Err, "Restore this content?", "Nothing was restored.")
}
