// Package shim lets the commands that a call starts call tools, as the programs
// "tool:NAME" and "field:NAMESPACE". Being programs they work wherever a command does: in
// pipelines, substitutions, under xargs and in scripts of any language.
//
// Each program is a link to a small binary, which connects to the host and names the
// call it belongs to by a token. The token is good as long as that call runs; what it
// started to call ends with it.
package shim

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"toolhost.dev/host/internal/shim/wire"
)

// Exit statuses of a shim, beside a tool's own: as a shell gives them.
const (
	StatusUsage     = 2
	StatusCannotRun = 126
	StatusNotFound  = 127
)

// Handler carries one use of a shim out and gives its exit status. ctx ends when the
// call it belongs to does, or when the shim is gone.
type Handler func(ctx context.Context, req wire.Request, streams Streams) int

// Streams are a shim's own. Stdin gives end of file when there is no more; nothing is
// taken from the command before its first Read. All of them fail when the shim is gone.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// requestTimeout bounds how long a shim takes to say what it wants.
const requestTimeout = 10 * time.Second

// Server answers shims. It is safe for concurrent use.
type Server struct {
	// Inherit is to be inherited by plugins: a descriptor that points at the socket. nil:
	// the socket is found by its path.
	Inherit *os.File

	listener *net.UnixListener
	dir      string // of the socket; empty: it has none

	mu     sync.Mutex
	grants map[string]*grant
	wg     sync.WaitGroup
}

// grant is what one call may do.
type grant struct {
	ctx    context.Context //nolint:containedctx // the call's, which its shims' calls end with
	handle Handler
	wg     sync.WaitGroup
}

// Listen makes a server with its socket in a directory, and under no name there where
// the system can do without: then nothing is left of it however the host ends.
func Listen(dir string) (*Server, error) {
	tmp, err := os.MkdirTemp(dir, "commands")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(tmp, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		_ = os.RemoveAll(tmp)
		return nil, err
	}
	s := &Server{listener: l, dir: tmp, grants: make(map[string]*grant)}
	if s.Inherit, err = pointAt(path); err == nil && s.Inherit != nil {
		l.SetUnlinkOnClose(false)
		s.dir, err = "", os.RemoveAll(tmp)
	}
	if err != nil {
		_ = l.Close()
		_ = os.RemoveAll(tmp)
		return nil, err
	}
	s.wg.Go(s.accept)
	return s, nil
}

// Address is what [tool.Commands] says of the socket, when Inherit is inherited as
// descriptor fd.
func (s *Server) Address(fd int) string {
	if s.Inherit != nil {
		return "fd:" + strconv.Itoa(fd)
	}
	return s.listener.Addr().String()
}

// Grant lets the commands of a call use shims, until revoke is called or ctx ends.
// revoke returns when nothing runs any more.
func (s *Server) Grant(ctx context.Context, handle Handler) (token string, revoke func()) {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	token = hex.EncodeToString(b[:])
	ctx, cancel := context.WithCancel(ctx)
	g := &grant{ctx: ctx, handle: handle}
	s.mu.Lock()
	s.grants[token] = g
	s.mu.Unlock()
	return token, func() {
		s.mu.Lock()
		delete(s.grants, token)
		s.mu.Unlock()
		cancel()
		g.wg.Wait()
	}
}

// Close stops answering, and ends what still runs.
func (s *Server) Close() {
	_ = s.listener.Close()
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
	s.wg.Wait()
	if s.Inherit != nil {
		_ = s.Inherit.Close()
	}
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // out of descriptors: shims wait
			time.Sleep(10 * time.Millisecond)
			continue
		}
		go s.answer(conn)
	}
}

// enter counts a use of a call's token in; it is nil when the call has ended.
func (s *Server) enter(token string) *grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.grants[token]
	if g != nil {
		g.wg.Add(1)
	}
	return g
}

func (s *Server) answer(conn *net.UnixConn) {
	defer conn.Close() //nolint:errcheck // nothing can be done
	_ = conn.SetReadDeadline(time.Now().Add(requestTimeout))
	req, err := wire.ReadRequest(conn)
	if err != nil {
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	c := newClient(conn)
	g := s.enter(req.Token)
	if g == nil {
		_, _ = io.WriteString(c.stream(wire.Stderr), req.Name+": this command belongs to no call that is running; a command can use tools only until the call that started it ends\n")
		c.exit(StatusCannotRun)
		return
	}
	defer g.wg.Done()
	ctx, cancel := context.WithCancel(g.ctx)
	defer cancel()
	// A shim that does not read must not keep the call it belongs to from ending.
	stop := context.AfterFunc(g.ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	go func() {
		c.listen()
		cancel()
	}()
	c.exit(g.handle(ctx, req, Streams{Stdin: c, Stdout: c.stream(wire.Stdout), Stderr: c.stream(wire.Stderr)}))
}
