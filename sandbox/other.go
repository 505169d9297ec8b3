//go:build !linux

package sandbox

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"

	"toolhost.dev/sandbox/confine"
)

// Probe reports that this machine supports no confinement.
func Probe(string, string) Kernel {
	return Kernel{NoLauncher: "the sandbox needs Linux"}
}

// Forget does nothing.
func Forget(string) {}

func isolate(*exec.Cmd, *confine.Policy) {}

func mapPlugin(int, io.Writer) error { return errUnsupported }

// foreignGroup returns zero, because this system has no sandboxes with groups of their own.
func foreignGroup() (int, error) { return 0, nil }

var errUnsupported = errors.New("the sandbox is not supported on this system")

func statusPipe(bool) (ours, theirs *os.File, err error) { return os.Pipe() }

func receive(*os.File, string) (*os.File, error) { return nil, errUnsupported }

func receiveListener(*os.File) (net.Listener, error) { return nil, errUnsupported }
