package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxFunctionName is what is left of the 64 characters that models' APIs allow when
// clients put a server's name before it.
const maxFunctionName = 40

// functionName is a full name with the characters that every model's API accepts.
func functionName(full string) string {
	name := strings.NewReplacer(":", "_", ".", "_").Replace(full)
	if len(name) > maxFunctionName {
		return marked(name, full)
	}
	return name
}

// marked tells a name from another that would be the same.
func marked(name, full string) string {
	sum := sha256.Sum256([]byte(full))
	mark := "_" + hex.EncodeToString(sum[:3])
	return name[:min(len(name), maxFunctionName-len(mark))] + mark
}

// FunctionNames gives each tool, by its full name, the name by which a model's function
// calls name it: at most 40 letters, digits, '_' and '-'. Those of enabled tools come first.
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

// FullName finds a tool by its function name; empty: there is none.
func (r *Registry) FullName(function string) string {
	for full, name := range r.FunctionNames() {
		if name == function {
			return full
		}
	}
	return ""
}
