// Package shim permits commands that run during a call to call tools, through the programs "tool:NAME" and
// "field:NAMESPACE". The programs work like any other command: in pipelines and substitutions, under xargs, and in
// scripts of any language.
//
// Each program is a link to a small binary. The binary connects to the host and sends a token that identifies the call.
// The token is valid while the call runs. When the call ends, the tool calls of its programs are canceled.
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

// Additional exit statuses of a shim, with the same meaning as in a shell. All other statuses come from the tool.
const (
	StatusUsage     = 2
	StatusCannotRun = 126
	StatusNotFound  = 127
)

// Handler handles one run of a shim and returns the exit status. ctx ends when the call ends or the shim disconnects.
type Handler func(ctx context.Context, req wire.Request, streams Streams) int

// Streams are the standard streams of a shim. The shim reads its input only after the first Read of Stdin. After the
// shim disconnects, all streams return errors.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// requestTimeout is the time within which a shim must send its request.
const requestTimeout = 10 * time.Second

// Server handles the requests of shims. It is safe for concurrent use.
type Server struct {
	// Inherit is a descriptor for the socket. Plugins must inherit the descriptor. If Inherit is nil, shims use the
	// path of the socket.
	Inherit *os.File

	listener *net.UnixListener
	dir      string // directory of the socket; empty after the socket's path was removed

	mu     sync.Mutex
	grants map[string]*grant
	wg     sync.WaitGroup
}

// grant permits one call to use shims.
type grant struct {
	ctx    context.Context //nolint:containedctx // the call's, which its shims' calls end with
	handle Handler
	wg     sync.WaitGroup
}

// Listen starts a server with a socket in a directory. If the system permits it, Listen immediately removes the path of
// the socket. In this case, no file remains after a crash of the host.
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

// Address returns the address of the socket for [tool.Commands]. The argument "fd" is the number of the inherited
// descriptor in the processes of plugins.
func (s *Server) Address(fd int) string {
	if s.Inherit != nil {
		return "fd:" + strconv.Itoa(fd)
	}
	return s.listener.Addr().String()
}

// Grant permits the commands of a call to use shims until the caller calls revoke or ctx ends. The function "revoke"
// returns when all shims of the call have ended.
func (s *Server) Grant(ctx context.Context, handle Handler) (token string, revoke func()) {
	var b [16]byte
	_, _ = rand.Read(b[:]) // the error is ignored, because Read always succeeds
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
		case err != nil: // wait, because no descriptor is free
			time.Sleep(10 * time.Millisecond)
			continue
		}
		go s.answer(conn)
	}
}

// enter registers a shim for the call with the given token. It returns nil if the call has ended.
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
	// The end of the call must not wait for a shim that does not read its output.
	stop := context.AfterFunc(g.ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	go func() {
		c.listen()
		cancel()
	}()
	c.exit(g.handle(ctx, req, Streams{Stdin: c, Stdout: c.stream(wire.Stdout), Stderr: c.stream(wire.Stderr)}))
}
