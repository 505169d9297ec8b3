package call

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"toolhost.dev/host/internal/adaptive"
)

// CacheKey returns a key that contains all inputs of the call, except the contents of files. The result "ok" is false
// if the call's result can depend on an input that the key cannot contain.
func (c *Call) CacheKey() (key adaptive.ResultKey, ok bool) {
	sent, traits := c.Decision.Sent, c.Identity.Tool.Definition.Traits
	if !traits.Cacheable || !traits.ReadOnly || sent.Commands != nil {
		return key, false
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q %q", c.Identity.Tool.FullName(), sent.Cwd, sent.Arguments)
	for _, r := range sent.Roots {
		if r.Source != "" || r.View != "" { // the result can contain paths that are valid only in this session
			return key, false
		}
		fmt.Fprintf(&b, " %q %t", r.Path, r.Writable)
	}
	for _, param := range c.Identity.Tool.Schema().Params() {
		raw, given := c.Decision.Arguments[param.Name]
		if param.Path == "" || !given {
			continue
		}
		if param.Path == "diff" || !addTargets(&b, raw, sent.Cwd) {
			return key, false
		}
	}
	return adaptive.ResultKey{Plugin: c.Identity.Lease.Version(), Call: b.String()}, true
}

// addTargets extends a cache key with the paths in an argument, after their links are resolved. It returns false if a
// path does not exist.
func addTargets(b *strings.Builder, raw json.RawMessage, cwd string) bool {
	var paths []string
	if one := ""; json.Unmarshal(raw, &one) == nil {
		paths = []string{one}
	} else if json.Unmarshal(raw, &paths) != nil {
		return false
	}
	for _, path := range paths {
		if !filepath.IsAbs(path) {
			path = filepath.Join(cwd, path)
		}
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			return false
		}
		fmt.Fprintf(b, " %q", target)
	}
	return true
}
