package mcp

import (
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
	"toolhost.dev/host/internal/testlines"
)

// TestMCPRandomLines sends random lines to "toolhost mcp" in each revision of the protocol. Each request is answered
// once, and the program ends without an error.
func TestMCPRandomLines(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	for _, revision := range testlines.Revisions {
		c := hosttest.Toolhost(t, dir, "mcp")
		c.Stderr = nil // it has a line for each rejected message
		in, out := hosttest.Piped(t, c)
		n := 60
		if hosttest.Long() {
			n = 2000
		}
		(&testlines.Session{T: t, Revision: revision, In: in, Out: out, Tool: "echo", Seed: 2}).Run(n)
		_ = in.Close()
		if err := c.Wait(); err != nil {
			t.Errorf("%s: %v", revision, err)
		}
	}
}
