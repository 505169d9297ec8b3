package configcmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
	"toolhost.dev/sdk/durable"
)

// maxFormatted is the maximum size of a formatted file, in bytes.
const maxFormatted = 16 << 20

type formatFlags struct {
	check, diff bool
	stdio       process.Stdio
}

func newConfigFormat(s *globals.Settings) *cobra.Command {
	f := formatFlags{stdio: s.Stdio}
	c := &cobra.Command{
		Use:   "fmt [FILE]...",
		Short: "Format the files of the configuration",
		Long: `Format files of the configuration, and print the names of the files that changed. Without
names, format all files of the configuration in HCL's native syntax. "-" reads standard
input and writes standard output. The exit status is 2 if a file is not HCL; the other files
are still formatted.`,
		RunE: func(_ *cobra.Command, names []string) error {
			if len(names) == 0 {
				var err error
				if names, err = admin.Files(s.Options().Config); err != nil {
					return err
				}
			}
			return f.run(names)
		},
	}
	c.Flags().BoolVar(&f.check, "check", false, "write nothing; exit status 1 if a file is not formatted")
	c.Flags().BoolVar(&f.diff, "diff", false, "write no file, and print the changes to standard output; also for standard input")
	return c
}

func (f formatFlags) run(names []string) error {
	var errs []error
	other := false
	for _, name := range names {
		changed, err := f.format(name)
		errs = append(errs, err)
		other = other || changed
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if other && f.check {
		return process.ExitError(process.ExitFailure)
	}
	return nil
}

// format formats one file. The result "changed" reports whether the content changed.
func (f formatFlags) format(name string) (changed bool, err error) {
	stdin := name == "-"
	var src []byte
	if stdin {
		name = "<stdin>"
		src, err = readFormatted(f.stdio.In)
	} else {
		src, err = readFile(f.stdio.Path(name))
	}
	if err != nil {
		return false, fmt.Errorf("%s cannot be read: %w", name, err)
	}
	if strings.HasSuffix(name, ".json") {
		return false, fmt.Errorf("%s is JSON, and only HCL's native syntax is formatted: use a formatter for JSON", name)
	}
	out, err := admin.Format(name, src)
	if err != nil {
		return false, err
	}
	changed = !bytes.Equal(src, out)
	if f.diff {
		return changed, showSource(f.stdio.Out, diff.Diff(name, src, name+" (formatted)", out))
	}
	switch {
	case stdin && !f.check:
		return changed, showSource(f.stdio.Out, out)
	case !changed:
		return false, nil
	case !f.check:
		if err := durable.Update(f.stdio.Path(name), out); err != nil {
			return true, fmt.Errorf("%s cannot be written, so it is unchanged: %w", name, err)
		}
	}
	_, err = fmt.Fprintln(f.stdio.Out, screen.Printable(name))
	return changed, err
}

// showSource prints the content of a file. For a terminal, it replaces control characters. For any other output, it
// prints the exact bytes, because a program can use them as a patch or as a file.
func showSource(w io.Writer, b []byte) error {
	if screen.IsTerminal(w) {
		b = []byte(screen.Clean(string(b)))
	}
	_, err := w.Write(b)
	return err
}

func readFile(name string) ([]byte, error) {
	st, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	return readFormatted(f)
}

func readFormatted(r io.Reader) ([]byte, error) {
	src, err := io.ReadAll(io.LimitReader(r, maxFormatted+1))
	if err == nil && len(src) > maxFormatted {
		err = fmt.Errorf("it is larger than %d MiB", maxFormatted>>20)
	}
	return src, err
}
