package recorder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"toolhost.dev/sdk/tape"
)

// Settings configures a recording.
type Settings struct {
	// Dir is the directory with the sockets of recordings.
	Dir string
	// Session is the key of the session.
	Session string
	// Path is the tape. The file must not exist.
	Path string
	// Host is the version of this program.
	Host string
	// Workspace is the root of the session, whose files the tape contains.
	Workspace string
	// Snapshot describes the files of the workspace that the tape contains. If it is nil, the tape contains no files.
	Snapshot *Snapshot
}

// Tape is a running recording.
type Tape struct {
	path     string
	file     *os.File
	listener *net.UnixListener
	failed   chan error

	mu     sync.Mutex
	writer *tape.Writer
	known  map[string]bool
	ended  bool
	counts Counts
	all    sync.WaitGroup
	conns  map[net.Conn]bool
}

// Counts describes the content of a tape.
type Counts struct {
	Calls int `json:"calls"`
	Files int `json:"files"`
	// LeftOut describes the files that the tape does not contain.
	LeftOut []string `json:"left_out,omitempty"`
}

// Start makes a tape with the files of the workspace, and begins to record the calls of a session. It returns an error
// if the session is already recorded, or if the workspace is too large. The caller must call [Tape.End].
func Start(s Settings) (*Tape, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	path := socketOf(s.Dir, s.Session)
	if c, err := net.DialTimeout("unix", path, dialTimeout); err == nil {
		return nil, errors.Join(errors.New("the session is already recorded. End the other toolhost record first"), c.Close())
	}
	_ = os.Remove(path) // remove the socket of a recording that was killed
	files, left, err := s.Snapshot.list()
	if err != nil {
		return nil, err
	}
	out, err := os.OpenFile(s.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		if errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("%s exists. Name another file, or remove it", s.Path)
		}
		return nil, err
	}
	t := &Tape{path: s.Path, file: out, failed: make(chan error, 1), known: make(map[string]bool),
		conns: make(map[net.Conn]bool)}
	t.counts.LeftOut = left
	if err := t.begin(s, files, path); err != nil {
		return nil, errors.Join(err, out.Close(), os.Remove(s.Path))
	}
	t.all.Go(t.accept)
	return t, nil
}

func (t *Tape) begin(s Settings, files []file, socket string) (err error) {
	header := tape.Header{Host: s.Host, Workspace: s.Workspace, Began: time.Now().UTC(), LeftOut: t.counts.LeftOut}
	if t.writer, err = tape.Create(t.file, header); err != nil {
		return err
	}
	for _, f := range files {
		if err := f.add(t.writer); err != nil {
			return err
		}
		t.counts.Files++
	}
	t.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return err
	}
	return os.Chmod(socket, 0o600)
}

// Failed reports an error that ended the recording, such as a full disk.
func (t *Tape) Failed() <-chan error { return t.failed }

// End completes the tape. The tape does not contain calls that are still running.
func (t *Tape) End() (Counts, error) {
	_ = t.listener.Close() // also removes the socket
	t.mu.Lock()
	t.ended = true
	err := errors.Join(t.writer.End(), t.file.Sync(), t.file.Close())
	counts := t.counts
	for c := range t.conns {
		_ = c.Close() // only a connection
	}
	t.mu.Unlock()
	t.all.Wait()
	if err != nil {
		return counts, fmt.Errorf("the tape %s is not complete: %w", filepath.Base(t.path), err)
	}
	return counts, nil
}

func (t *Tape) accept() {
	for {
		c, err := t.listener.Accept()
		if err != nil {
			return
		}
		t.mu.Lock()
		if t.ended {
			_ = c.Close() // only a connection
		}
		t.conns[c] = true
		t.mu.Unlock()
		t.all.Go(func() { t.serve(c) })
	}
}

// serve writes the messages of one host to the tape.
func (t *Tape) serve(c net.Conn) {
	defer func() {
		t.mu.Lock()
		delete(t.conns, c)
		t.mu.Unlock()
		_ = c.Close() // only a connection
	}()
	in, out := json.NewDecoder(c), json.NewEncoder(c)
	for {
		var m message
		if err := in.Decode(&m); err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				t.fail(fmt.Errorf("a host sent a message that cannot be read: %w", err))
			}
			return
		}
		var a answer
		if err := t.add(m); err != nil {
			a.Error = err.Error()
			t.fail(err)
		}
		if out.Encode(a) != nil {
			return
		}
	}
}

func (t *Tape) fail(err error) {
	select {
	case t.failed <- err:
	default: // only the first error counts
	}
}

// add writes a message to the tape.
func (t *Tape) add(m message) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return errors.New("the recording has ended")
	}
	switch m.Kind {
	case kindSession:
		return addOnce(t, m, func(s tape.Session) string { return "session " + s.ID }, t.writer.AddSession)
	case kindTool:
		return addOnce(t, m, func(v tape.Tool) string { return "tool " + v.FullName() + tape.Hash(&v.Definition) },
			t.writer.AddTool)
	case kindCall:
		var c tape.Call
		if err := json.Unmarshal(m.Value, &c); err != nil {
			return err
		}
		t.counts.Calls++
		return t.writer.AddCall(c)
	}
	return nil // of a later version
}

// addOnce writes an entry that several hosts can send.
func addOnce[T any](t *Tape, m message, key func(T) string, add func(T) error) error {
	var v T
	if err := json.Unmarshal(m.Value, &v); err != nil {
		return err
	}
	k := key(v)
	if t.known[k] {
		return nil
	}
	t.known[k] = true
	return add(v)
}
