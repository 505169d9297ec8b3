package session

import (
	"bytes"
	"errors"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
)

// State is the state with which the next shell of a session starts. The zero value is the state of a new session.
type State struct {
	// Base is the environment of the last shell, in the form NAME=VALUE. A comparison with Base shows which
	// variables the user changed.
	Base []string
	// Login contains the environment of the user's login shell. It is nil until that shell has run.
	Login *[]string
	// Last is the exit status of the last command.
	Last int
	// Snapshot is the state that the last shell reported. It can be nil.
	Snapshot *Snapshot
	// Withheld is set only in a state that [Vault.Seal] has encoded.
	Withheld Withheld
}

// Defines reports whether the session has a function with the given name.
func (s *State) Defines(name string) bool {
	return s.Snapshot != nil && strings.Contains("\n"+s.Snapshot.Functions, "\n"+name+" ()")
}

// withheldMark precedes the fields of Withheld in an encoded state. If the state has a Snapshot, the field $SHELLOPTS
// is at the same position, but its value is never withheldMark.
const withheldMark = "withheld"

const magic = "toolhost-bash-session-2"

// ErrState means that the bytes are not a result of [State.Encode].
var ErrState = errors.New("session: the format of the state is unknown")

// Encode encodes the state. NUL bytes separate the fields, because values in a shell cannot contain NUL bytes.
func (s *State) Encode() []byte {
	f := []string{magic, strconv.Itoa(s.Last), strconv.Itoa(len(s.Base))}
	f = append(f, s.Base...)
	if s.Login == nil {
		f = append(f, "")
	} else {
		f = append(append(f, "login", strconv.Itoa(len(*s.Login))), *s.Login...)
	}
	if n := s.Snapshot; n != nil {
		f = append(f, n.Options, n.Umask, n.Shopts, n.Variables, n.Functions, n.FunctionFlags,
			strconv.Itoa(len(n.Dirs)))
		f = append(f, n.Dirs...)
	}
	if w := s.Withheld; w.ID != "" {
		f = append(append(f, withheldMark, w.ID, strconv.Itoa(len(w.Names))), w.Names...)
	}
	b := strings.Join(append(f, magic), "\x00")
	return []byte(b + "\x00" + checksum(b))
}

// Decode decodes the result of Encode. Empty input means a new session.
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
	if len(f) > 1 && f[0] != withheldMark {
		s.Snapshot = &Snapshot{Options: f.next(), Umask: f.next(), Shopts: f.next(), Variables: f.next(),
			Functions: f.next(), FunctionFlags: f.next(), Dirs: f.list()}
	}
	if len(f) > 1 && f.next() == withheldMark {
		if s.Withheld = (Withheld{ID: f.next(), Names: f.list()}); s.Withheld.ID == "" {
			return State{}, ErrState
		}
	}
	if len(f) != 1 || f.next() != magic {
		return State{}, ErrState
	}
	return s, nil
}

// SameButLast reports whether two encoded states differ at most in the last status. The encoded states must be
// valid.
func SameButLast(a, b []byte) bool {
	return bytes.Equal(a, b) || bytes.Equal(withoutLast(a), withoutLast(b))
}

// withoutLast returns the bytes of an encoded state between the last status and the checksum.
func withoutLast(b []byte) []byte {
	for range 2 {
		_, b, _ = bytes.Cut(b, []byte{0})
	}
	return b[:max(0, bytes.LastIndexByte(b, 0))]
}

// checksum returns a checksum that detects truncated or changed states. The check is important because the state is
// executed as commands.
func checksum(s string) string {
	return strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(s))), 16)
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// fields contains the fields of a report that are not yet read. A missing field is read as an empty text. The
// missing end marker later reveals the error.
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
