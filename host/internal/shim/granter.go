package shim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"toolhost.dev/sdk/tool"
)

// GranterOptions configure a [Granter].
type GranterOptions struct {
	// Beside is a directory next to the shim's binary. If Beside is empty or the binary is missing, commands cannot call
	// tools.
	Beside string
	// Dir returns the directory for the programs, which later runs can use again. RuntimeDir returns the directory for
	// the socket.
	Dir, RuntimeDir func() (string, error)
	// InheritedFD is the descriptor number under which plugins inherit [Granter.Inherit].
	InheritedFD int
	Log         *slog.Logger
}

// Granter lets commands that a call starts call tools. It creates no files before the first plugin that can use it
// starts. It is safe for concurrent use.
type Granter struct {
	opts   GranterOptions
	binary string

	listening sync.Once
	server    *Server
	failed    atomic.Bool
}

// NewGranter returns a granter. It searches for the shim's binary once.
func NewGranter(opts GranterOptions) *Granter {
	g := &Granter{opts: opts}
	if opts.Beside == "" {
		return g
	}
	binary, err := filepath.Abs(filepath.Join(filepath.Dir(opts.Beside), tool.CommandsProgram))
	if st, statErr := os.Stat(binary); err == nil && statErr == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o111 != 0 {
		g.binary = binary
	}
	return g
}

// Binary returns the path of the shim, or "" if no shim is installed.
func (g *Granter) Binary() string { return g.binary }

// Dir returns the parent directory of the programs.
func (g *Granter) Dir() (string, error) { return g.opts.Dir() }

// Available reports whether commands can call tools. Before the first grant, a true result can still prove wrong.
func (g *Granter) Available() bool { return g.binary != "" && !g.failed.Load() }

// Inherit returns the descriptor that a plugin must inherit so that its commands reach the host. It returns nil if the
// commands cannot reach the host, or if they need no descriptor on this system.
func (g *Granter) Inherit() *os.File {
	if !g.listen() {
		return nil
	}
	return g.server.Inherit
}

// listen starts the server once. It reports whether commands can reach the host.
func (g *Granter) listen() bool {
	if g.binary == "" {
		return false
	}
	g.listening.Do(func() {
		dir, err := g.opts.RuntimeDir()
		if err == nil {
			g.server, err = Listen(dir)
		}
		g.check(err)
	})
	return !g.failed.Load()
}

// check disables the granter after an error.
func (g *Granter) check(err error) {
	if err != nil {
		g.failed.Store(true)
		g.opts.Log.Warn("commands cannot call tools", "error", err)
	}
}

// Close ends all running shims.
func (g *Granter) Close() {
	if g.server != nil {
		g.server.Close()
	}
}

// Programs manages the programs for one set of tools. The first grant creates their links.
type Programs struct {
	granter *Granter
	names   []string
	linking sync.Once
	dir     string
}

// Programs returns the programs with the given names: "tool:NAME", "field:NAMESPACE" or "NAMESPACE:NAME".
func (g *Granter) Programs(names []string) *Programs {
	return &Programs{granter: g, names: slices.Sorted(slices.Values(append(slices.Clone(names), tool.CommandsProgram)))}
}

// Available reports whether commands can call tools.
func (p *Programs) Available() bool { return p.granter.Available() }

// Grant lets the commands of a call use the programs until revoke is called or ctx ends. If commands cannot call tools,
// Grant returns nil. revoke returns when no program of the call is running.
func (p *Programs) Grant(ctx context.Context, handle Handler) (commands *tool.Commands, revoke func()) {
	g := p.granter
	if !g.listen() {
		return nil, nil
	}
	p.linking.Do(func() { g.check(p.link()) })
	if g.failed.Load() {
		return nil, nil
	}
	token, revoke := g.server.Grant(ctx, handle)
	return &tool.Commands{Dir: p.dir, Address: g.server.Address(g.opts.InheritedFD), Token: token}, revoke
}

// link creates the links to the programs. The name of their directory depends on the shim and the tools, so that other
// releases and hosts with other tools use separate directories.
func (p *Programs) link() error {
	parent, err := p.granter.Dir()
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(strings.Join(append(slices.Clone(p.names), p.granter.binary), "\x00")))
	p.dir = filepath.Join(parent, hex.EncodeToString(sum[:6]))
	return Link(p.dir, p.granter.binary, p.names)
}
