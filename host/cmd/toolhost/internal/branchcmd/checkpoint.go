package branchcmd

import (
	"fmt"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/toolhost/internal/cli"
)

func newCheckpoint(s *cli.Settings) *cobra.Command {
	var message string
	c := &cobra.Command{
		Use:   "checkpoint NAME",
		Short: "Copy the changes of a branch, to go back to them later",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return with(s, func(b *admin.Branches) error {
				made, err := b.Checkpoint(c.Context(), args[0], message)
				if err != nil {
					return err
				}
				if s.JSON {
					return cli.PrintJSON(os.Stdout, made)
				}
				fmt.Printf("Checkpoint %d of the branch %s has %s (%s). To go back to it: toolhost branch restore %[2]s %[1]d\n", made.Number, args[0], cli.Count(made.Files, "file"), cli.Size(made.Bytes))
				return nil
			})
		},
	}
	c.Flags().StringVarP(&message, "message", "m", "", "`text` that describes the checkpoint")
	return c
}

func newCheckpoints(s *cli.Settings) *cobra.Command {
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
					return cli.PrintJSON(os.Stdout, append([]admin.BranchCheckpoint{}, all...))
				}
				t := tabwriter.NewWriter(cli.Screen(os.Stdout), 0, 0, 2, ' ', 0)
				for _, c := range all {
					fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\n", c.Number, c.At.Local().Format(time.DateTime), cli.Count(c.Files, "file"), cli.Size(c.Bytes), cli.Printable(c.Message))
				}
				if len(all) == 0 {
					fmt.Fprintf(t, "The branch %s has no checkpoints.\n", args[0])
				}
				return t.Flush()
			})
		},
	}
}

func newRestore(s *cli.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "restore NAME [CHECKPOINT]",
		Short: "Make a branch what it was at a checkpoint",
		Long: `Make a branch what it was at a checkpoint, which is the last one by default. The branch as it is now
becomes a checkpoint, too, so a restore can be taken back.`,
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
				restored, saved, err := b.Restore(c.Context(), args[0], number)
				if err != nil {
					return err
				}
				if s.JSON {
					return cli.PrintJSON(os.Stdout, map[string]*admin.BranchCheckpoint{"restored": restored, "saved": saved})
				}
				fmt.Printf("The branch %s is as it was at checkpoint %d. To take that back: toolhost branch restore %[1]s %[3]d\n", args[0], restored.Number, saved.Number)
				return nil
			})
		},
	}
}
