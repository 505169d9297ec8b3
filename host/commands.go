package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/shim"
	"toolhost.dev/host/internal/supervisor"
)

// commands lets the commands that calls start call tools. Nothing is made before the
// first plugin is started that can use it.
type commands struct {
	host   *Host
	binary string // of the shim, beside the directory of the bundled plugins; empty: there is none

	listening sync.Once
	server    *shim.Server
	failed    atomic.Bool
}

func (h *Host) newCommands() *commands {
	c := &commands{host: h}
	if h.opts.BundledDir == "" {
		return c
	}
	binary, err := filepath.Abs(filepath.Join(filepath.Dir(h.opts.BundledDir), tool.CommandsProgram))
	if st, statErr := os.Stat(binary); err == nil && statErr == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o111 != 0 {
		c.binary = binary
	}
	return c
}

// inherit gives the host's socket to plugins that start commands, and to those that
// nobody knows yet.
func (c *commands) inherit(m *member) *os.File {
	desc := m.desc.Load()
	if desc != nil && !slices.Contains(desc.Capabilities, tool.CapabilityCommands) || !c.listen() {
		return nil
	}
	return c.server.Inherit
}

// listen reports whether commands can reach the host.
func (c *commands) listen() bool {
	if c.binary == "" {
		return false
	}
	c.listening.Do(func() {
		dir, err := c.host.super.RuntimeDir()
		if err == nil {
			c.server, err = shim.Listen(dir)
		}
		c.told(err)
	})
	return !c.failed.Load()
}

func (c *commands) told(err error) {
	if err != nil {
		c.failed.Store(true)
		c.host.log.Warn("commands cannot call tools", "error", err)
	}
}

// link makes the programs for the tools there are, which stay for later runs with this
// binary, and gives their directory.
func (c *commands) link(r *registry.Registry) (dir string, err error) {
	names := commandNames(r)
	parent, err := c.parent()
	if err != nil {
		return "", err
	}
	// A host of another release, or with other tools, has its own.
	sum := sha256.Sum256([]byte(strings.Join(append(names, c.binary), "\x00")))
	dir = filepath.Join(parent, hex.EncodeToString(sum[:6]))
	return dir, shim.Link(dir, c.binary, names)
}

// parent is the directory that the directory of the programs is in.
func (c *commands) parent() (string, error) {
	dir := c.host.stateRoot
	if dir == "" {
		var err error
		if dir, err = c.host.super.RuntimeDir(); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "commands"), nil
}

// commandNames are the programs: of agent tools, of namespaces, and of each tool in them.
func commandNames(r *registry.Registry) []string {
	names := []string{tool.CommandsProgram}
	for _, n := range r.AgentNames() {
		names = append(names, "tool:"+n)
	}
	for n := range r.Aliases() {
		names = append(names, "tool:"+n)
	}
	for _, ns := range r.Namespaces() {
		names = append(names, "field:"+ns)
		for _, n := range r.FieldNames(ns) {
			names = append(names, ns+":"+n)
		}
	}
	slices.Sort(names)
	return names
}

// Available implements dispatch's Commands.
func (c *commands) Available() bool { return c.binary != "" && !c.failed.Load() }

// Grant implements dispatch's Commands.
func (c *commands) Grant(ctx context.Context, handle shim.Handler) (*tool.Commands, func()) {
	if !c.listen() {
		return nil, nil
	}
	g := c.host.current.Load()
	g.linking.Do(func() {
		var err error
		g.links, err = c.link(g.registry)
		c.told(err)
	})
	if c.failed.Load() {
		return nil, nil
	}
	token, revoke := c.server.Grant(ctx, handle)
	return &tool.Commands{Dir: g.links, Address: c.server.Address(supervisor.InheritedFD), Token: token}, revoke
}

func (c *commands) close() {
	if c.server != nil {
		c.server.Close()
	}
}
