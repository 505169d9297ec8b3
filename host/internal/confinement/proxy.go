package confinement

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/sandbox"
	"toolhost.dev/sandbox/cgroup"
	"toolhost.dev/sandbox/egress"
	"toolhost.dev/sandbox/footprint"
	"toolhost.dev/sandbox/hostlist"
)

// confined is a confined plugin process.
type confined struct {
	launcher *Launcher
	plugin   *config.Plugin
	backend  sandbox.Backend
	cmd      *exec.Cmd
	hosts    []string
	resident uint64 // limit of the total memory of all processes, in bytes; zero means no limit
	groups   groups
	wait     sandbox.Running
	gate     string  // key of the process in the exec gate
	masks    *masked // nil if the plugin needs no masks
	stop     func()  // stops the proxy
	watch    func()  // stops monitoring the memory; can be nil
}

// running waits until the plugin's program starts. Then it starts the plugin's proxy.
func (c *confined) running(started error) error {
	listener, err := c.wait(started, c.serveGate)
	err = advise(err)
	if err != nil && c.backend.Abilities().OwnRoot {
		sandbox.Forget(c.launcher.parts.Home.Root) // discard the probe result, because the features of the machine can have changed
	}
	if listener != nil {
		c.stop, err = c.launcher.serveProxy(listener, c.plugin, c.hosts)
	}
	if err == nil && c.masks != nil && c.cmd.Process != nil {
		if err = c.masks.running(c.cmd.Process.Pid); err == nil {
			err = c.launcher.parts.masks.check(c.masks) // a file can have been replaced during the start
		}
	}
	if err == nil && c.resident > 0 && c.cmd.Process != nil {
		c.watch = footprint.Watch(c.cmd.Process.Pid, c.resident, c.launcher.overMemory(c.plugin, c.resident))
	}
	return err
}

var errGated = errors.New("a filter around toolhost already judges programs, for example because toolhost runs in the sandbox of another toolhost, and Linux permits only one such filter. Start toolhost outside of that sandbox")

// advised adds to the findings of a probe what an operator can do.
func advised(k *sandbox.Kernel) {
	if k.Launcher == "" && runtime.GOOS == "linux" {
		k.NoLauncher += "; install it beside toolhost (make build)"
	}
	for backend, why := range k.NoGate {
		if why == sandbox.ErrGated.Error() {
			k.NoGate[backend] = errGated.Error()
		}
	}
}

// noCgroup returns the reason why groups cannot be created, and what an operator can do.
func noCgroup(err error) string {
	if shared := (*cgroup.NotDelegatedError)(nil); errors.As(err, &shared) {
		return err.Error() + ": start toolhost in one of its own: systemd-run --user --scope -p Delegate=yes toolhost …"
	}
	return err.Error()
}

// advise adds to an error of a start what an operator can do.
func advise(err error) error {
	var setup *sandbox.SetupError
	switch {
	case errors.Is(err, sandbox.ErrGated):
		return errGated
	case !errors.As(err, &setup):
		return err
	case setup.Step == "":
		return fmt.Errorf("%w. Run toolhost doctor for details", err)
	}
	return fmt.Errorf("%w. Run toolhost doctor for details. To turn the sandbox off, configure sandbox { enforce = \"off\" }", err)
}

// ended releases the resources of the process.
func (c *confined) ended() {
	if c.masks != nil {
		c.launcher.parts.masks.remove(c.masks)
	}
	if c.stop != nil {
		c.stop()
	}
	if c.watch != nil {
		c.watch()
	}
	if err := c.groups.remove(); err != nil {
		c.launcher.parts.Log.Warn("the cgroup of a plugin could not be removed", "plugin", c.plugin.Name, "why", err)
	}
}

// proxyPort is the port of the proxy on the plugin's localhost. Only plugins with a list of permitted hosts use the
// proxy.
const proxyPort = 3128

// proxyEnvironment adds environment variables to env. With these variables, programs use the proxy.
func proxyEnvironment(env []string) []string {
	address := fmt.Sprintf("http://127.0.0.1:%d", proxyPort)
	own := "localhost,127.0.0.1,::1"
	vars := []string{"NODE_USE_ENV_PROXY=1"}
	for name, value := range map[string]string{"HTTP_PROXY": address, "HTTPS_PROXY": address, "ALL_PROXY": address,
		"NO_PROXY": own} {
		vars = append(vars, name+"="+value, strings.ToLower(name)+"="+value)
	}
	slices.Sort(vars)
	env = slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.ContainsFunc(vars, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	})
	return append(env, vars...)
}

// serveProxy runs the proxy for a plugin's programs. The caller must call stop at the end.
func (l *Launcher) serveProxy(listener net.Listener, p *config.Plugin, hosts []string) (stop func(), err error) {
	list, err := hostlist.Parse(hosts)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, listener.Close())
	}
	advice := func(d egress.DenialError) string { return hostAdvice(l.cfg, p, &d) }
	proxy := &egress.Proxy{Name: "toolhost", Hosts: list, Log: l.parts.Log, Advice: advice,
		Denied: func(d egress.DenialError) {
			text := fmt.Sprintf("The sandbox refused a connection to %s. %s", d.Error(), advice(d))
			if l.parts.Denials.add(p.Name, d.Target, text, d.At) {
				l.audit(p, &d, text)
			}
		}}
	return proxy.Serve(listener), nil
}

// hostAdvice returns a text that explains how to allow a denied host.
func hostAdvice(cfg *config.Config, p *config.Plugin, d *egress.DenialError) string {
	return fmt.Sprintf("To allow this connection, the operator adds %q to the list network in the sandbox block of %s", d.Entry, block(cfg, p))
}

// audit writes an audit entry for a denied connection.
func (l *Launcher) audit(p *config.Plugin, d *egress.DenialError, text string) {
	args, err := json.Marshal(map[string]string{"host": d.Target})
	if err != nil { // cannot happen for strings
		panic(err)
	}
	l.parts.Audit(state.AuditEntry{
		At: d.At, Tool: "(network)", Arguments: args, Decision: "deny",
		Rule:    fmt.Sprintf("network of plugin %q", p.Name),
		Outcome: string(tool.PermissionDenied), Error: text, Plugin: p.Name,
	})
}
