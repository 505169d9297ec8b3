package claim

import (
	"path/filepath"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/lazyregexp"
)

// leaves matches a script that starts with a change to an absolute directory.
var leaves = lazyregexp.New(`^\s*cd\s+(?:--\s+)?["']?/`)

// Stranded returns an error if the session's directory no longer exists and the call depends on it. If the call used
// the workspace instead, it could change the wrong files.
func Stranded(c *call.Call) error {
	s := c.Request.Session
	if s.Gone == "" || c.Identity.Tool == nil {
		return nil
	}
	args := c.Decision.Arguments
	depends := false
	if c.Identity.Tool.Has(tool.RoleShell) {
		depends = !leaves.MatchString(Text(args["command"])) && !filepath.IsAbs(Text(args["cwd"]))
	} else {
		for _, p := range c.Identity.Tool.Schema().Params() {
			if p.Path == "" {
				continue
			}
			path := Text(args[p.Name])
			if path == "" && !p.Required && args[p.Name] == nil && string(p.Default) == "" {
				continue // the optional path is missing in the arguments
			}
			depends = depends || !filepath.IsAbs(path)
		}
	}
	if !depends {
		return nil
	}
	return tool.Errorf(tool.NotFound, "The directory of the session, %s, is gone: it was renamed or removed. Nothing was run. Go to another directory first, for example: cd %s. Absolute paths work, too.", s.Gone, s.Top())
}
