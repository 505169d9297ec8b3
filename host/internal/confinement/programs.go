package confinement

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/sandbox"
	"toolhost.dev/sandbox/execgate"
)

// gateKey returns a key for the process of a plugin that serves an owner with the given roots.
func gateKey(plugin, owner string, roots []tool.Root) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q", plugin, owner)
	for _, r := range roots {
		fmt.Fprintf(&b, " %q", cmp.Or(r.Source, r.Path))
	}
	return b.String()
}

// gated reports whether the exec gate judges the programs of a plugin that runs under the given backend.
func (l *Launcher) gated(prof *sandbox.Profile, backend sandbox.Backend) bool {
	return prof.StartProcesses && l.Kernel().Gate(backend) == nil
}

// Gated reports whether the exec gate judges all programs of a plugin when they are executed. The programs then need no
// judgement before the call.
func (l *Launcher) Gated(p *config.Plugin, roots []tool.Root) bool {
	prof := Profile(p)
	if l.parts.Gate == nil || !prof.StartProcesses {
		return false
	}
	backend, _, err := l.Choose(p, roots)
	return err == nil && l.gated(&prof, backend) && (l.listed == nil || listable(p) && backend.Abilities().OwnRoot)
}

// listable reports whether the list of programs applies to a plugin. It does not apply to the plugins of fields,
// because the operator chose their programs in the configuration.
func listable(p *config.Plugin) bool { return p.Field == "" }

// Ungated returns the reason why the programs that a plugin executes are not judged. It returns "" if the programs are
// judged, or if the plugin cannot execute programs.
func (l *Launcher) Ungated(p *config.Plugin, roots []tool.Root) string {
	prof := Profile(p)
	backend, _, err := l.Choose(p, roots)
	if err != nil || !prof.StartProcesses || !backend.Abilities().Confines {
		return ""
	}
	if err := l.Kernel().Gate(backend); err != nil {
		return err.Error()
	}
	return ""
}

// programs begins to record and judge the programs that a call of a plugin executes. It returns nil if the plugin has
// no exec gate. The argument "token" is the token of the call's commands. It can be empty.
func (l *Launcher) programs(ctx context.Context, p *config.Plugin, owner string, roots []tool.Root, token string,
	judge execgate.Judge) *execgate.Call {
	prof := Profile(p)
	if l.parts.Gate == nil || !prof.StartProcesses {
		return nil
	}
	backend, _, err := l.Choose(p, roots)
	if err != nil || !l.gated(&prof, backend) {
		return nil
	}
	return l.parts.Gate.Begin(ctx, gateKey(p.Name, owner, roots), token, judge)
}

// serveGate judges the programs of a plugin. The listener comes from the plugin's launcher.
func (c *confined) serveGate(listener *os.File) {
	process := c.cmd.Process
	var shim os.FileInfo // remains nil if commands cannot call tools
	if commands := c.launcher.parts.Commands; commands != nil && commands.Binary() != "" {
		shim, _ = os.Stat(commands.Binary())
	}
	c.launcher.parts.Gate.Serve(listener, execgate.Options{
		Plugin: c.plugin.Name, Key: c.gate, PID: process.Pid, Trusted: shim, Own: tool.NoCall,
		Listed: c.launcher.listed != nil && listable(c.plugin),
		Failed: func(error) { _ = process.Kill() },
	})
}

// NewGate returns the gate for the plugins of all configurations. It adds the programs that plugins execute outside of
// calls to the audit log.
func NewGate(audit func(state.AuditEntry), log *slog.Logger) *execgate.Gate {
	return &execgate.Gate{Log: log, Stray: func(plugin string, r *execgate.Record) {
		e := state.AuditEntry{
			At: time.Now(), Tool: "(programs)", Arguments: []byte("{}"), Decision: execgate.Allow, Outcome: "success",
			Plugin: plugin, Programs: call.AuditPrograms(r),
		}
		if r.Denied > 0 {
			e.Decision, e.Outcome = execgate.Deny, string(tool.PermissionDenied)
		}
		audit(e)
	}}
}
