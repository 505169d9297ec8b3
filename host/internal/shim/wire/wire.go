// Package wire is what a shim and the host say to each other. It imports next to
// nothing, because a shim is started for every use.
//
// The shim sends one request. The host answers with frames until the exit frame; in
// between it may ask for standard input, which the shim then sends as frames of its own,
// an empty one at the end.
package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"strings"
)

// Kind of a frame.
type Kind byte

// The kinds.
const (
	Stdout Kind = iota + 1
	Stderr
	Exit      // one byte: the exit status
	WantStdin // the host waits for standard input
	Stdin     // a piece of it; empty: the end
)

// MaxRequest bounds a request, MaxFrame a frame, in bytes.
const (
	MaxRequest = 8 << 20
	MaxFrame   = 64 << 10
)

// ErrTooLong is given for what is larger than it may be.
var ErrTooLong = errors.New("shim: the message is too long")

// Request is one use of a shim.
type Request struct {
	// Token of the call that the command belongs to.
	Token string
	// Name by which the shim was called, such as "tool:read".
	Name string
	Cwd  string
	// Stdin is what standard input is: see the constants.
	Stdin string
	Args  []string
}

// What standard input can be. Of anything else, such as a terminal or /dev/null, nothing is
// wanted.
const (
	Piped = "pipe" // somebody may be writing to it
	Given = "file" // as by a redirect or a heredoc
)

// WriteRequest sends a request.
func WriteRequest(w io.Writer, r Request) error {
	// Neither arguments nor paths can have a NUL byte.
	payload := strings.Join(append([]string{r.Token, r.Name, r.Cwd, r.Stdin}, r.Args...), "\x00")
	if len(payload) > MaxRequest {
		return ErrTooLong
	}
	b := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(payload)), uint32(len(payload)))
	_, err := w.Write(append(b, payload...))
	return err
}

// ReadRequest receives a request.
func ReadRequest(r io.Reader) (Request, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Request{}, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > MaxRequest {
		return Request{}, ErrTooLong
	}
	payload := make([]byte, n)
	if _, err := io.ReadFull(r, payload); err != nil {
		return Request{}, err
	}
	f := strings.Split(string(payload), "\x00")
	if len(f) < 4 {
		return Request{}, errors.New("shim: the request is incomplete")
	}
	return Request{Token: f[0], Name: f[1], Cwd: f[2], Stdin: f[3], Args: f[4:]}, nil
}

// WriteFrame sends one frame; payload has at most MaxFrame bytes.
func WriteFrame(w io.Writer, k Kind, payload []byte) error {
	b := make([]byte, 0, 5+len(payload))
	b = binary.BigEndian.AppendUint32(append(b, byte(k)), uint32(len(payload)))
	_, err := w.Write(append(b, payload...))
	return err
}

// ReadFrame receives one frame into buf, which it grows when it must. The payload is
// good until the next use of buf.
func ReadFrame(r io.Reader, buf *[]byte) (Kind, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := int(binary.BigEndian.Uint32(head[1:]))
	if n > MaxFrame {
		return 0, nil, ErrTooLong
	}
	if cap(*buf) < n {
		*buf = make([]byte, MaxFrame)
	}
	payload := (*buf)[:n]
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, err
	}
	return Kind(head[0]), payload, nil
}
