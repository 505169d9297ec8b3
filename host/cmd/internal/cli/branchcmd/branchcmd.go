// Package branchcmd implements the command "toolhost branch", which lists, reviews, applies and discards branches.
package branchcmd

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

// New returns the command branch.
func New(s *globals.Settings) *cobra.Command {
	c := &cobra.Command{
		Use:   "branch",
		Short: "Review, apply and discard the changes of branches",
		Long: `A branch is a layer over the workspace. All file changes of tools and commands in a branch go into the
layer, and the workspace stays unchanged until the branch is applied. toolhost run --branch NAME creates
the branch if it does not exist.`,
		Example: `  toolhost run --branch fix1 'npm install && npm test'
  toolhost branch list
  toolhost branch diff fix1
  toolhost branch apply fix1
  toolhost branch revert fix1
  toolhost branch discard fix1`,
	}
	c.AddCommand(newList(s), newDiff(s), newApply(s), newRevert(s), newDiscard(s), newCheckpoint(s), newCheckpoints(s),
		newRestore(s), newShell(s), newAccept(s))
	return c
}

// with opens the branches of the workspace, passes them to the function "do", and closes them.
func with(s *globals.Settings, do func(*admin.Branches) error) error {
	b, err := admin.OpenBranches(s.Options())
	if err != nil {
		return err
	}
	return errors.Join(do(b), b.Close())
}

func newList(s *globals.Settings) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the branches of the workspace",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return with(s, func(b *admin.Branches) error {
				list, err := b.List(all)
				if err != nil {
					return err
				}
				if s.JSON {
					return screen.PrintJSON(s.Out, list)
				}
				orphans, err := b.Orphans()
				for _, dir := range orphans {
					fmt.Fprintf(s.Err, "toolhost: %s contains files but is not a complete branch, so it is kept. Save the files that you need, and remove the directory.\n", screen.Printable(dir))
				}
				return errors.Join(err, printList(s.Out, list))
			})
		},
	}
	c.Flags().BoolVar(&all, "all", false, "list the branches of all workspaces")
	return c
}

func printList(to io.Writer, list []admin.BranchInfo) error {
	t := tabwriter.NewWriter(screen.New(to), 0, 0, 2, ' ', 0)
	if len(list) == 0 {
		fmt.Fprintln(t, "The workspace has no branches. To make one, run a command in it: toolhost run --branch NAME COMMAND")
		return t.Flush()
	}
	fmt.Fprintln(t, "BRANCH\tAGE\tPATHS\tSIZE\tSESSIONS\tSTATE\tWORKSPACE")
	var problems []string
	for _, b := range list {
		state, paths := "ready to apply", strconv.Itoa(b.Files)
		switch {
		case b.Problem != "":
			state, paths = "cannot be used", "?"
			problems = append(problems, b.Name+": "+b.Problem)
		case b.Conflicts > 0:
			state = screen.Count(b.Conflicts, "conflict") + " with the workspace"
		case b.Files == 0 && b.Applied > 0:
			state = "applied"
		case b.Files == 0:
			state = "no changes"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", b.Name, time.Since(b.Created).Round(time.Second), paths,
			screen.Size(b.Bytes), len(b.Sessions), state, screen.Printable(b.Base))
	}
	for _, p := range problems {
		fmt.Fprintln(t, screen.Printable(p)+".")
	}
	return t.Flush()
}

