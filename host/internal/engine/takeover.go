package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"toolhost.dev/host/internal/control"
)

// Listening describes the socket of a server for [Engine.OfferListener].
type Listening struct {
	// Serves reports whether the server listens on an address.
	Serves func(address string) bool
	// File returns a duplicate of the socket.
	File func() (*os.File, error)
	// Terms describes the settings of the server that affect its clients. The other process receives Terms with the
	// socket. Terms can be nil.
	Terms []byte
	// Replaced is called when another process accepts the connections of the socket.
	Replaced func()
}

// takeOver holds the socket that another process can acquire.
type takeOver struct {
	mu    sync.Mutex
	offer *Listening
	busy  bool
}

// handOverTimeout limits the time until the other process starts to serve.
const handOverTimeout = 30 * time.Second

// OfferListener lets another process of the same user acquire the socket of a server; see [TakeListener].
func (e *Engine) OfferListener(l Listening) {
	e.takeOver.mu.Lock()
	defer e.takeOver.mu.Unlock()
	e.takeOver.offer = &l
}

// handOver sends the server's socket to another process. When the other process serves, handOver calls Replaced.
func (e *Engine) handOver(ctx context.Context, args control.TakeOverArgs) error {
	e.takeOver.mu.Lock()
	l := e.takeOver.offer
	if l == nil || !l.Serves(args.Address) || e.takeOver.busy {
		e.takeOver.mu.Unlock()
		return fmt.Errorf("this host does not listen on %s", args.Address)
	}
	e.takeOver.busy = true
	e.takeOver.mu.Unlock()
	replaced := false
	defer func() {
		e.takeOver.mu.Lock()
		defer e.takeOver.mu.Unlock()
		e.takeOver.busy = replaced
	}()
	if err := e.Share(); err != nil {
		return fmt.Errorf("the sessions cannot be saved: %w", err)
	}
	file, err := l.File()
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // the other process has its own
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", args.Socket)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // nothing can be done
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return errors.New("the connection is not a Unix socket")
	}
	_ = conn.SetDeadline(time.Now().Add(handOverTimeout))
	raw, err := file.SyscallConn() // SyscallConn, because File.Fd would make this process's socket blocking, too
	if err != nil {
		return err
	}
	var sent error
	err = raw.Control(func(fd uintptr) {
		_, _, sent = conn.WriteMsgUnix(append(append([]byte(nil), l.Terms...), '\n'), syscall.UnixRights(int(fd)), nil)
	})
	if err = errors.Join(err, sent); err != nil {
		return err
	}
	if n, err := conn.Read(make([]byte, 1)); n != 1 {
		return fmt.Errorf("the other process did not begin to serve: %w", err)
	}
	replaced = true
	l.Replaced()
	return nil
}

// Taken is the socket that this process acquired from another host.
type Taken struct {
	net.Listener
	// Terms equals the field Terms in the [Listening] of the other host.
	Terms []byte

	conn *net.UnixConn
}

// Serving reports to the other host that this process serves the socket. The other host then exits.
func (t *Taken) Serving() {
	_, _ = t.conn.Write([]byte{1}) // error ignored: the other host continues to accept connections if the message is lost
	_ = t.conn.Close()
}

// Return closes the socket in this process. The other host continues to accept connections.
func (t *Taken) Return() error { return errors.Join(t.Close(), t.conn.Close()) }

// TakeListener acquires the socket with an address from the host that listens on the address. Both hosts must use the
// same state directory. The caller must either serve the socket and then call Serving, or call Return.
func (e *Engine) TakeListener(ctx context.Context, address string) (*Taken, error) {
	dir, err := os.MkdirTemp("", "toolhost-listen-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	path := filepath.Join(dir, "s")
	in, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	defer in.Close() //nolint:errcheck // nothing can be done
	asking, cancel := context.WithTimeout(ctx, handOverTimeout)
	defer cancel()
	failed := make(chan error, 1)
	go func() { failed <- e.askForListener(context.WithoutCancel(ctx), address, path, in) }()
	stop := context.AfterFunc(asking, func() { _ = in.SetDeadline(time.Now()) })
	defer stop()
	conn, err := in.AcceptUnix()
	if err != nil {
		select {
		case refused := <-failed:
			err = refused
		default:
		}
		return nil, fmt.Errorf("the socket %s cannot be taken over: %w", address, err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(handOverTimeout))
	t, err := receiveListener(conn)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return t, nil
}

// askForListener asks all hosts for a socket. If no host has the socket, it closes in.
func (e *Engine) askForListener(ctx context.Context, address, path string, in *net.UnixListener) error {
	err := errors.New("no running host that uses this state directory listens there")
	for _, s := range control.Sockets(e.home.Control()) {
		if s.PID == os.Getpid() {
			continue
		}
		if asked := s.Ask(ctx, control.OpTakeOver, control.TakeOverArgs{Address: address, Socket: path}, &struct{}{}); asked == nil {
			return nil
		}
	}
	_ = in.SetDeadline(time.Now())
	return err
}

// maxTerms limits the size in bytes of the terms from another host.
const maxTerms = 1 << 20

// receiveListener receives a socket and the terms of its server from a connection.
func receiveListener(conn *net.UnixConn) (*Taken, error) {
	oob, text := make([]byte, syscall.CmsgSpace(4)), make([]byte, maxTerms)
	size, n, _, _, err := conn.ReadMsgUnix(text, oob)
	if err != nil {
		return nil, err
	}
	for text = text[:size]; !bytes.HasSuffix(text, []byte("\n")); { // the text can arrive in several reads
		more, err := conn.Read(text[len(text):cap(text)])
		if err != nil {
			return nil, fmt.Errorf("the terms of the other host are incomplete: %w", err)
		}
		text = text[:len(text)+more]
	}
	messages, err := syscall.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return nil, errors.Join(err, errors.New("the other host sent no socket"))
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.Join(err, errors.New("the other host sent no socket"))
	}
	syscall.CloseOnExec(fds[0])
	f := os.NewFile(uintptr(fds[0]), "listener")
	defer f.Close() //nolint:errcheck // FileListener has a duplicate
	l, err := net.FileListener(f)
	return &Taken{Listener: l, Terms: bytes.TrimSpace(text), conn: conn}, err
}

// Console is the answer to a request for a link to the web console.
type Console struct {
	URL string `json:"url"`
}

// OfferConsole lets other processes of the same user get links to the web console of this host. The function link returns
// a new link.
func (e *Engine) OfferConsole(link func() string) { e.console.Store(&link) }

// consoleLink returns a new link to the web console.
func (e *Engine) consoleLink() (*Console, error) {
	link := e.console.Load()
	if link == nil {
		return nil, errors.New("this host has no web console, because it does not serve HTTP")
	}
	return &Console{URL: (*link)()}, nil
}
