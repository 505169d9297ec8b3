// Package control permits other processes of the same user to send requests to a running host. Each request and each
// answer is one line of JSON. The socket is in a directory that only the user can open.
//
// [Hosts] connects the hosts of a user that use the same state directory. People answer the asks of one host through
// another, a new host takes the socket of an old one, and commands find the web console.
package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	// maxMessage is the maximum size of a request or an answer, in bytes.
	maxMessage = 16 << 20
	// maxClients is the maximum number of concurrent clients. Further clients wait.
	maxClients = 16
	// requestTimeout limits the time to read a request. It also limits the time to write an answer.
	requestTimeout = 10 * time.Second
)

// Handler runs a request and returns the result, which is sent as JSON. ctx is canceled when the client disconnects or
// the server is closed.
type Handler func(ctx context.Context, op string, args json.RawMessage) (any, error)

type request struct {
	Op   string          `json:"op"`
	Args json.RawMessage `json:"args,omitempty"`
}

type answer struct {
	Error  string          `json:"error,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// Server answers requests until it is closed.
type Server struct {
	listener *net.UnixListener
	path     string
	dir      *os.File // stays open, because the address of the socket can refer to this descriptor
	handle   Handler
	ctx      context.Context //nolint:containedctx // the server's life
	cancel   context.CancelFunc
	slots    chan struct{}
	wg       sync.WaitGroup
}

// Listen creates a server for this process with a socket in dir. It creates dir if needed and removes the sockets of
// dead processes.
func Listen(dir string, handle Handler) (*Server, error) {
	if err := private(dir); err != nil {
		return nil, err
	}
	Sockets(dir) // removes sockets of dead processes
	name := socketName(os.Getpid())
	path := filepath.Join(dir, name)
	address, through, err := Reach(dir, name)
	if err != nil {
		return nil, err
	}
	_ = os.Remove(path) // an earlier process with the same process id can have left a socket
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: address, Net: "unix"})
	if err == nil {
		l.SetUnlinkOnClose(false)
		if err = os.Chmod(path, 0o600); err != nil {
			_ = l.Close()
		}
	}
	if err != nil {
		_ = through.Close()
		return nil, fmt.Errorf("no control socket can be made in %s: %w", dir, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{listener: l, path: path, dir: through, handle: handle, ctx: ctx, cancel: cancel,
		slots: make(chan struct{}, maxClients)}
	s.wg.Go(s.accept)
	return s, nil
}

// private creates a directory that only the user can open.
func private(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	st, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !st.IsDir() || !ok || int(sys.Uid) != os.Getuid() {
		return fmt.Errorf("%s is not a directory of this user; remove it", dir)
	}
	return os.Chmod(dir, 0o700) //nolint:gosec // a directory is entered
}

// Close cancels running requests and removes the socket.
func (s *Server) Close() {
	_ = os.Remove(s.path)
	_ = s.listener.Close()
	s.cancel()
	s.wg.Wait()
	_ = s.dir.Close()
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // for example, too many files are open
			time.Sleep(10 * time.Millisecond)
			continue
		}
		select {
		case s.slots <- struct{}{}:
		case <-s.ctx.Done():
			_ = conn.Close()
			return
		}
		s.wg.Go(func() {
			defer func() { <-s.slots }()
			s.answer(conn)
		})
	}
}

func (s *Server) answer(conn *net.UnixConn) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	defer conn.Close() //nolint:errcheck // nothing can be done
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	_ = conn.SetReadDeadline(time.Now().Add(requestTimeout))
	var out answer
	in := bufio.NewReader(io.LimitReader(conn, maxMessage))
	result, err := s.run(ctx, cancel, conn, in)
	if out.Result = result; err != nil {
		out.Error = err.Error()
	}
	b, err := json.Marshal(out)
	if err == nil && ctx.Err() == nil {
		_ = conn.SetWriteDeadline(time.Now().Add(requestTimeout))
		_, _ = conn.Write(append(b, '\n'))
	}
}

func (s *Server) run(ctx context.Context, cancel func(), conn *net.UnixConn,
	in *bufio.Reader) (json.RawMessage, error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("the request cannot be read: %w", err)
	}
	var req request
	if err := json.Unmarshal(line, &req); err != nil {
		return nil, fmt.Errorf("the request is not valid: %w", err)
	}
	if err := allowed(conn); err != nil { // after reading the request, so that a rejected client receives the error
		return nil, err
	}
	_ = conn.SetReadDeadline(time.Time{})
	go func() { // cancel the request if the client disconnects
		_, _ = in.ReadByte()
		cancel()
	}()
	result, err := s.handle(ctx, req.Op, req.Args)
	if err != nil {
		return nil, err
	}
	return json.Marshal(result)
}