func newDiff(s *globals.Settings) *cobra.Command {
	var stat bool
	c := &cobra.Command{
		Use:   "diff NAME [PATH…]",
		Short: "Show the changes of a branch",
		Long: `Show the changes of a branch as a unified diff. Changes that are not text have one line each,
which begins with "#". Every deleted and every replaced path is shown, also those in a directory
that is replaced or deleted, up to 1000 in each. The others are counted.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return with(s, func(b *admin.Branches) error {
				if !s.JSON && !stat {
					return b.Diff(screen.New(s.Out), args[0], args[1:]...)
				}
				changes, err := b.Changes(args[0], args[1:]...)
				if err != nil {
					return err
				}
				if s.JSON {
					return screen.PrintJSON(s.Out, changes)
				}
				printChanges(s.Out, changes)
				return nil
			})
		},
	}
	c.Flags().BoolVar(&stat, "stat", false, "show one line for each change")
	return c
}

func printChanges(w io.Writer, changes []admin.BranchChange) {
	out := screen.New(w)
	for _, c := range changes {
		_, _ = io.WriteString(out, screen.Printable(admin.Describe(c)))
		if c.Merge {
			_, _ = io.WriteString(out, "  (merged with the changes of the workspace)")
		}
		if c.Commit != "" {
			_, _ = io.WriteString(out, "  (in the commits that an apply saves as "+screen.Printable(c.Commit)+")")
		}
		if c.Waits != "" {
			_, _ = io.WriteString(out, "  (stays: "+c.Waits+")")
		}
		if c.Conflict != "" {
			_, _ = io.WriteString(out, "  CONFLICT: "+screen.Printable(c.Conflict))
		}
		if c.Never != "" {
			_, _ = io.WriteString(out, "  (never applied: "+c.Never+")")
		}
		_, _ = io.WriteString(out, "\n")
	}
}

func newApply(s *globals.Settings) *cobra.Command {
	var opts admin.ApplyOptions
	c := &cobra.Command{
		Use:   "apply NAME [PATH…]",
		Short: "Apply a branch to the workspace",
		Long: `Apply the changes of a branch to the workspace: all of them, or none if the workspace changed the same files
meanwhile. Text files are merged if both changed different lines. Commits of the branch move the refs of the
workspace, or are saved below refs/toolhost for git merge if the workspace has new commits, too. With paths,
only the changes of these paths are applied, and the others stay in the branch. The earlier versions of the
files are kept, so that toolhost branch revert can undo the apply.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return with(s, func(b *admin.Branches) error {
				opts.Paths = args[1:]
				out, err := b.Apply(c.Context(), args[0], opts)
				if err != nil {
					return err
				}
				return printOutcome(s, out, "Applied", args[0])
			})
		},
	}
	c.Flags().StringArrayVar(&opts.Ours, "ours", nil, "`path` with a conflict that gets the content of the branch")
	c.Flags().BoolVar(&opts.StopJobs, "stop-jobs", false, "end the background jobs that run in the branch")
	c.Flags().StringArrayVar(&opts.Theirs, "theirs", nil, "`path` with a conflict that keeps the content of the workspace")
	return c
}

func printOutcome(s *globals.Settings, out *admin.BranchOutcome, verb, name string) error {
	if s.JSON {
		return screen.PrintJSON(s.Out, out)
	}
	printChanges(s.Out, out.Changes)
	if len(out.Changes)+len(out.GivenUp) == 0 {
		fmt.Fprintf(s.Out, "The branch %s has nothing to apply.\n", name)
	} else {
		fmt.Fprintf(s.Out, "%s %s of the branch %s.\n", verb, screen.Count(len(out.Changes), "change"), name)
	}
	if len(out.GivenUp) > 0 {
		what := "The workspace is kept at these paths, and the branch no longer changes them:"
		if verb != "Applied" {
			what = "The branch changes these paths again, and the workspace is as before:"
		}
		fmt.Fprintln(s.Out, what)
		printChanges(s.Out, out.GivenUp)
	}
	if len(out.Left) > 0 {
		fmt.Fprintf(s.Out, "Left in the branch (%s):\n", screen.Count(len(out.Left), "change"))
		printChanges(s.Out, out.Left)
	}
	for _, n := range out.Notes {
		fmt.Fprintln(s.Out, screen.Printable(n))
	}
	if verb == "Applied" && len(out.Changes)+len(out.GivenUp) > 0 {
		fmt.Fprintf(s.Out, "To take it back: toolhost branch revert %s\n", name)
	}
	return nil
}

func newRevert(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "revert NAME",
		Short: "Undo the last apply of a branch",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return with(s, func(b *admin.Branches) error {
				out, err := b.Revert(c.Context(), args[0])
				if err != nil {
					return err
				}
				return printOutcome(s, out, "Took back", args[0])
			})
		},
	}
}

func newDiscard(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "discard NAME",
		Short: "Remove a branch with all its changes",
		Long: `Remove a branch with all its changes. The workspace stays unchanged. Changes that were applied stay in the
workspace, but can no longer be reverted.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return with(s, func(b *admin.Branches) error {
				if err := b.Discard(c.Context(), args[0]); err != nil {
					return err
				}
				if s.JSON {
					return screen.PrintJSON(s.Out, map[string]string{"discarded": args[0]})
				}
				fmt.Fprintf(s.Out, "The branch %s was discarded.\n", args[0])
				return nil
			})
		},
	}
}

func newAccept(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "accept NAME",
		Short: "Recover a branch after a machine crash",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return with(s, func(b *admin.Branches) error { return b.Accept(args[0]) })
		},
	}
}
