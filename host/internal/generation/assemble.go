package generation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"toolhost.dev/sdk/spill"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/confinement"
	"toolhost.dev/host/internal/dispatch"
	"toolhost.dev/host/internal/habit"
	"toolhost.dev/host/internal/manifest"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/roots"
	"toolhost.dev/host/internal/stage"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/supervisor"
	"toolhost.dev/host/internal/trust"
	"toolhost.dev/host/router"
)

// Assemble builds a generation from plugins with known descriptions. The result "refused" maps each plugin whose tools
// cannot be registered to the reason. The tools of all other plugins work. The error lists the operator's rules that do
// not match the registered tools. All other rules of the operator apply.
func (b *Builder) Assemble(cfg *config.Config, launcher *confinement.Launcher,
	plugins []*Plugin) (g *Generation, refused map[string]error, err error) {
	g = &Generation{
		Config: cfg, Launcher: launcher, Plugins: plugins, home: b.Home,
		Registry: registry.New(), Roots: b.Roots(cfg), Unloaded: make(map[string]string),
		lostTools: make(map[string]string),
	}
	if weaker := launcher.Problem(roots.Configured(cfg, b.Options.Workspace)); weaker != "" {
		g.Problemf("%s", weaker)
	}
	if err := b.Pins(cfg).Problem(); err != nil {
		g.Problemf("Only bundled plugins can run: %v", err)
	}
	g.tools = b.toolBlocks(cfg, plugins)
	set := make(supervisor.Set, len(plugins))
	refused = make(map[string]error)
	known := b.known(cfg, plugins)
	missing := make(map[string]string) // plugins by the names of bundled tools that are not loaded
	var usable []*Plugin
	var additions []registry.Addition
	for _, p := range plugins {
		set[p.Name] = p.Process
		if held := p.Held(); held != nil && p.Err == nil {
			g.Problemf("%s", held.problem(p))
		}
		if now := cfg.Plugin(p.Name); now != nil && now.Refused != "" && p.Err == nil {
			g.Problemf("Plugin %s cannot be started again: %s.", p.Name, now.Refused)
		}
		if p.Err != nil {
			b.lose(g, p, missing)
			continue
		}
		usable, additions = append(usable, p), append(additions, b.addition(g, p, known))
	}
	if old := b.owner.Current(); old != nil && sameOrder(old.Plugins, plugins) {
		g.Registry.Keep(old.Registry, names(old.Plugins))
	}
	g.Registry.Reserve(missing) // otherwise all commands would reach another plugin as soon as the bundled one fails
	for i, err := range g.Registry.AddAll(additions...) {
		if err != nil {
			refused[usable[i].Name] = err
			g.Problemf("%v", err)
			g.Broken = append(g.Broken, g.Problems[len(g.Problems)-1])
		}
	}
	g.checkRoles(usable)
	g.setAbsent()
	g.addAliases(b.Overrides.Aliases())
	g.addHabits()
	g.checkToolBlocks()
	g.bindLists()
	g.checkHooks()
	rules, err := g.boundRules(b.Options.Workspace)
	rules.Private = b.Home.Root
	g.Hooks, g.Tracer = b.hooks(g), b.tracing.tracerOf(g.Config, b.Log)
	core := b.core(g, set, rules)
	g.Dispatch = dispatch.New(core, b.stages(g, core)...)
	return g, refused, err
}

// sameOrder reports whether the plugins in both lists have the same order in each. Otherwise, the operator changed it.
func sameOrder(old, now []*Plugin) bool {
	was, is := names(old), names(now)
	missing := func(in []string) func(string) bool {
		return func(name string) bool { return !slices.Contains(in, name) }
	}
	return slices.Equal(slices.DeleteFunc(slices.Clone(was), missing(is)), slices.DeleteFunc(is, missing(was)))
}

func names(plugins []*Plugin) []string {
	out := make([]string, len(plugins))
	for i, p := range plugins {
		out[i] = p.Name
	}
	return out
}

// lose records that a plugin is not loaded. It adds the tools of a bundled plugin to the argument "missing".
func (b *Builder) lose(g *Generation, p *Plugin, missing map[string]string) {
	g.failed(p)
	if p.Field != "" {
		return
	}
	for _, name := range manifest.OpenDirectory(b.Options.Bundled).Tools(cmp.Or(p.Bundled, p.Name)) {
		missing[name] = p.Name
	}
	if pin, ok, err := b.Pins(g.Config).Of(p.Name); ok && err == nil {
		for name := range pin.Tools {
			g.lostTools[name] = p.Name
		}
	}
}

// checkRoles reports the tools of others that claim the role of a bundled tool that is not loaded, or of another
// plugin. Their order in the configuration decides which of them gets the calls.
func (g *Generation) checkRoles(plugins []*Plugin) {
	for _, p := range plugins {
		if p.Bundled != "" || p.Field != "" {
			continue
		}
		for _, d := range p.Description().Tools {
			role, why := d.Claims(), ""
			switch holder := g.Registry.ByRole(role); {
			case role == "":
				continue
			case g.Registry.Reserved(role):
				why = "a bundled plugin with this role is not loaded. Repair that plugin, or turn it off with enabled = false in its block"
			case holder != nil && !holder.Bundled && holder.Plugin != p.Name:
				why = fmt.Sprintf("the tool %s of plugin %s has it. Turn one of the two plugins off, or change their order", holder.FullName(), holder.Plugin)
			default:
				continue
			}
			g.Problemf("The tool %s of plugin %s does not have the role %s, because %s", d.Name, p.Name, role, why)
		}
	}
}

