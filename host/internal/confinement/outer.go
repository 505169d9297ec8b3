package confinement

import (
	"fmt"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/lazyregexp"
	"toolhost.dev/host/internal/repository"
)

// The method "outer" returns what git reads outside of each root. It searches once per root and process: what tools write
// later changes nothing. It omits what is in a root and what is in the state directory of the host.
func (l *Launcher) outer(roots []tool.Root) (out []repository.Outer) {
	in := func(path string) bool {
		return slices.ContainsFunc(roots, func(r tool.Root) bool { return r.Contains(path) })
	}
	for _, r := range roots {
		if home := l.parts.Home.Root; home != "" && (tool.Root{Path: home}).Contains(r.Path) {
			continue
		}
		found, known := l.parts.outer.Load(r.Path)
		if !known {
			var adopted func(string) bool
			if guard := l.parts.Repositories; guard != nil && l.cfg.Sandbox.Repositories != "off" {
				adopted = guard.Adopted
			}
			found, _ = l.parts.outer.LoadOrStore(r.Path, repository.FindOuter(r.Path, adopted))
		}
		o, _ := found.(repository.Outer) // the only type in the map
		if o.Top != "" && in(o.Top) {
			continue
		}
		o.Shown = slices.DeleteFunc(slices.Clone(o.Shown), in)
		out = append(out, o)
	}
	return out
}

// gitCommand matches commands that run git. gitWhole matches those that compare all files of a repository, or add them.
var (
	gitCommand = lazyregexp.New(`\bgit\b`)
	gitWhole   = lazyregexp.New(`\bgit\b.*\b(?:status|diff|add|commit|stash|checkout|restore|reset|ls-files)\b`)
)

// gitHint returns a hint for a command of git that needs more of a repository than the sandbox shows.
func (l *Launcher) gitHint(roots []tool.Root, e Ended) string {
	refused := e.Exit != 0 && (refusedWrite.MatchString(e.Printed) || refusedRead.MatchString(e.Printed))
	none := e.Exit != 0 && strings.Contains(e.Printed, "not a git repository")
	for _, o := range l.outer(roots) {
		shown := ""
		for _, path := range o.Shown {
			if strings.Contains(e.Printed, path+"/") {
				shown = path
			}
		}
		switch {
		case none && o.Unshown != "":
			return fmt.Sprintf("The sandbox does not show the git directory %[1]s, which does not name this workspace in turn. Tools can write a file that leads there, so check it first. To show the directory, the operator adds this line to the sandbox block: root %[1]q {}", o.Unshown)
		case none && o.Writable != "":
			return fmt.Sprintf("The sandbox does not show the repository of the workspace. To show it, the operator adds this line to the sandbox block: root %q {}", o.Writable)
		case refused && shown != "":
			return fmt.Sprintf("The sandbox shows %s, the git directory of the workspace, read-only. To permit commits, the operator adds this line to the sandbox block: root %q { writable = true }", shown, o.Writable)
		case o.Top != "" && gitWhole.MatchString(e.Command):
			return fmt.Sprintf("The workspace is a part of the repository %[1]s. The sandbox shows no other files of it, so git reports them as deleted. Name the workspace (git status .), or let the operator add this line to the sandbox block: root %[1]q {}", o.Top)
		}
	}
	return ""
}
