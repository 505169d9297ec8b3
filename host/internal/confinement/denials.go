package confinement

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/lazyregexp"
	"toolhost.dev/sandbox"
)

const (
	// maxDenials is the maximum number of recorded denials per plugin.
	maxDenials = 100
	// auditInterval is the minimum time between two audit entries for the same denial.
	auditInterval = time.Minute
)

// Denials records recent denials of sandboxes. The zero value is ready to use. Denials is safe for concurrent use.
type Denials struct {
	mu sync.Mutex
	by map[string][]denial // recorded denials, by plugin name
}

type denial struct {
	target, text string
	at, audited  time.Time
}

// add records a denial. It returns true if the caller must write an audit entry.
func (d *Denials) add(plugin, target, text string, at time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		d.by = make(map[string][]denial)
	}
	all := d.by[plugin]
	next := denial{target, text, at, at}
	if i := slices.IndexFunc(all, func(o denial) bool { return o.target == target }); i >= 0 {
		if at.Sub(all[i].audited) < auditInterval {
			next.audited = all[i].audited
		}
		all = slices.Delete(all, i, i+1)
	}
	if len(all) == maxDenials {
		all = slices.Delete(all, 0, 1)
	}
	d.by[plugin] = append(all, next)
	return next.audited.Equal(at)
}

// since returns the denials of a plugin that are not older than began, oldest first.
func (d *Denials) since(plugin string, began time.Time) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for _, o := range d.by[plugin] {
		if !o.at.Before(began) {
			out = append(out, o.text)
		}
	}
	return out
}

// denied returns messages about the accesses that the sandbox denied to a plugin since the given time. It uses recorded
// denials and the printed output of the call. It also renames files that would redirect git.
func (l *Launcher) denied(p *config.Plugin, roots []tool.Root, since time.Time, printed string) []string {
	out := append(l.parts.Denials.since(p.Name, since), l.explainMasks(p, roots, printed)...)
	prof := Profile(p)
	if prof.WriteGit || !prof.WriteRoots {
		return out
	}
	if backend, _, err := l.Choose(p, roots); err != nil || !backend.Abilities().OwnRoot {
		return out
	}
	out = append(out, l.parts.redirects.remove(roots, l.parts.Log)...)
	if strings.Contains(printed, ".git") && protectedGit.MatchString(printed) { // a fast check before the regular expression
		at := ""
		if pos := l.cfg.PluginPosition(p.Name); pos != "" && !p.Added {
			at = " (" + pos + ")"
		}
		out = append(out, fmt.Sprintf("The sandbox protects .git itself, .git/hooks and .git/config, because git runs what they contain outside of the sandbox. Commits and branches work. To set a value for one command, use git -c NAME=VALUE. To allow changes, the operator sets git = \"read-write\" in the sandbox block of plugin %q%s", p.Name, at))
	}
	return out
}

// protectedGit matches the error messages of programs that cannot write to the protected files of a repository.
var protectedGit = lazyregexp.New(`(?im)\.git/(?:modules/\S*/)?(?:config|hooks)\b.*(?:resource busy|read-only)|(?:Device or resource busy|Read-only file system).*\.git\b|could not write config file \S*\.git/|\.git\b.*Device or resource busy`)

// redirects records for each root whether a file already redirected git before the first plugin started. The host does
// not rename such old files.
type redirects struct{ before sync.Map } // keys are paths, values are bools

// observe records whether a root contains a file that redirects git. It skips roots that are already in the map.
func (r *redirects) observe(roots []tool.Root) {
	for _, root := range roots {
		r.before.LoadOrStore(root.Path, sandbox.Redirects(root.Path) != "")
	}
}

// remove renames files that redirect git and appeared after observe. It returns a message for each renamed file.
func (r *redirects) remove(roots []tool.Root, log *slog.Logger) []string {
	var out []string
	for _, root := range roots {
		if before, known := r.before.Load(root.Path); !root.Writable || !known || before == true {
			continue
		}
		path := sandbox.Redirects(root.Path)
		if path == "" {
			continue
		}
		aside := path + ".from-sandbox"
		if err := os.Rename(path, aside); err != nil {
			log.Warn("cannot rename a file that redirects git to other settings and hooks; remove it before you run git in its directory", "file", path, "error", err)
			continue
		}
		log.Warn("a file that redirects git to other settings and hooks was renamed", "file", path, "to", aside)
		out = append(out, fmt.Sprintf("%s redirects git to other settings and hooks and was renamed to %s", path, aside))
	}
	return out
}
