package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"toolhost.dev/host/internal/lazyregexp"
)

// These constants limit the length of function names, in characters. Models' APIs permit 64 characters, but clients add
// the name of the server as a prefix, such as "mcp__toolhost__". A namespace is shortened so that the name has at most
// usualFunctionName characters. The tool's own words are cut only at maxFunctionName.
const (
	usualFunctionName = 40
	maxFunctionName   = 48
)

var (
	plain = strings.NewReplacer(":", "_", ".", "_")
	// callable matches the names that every model's API accepts.
	callable = lazyregexp.New(`^[A-Za-z][A-Za-z0-9_-]{0,47}$`)
	// separators matches the text between two words of a name.
	separators = lazyregexp.New(`[_-]+`)
)

// functionName returns the name of a tool in function calls. It consists of characters that every model's API accepts.
// The namespace is left out if the name of the tool begins with it. If the name is too long, the namespace is shortened
// before the name of the tool, because a model selects a tool by the tool's own words.
func functionName(namespace, name string) string {
	namespace, name = plain.Replace(namespace), plain.Replace(name)
	rest, repeated := strings.CutPrefix(name, namespace)
	switch {
	case namespace == "", repeated && rest != "" && strings.ContainsRune("_-", rune(rest[0])):
		namespace = ""
	default:
		namespace = shortened(namespace, usualFunctionName-1-len(name))
	}
	if namespace != "" {
		name = namespace + "_" + name
	}
	if len(name) > maxFunctionName {
		return marked(name, name)
	}
	return name
}

// shortened returns a namespace with at most limit characters. It first removes words that say nothing about the
// server, and then whole words at the end. It returns "" if no word fits.
func shortened(namespace string, limit int) string {
	if len(namespace) <= limit {
		return namespace
	}
	words := separators.Split(namespace, -1)
	if telling := slices.DeleteFunc(slices.Clone(words),
		func(w string) bool { return w == "" || w == "mcp" || w == "server" }); len(telling) > 0 {
		words = telling
	}
	for ; len(words) > 0; words = words[:len(words)-1] {
		if short := strings.Join(words, "_"); len(short) <= limit {
			return short
		}
	}
	return ""
}

// marked adds a hash of the full name to a function name that is too long or that another tool uses.
func marked(name, full string) string {
	sum := sha256.Sum256([]byte(full))
	mark := "_" + hex.EncodeToString(sum[:3])
	short := name[:min(len(name), usualFunctionName-len(mark))]
	if len(short) < len(name) {
		if at := strings.LastIndexAny(short, "_-"); at > len(short)/2 {
			short = short[:at]
		}
	}
	return short + mark
}

// FunctionNames maps the full name of each tool to the tool's name in function calls. A function name consists of at
// most 48 letters, digits, '_' and '-'. If a tool of a field has exactly one alias, the alias is its function name. If
// two tools need the same function name, an enabled tool takes precedence. The caller must not modify the map.
func (r *Registry) FunctionNames() map[string]string { return r.snapshot.Load().functions() }

func (s *snapshot) functionNames() map[string]string {
	names, taken := make(map[string]string, len(s.order)), make(map[string]bool, len(s.order))
	chosen := s.chosenNames()
	for _, enabled := range []bool{true, false} {
		for _, e := range s.order {
			if e.Enabled != enabled {
				continue
			}
			full := e.FullName()
			name := chosen[full]
			if name == "" || taken[name] {
				name = functionName(e.Namespace, e.Definition.Name)
			}
			if taken[name] {
				if name = plain.Replace(full); taken[name] || len(name) > maxFunctionName {
					name = marked(name, full)
				}
			}
			names[full], taken[name] = name, true
		}
	}
	return names
}

// chosenNames maps the full names of tools of fields to the name that the operator chose with an alias.
func (s *snapshot) chosenNames() map[string]string {
	out := make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(s.aliases)) {
		a := s.aliases[name]
		if a.Namespace == "" || a.Optional || a.Convert != nil || len(a.Params) > 0 || !callable.MatchString(name) {
			continue
		}
		if _, several := out[a.Target()]; several {
			name = "" // ambiguous
		}
		out[a.Target()] = name
	}
	return out
}

// FullName returns the full name of the tool with the given function name. It returns "" for an unknown function name.
func (r *Registry) FullName(function string) string {
	for full, name := range r.FunctionNames() {
		if name == function {
			return full
		}
	}
	return ""
}