// known returns the approved definitions of all usable plugins.
func (b *Builder) known(cfg *config.Config, plugins []*Plugin) trust.Known {
	var subjects []trust.Subject
	for _, p := range plugins {
		if p.Err == nil {
			subjects = append(subjects, p.Subject())
		}
	}
	return b.Approvals(cfg).Known(subjects)
}

// addition returns what a plugin registers.
func (b *Builder) addition(g *Generation, p *Plugin, known trust.Known) registry.Addition {
	desc, pending, review, err := b.Approvals(g.Config).Review(p.Subject(), p.Description(), known,
		g.Config.Trust.Approve)
	if err != nil {
		g.Problemf("The tools of plugin %s cannot be compared with the approved ones: %v", p.Name, err)
	}
	if review != nil {
		g.Reviews = append(g.Reviews, review)
		if len(review.Pending) > 0 {
			g.Problemf("Plugin %s changed the definitions of its tools, so %s cannot be called until they are approved. Check them with toolhost plugin info %s, then run toolhost plugin approve %s", p.Name, strings.Join(review.Pending, ", "), p.Name, p.Name)
		}
	}
	return registry.Addition{Plugin: p.Name, Namespace: p.Field, Description: desc,
		Checked: p.Checked && len(pending) == 0, Settings: func(name string) registry.Settings {
			t := g.tools[name]
			on, overridden := b.Overrides.Enabled(name)
			if overridden {
				t.Enabled = &on
			}
			return registry.Settings{PendingApproval: pending[name], Enabled: t.Enabled, Overridden: overridden,
				Bundled: p.Bundled != "" && p.Field == "", Verbatim: p.Mounted, Keywords: t.Keywords,
				Timeout: t.Timeout, Limits: registry.Limits{
					Priority: t.Priority, MaxConcurrent: t.MaxConcurrent, Queue: t.Queue, Attempts: t.Attempts,
					RetryDelay: t.RetryDelay,
					Fallback:   t.Fallback, FallbackParams: t.FallbackParams,
				}}
		}}
}

// core returns what the dispatcher of a generation needs beside its stages.
func (b *Builder) core(g *Generation, set supervisor.Set, rules policy.Rules) dispatch.Core {
	c := b.Calls
	return dispatch.Core{
		Registry: g.Registry,
		Policy:   policy.New(rules),
		Plugins:  &plugins{g, set, &c.Rollouts},
		State:    b.State,
		Host:     &process{b},
		Turns:    dispatch.Turns{Scheduler: c.Scheduler, Limits: b.limits(g.Config), Locks: b.Locks, Log: b.Log},
		Tracer:   g.Tracer,
		Finder:   &c.Finder,
		Pulse:    b.Options.Pulse,
	}
}

// limits returns the limits of a configuration. Without adaptive mode, it also drops what the mode cached.
func (b *Builder) limits(cfg *config.Config) *stage.Limits {
	c := b.Calls
	l := &stage.Limits{Gates: &c.Gates, MaxCalls: cfg.Host.MaxCalls, Metrics: &c.Metrics, Timeout: cfg.Host.Timeout,
		MaxWait: cfg.Host.MaxWait}
	if cfg.Host.Adaptive {
		l.Adaptive = &c.Adaptive
	} else {
		c.Adaptive.Results.Clear()
	}
	return l
}

// stages returns the stages of a call from the outermost to the innermost. ARCHITECTURE.md explains the
// order.
func (b *Builder) stages(g *Generation, core dispatch.Core) []dispatch.Stage {
	c := b.Calls
	limits := core.Turns.Limits
	results := &results{b: b, cfg: g.Config, stores: make(map[string]*spill.Store)}
	permissions := &dispatch.Permissions{Policy: core.Policy, State: core.State, Host: core.Host}
	return []dispatch.Stage{
		(&dispatch.Fallbacks{Host: core.Host, Results: results}).Stage(),
		(&dispatch.Records{Registry: core.Registry, State: core.State, Metrics: limits.Metrics}).Stage(),
		stage.Bounds(results),
		dispatch.Hooks(g.Hooks),
		permissions.Authorize(),
		stage.Quotas(&c.Quota, g.Config.Quotas),
		limits.Stage(),
		permissions.Reauthorize(),
		stage.Ledger(),
		stage.Branch(core.Policy, core.State),
		stage.Checkpoint(core.State.MaskCommand),
		stage.Layer(),
		stage.Temporary(b.Log),
		(&dispatch.ChildCalls{Host: core.Host, Plugins: core.Plugins,
			Commands: b.Commands.Programs(commandNames(g.Registry))}).Stage(),
		limits.Timeouts(),
		(&dispatch.Sessions{State: core.State}).Stage(),
		(&stage.Programs{Policy: core.Policy, State: core.State, Began: permissions}).Stage(),
		stage.Measure(core.Tracer, limits.Metrics),
		(&stage.Taping{Recorder: &c.Recorder, State: core.State, Plans: b.records(g.Config)}).Stage(),
		stage.Cache(limits.Adaptive, limits.Metrics),
		stage.Retry(),
		(&stage.Versions{Rollouts: &c.Rollouts, State: core.State, Timeout: limits.Timeout,
			Plugins: &process{b}}).Stage(),
	}
}

