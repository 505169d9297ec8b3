package session

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
)

// Snapshot is what a shell said of itself at its end; see [Dump].
type Snapshot struct {
	// Cwd is its working directory, as the shell names it. It is not in the state.
	Cwd string
	// Options is $SHELLOPTS, and Shopts is $BASHOPTS: names with colons between.
	Options, Shopts string
	// Dirs is the directory stack below the working directory.
	Dirs []string
	// Umask is in octal.
	Umask string
	// Variables, Functions and FunctionFlags are commands as printed by declare -p,
	// declare -f and declare -F.
	Variables, Functions, FunctionFlags string
}

// Restored is what the shell writes when it has run the state's script to its end.
const Restored = "R"

// The marks around the dump.
const (
	dumpBegin = "D"
	dumpEnd   = "E"
)

// Errors of [Parse].
var (
	// ErrNotRestored means that the shell did not get through the state's script.
	ErrNotRestored = errors.New("session: the shell could not restore the state")
	// ErrNoDump means that the shell ended without a dump.
	ErrNoDump = errors.New("session: the shell ended without reporting its state")
	// ErrDump means that the dump is not whole or not as expected.
	ErrDump = errors.New("session: what the shell told of its state is not complete")
)

// Parse reads what a shell wrote. With ErrDump the snapshot may still have the Cwd.
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
		s.Dirs = s.Dirs[1:] // the first is the working directory
	}
	s.Umask = strings.TrimSpace(f.next())
	stuck := strings.Fields(f.next())
	s.Variables, s.Functions, s.FunctionFlags = f.next(), f.next(), f.next()
	s.Functions, s.FunctionFlags = dropNotFound(s.Functions, s.FunctionFlags)
	if f.next() != dumpEnd || s.Cwd == "" || !octal.MatchString(s.Umask) {
		return &Snapshot{Cwd: s.Cwd}, ErrDump
	}
	for _, name := range stuck {
		s.Variables = dropReadonly(s.Variables, name)
	}
	return s, nil
}

var octal = regexp.MustCompile(`^[0-7]{1,5}$`)

// dropReadonly removes the declaration of the readonly variable name, which the
// shell found to be local to a function and could not unset.
func dropReadonly(declarations, name string) string {
	var kept bytes.Buffer
	for line := range strings.Lines(declarations) {
		if flags, rest, _ := strings.Cut(strings.TrimPrefix(line, "declare -"), " "); strings.HasPrefix(line, "declare -") && strings.Contains(flags, "r") {
			if n, _, _ := strings.Cut(strings.TrimSuffix(rest, "\n"), "="); n == name {
				continue
			}
		}
		kept.WriteString(line)
	}
	return kept.String()
}
