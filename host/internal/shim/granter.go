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
	// Beside is a directory beside the shim's binary. If it is empty, or there is no shim, nothing is granted.
	Beside string
	// Dir returns the directory for the programs, which later runs may use again. RuntimeDir returns the
	// directory for the socket.
	Dir, RuntimeDir func() (string, error)
	// InheritedFD is the descriptor as which plugins inherit [Granter.Inherit].
	InheritedFD int
	Log         *slog.Logger
}

// Granter lets the commands that calls start call tools. It creates nothing before the first plugin starts
// that can use it. It is safe for concurrent use.
type Granter struct {
	opts   GranterOptions
	binary string

	listening sync.Once
	server    *Server
	failed    atomic.Bool
}

// NewGranter returns a granter. It looks for the shim once.
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

// Binary returns the path of the shim, or "" if there is none.
func (g *Granter) Binary() string { return g.binary }

// Dir returns the parent directory of the programs.
func (g *Granter) Dir() (string, error) { return g.opts.Dir() }

// Available reports whether commands may call tools. Before the first grant it can only tell what is not known
// to fail.
func (g *Granter) Available() bool { return g.binary != "" && !g.failed.Load() }

// Inherit returns the descriptor that a plugin must inherit so that its commands reach the host. It returns nil
// if there is none, or the system does without.
func (g *Granter) Inherit() *os.File {
	if !g.listen() {
		return nil
	}
	return g.server.Inherit
}

// listen reports whether commands can reach the host.
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

// check turns the granter off after an error.
func (g *Granter) check(err error) {
	if err != nil {
		g.failed.Store(true)
		g.opts.Log.Warn("commands cannot call tools", "error", err)
	}
}

// Close ends the shims that are running.
func (g *Granter) Close() {
	if g.server != nil {
		g.server.Close()
	}
}

// Programs are the programs for one set of tools. They are linked at the first grant.
type Programs struct {
	granter *Granter
	names   []string
	linking sync.Once
	dir     string
}

// Programs returns the programs of these names: "tool:NAME", "field:NAMESPACE" and "NAMESPACE:NAME".
func (g *Granter) Programs(names []string) *Programs {
	return &Programs{granter: g, names: slices.Sorted(slices.Values(append(slices.Clone(names), tool.CommandsProgram)))}
}

// Available reports whether commands may call tools.
func (p *Programs) Available() bool { return p.granter.Available() }

// Grant lets the commands of a call use the programs until revoke is called or ctx ends. It returns nil if that
// is not possible. revoke returns when no program of the call is running.
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

// link creates the programs. Their directory is named after the shim and the names, so another release, or a host
// with other tools, has its own.
func (p *Programs) link() error {
	parent, err := p.granter.Dir()
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(strings.Join(append(slices.Clone(p.names), p.granter.binary), "\x00")))
	p.dir = filepath.Join(parent, hex.EncodeToString(sum[:6]))
	return Link(p.dir, p.granter.binary, p.names)
}
