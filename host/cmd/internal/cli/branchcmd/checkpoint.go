package branchcmd

import (
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

func newCheckpoint(s *globals.Settings) *cobra.Command {
	var message string
	c := &cobra.Command{
		Use:   "checkpoint NAME",
		Short: "Save a branch as a checkpoint",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return with(s, func(b *admin.Branches) error {
				made, err := b.Checkpoint(c.Context(), args[0], message)
				if err != nil {
					return err
				}
				if s.JSON {
					return screen.PrintJSON(s.Out, made)
				}
				fmt.Fprintf(s.Out, "Checkpoint %d of the branch %s has %s (%s). To go back to it: toolhost branch restore %[2]s %[1]d\n", made.Number, args[0], screen.Count(made.Files, "file"), screen.Size(made.Bytes))
				if made.Ignored > 0 {
					fmt.Fprintf(s.Out, "It leaves out %s that git ignores, because they are large.\n", screen.Count(made.Ignored, "path"))
				}
				return nil
			})
		},
	}
	c.Flags().StringVarP(&message, "message", "m", "", "`text` that describes the checkpoint")
	return c
}

func newCheckpoints(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "checkpoints NAME",
		Short: "List the checkpoints of a branch",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return with(s, func(b *admin.Branches) error {
				all, err := b.Checkpoints(args[0])
				if err != nil {
					return err
				}
				if s.JSON {
					return screen.PrintJSON(s.Out, append([]admin.BranchCheckpoint{}, all...))
				}
				t := tabwriter.NewWriter(screen.New(s.Out), 0, 0, 2, ' ', 0)
				for _, c := range all {
					fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\n", c.Number, c.At.Local().Format(time.DateTime),
						screen.Count(c.Files, "file"), screen.Size(c.Bytes), screen.Printable(c.Message))
				}
				if len(all) == 0 {
					fmt.Fprintf(t, "The branch %s has no checkpoints.\n", args[0])
				}
				return t.Flush()
			})
		},
	}
}

// maxRestored is the number of changes that are listed before a restore.
const maxRestored = 50

// confirmRestore shows what a restore changes in a branch. At a terminal, it asks whether to restore. It returns the
// number of the checkpoint.
func confirmRestore(s process.Stdio, b *admin.Branches, name string, number int, yes bool) (int, error) {
	to, changes, err := b.RestoreChanges(name, number)
	if err != nil {
		return 0, err
	}
	w := screen.New(s.Err)
	message := to.Message
	if message != "" {
		message = " (" + message + ")"
	}
	fmt.Fprintf(w, "Checkpoint %d%s of the branch %s was made %s ago. To go back to it changes %s of the branch:\n", to.Number, screen.Printable(message), name, time.Since(to.At).Round(time.Second),
		screen.Count(len(changes), "path"))
	for i := range changes {
		if i == maxRestored {
			fmt.Fprintf(w, "  and %d more\n", len(changes)-i)
			break
		}
		fmt.Fprintf(w, "  %s\n", admin.Describe(changes[i]))
	}
	if yes || !screen.IsTerminal(s.In) {
		return to.Number, nil
	}
	return to.Number, process.Confirm(s.In, s.Err, "Restore the branch?", "Nothing was restored.")
}

func newRestore(s *globals.Settings) *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "restore NAME [CHECKPOINT]",
		Short: "Restore a branch to a checkpoint",
		Long: `Restore a branch to a checkpoint, which is the last one by default. The current state of the branch is saved
as a checkpoint, too, so a restore can be undone. Jobs in the branch keep running. The command shows the checkpoint and
what changes in the branch. At a terminal, it asks before it changes anything.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			number := 0
			if len(args) == 2 {
				var err error
				if number, err = strconv.Atoi(args[1]); err != nil || number < 1 {
					return fmt.Errorf("%q is not the number of a checkpoint. See toolhost branch checkpoints %s", args[1], args[0])
				}
			}
			return with(s, func(b *admin.Branches) error {
				if !s.JSON {
					var err error
					if number, err = confirmRestore(s.Stdio, b, args[0], number, yes); err != nil {
						return err
					}
				}
				done, err := b.Restore(c.Context(), args[0], number)
				if err != nil {
					return err
				}
				if s.JSON {
					return screen.PrintJSON(s.Out, done)
				}
				fmt.Fprintf(s.Out, "The branch %s is as it was at checkpoint %d. To take that back: toolhost branch restore %[1]s %[3]d\n", args[0], done.To.Number, done.Saved.Number)
				if done.Ended != "" {
					fmt.Fprintf(s.Out, "The programs that still ran in the branch were ended, because the files could not be restored while they ran: %s\n", done.Ended)
				}
				for _, note := range admin.RestoreNotes(done) {
					fmt.Fprintln(s.Out, screen.Printable(note))
				}
				for _, job := range done.Jobs {
					fmt.Fprintf(s.Out, "Still runs, with the files that it has open: %s\n", screen.Printable(job))
				}
				return nil
			})
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return c
}
