package generation

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"toolhost.dev/sdk/suggest"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/registry"
)

// resolve returns the full name, or the glob for full names, that an operator means by the name of a tool. It accepts
// aliases, and the forms of a command: "tool:NAME", "field:NAMESPACE:NAME" and "field:NAMESPACE NAME". A name that no
// tool has is an error, because a restriction of such a name would restrict nothing.
func (g *Generation) resolve(written string) (string, error) {
	name := strings.TrimPrefix(written, "tool:")
	if rest, field := strings.CutPrefix(written, "field:"); field {
		if name = strings.Replace(rest, " ", ":", 1); !strings.Contains(name, ":") {
			name += ":*"
		}
	}
	if a, ok := g.Registry.Aliases()[name]; ok {
		return a.Target(), nil
	}
	names := g.toolNames()
	if slices.ContainsFunc(names, func(n string) bool { return doublestar.MatchUnvalidated(name, n) }) ||
		g.Registry.Absent(name) != "" || g.isItem(name) {
		return name, nil
	}
	if base, _, ok := strings.Cut(name, "("); ok {
		if known, err := g.resolve(base); err == nil {
			return "", fmt.Errorf("unknown tool %q. A name here has no arguments: write %q. A rule of the permissions can match a command: command = [\"…\"]", written, known)
		}
	}
	if slices.Contains(g.Registry.Namespaces(), name) {
		return "", fmt.Errorf("unknown tool %q. It is a field: write %q for all its tools", written, name+":*")
	}
	near := suggest.DidYouMean(name, names)
	if near == "" {
		near = suggest.DidYouMean(name, slices.Collect(maps.Keys(g.Registry.Aliases())))
	}
	return "", fmt.Errorf("unknown tool %q.%s", written, near)
}

// Knows reports whether a name in a configuration names a tool or a field, in any form that an operator can write.
func (g *Generation) Knows(name string) bool {
	_, err := g.resolve(name)
	return err == nil || slices.Contains(g.Registry.Namespaces(), name)
}

// isItem reports whether a glob is about the items of a field that are not tools, such as prompts.
func (g *Generation) isItem(glob string) bool {
	namespace, rest, _ := strings.Cut(glob, ":")
	return slices.Contains(g.Registry.Namespaces(), namespace) &&
		(strings.HasPrefix(rest, "prompt/") || strings.HasPrefix(rest, "resource/"))
}

// resolveAll returns the resolved names of a list, and an error for the first unknown one.
func (g *Generation) resolveAll(list []string) (out []string, err error) {
	for _, written := range list {
		name, unknown := g.resolve(written)
		if unknown != nil {
			name = written
			if err == nil {
				err = unknown
			}
		}
		out = append(out, name)
	}
	return out, err
}

// boundHooks resolves the names of tools in the hooks of the configuration.
func (g *Generation) boundHooks() error {
	bad := make(map[string]error)
	g.hooks = slices.Clone(g.Config.Hooks)
	for i := range g.hooks {
		h := &g.hooks[i]
		tools, err := g.resolveAll(h.Tools)
		switch {
		case err == nil:
		case h.Refused == "" && g.mounts(tools):
			g.misname("hook "+h.Name, g.Config.BadHooks(map[string]error{h.Name: err}).Error())
		case h.Refused == "":
			bad[h.Name] = err
		case slices.ContainsFunc(tools, g.unknownAlias):
			tools = nil
		}
		h.Tools = tools
	}
	return g.Config.BadHooks(bad)
}

// unknownAlias reports whether a name can be an alias of a configuration that does not apply. Such an alias can mean
// any tool.
func (g *Generation) unknownAlias(name string) bool {
	_, err := g.resolve(name)
	return err != nil && !strings.Contains(name, ":")
}

// bindLists resolves the names of tools and fields in the blocks of principals, endpoints and plugins. It reports
// unknown names. An unknown name stays in its list, so that the list does not allow more without it.
func (g *Generation) bindLists() {
	c := g.Config
	g.Access, g.Endpoints, g.calls = c.Access, slices.Clone(c.Endpoints), make(map[string][]string)
	g.Access.Principals = slices.Clone(c.Access.Principals)
	for i := range g.Access.Principals {
		p := &g.Access.Principals[i]
		p.Tools, p.Fields = g.bindList("principal", p.Name, p.Tools, g.resolve),
			g.bindList("fields of principal", p.Name, p.Fields, g.resolveField)
	}
	for i := range g.Endpoints {
		e := &g.Endpoints[i]
		e.Tools, e.Core = g.bindList("endpoint", e.Name, e.Tools, g.resolve),
			g.bindList("core of endpoint", e.Name, e.Core, g.resolve)
	}
	for i := range c.Plugins {
		g.calls[c.Plugins[i].Name] = g.bindList("plugin", c.Plugins[i].Name, c.Plugins[i].Calls, g.resolve)
	}
}

