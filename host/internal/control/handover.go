package control

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

	"toolhost.dev/sandbox/descriptor"
)

// Listening describes the socket of a server for [Hosts.OfferListener].
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

// handover holds the socket that another process can acquire.
type handover struct {
	mu    sync.Mutex
	offer *Listening
	busy  bool
}

// handOverTimeout limits the time until the other process starts to serve.
const handOverTimeout = 30 * time.Second

// OfferListener lets another process of the same user acquire the socket of a server; see [Hosts.TakeListener].
func (h *Hosts) OfferListener(l Listening) {
	h.handover.mu.Lock()
	defer h.handover.mu.Unlock()
	h.handover.offer = &l
}

// HandOver sends the server's socket to another process. When the other process serves, HandOver calls Replaced.
func (h *Hosts) HandOver(ctx context.Context, args TakeOverArgs) error {
	h.handover.mu.Lock()
	l := h.handover.offer
	if l == nil || !l.Serves(args.Address) || h.handover.busy {
		h.handover.mu.Unlock()
		return fmt.Errorf("this host does not listen on %s", args.Address)
	}
	h.handover.busy = true
	h.handover.mu.Unlock()
	replaced := false
	defer func() {
		h.handover.mu.Lock()
		defer h.handover.mu.Unlock()
		h.handover.busy = replaced
	}()
	if err := h.Share(); err != nil {
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
func (h *Hosts) TakeListener(ctx context.Context, address string) (*Taken, error) {
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
	go func() { failed <- h.askForListener(context.WithoutCancel(ctx), address, path, in) }()
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
func (h *Hosts) askForListener(ctx context.Context, address, path string, in *net.UnixListener) error {
	err := errors.New("no running host that uses this state directory listens there")
	for _, s := range h.others() {
		if asked := s.Ask(ctx, OpTakeOver, TakeOverArgs{Address: address, Socket: path}, &struct{}{}); asked == nil {
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
	oob, text := make([]byte, descriptor.Space), make([]byte, maxTerms)
	size, n, _, _, err := conn.ReadMsgUnix(text, oob)
	if err != nil {
		return nil, err
	}
	for text = text[:size]; !bytes.HasSuffix(text, []byte("\n")); { // the text can arrive in several reads
		more, err := conn.Read(text[len(text):cap(text)])
		if err != nil {
			return nil, fmt.Errorf("the other host did not send all settings of its server: %w. Try again", err)
		}
		text = text[:len(text)+more]
	}
	f, err := descriptor.One(oob[:n], "listener")
	if err != nil {
		return nil, errors.Join(errors.New("the other host sent no socket"), err)
	}
	defer f.Close() //nolint:errcheck // FileListener has a duplicate
	l, err := net.FileListener(f)
	return &Taken{Listener: l, Terms: bytes.TrimSpace(text), conn: conn}, err
}
