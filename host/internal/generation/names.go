package generation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"toolhost.dev/sdk/suggest"
)

// resolve returns the full name, or the glob for full names, that an operator means by the name of a tool. It accepts aliases,
// and the forms of a command: "tool:NAME", "field:NAMESPACE:NAME" and "field:NAMESPACE NAME". A name that no tool has is an
// error, because a restriction of such a name would restrict nothing.
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
	if slices.ContainsFunc(names, func(n string) bool { return doublestar.MatchUnvalidated(name, n) }) || g.Registry.Absent(name) != "" || g.isItem(name) {
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

// isItem reports whether a glob is about the items of a field that are not tools, such as prompts.
func (g *Generation) isItem(glob string) bool {
	namespace, rest, _ := strings.Cut(glob, ":")
	return slices.Contains(g.Registry.Namespaces(), namespace) && (strings.HasPrefix(rest, "prompt/") || strings.HasPrefix(rest, "resource/"))
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

// unknownAlias reports whether a name can be an alias of a configuration that does not apply. Such an alias can mean any
// tool.
func (g *Generation) unknownAlias(name string) bool {
	_, err := g.resolve(name)
	return err != nil && !strings.Contains(name, ":")
}

// checkLists reports names of tools and fields in the blocks of principals, endpoints and plugins that nothing has.
func (g *Generation) checkLists() {
	if len(g.Unloaded) > 0 { // the missing plugins can have these names
		return
	}
	c := g.Config
	for i := range c.Access.Principals {
		p := &c.Access.Principals[i]
		for _, field := range p.Fields {
			if !slices.Contains(g.Registry.Namespaces(), field) {
				g.misname("principal "+p.Name+" "+field, c.UnknownName("fields of principal", p.Name, fmt.Errorf("unknown field %q.%s", field, suggest.DidYouMean(field, g.Registry.Namespaces()))))
			}
		}
		g.checkList("principal", p.Name, p.Tools)
	}
	for i := range c.Endpoints {
		g.checkList("endpoint", c.Endpoints[i].Name, c.Endpoints[i].Tools)
	}
	for i := range c.Plugins {
		g.checkList("plugin", c.Plugins[i].Name, c.Plugins[i].Calls)
	}
}

// checkList reports the names in a list that no tool has. An alias is reported with the name of its tool, because these lists
// are compared with full names.
func (g *Generation) checkList(kind, block string, list []string) {
	for _, written := range list {
		name, err := g.resolve(written)
		if err == nil && name != written {
			err = fmt.Errorf("%q is not the full name of a tool. Write %q", written, name)
		}
		if err != nil {
			g.misname(kind+" "+block+" "+written, g.Config.UnknownName(kind, block, err))
		}
	}
}
