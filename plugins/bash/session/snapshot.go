package session

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strings"
)

// Snapshot is the state that a shell reported at its end; see [Texts].
type Snapshot struct {
	// Cwd is the working directory as the shell names it. Cwd is not part of the state.
	Cwd string
	// Options is the value of $SHELLOPTS, and Shopts is the value of $BASHOPTS. Colons separate the elements of both
	// lists.
	Options, Shopts string
	// Dirs is the directory stack below the working directory.
	Dirs []string
	// Umask is the file mode mask in octal.
	Umask string
	// Variables, Functions and FunctionFlags contain the output of declare -p, declare -f and declare -F.
	Variables, Functions, FunctionFlags string
}

// Restored is the text that the shell writes when it has run the state's script completely.
const Restored = "R"

// The markers at the beginning and the end of the dump.
const (
	dumpBegin = "D"
	dumpEnd   = "E"
)

// Errors of [Parse].
var (
	// ErrNotRestored means that the shell did not run the state's script completely.
	ErrNotRestored = errors.New("session: the shell could not restore the state")
	// ErrNoDump means that the shell ended without a dump.
	ErrNoDump = errors.New("session: the shell ended without reporting its state")
	// ErrDump means that the dump is incomplete or malformed.
	ErrDump = errors.New("session: the shell reported only a part of its state")
)

// Parse parses the report of a shell. If the error is ErrDump, the snapshot can still contain Cwd.
func Parse(b []byte) (*Snapshot, error) {
	f := fields(strings.Split(string(b), "\x00"))
	switch {
	case f.next() != Restored:
		return nil, ErrNotRestored
	case f.next() != dumpBegin:
		return nil, ErrNoDump
	}
	s := &Snapshot{Options: f.next(), Shopts: f.next()}
	if dir := strings.TrimSuffix(f.next(), "\n"); strings.HasPrefix(dir, "/") {
		s.Cwd = dir
	}
	if s.Dirs = f.list(); len(s.Dirs) > 0 {
		s.Dirs = s.Dirs[1:] // the first element is the working directory
	}
	s.Umask = strings.TrimSpace(f.next())
	stuck := strings.Fields(f.next())
	s.Variables, s.Functions, s.FunctionFlags = f.next(), f.next(), f.next()
	s.Functions, s.FunctionFlags = dropNotFound(s.Functions, s.FunctionFlags)
	if f.next() != dumpEnd || s.Cwd == "" || !octal.MatchString(s.Umask) {
		return &Snapshot{Cwd: s.Cwd}, ErrDump
	}
	s.Variables = dropDeclarations(s.Variables, func(flags, name string) bool {
		return slices.Contains(notKept, name) && !strings.Contains(flags, "r") // the session made it read-only
	})
	for _, name := range stuck {
		s.Variables = dropReadonly(s.Variables, name)
	}
	return s, nil
}

var octal = regexp.MustCompile(`^[0-7]{1,5}$`)

// dropReadonly removes the declaration of a read-only variable. The variable is local to a function, but the shell
// could not unset it.
func dropReadonly(declarations, name string) string {
	var kept bytes.Buffer
	for line := range strings.Lines(declarations) {
		if flags, rest, _ := strings.Cut(strings.TrimPrefix(line, "declare -"), " "); strings.HasPrefix(line,
			"declare -") && strings.Contains(flags, "r") {
			if n, _, _ := strings.Cut(strings.TrimSuffix(rest, "\n"), "="); n == name {
				continue
			}
		}
		kept.WriteString(line)
	}
	return kept.String()
}
