package session

import (
	"bytes"
	"errors"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
)

// State is what the next shell of a session starts from. The zero value is a new
// session.
type State struct {
	// Base is the environment that the last shell was started with, NAME=VALUE. It
	// tells what the user changed from what was given.
	Base []string
	// Login is the environment of the user's login shell, once it was asked for.
	Login *[]string
	// Last is the exit status of the last command.
	Last int
	// Snapshot is what the last shell said of itself; nil if none did.
	Snapshot *Snapshot
}

// Defines reports whether the session has a function of that name.
func (s *State) Defines(name string) bool {
	return s.Snapshot != nil && strings.Contains("\n"+s.Snapshot.Functions, "\n"+name+" ()")
}

const magic = "toolhost-bash-session-2"

// ErrState is given for bytes that [State.Encode] did not make.
var ErrState = errors.New("session: the state is not in a form that is known here")

// Encode returns the state as bytes. Nothing in it has a NUL byte: the shell has none.
func (s *State) Encode() []byte {
	f := []string{magic, strconv.Itoa(s.Last), strconv.Itoa(len(s.Base))}
	f = append(f, s.Base...)
	if s.Login == nil {
		f = append(f, "")
	} else {
		f = append(append(f, "login", strconv.Itoa(len(*s.Login))), *s.Login...)
	}
	if n := s.Snapshot; n != nil {
		f = append(f, n.Options, n.Umask, n.Shopts, n.Variables, n.Functions, n.FunctionFlags, strconv.Itoa(len(n.Dirs)))
		f = append(f, n.Dirs...)
	}
	b := strings.Join(append(f, magic), "\x00")
	return []byte(b + "\x00" + checksum(b))
}

// Decode returns the state that Encode made bytes of. No bytes are a new session.
func Decode(b []byte) (State, error) {
	if len(b) == 0 {
		return State{}, nil
	}
	text, sum, _ := cutLast(string(b), "\x00")
	f := fields(strings.Split(text, "\x00"))
	if f.next() != magic || sum != checksum(text) {
		return State{}, ErrState
	}
	s := State{Last: f.number(), Base: f.list()}
	switch f.next() {
	case "":
	case "login":
		login := f.list()
		s.Login = &login
	default:
		return State{}, ErrState
	}
	if len(f) > 1 {
		s.Snapshot = &Snapshot{Options: f.next(), Umask: f.next(), Shopts: f.next(), Variables: f.next(), Functions: f.next(), FunctionFlags: f.next(), Dirs: f.list()}
	}
	if len(f) != 1 || f.next() != magic {
		return State{}, ErrState
	}
	return s, nil
}

// SameButLast reports whether two encoded states, which are known to be whole, differ in
// the last status at most.
func SameButLast(a, b []byte) bool {
	return bytes.Equal(a, b) || bytes.Equal(withoutLast(a), withoutLast(b))
}

// withoutLast returns what is between the last status and the checksum.
func withoutLast(b []byte) []byte {
	for range 2 {
		_, b, _ = bytes.Cut(b, []byte{0})
	}
	return b[:max(0, bytes.LastIndexByte(b, 0))]
}

// checksum tells a state that was cut or changed on its way: it is run as commands.
func checksum(s string) string {
	return strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(s))), 16)
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// fields are taken off the front. One that is not there is empty, and then the end
// is not as it must be.
type fields []string

func (f *fields) next() string {
	if len(*f) == 0 {
		return ""
	}
	first := (*f)[0]
	*f = (*f)[1:]
	return first
}

func (f *fields) number() int {
	n, err := strconv.Atoi(f.next())
	if err != nil || n < 0 {
		*f = nil
		return 0
	}
	return n
}

func (f *fields) list() []string {
	n := f.number()
	if n > len(*f) {
		*f = nil
		return nil
	}
	items := slices.Clone((*f)[:n])
	*f = (*f)[n:]
	return items
}