// process implements [dispatch.Host] and [stage.Reserver].
type process struct{ b *Builder }

// Latest implements [dispatch.Host].
func (p *process) Latest() *dispatch.Dispatcher { return p.b.owner.Current().Dispatch }

// CommandsCallTools implements [dispatch.Host].
func (p *process) CommandsCallTools() bool { return p.b.Commands.Available() }

// Preview implements [dispatch.Host].
func (p *process) Preview(s call.Session) (call.Preview, error) { return p.b.Preview(s) }

// Reserve implements [stage.Reserver].
func (p *process) Reserve(plugin, owner string) call.Lease { return p.Latest().Reserve(plugin, owner) }

// results has the stores for long results by owner. It implements [stage.ResultStores].
type results struct {
	b   *Builder
	cfg *config.Config

	mu     sync.Mutex
	stores map[string]*spill.Store
}

// Store implements [stage.ResultStores].
func (r *results) Store(owner string) *spill.Store {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stores[owner]
	if s == nil {
		s = spill.NewStore(r.b.Home.Output(owner, state.ResultsDir))
		s.MaxBytes, s.MaxAge = r.cfg.Access.OutputBytes(owner), r.cfg.Retention.Output
		if s.MaxBytes > 0 {
			s.Setting = "limits { output } of the principal"
		}
		r.stores[owner] = s
	}
	return s
}

// commandNames returns the names of the programs through which commands can call tools. These are the names of agent
// tools, aliases, namespaces, and the tools of each namespace.
func commandNames(r *registry.Registry) []string {
	var names []string
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
	return names
}

// setAbsent registers the tools that the operator can add to the configuration.
func (g *Generation) setAbsent() {
	absent := make(map[string]string)
	for _, o := range g.Config.Offers {
		absent[o.Tool] = o.Advice()
	}
	g.Registry.SetAbsent(absent)
}

// addAliases registers the aliases in more. If the tool of an alias is unknown, addAliases reports a problem to the
// operator, unless the alias comes from a preset.
func (g *Generation) addAliases(more []config.Alias) {
	var added []registry.Alias
	var from []config.Alias // the origin of each added alias
	for _, a := range slices.Concat(g.Config.Aliases, more) {
		alias := registry.Alias{
			Name: a.Name, Tool: a.Tool, Habit: registry.Habit{Params: a.Params}, Optional: a.Preset != "",
		}
		if a.Preset != "" {
			if alias.Tool = g.toolOf(a.Role); alias.Tool == "" {
				continue
			}
			alias.Convert = g.converter(habit.Converter(a.Preset, a.Name))
		}
		if ns, name, ok := strings.Cut(a.Tool, ":"); ok {
			alias.Namespace, alias.Tool = ns, name
		}
		added, from = append(added, alias), append(from, a)
	}
	for i, err := range g.Registry.AddAliases(added...) {
		if a := from[i]; err != nil && a.Preset == "" && len(g.Unloaded) == 0 {
			g.misname("alias "+a.Name+" "+a.Tool, g.Config.BadAlias(a, err))
		}
	}
}

// addHabits registers names of tools and parameters that agents know from other programs. These names are valid only in
// function calls.
func (g *Generation) addHabits() {
	habits := make(map[string]registry.Alias)
	for _, preset := range g.Config.Host.AliasPresets {
		for _, a := range habit.Presets[preset] {
			if to := g.toolOf(a.Role); a.Calls && to != "" {
				habits[a.Name] = registry.Alias{
					Name: a.Name, Tool: to, Habit: registry.Habit{Params: a.Params, Convert: g.converter(a.Convert)},
				}
			}
		}
	}
	g.Registry.SetHabits(habits)
}

// toolOf returns the name of the tool with a role. If the configuration has none, it returns the name of a bundled tool
// that the operator can add, or "".
func (g *Generation) toolOf(role tool.Role) string {
	if name := g.Registry.RoleName(role); name != "" {
		return name
	}
	for _, o := range g.Config.Offers {
		if offered := (tool.Definition{Name: o.Tool}); offered.Claims() == role {
			return o.Tool
		}
	}
	return ""
}

// converter returns a conversion to the tool that has the role that the argument "convert" selects.
func (g *Generation) converter(convert func(habit.Args) (tool.Role, habit.Args, error)) router.Converter {
	if convert == nil {
		return nil
	}
	return func(args habit.Args) (string, habit.Args, error) {
		role, out, err := convert(args)
		return cmp.Or(g.toolOf(role), string(role)), out, err
	}
}
