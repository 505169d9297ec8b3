// Package shim lets the commands that a call starts call tools, through the programs "tool:NAME" and "field:NAMESPACE".
// Programs work wherever commands work: in pipelines, substitutions, under xargs and in scripts of any language.
//
// Each program is a link to a small binary. The binary connects to the host and identifies its call by a token. The
// token is valid while the call runs. When the call ends, the tool calls of its programs end, too.
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

// Additional exit statuses of a shim. The other statuses come from the tool. They have the same meaning as in a shell.
const (
	StatusUsage     = 2
	StatusCannotRun = 126
	StatusNotFound  = 127
)

// Handler handles one use of a shim and returns its exit status. ctx ends when the call ends or the shim disconnects.
type Handler func(ctx context.Context, req wire.Request, streams Streams) int

// Streams are the standard streams of a shim. Nothing is read from the command before the first Read of Stdin. All
// streams return errors after the shim disconnects.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// requestTimeout limits the time in which a shim must send its request.
const requestTimeout = 10 * time.Second

// Server handles the requests of shims. It is safe for concurrent use.
type Server struct {
	// Inherit is a descriptor of the socket that plugins must inherit. A nil Inherit means that shims find the socket by
	// its path.
	Inherit *os.File

	listener *net.UnixListener
	dir      string // directory of the socket; empty if the socket has no path

	mu     sync.Mutex
	grants map[string]*grant
	wg     sync.WaitGroup
}

// grant is the permission of one call to use shims.
type grant struct {
	ctx    context.Context //nolint:containedctx // the call's, which its shims' calls end with
	handle Handler
	wg     sync.WaitGroup
}

// Listen starts a server with a socket in the given directory. If the system permits it, Listen removes the socket's
// path at once, so that no file remains even after a crash of the host.
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

// Address returns the socket's address for [tool.Commands]. The argument fd is the descriptor number under which plugins
// inherit Inherit.
func (s *Server) Address(fd int) string {
	if s.Inherit != nil {
		return "fd:" + strconv.Itoa(fd)
	}
	return s.listener.Addr().String()
}

// Grant lets the commands of a call use shims until revoke is called or ctx ends. revoke returns when no shim of the
// call is running.
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

// Close stops the server and ends all running shims.
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
		case err != nil: // with no free descriptors, shims must wait
			time.Sleep(10 * time.Millisecond)
			continue
		}
		go s.answer(conn)
	}
}

// enter registers a use of a call's token. It returns nil if the call has ended.
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
	// A shim that does not read its output must not delay the end of its call.
	stop := context.AfterFunc(g.ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	go func() {
		c.listen()
		cancel()
	}()
	c.exit(g.handle(ctx, req, Streams{Stdin: c, Stdout: c.stream(wire.Stdout), Stderr: c.stream(wire.Stderr)}))
}
