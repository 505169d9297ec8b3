package tapecmd

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
	"toolhost.dev/host/recording"
	"toolhost.dev/sdk/tape"
)

// NewReplay returns the command "toolhost replay".
func NewReplay(s *globals.Settings) *cobra.Command {
	var plugin string
	var keep bool
	c := &cobra.Command{
		Use:   "replay TAPE",
		Short: "Replay a tape and compare the results",
		Long: `Run the calls of a tape again, on a copy of the workspace that the tape contains, and compare the
results with the recorded ones. A result is equal; or equal but for masked parts, which are times,
temporary paths, and what the tool's definition declares to vary; or different. With --plugin, another
program serves a plugin, and only its calls are compared. Exit status 1 if a call differs.`,
		Example: `  toolhost replay review.tape
  toolhost replay review.tape --plugin grep=./bin/grep-next`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			r := recording.ReplayOptions{Keep: keep}
			if plugin != "" {
				var err error
				if r.Plugin, r.Binary, err = program(s, plugin); err != nil {
					return err
				}
			}
			out, err := recording.Replay(c.Context(), s.Options(), s.Path(args[0]), r)
			if err != nil {
				return err
			}
			if s.JSON {
				err = screen.PrintJSON(s.Out, out)
			} else {
				Summary(screen.New(s.Out), out)
			}
			if err == nil && !out.Same() {
				err = process.ExitError(process.ExitFailure)
			}
			return err
		},
	}
	c.Flags().StringVar(&plugin, "plugin", "", "compare only the calls of a plugin, and let another program serve it: `NAME=BINARY`, or BINARY")
	c.Flags().BoolVar(&keep, "keep", false, "keep the copy of the workspace and print its path")
	return c
}

// program splits the value of --plugin into the name of a plugin, which can be missing, and the absolute path of a
// program.
func program(s *globals.Settings, text string) (name, path string, err error) {
	name, path, named := strings.Cut(text, "=")
	if !named {
		name, path = "", text
	}
	if path, err = filepath.Abs(s.Path(path)); err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return "", "", fmt.Errorf("--plugin: %w", err)
	}
	return name, path, nil
}

// maxArguments is the maximum length of the arguments in a line of text.
const maxArguments = 100

// callText prints a call that differs, or that needs a remark.
func callText(w io.Writer, c recording.ReplayedCall) {
	if c.Verdict != tape.Different && c.Note == "" {
		return
	}
	args := c.Arguments
	if r := []rune(args); len(r) > maxArguments {
		args = string(r[:maxArguments]) + "…"
	}
	fmt.Fprintf(w, "%-9s %s %s\n", c.Verdict, screen.Printable(c.Tool), screen.Printable(args))
	if c.Note != "" {
		fmt.Fprintf(w, "          %s\n", c.Note)
	}
	for _, d := range c.Differences {
		fmt.Fprintf(w, "          %s\n            recorded %s\n            now      %s\n", screen.Printable(d.Part), screen.Printable(d.Want), screen.Printable(d.Got))
	}
}

// Summary prints the calls that differ, and the counts of a replay.
func Summary(w io.Writer, r *recording.Replayed) {
	for _, c := range r.Calls {
		callText(w, c)
	}
	fmt.Fprintf(w, "%d calls: %d equal, %d equal but for masked parts, %d different", len(r.Calls), r.Counts[tape.Equal], r.Counts[tape.Masked], r.Counts[tape.Different])
	if r.Skipped > 0 {
		fmt.Fprintf(w, "; %d not compared", r.Skipped)
	}
	fmt.Fprintln(w)
	if r.Workspace != "" {
		fmt.Fprintf(w, "workspace %s\n", r.Workspace)
	}
}
