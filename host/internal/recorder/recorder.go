// Package recorder records calls on tapes. Most callers want [Recorder.Of] and [Start].
//
// [Start] makes a tape and listens on a socket in the state directory. Each host process with this state directory
// sends the calls of the recorded session to the socket. Therefore each tape has only one writer, even if many
// processes serve the session. The recording ends when the process that started it ends.
package recorder

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"toolhost.dev/sdk/tape"
)

// socketOf returns the path of the socket for the recording of a session.
func socketOf(dir, session string) string {
	h := sha256.Sum256([]byte(session))
	return filepath.Join(dir, hex.EncodeToString(h[:8])+".sock")
}

// These are the kinds of messages to the process that records.
const (
	kindSession = "session"
	kindTool    = "tool"
	kindCall    = "call"
)

// message is a message to the process that records. Each message is a JSON object in one line. The answer is an object
// with an error.
type message struct {
	Kind  string          `json:"kind"`
	Value json.RawMessage `json:"value"`
}

type answer struct {
	Error string `json:"error,omitempty"`
}

// Recorder finds the recordings of sessions. It is safe for concurrent use.
type Recorder struct {
	// Dir is the directory with the sockets of recordings.
	Dir string
	Log *slog.Logger

	mu   sync.Mutex
	open map[string]*Recording

	own own
}

// Of returns the recording of a session, or nil if the session is not recorded.
func (r *Recorder) Of(session string) *Recording {
	if r.Dir == "" {
		return nil
	}
	path := socketOf(r.Dir, session)
	st, err := os.Lstat(path)
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.open[session]
	if err != nil {
		if old != nil {
			old.close()
			delete(r.open, session)
		}
		return nil
	}
	if old != nil && os.SameFile(old.socket, st) && old.socket.ModTime().Equal(st.ModTime()) { // a new socket can get the old number
		if old.failed() {
			return nil
		}
		return old
	}
	c, err := net.DialTimeout("unix", path, dialTimeout)
	if err != nil {
		return nil // the process of a killed recording leaves its socket
	}
	if old != nil {
		old.close()
	}
	if r.open == nil {
		r.open = make(map[string]*Recording)
	}
	rec := &Recording{
		conn: c, in: json.NewDecoder(c), out: json.NewEncoder(c), socket: st, log: r.Log, sent: make(map[string]bool),
	}
	r.open[session] = rec
	return rec
}

// Close ends the recordings that [Recorder.Begin] began, and the connections to the recordings of other processes.
func (r *Recorder) Close() {
	r.endAll()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rec := range r.open {
		rec.close()
	}
	r.open = nil
}

const (
	dialTimeout = time.Second
	// writeTimeout is the maximum time for one message. A recording that does not answer must not stop the session.
	writeTimeout = 10 * time.Second
)

// Recording is the recording of a session. It is safe for concurrent use.
type Recording struct {
	socket os.FileInfo
	log    *slog.Logger

	mu   sync.Mutex
	conn net.Conn
	in   *json.Decoder
	out  *json.Encoder
	sent map[string]bool // the session and the tools that were sent
	err  error
}

func (r *Recording) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err != nil
}

func (r *Recording) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.conn.Close() // only a connection
}

// Session sends the state of the session, unless it was sent before. The function "state" returns the state to send.
func (r *Recording) Session(id string, state func() (tape.Session, error)) {
	r.once(kindSession+" "+id, kindSession, func() (any, error) { return state() })
}

// Tool sends a tool, unless the tool was sent before. The argument "definition" is the hash of the tool's definition.
func (r *Recording) Tool(definition string, t tape.Tool) {
	r.once(kindTool+" "+t.FullName()+" "+definition, kindTool, func() (any, error) { return t, nil })
}

func (r *Recording) once(key, kind string, value func() (any, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sent[key] || r.err != nil {
		return
	}
	v, err := value()
	if err == nil {
		err = r.send(kind, v)
	}
	r.sent[key] = true
	r.fail(err)
}

// Call sends a call. After an error, it sends no more calls, because a tape with a gap could not be replayed.
func (r *Recording) Call(c tape.Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.fail(r.send(kindCall, c))
	}
}

func (r *Recording) fail(err error) {
	if err == nil || r.err != nil {
		return
	}
	r.err = err
	r.log.Warn("a session is no longer recorded, and its calls go on", "error", err)
	_ = r.conn.Close() // this informs the recording of the failure
}

func (r *Recording) send(kind string, value any) error {
	b, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if err := r.conn.SetDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if err := r.out.Encode(message{Kind: kind, Value: b}); err != nil {
		return fmt.Errorf("the process that records the session does not answer: %w", err)
	}
	var a answer
	if err := r.in.Decode(&a); err != nil {
		return fmt.Errorf("the process that records the session does not answer: %w", err)
	}
	if a.Error != "" {
		return fmt.Errorf("the tape cannot be written: %s", a.Error)
	}
	return nil
}
