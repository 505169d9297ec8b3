// Package tapecmd implements the commands that record calls on tapes and replay them.
package tapecmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/screen"
	"toolhost.dev/host/recording"
)

// NewRecord returns the command "toolhost record".
func NewRecord(s *globals.Settings) *cobra.Command {
	r := recording.Settings{}
	var size int64
	c := &cobra.Command{
		Use:   "record --output TAPE",
		Short: "Record a session on a tape",
		Long: `Record a session on a tape until Ctrl-C or SIGTERM, in whichever host processes they
run. The tape begins with the files of the workspace, so that toolhost replay can run the calls
again on a copy of it. Files that tools must not read are left out, and secrets in arguments and
results are masked as in the audit log. Other files are recorded as they are.`,
		Example: `  toolhost record --session review -o /tmp/review.tape --exclude node_modules
  toolhost replay /tmp/review.tape`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if r.Path == "" {
				return errors.New("name the tape: --output FILE")
			}
			r.Path, r.Session, r.MaxBytes = s.Path(r.Path), s.Session, size<<20
			return record(c, s, r)
		},
	}
	c.Flags().StringVarP(&r.Path, "output", "o", "", "the `file` to write, outside of the workspace")
	c.Flags().StringArrayVar(&r.Exclude, "exclude", nil, "leave out files of the workspace that match a `glob`, such as node_modules")
	c.Flags().Int64Var(&size, "max-size", recording.DefaultMaxBytes>>20, "maximum size of the workspace, in `MiB`")
	return c
}

func record(c *cobra.Command, s *globals.Settings, r recording.Settings) error {
	rec, err := recording.Record(s.Options(), r)
	if err != nil {
		return err
	}
	session := "the workspace's default session"
	if r.Session != "" {
		session = "session " + r.Session
	}
	fmt.Fprintf(s.Err, "recording %s to %s; Ctrl-C ends it\n", session, r.Path)
	terminated := s.Signals.Terminated()
	var failed error
	select {
	case <-c.Context().Done():
	case <-terminated:
	case failed = <-rec.Failed():
	}
	counts, err := rec.End()
	if err := errors.Join(failed, err); err != nil {
		return fmt.Errorf("the recording failed, and the tape cannot be replayed: %w", err)
	}
	if s.JSON {
		return screen.PrintJSON(s.Out, counts)
	}
	left := ""
	if len(counts.LeftOut) > 0 {
		left = "; left out: " + strings.Join(counts.LeftOut, ", ")
	}
	fmt.Fprintf(s.Out, "%s: %s, %s of the workspace%s\n", r.Path, screen.Count(counts.Calls, "call"),
		screen.Count(counts.Files, "file"), screen.Printable(left))
	return nil
}
