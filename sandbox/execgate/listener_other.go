//go:build !linux

package execgate

import "os"

// Options describes a plugin's process.
type Options struct {
	Plugin, Key string
	PID         int
	Trusted     os.FileInfo
	Own         string
	Listed      bool
	Judge       Judge
	Failed      func(error)
}

// Serve does nothing, because only Linux can stop an execution.
func (g *Gate) Serve(listener *os.File, _ Options) { _ = listener.Close() }
