package calls

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestStandardInputs checks that an MCP server works with every kind of standard input. At its end, the server must
// restore the mode of the input.
func TestStandardInputs(t *testing.T) {
	t.Parallel()
	socket := func(t *testing.T) (ours, theirs *os.File) {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		hosttest.Must(t, err)
		return os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	}
	for name, open := range map[string]func(t *testing.T) (ours, theirs, answers, out *os.File){
		"pipes": func(t *testing.T) (ours, theirs, answers, out *os.File) {
			theirs, ours, err := os.Pipe()
			hosttest.Must(t, err)
			answers, out, err = os.Pipe()
			hosttest.Must(t, err)
			return ours, theirs, answers, out
		},
		"sockets": func(t *testing.T) (ours, theirs, answers, out *os.File) {
			ours, theirs = socket(t)
			answers, out = socket(t)
			return ours, theirs, answers, out
		},
		"one socket": func(t *testing.T) (ours, theirs, answers, out *os.File) {
			ours, theirs = socket(t)
			return ours, theirs, ours, theirs
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := hosttest.MCPDir(t)
			ours, theirs, answers, out := open(t)
			for _, line := range []string{
				`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`,
				`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
				`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read","arguments":{"file_path":"notes.txt"}}}`,
			} {
				_, err := fmt.Fprintln(ours, line)
				hosttest.Must(t, err)
			}
			flags := func() int {
				n, err := unix.FcntlInt(theirs.Fd(), unix.F_GETFL, 0)
				hosttest.Must(t, err)
				return n & unix.O_NONBLOCK
			}
			c := hosttest.Toolhost(t, dir, "mcp")
			c.Stdin, c.Stdout = theirs, out
			before := flags()
			hosttest.Must(t, c.Start())
			if out != theirs {
				hosttest.Must(t, out.Close())
			}
			lines := bufio.NewReader(answers)
			var both string // the answers can arrive in any order
			for range 2 {
				line, err := lines.ReadString('\n')
				hosttest.Must(t, err)
				both += line
			}
			for _, want := range []string{`"id":1`, `one\ntwo\n`} {
				if !strings.Contains(both, want) {
					t.Errorf("%q, want %s", both, want)
				}
			}
			if name == "pipes" && flags() != before {
				t.Error("reads by other users of the pipe no longer wait for input")
			}
			switch name {
			case "pipes":
				hosttest.Must(t, ours.Close())
			case "sockets", "one socket":
				hosttest.Must(t, unix.Shutdown(int(ours.Fd()), unix.SHUT_WR))
			}
			hosttest.Must(t, c.Wait())
			if flags() != before {
				t.Error("the mode of the input was not restored")
			}
		})
	}
}
