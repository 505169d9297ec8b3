package dispatch

import (
	"os"
	"path/filepath"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/help"
	"toolhost.dev/host/router"
)

// parse returns what a request means.
func (d *Dispatcher) parse(req Request) *router.Command {
	if req.Name != "" {
		return router.Function(req.Name, req.Arguments, d.Registry)
	}
	return router.Parse(req.Command, d.Registry, d.options(req.Session.Cwd))
}

func (d *Dispatcher) options(cwd string) router.Options {
	return router.Options{Exists: existsFrom(cwd), Commands: d.Commands != nil && d.Commands.Available()}
}

// existsFrom returns a function that reports whether a path exists, seen from cwd.
func existsFrom(cwd string) func(string) bool {
	return func(path string) bool {
		if !filepath.IsAbs(path) {
			path = filepath.Join(cwd, path)
		}
		_, err := os.Lstat(path)
		return err == nil
	}
}

// resolve finds the tool of a command and leases its plugin, or finds the answer that needs no plugin. The
// call then belongs to the generation of that plugin, even if a reload replaces it.
func (p *Pending) resolve(cmd *router.Command) {
	p.call.Identity.Command = cmd
	for {
		p.d.bind(&p.call)
		id := &p.call.Identity
		if id.Answer != nil {
			return
		}
		if id.Lease = p.d.Plugins.Reserve(id.Tool.Plugin); id.Lease != nil {
			return
		}
		p.d = p.d.latest()
	}
}

// bind sets the tool and the arguments of a call, or its answer.
func (d *Dispatcher) bind(c *Call) {
	id, cmd := &c.Identity, c.Identity.Command
	id.Tool, id.Answer, c.Decision.Arguments = nil, nil, nil
	native := cmd.Layer == router.Native
	switch {
	case cmd.Error != nil:
		id.Answer = d.notFound(cmd)
		return
	case cmd.IsHelp:
		id.Answer = help.Result(d.Registry, cmd)
		return
	case native && cmd.Simple:
		if err := d.unloaded(cmd); err != nil {
			id.Answer = refused(err)
			return
		}
	}
	name := cmd.Name
	if native {
		name = Shell
	}
	e, err := d.Registry.Enabled(cmd.Namespace, name)
	switch {
	case err != nil && native:
		id.Answer = refused(tool.Errorf(tool.NotFound, "%q is not a tool, and there is no shell to run it. Enable the plugin that serves the tool %s.", firstWord(cmd), Shell))
	case err != nil:
		id.Answer = refused(err)
	case native:
		id.Tool = e
		d.bindShell(c)
	default:
		id.Tool, c.Decision.Arguments = e, cmd.Arguments
	}
}

// bindShell binds a native command to the schema of the shell tool.
func (d *Dispatcher) bindShell(c *Call) {
	args, bad := c.Identity.Tool.Schema().Check(c.Identity.Command.Kwargs)
	if len(bad) > 0 {
		c.Identity.Answer = refused(tool.Errorf(tool.Internal, "Tool %s cannot run a command: %s. Configure another plugin for the shell.", Shell, bad[0].Message))
		return
	}
	c.Decision.Arguments = args
}

// notFound returns the result of a command with an error. If the tool's plugin failed to load, the result says so.
func (d *Dispatcher) notFound(cmd *router.Command) *tool.Result {
	if cmd.Error.Kind == tool.NotFound {
		if err := d.unloaded(cmd); err != nil {
			return refused(err)
		}
	}
	return &tool.Result{Error: cmd.Error}
}

// unloaded returns an error if the plugin that would serve a command failed to load.
func (d *Dispatcher) unloaded(cmd *router.Command) error {
	if d.Unloaded == nil {
		return nil
	}
	namespace, _, _ := strings.Cut(cmd.Name, ":") // the command is native because the namespace is unknown
	for _, name := range []string{cmd.Namespace, cmd.Name, namespace} {
		if name == "" {
			continue
		}
		if why := d.Unloaded(name); why != "" {
			return tool.Errorf(tool.Unavailable, "%s", why).From(tool.SourcePlugin)
		}
	}
	return nil
}

func firstWord(cmd *router.Command) string {
	if cmd.Name != "" {
		return cmd.Name
	}
	return cmd.Raw
}
