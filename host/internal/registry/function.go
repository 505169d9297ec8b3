package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxFunctionName limits the length of function names, in characters. Models' APIs permit 64 characters, but clients add
// the name of the server as a prefix.
const maxFunctionName = 40

// functionName converts a full name to a name with characters that every model's API accepts.
func functionName(full string) string {
	name := strings.NewReplacer(":", "_", ".", "_").Replace(full)
	if len(name) > maxFunctionName {
		return marked(name, full)
	}
	return name
}

// The function "marked" adds a hash to a function name that another tool already uses.
func marked(name, full string) string {
	sum := sha256.Sum256([]byte(full))
	mark := "_" + hex.EncodeToString(sum[:3])
	return name[:min(len(name), maxFunctionName-len(mark))] + mark
}

// FunctionNames maps the full name of each tool to the tool's name in function calls. A function name consists of at
// most 40 letters, digits, '_' and '-'. If two tools need the same function name, an enabled tool takes precedence.
func (r *Registry) FunctionNames() map[string]string {
	names, taken := make(map[string]string), make(map[string]bool)
	for _, enabled := range []bool{true, false} {
		for _, e := range r.All() {
			if e.Enabled != enabled {
				continue
			}
			full := e.FullName()
			name := functionName(full)
			if taken[name] {
				name = marked(name, full)
			}
			names[full], taken[name] = name, true
		}
	}
	return names
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