// bindList returns the resolved names of a list. A nil list stays nil, because it means all tools.
func (g *Generation) bindList(kind, block string, list []string, resolve func(string) (string, error)) []string {
	out := slices.Clone(list)
	for i, written := range list {
		name, err := resolve(written)
		if err == nil {
			out[i] = name
		} else if len(g.Unloaded) == 0 { // otherwise the missing plugins can have the name
			g.misname(kind+" "+block+" "+written, g.Config.UnknownName(kind, block, err))
		}
	}
	return out
}

// resolveField returns the namespace that an operator means by the name of a field. It accepts the forms for all tools
// of a field: "field:NAMESPACE" and "NAMESPACE:*".
func (g *Generation) resolveField(written string) (string, error) {
	name, known := strings.TrimSuffix(strings.TrimPrefix(written, "field:"), ":*"), g.Registry.Namespaces()
	if !slices.Contains(known, name) {
		return "", fmt.Errorf("unknown field %q.%s", written, suggest.DidYouMean(name, known))
	}
	return name, nil
}

// toolBlocks returns the settings of tools by the full names of the tools. A block in the configuration, and its
// fallback, can have another form of the name, such as an alias.
func (b *Builder) toolBlocks(cfg *config.Config, plugins []*Plugin) map[string]config.Tool {
	full := make(map[string]bool)
	var usable []*Plugin
	for _, p := range plugins {
		if d := p.Description(); d != nil && p.Err == nil {
			usable = append(usable, p)
			for i := range d.Tools {
				full[(&registry.Entry{Definition: d.Tools[i], Namespace: p.Field}).FullName()] = true
			}
		}
	}
	out := maps.Clone(cfg.Tools)
	other := func(name string) bool { return name != "" && !full[name] }
	if !slices.ContainsFunc(slices.Collect(maps.Keys(out)),
		func(name string) bool { return other(name) || other(out[name].Fallback) }) {
		return out
	}
	g, _ := probe(cfg, usable)
	g.addAliases(b.Overrides.Aliases())
	for name, t := range out {
		if !other(t.Fallback) {
			continue
		}
		if fallback, err := g.resolve(t.Fallback); err == nil && full[fallback] {
			t.Fallback = fallback
			out[name] = t
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Tools)) {
		if meant, err := g.resolve(name); other(name) && err == nil && full[meant] {
			t := out[name]
			is, twice := out[meant]
			if !twice {
				is = t
			}
			out[meant] = is.Restricted(&t)
		}
	}
	return out
}

// checkToolBlocks reports tool blocks that apply to no tool. If such a block restricts its tool, a host must not start,
// because a misspelled name would leave the tool enabled against the operator's intent.
func (g *Generation) checkToolBlocks() {
	if len(g.Unloaded) > 0 { // the missing plugins can have these names
		return
	}
	named := make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(g.Config.Tools)) {
		t := g.Config.Tools[name]
		if err := g.checkFallback(name); err != nil {
			g.misname("fallback "+name+" "+t.Fallback, g.Config.UnusedFallback(name, err))
		}
		meant, err := g.resolve(name)
		if g.Registry.Find(name) != nil {
			meant, err = name, nil
		}
		_, exact := g.Config.Tools[meant]
		switch first := named[meant]; {
		case err != nil:
		case t.OfProject() && g.Registry.Find(meant) != nil: // it only adds restrictions
		case g.Registry.Find(meant) == nil && g.Registry.Absent(meant) == "":
			err = errors.New("a tool block applies to one tool, not to a pattern or a field. Write the full name of the tool")
		case first != "":
			err = fmt.Errorf("the block tool %q is about the same tool. Put both into one", first)
		case meant != name && exact:
			err = fmt.Errorf("the block tool %q is about the same tool. Put both into one", meant)
		default:
			named[meant] = name
		}
		if err == nil {
			continue
		}
		unused := g.Config.UnusedTool(name, err)
		if key := "tool " + name; t.Restricts() && !g.mounts([]string{name}) {
			g.record(key, unused.Error())
			g.lost = append(g.lost, unused)
		} else {
			g.misname(key, unused.Error())
		}
	}
}

// checkFallback returns an error if the fallback of a tool block has no effect.
func (g *Generation) checkFallback(name string) error {
	written := g.Config.Tools[name].Fallback
	if written == "" {
		return nil
	}
	meant, err := g.resolve(written)
	if err != nil {
		return err
	}
	if absent := g.Registry.Absent(meant); absent != "" {
		return errors.New(absent)
	}
	if g.Registry.Find(meant) == nil {
		return fmt.Errorf("%q is not one tool. Write the full name of a tool", written)
	}
	if name, err = g.resolve(name); err == nil {
		if chain := config.FallbackCycle(g.tools, name); chain != nil {
			return fmt.Errorf("the fallbacks do not end. They are %s, and then %s again. Remove one of them", strings.Join(chain, ", "), name)
		}
	}
	return nil
}

// misname reports a name in the configuration that no tool has. The key identifies the name.
func (g *Generation) misname(key, problem string) {
	g.record(key, problem)
	g.Problemf("%s", problem)
}

func (g *Generation) record(key, problem string) {
	if g.misnames == nil {
		g.misnames = make(map[string]string)
	}
	g.misnames[key] = problem
}
