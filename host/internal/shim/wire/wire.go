// Package wire implements the protocol between a shim and the host. It has few imports, because every use of a tool
// starts a new shim.
//
// The shim sends one request. The host answers with frames, and the exit frame is the last. The host can also request
// standard input, which the shim then sends in frames. An empty frame marks its end.
package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"strings"
)

// Kind is the kind of a frame.
type Kind byte

// The kinds of frames.
const (
	Stdout Kind = iota + 1
	Stderr
	Exit      // contains one byte, the exit status
	WantStdin // requests standard input
	Stdin     // contains a part of standard input; empty at the end
)

// MaxRequest and MaxFrame limit the size of a request and of a frame, in bytes.
const (
	MaxRequest = 8 << 20
	MaxFrame   = 64 << 10
)

// ErrTooLong means that a request or a frame exceeds its maximum size.
var ErrTooLong = errors.New("shim: the message is too long")

// Request describes one use of a shim.
type Request struct {
	// Token identifies the call to which the command belongs.
	Token string
	// Name is the program name with which the shim was started, such as "tool:read".
	Name string
	Cwd  string
	// Stdin is the kind of standard input: [Piped], [Given] or empty.
	Stdin string
	Args  []string
}

// The kinds of standard input. The host does not read any other kind, such as a terminal or /dev/null.
const (
	Piped = "pipe" // another process can still write to the pipe
	Given = "file" // for example from a redirect or a heredoc
)

// WriteRequest sends a request.
func WriteRequest(w io.Writer, r Request) error {
	// The NUL byte is a safe separator, because neither arguments nor paths can contain it.
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

// WriteFrame sends one frame. The payload must have at most MaxFrame bytes.
func WriteFrame(w io.Writer, k Kind, payload []byte) error {
	b := make([]byte, 0, 5+len(payload))
	b = binary.BigEndian.AppendUint32(append(b, byte(k)), uint32(len(payload)))
	_, err := w.Write(append(b, payload...))
	return err
}

// ReadFrame receives one frame into buf and grows buf if needed. The payload is valid until the next use of buf.
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
