package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxFunctionName limits function names, in characters. Models' APIs permit 64 characters, but clients add a server's
// name in front.
const maxFunctionName = 40

// functionName returns a full name in the characters that every model's API accepts.
func functionName(full string) string {
	name := strings.NewReplacer(":", "_", ".", "_").Replace(full)
	if len(name) > maxFunctionName {
		return marked(name, full)
	}
	return name
}

// marked adds a hash to a name that another tool already uses.
func marked(name, full string) string {
	sum := sha256.Sum256([]byte(full))
	mark := "_" + hex.EncodeToString(sum[:3])
	return name[:min(len(name), maxFunctionName-len(mark))] + mark
}

// FunctionNames maps the full name of each tool to its name in function calls. A function name has at most 40 letters,
// digits, '_' and '-'. Enabled tools get their names first.
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

// FullName returns the full name of a tool with a function name, or "".
func (r *Registry) FullName(function string) string {
	for full, name := range r.FunctionNames() {
		if name == function {
			return full
		}
	}
	return ""
}
