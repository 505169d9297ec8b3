// Package review shows file changes as a diff and asks the user before the files are written. See [Apply].
package review

import (
	"errors"
	"fmt"
	"os"
	"regexp"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"toolhost.dev/host/agent"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

// Options contains the flags of a command that writes files.
type Options struct {
	// Yes permits writing without a question. Dry prevents writing.
	Yes, Dry bool
}

// AddTo adds the flags to a command.
func (o *Options) AddTo(c *cobra.Command) {
	c.Flags().BoolVar(&o.Yes, "yes", false, "write without asking")
	c.Flags().BoolVar(&o.Dry, "dry-run", false, "show the changes and write nothing")
}

// token matches a literal token in a header. Apply hides such tokens in the diff.
var token = regexp.MustCompile(`(Bearer )[A-Za-z0-9._~+/=-]{8,}`)

// Apply shows the changes. If the flags and the user permit the changes, it calls write. If a question is required but
// there is no terminal, it returns an error.
func Apply(s process.Stdio, changes []*agent.Change, o Options, write func() error) (written bool, err error) {
	out := screen.New(s.Out)
	for _, c := range changes {
		before, after := c.Path, c.Path
		if !c.Existed {
			before = os.DevNull
		}
		if c.After == nil {
			after = os.DevNull
		}
		if _, err := out.Write(token.ReplaceAll(diff.Diff(before, c.Before, after, c.After),
			[]byte("$1(token)"))); err != nil {
			return false, err
		}
	}
	switch {
	case o.Dry:
		fmt.Fprintln(s.Out, "Nothing was written (--dry-run).")
		return false, nil
	case o.Yes:
	case !screen.IsTerminal(s.In):
		return false, errors.New("there is no terminal to ask on, and nothing was written; review the changes and add --yes")
	default:
		if err := process.Confirm(s.In, s.Out, "Write these changes?", "Nothing was written."); err != nil {
			return false, err
		}
	}
	return true, write()
}
