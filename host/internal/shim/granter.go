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

// GranterOptions configures a [Granter].
type GranterOptions struct {
	// Beside is a directory. The shim's binary is in the parent directory of Beside. Without the binary, commands
	// cannot call tools.
	Beside string
	// Dir returns the directory for the programs. Later runs use the same directory. RuntimeDir returns the directory
	// for the socket.
	Dir, RuntimeDir func() (string, error)
	// InheritedFD is the number that the descriptor from [Granter.Inherit] has in plugin processes.
	InheritedFD int
	Log         *slog.Logger
}

// Granter permits commands that run during a call to call tools. It creates files only when the first plugin starts
// that can use them. It is safe for concurrent use.
type Granter struct {
	opts   GranterOptions
	binary string

	listening sync.Once
	server    *Server
	failed    atomic.Bool
}

// NewGranter returns a granter. It looks for the shim's binary once.
func NewGranter(opts GranterOptions) *Granter {
	g := &Granter{opts: opts}
	if opts.Beside == "" {
		return g
	}
	binary, err := filepath.Abs(filepath.Join(filepath.Dir(opts.Beside), tool.CommandsProgram))
	if st, statErr := os.Stat(binary); err == nil && statErr == nil && st.Mode().IsRegular() &&
		st.Mode().Perm()&0o111 != 0 {
		g.binary = binary
	}
	return g
}

// Binary returns the path of the shim's binary, or "" if the binary is missing.
func (g *Granter) Binary() string { return g.binary }

// Dir returns the directory for the programs of all tool sets.
func (g *Granter) Dir() (string, error) { return g.opts.Dir() }

// Available reports whether commands can call tools. Before the first grant, the result can be true although the grant
// will fail.
func (g *Granter) Available() bool { return g.binary != "" && !g.failed.Load() }

// Inherit returns the descriptor that the processes of plugins must inherit. Commands reach the host through this
// descriptor. Inherit returns nil if the system needs no descriptor, or if commands cannot reach the host.
func (g *Granter) Inherit() *os.File {
	if !g.listen() {
		return nil
	}
	return g.server.Inherit
}

// listen starts the server at the first call. It reports whether commands can reach the host.
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

// check disables the granter if err is not nil.
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

// Programs manages the programs for one set of tools. The first grant creates the programs.
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

// Grant permits the commands of a call to use the programs until the caller calls revoke or ctx ends. A nil result
// means that commands cannot call tools. The function "revoke" returns when all programs of the call have ended.
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

// link creates a link for each program. The name of the directory depends on the shim and on the tools.
// Therefore other releases, and hosts with other tools, use different directories.
func (p *Programs) link() error {
	parent, err := p.granter.Dir()
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(strings.Join(append(slices.Clone(p.names), p.granter.binary), "\x00")))
	p.dir = filepath.Join(parent, hex.EncodeToString(sum[:6]))
	return Link(p.dir, p.granter.binary, p.names)
}
