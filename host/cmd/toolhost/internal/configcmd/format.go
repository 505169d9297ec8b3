package configcmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/toolhost/internal/cli"
)

// maxFormatted is the maximum size of a formatted file, in bytes.
const maxFormatted = 16 << 20

type formatFlags struct{ check, diff bool }

func newConfigFormat(s *cli.Settings) *cobra.Command {
	var f formatFlags
	c := &cobra.Command{
		Use:   "fmt [FILE]...",
		Short: "Write the configuration in the usual form",
		Long: `Write files of the configuration in the usual form, and print the names of those that changed.
Without names, all files of the configuration in HCL's native syntax. "-" reads standard
input and writes standard output. Exit status 2 when a file is not HCL; the others are
formatted all the same.`,
		RunE: func(_ *cobra.Command, names []string) error {
			if len(names) == 0 {
				var err error
				if names, err = admin.Files(admin.FindConfig(s.Config)); err != nil {
					return err
				}
			}
			return f.run(names)
		},
	}
	c.Flags().BoolVar(&f.check, "check", false, "write nothing; exit status 1 when a file is not in the usual form")
	c.Flags().BoolVar(&f.diff, "diff", false, "write nothing but what would change to standard output; with standard input, too")
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
		return cli.ExitError(cli.ExitFailure)
	}
	return nil
}

// format formats one file. The result "changed" reports whether the content changed.
func (f formatFlags) format(name string) (changed bool, err error) {
	stdin := name == "-"
	var src []byte
	if stdin {
		name = "<stdin>"
		src, err = readFormatted(os.Stdin)
	} else {
		src, err = readFile(name)
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
		return changed, showSource(diff.Diff(name, src, name+" (formatted)", out))
	}
	switch {
	case stdin && !f.check:
		return changed, showSource(out)
	case !changed:
		return false, nil
	case !f.check:
		if err := replaceFile(name, out); err != nil {
			return true, fmt.Errorf("%s cannot be written, so it is unchanged: %w", name, err)
		}
	}
	_, err = fmt.Println(cli.Printable(name))
	return changed, err
}

// showSource prints the content of a file. For a terminal, it replaces control characters. For any other output, it
// prints the exact bytes, because a program can use them as a patch or as a file.
func showSource(b []byte) error {
	if term.IsTerminal(int(os.Stdout.Fd())) {
		b = []byte(cli.Clean(string(b)))
	}
	_, err := os.Stdout.Write(b)
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

// replaceFile replaces the content of a file atomically, because a running host can watch the file. If the path is a
// symbolic link, it replaces the target of the link.
func replaceFile(name string, content []byte) error {
	name, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	st, err := os.Stat(name)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".toolhost-fmt-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // it has been renamed
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(st.Mode().Perm()), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
