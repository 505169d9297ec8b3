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
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Socket is the control socket of a running process.
type Socket struct {
	PID  int
	path string
}

// Sockets returns the sockets of running hosts in a directory. It removes sockets of processes that no longer run. If
// the directory does not exist, the result is empty.
func Sockets(dir string) []Socket {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []Socket
	for _, e := range entries {
		pid, ok := pidOf(e.Name())
		if !ok || e.Type() != os.ModeSocket {
			continue
		}
		s := Socket{PID: pid, path: filepath.Join(dir, e.Name())}
		conn, err := s.dial(context.Background())
		switch {
		case err == nil:
			_ = conn.Close()
			out = append(out, s)
		case errors.Is(err, syscall.ECONNREFUSED) && pid != os.Getpid():
			_ = os.Remove(s.path)
		}
	}
	return out
}

// socketName returns the name of a process's socket. The name contains the machine, because several machines can share
// the directory but cannot reach each other's processes.
func socketName(pid int) string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s-%d.sock", strings.ReplaceAll(host, "/", "_"), pid)
}

func pidOf(name string) (int, bool) {
	rest, isSocket := strings.CutSuffix(name, ".sock")
	pid, err := strconv.Atoi(rest[strings.LastIndex(rest, "-")+1:])
	return pid, isSocket && err == nil && socketName(pid) == name
}

func (s Socket) dial(ctx context.Context) (*net.UnixConn, error) {
	address, through, err := Reach(filepath.Split(s.path))
	if err != nil {
		return nil, err
	}
	defer through.Close() //nolint:errcheck // only held
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", address)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil //nolint:forcetypeassert // that is what a unix socket gives
}

// Ask sends a request and waits for the answer, until ctx is canceled. It decodes the result in the answer.
func (s Socket) Ask(ctx context.Context, op string, args, result any) error {
	conn, err := s.dial(ctx)
	if err != nil {
		return fmt.Errorf("the host with process id %d cannot be reached: %w", s.PID, err)
	}
	defer conn.Close() //nolint:errcheck // nothing can be done
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	var req request
	req.Op = op
	if req.Args, err = json.Marshal(args); err != nil {
		return err
	}
	b, err := json.Marshal(req)
	if err != nil {
		return err
	}
	if _, err := conn.Write(append(b, '\n')); err != nil {
		if ctx.Err() != nil { // the deadline of the connection ended the write
			return context.Cause(ctx)
		}
		return fmt.Errorf("the host with process id %d accepts no connections: %w", s.PID, err)
	}
	line, err := bufio.NewReader(io.LimitReader(conn, maxMessage)).ReadBytes('\n')
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("the host with process id %d did not answer: %w", s.PID, err)
	}
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		return fmt.Errorf("the host with process id %d sent an invalid answer: %w", s.PID, err)
	}
	if a.Error != "" {
		return errors.New(a.Error)
	}
	return json.Unmarshal(a.Result, result)
}

// maxAddress is the maximum length of a socket path on all systems.
const maxAddress = 100

// Reach returns an address for a socket in a directory. It works even if the path of the socket is too
// long. The caller must close the returned file after the last use of the address.
func Reach(dir, name string) (address string, through *os.File, err error) {
	if through, err = os.Open(dir); err != nil {
		return "", nil, err
	}
	address = filepath.Join(dir, name)
	if len(address) <= maxAddress {
		return address, through, nil
	}
	short := fmt.Sprintf("/proc/self/fd/%d/%s", through.Fd(), name)
	if _, err := os.Stat(filepath.Dir(short)); err != nil {
		_ = through.Close()
		return "", nil, fmt.Errorf("the path %s is too long for a socket; choose a shorter state directory with --state", address)
	}
	return short, through, nil
}
