// Package process contains what the commands share with the process in which they run: streams, environment and
// directory ([Stdio]), signals ([Signals]), and exit statuses ([ExitError]).
package process

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
)

// Stdio is what a command reads and writes, and its environment. The zero value has an empty input and discards the
// output.
//
// Commands use the streams of Stdio, and the process only if that is unavoidable: the editor of a prompt needs the
// terminal of the process, and plugins inherit its environment. A host also reads the user's directories ($HOME and
// $XDG_STATE_HOME) and the variables that a configuration names from the environment of the process.
type Stdio struct {
	// A nil In means an empty input. A nil Out or Err means that this output is discarded.
	In       io.Reader
	Out, Err io.Writer
	// Env is the environment of the command, as NAME=VALUE. Nil means the environment of the process.
	Env []string
	// Dir is the absolute path of the directory to which relative paths refer. Empty means the directory of the
	// process.
	Dir string
	// Signals passes the signals of the process to the command. Nil means that no signal reaches it.
	Signals *Signals
}

// OfProcess returns the streams, the environment and the directory of the process.
func OfProcess() Stdio { return Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr} }

// Complete returns s with streams that can be used: an empty input and outputs that discard everything replace nil.
func (s Stdio) Complete() Stdio {
	if s.In == nil {
		s.In = strings.NewReader("")
	}
	if s.Out == nil {
		s.Out = io.Discard
	}
	if s.Err == nil {
		s.Err = io.Discard
	}
	return s
}

// LookupEnv returns the value of an environment variable, and whether the variable is set.
func (s Stdio) LookupEnv(name string) (string, bool) {
	if s.Env == nil {
		return os.LookupEnv(name)
	}
	for _, e := range slices.Backward(s.Env) {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// Getenv returns the value of an environment variable. It returns "" if the variable is not set.
func (s Stdio) Getenv(name string) string {
	value, _ := s.LookupEnv(name)
	return value
}

// Environ returns a copy of the environment.
func (s Stdio) Environ() []string {
	if s.Env == nil {
		return os.Environ()
	}
	return slices.Clone(s.Env)
}

// Setenv sets an environment variable for the rest of the command.
func (s *Stdio) Setenv(name, value string) {
	if s.Env == nil {
		_ = os.Setenv(name, value) // ignore the error: the names have no "="
		return
	}
	s.Unsetenv(name)
	s.Env = append(s.Env, name+"="+value)
}

// Unsetenv removes an environment variable, so that programs that the command starts do not inherit it.
func (s *Stdio) Unsetenv(name string) {
	if s.Env == nil {
		_ = os.Unsetenv(name) // ignore the error: the names are valid
		return
	}
	s.Env = slices.DeleteFunc(slices.Clone(s.Env), func(e string) bool { return strings.HasPrefix(e, name+"=") })
}

// HomeDir returns the home directory of the user.
func (s Stdio) HomeDir() (string, error) {
	if s.Env == nil {
		return os.UserHomeDir()
	}
	home, ok := s.LookupEnv("HOME")
	if !ok {
		return "", errors.New("$HOME is not set")
	}
	return home, nil
}

// WorkDir returns the directory to which relative paths refer.
func (s Stdio) WorkDir() (string, error) {
	if s.Dir != "" {
		return s.Dir, nil
	}
	return os.Getwd()
}

// Path resolves a path of the command line. An empty path stays empty.
func (s Stdio) Path(path string) string {
	if path == "" || s.Dir == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(s.Dir, path)
}

// These are the exit statuses of the program. If a native command fails, the exit status is the status of the command.
const (
	ExitOK      = 0
	ExitFailure = 1 // a tool failed
	ExitUsage   = 2 // the command line or the configuration is invalid
)

// ExitError ends the program with the given status. The caller must print the error message itself.
type ExitError int

// Error implements error.
func (e ExitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// Confirm prints a question and reads the answer of a person. If the answer is not yes, Confirm prints what that means,
// and returns [ExitFailure].
func Confirm(in io.Reader, out io.Writer, question, otherwise string) error {
	fmt.Fprint(out, question+" [y/N] ")
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		fmt.Fprintln(out, otherwise)
		return ExitError(ExitFailure)
	}
	return nil
}

// ExitStatus returns the exit status for a result, as an error. For a native command, this is the exit status from the
// shell.
func ExitStatus(res *host.Result) error {
	switch {
	case res.Success():
		return nil
	case res.Run.Role == tool.RoleShell && res.Error.Code > 0 && res.Error.Code < 256:
		return ExitError(res.Error.Code)
	}
	return ExitError(ExitFailure)
}
