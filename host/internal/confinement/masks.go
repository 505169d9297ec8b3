package confinement

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/paths"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/sandbox"
	"toolhost.dev/sandbox/confine"
	"toolhost.dev/sandbox/warden"
)

const (
	// fresh is the maximum age of a search for denied and protected paths that a call can reuse. A search cannot be
	// reused, even if it is recent, after a call that can write has ended, or after an entry of a root was created or
	// removed.
	fresh = 100 * time.Millisecond
	// freshSettings replaces fresh if the rules protect only settings of other programs. An older search suffices then:
	// the host removes settings that calls create, so the search can only miss settings that programs outside of the
	// sandbox create.
	freshSettings = 5 * time.Second
	// maxFinders is the maximum number of cached finders without a running plugin.
	maxFinders = 16
	// maskAttempts limits how often a check tries to mount missing masks. A new mask disappears if another program
	// replaces the file during the check.
	maskAttempts = 5
)

// masks contains the finders and the masked plugins of all configurations. The zero value is ready to use.
type masks struct {
	mu      sync.Mutex
	finders map[string]*search
	plugins []*masked
	watcher *watcher
}

// search is a finder together with state that all plugins with the same rules and roots share.
type search struct {
	*paths.Finder
	// below is the search of the workspace itself if a root is a branch. Otherwise it is nil.
	below *search
	// hides reports whether some paths are denied. The field "settings" reports whether only settings of
	// other programs are protected.
	hides, settings bool

	mu    sync.Mutex
	stale bool
}

// sweep returns the matches of the last search and its generation. If the last search is too old, it searches again.
func (s *search) sweep() ([]paths.Match, int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	age := fresh
	if s.settings {
		age = freshSettings
	}
	if !s.stale {
		if m, generation, ok := s.Recent(age); ok && (!s.hides || s.Unchanged()) {
			return m, generation, nil
		}
	}
	m, generation, err := s.Sweep()
	s.stale = err != nil
	return m, generation, err
}

// expire marks the last search as too old, so that the check before the next call searches again.
func (s *search) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stale = true
	if s.below != nil {
		s.below.expire()
	}
}

// masked is a running plugin with masks.
type masked struct {
	search *search
	plugin string
	// writes reports that the plugin can write. Protected paths need masks only for such plugins.
	writes        bool
	roots         []tool.Root
	refresh       func(branch string) error // see [Parts.Refresh]
	launcher, dir string
	objects       [2]warden.Object

	mu         sync.Mutex
	inside     *warden.Inside // nil before the start and after the end
	applied    map[string]string
	seen       map[string]bool // all paths that have or had a mask
	generation int             // of the last search whose masks are all mounted
	watched    int             // generation of the last search whose directories are all watched
	// absent lists the wanted masks whose paths the plugin did not see at the last check. In a branch, such a
	// path can appear without a new match, because the kernel caches missing names until the branch is refreshed.
	absent []confine.Mask
}

// mask adds masks to the policy of a plugin before the plugin starts. The result is nil if the plugin needs no masks.
func (l *Launcher) mask(p *config.Plugin, prof *sandbox.Profile, roots []tool.Root,
	out *confine.Policy) (*masked, error) {
	rules, err := l.pathRules(prof, roots)
	if err != nil || rules == nil {
		return nil, err
	}
	dir, err := l.parts.Home.Masks()
	if err != nil {
		return nil, err
	}
	if err := sandbox.MaskObjects(dir); err != nil {
		return nil, err
	}
	m := &masked{
		search: l.parts.masks.search(rules, l.searched(roots)), plugin: p.Name, writes: prof.WriteRoots, roots: roots,
		refresh:  l.parts.Refresh,
		launcher: l.Kernel().Launcher, dir: dir, applied: make(map[string]string), seen: make(map[string]bool),
	}
	for i, name := range []string{confine.MaskFile, confine.MaskDirectory} {
		if m.objects[i], err = warden.ObjectAt(filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	matches, generation, err := m.search.sweep()
	if err != nil {
		return nil, err
	}
	m.generation = generation
	out.MaskDir, out.Masks = dir, m.wanted(matches)
	m.note(out.Masks)
	if err := l.parts.masks.add(m); err != nil {
		return nil, err
	}
	if err := l.parts.masks.watch(m, generation); err != nil {
		l.parts.masks.remove(m)
		return nil, err
	}
	if m.search.hides { // a file can have been created before its directory was watched
		m.search.expire()
	}
	return m, nil
}

// pathRules returns the rules for denied and protected paths of a plugin. Nil means that there are no rules.
func (l *Launcher) pathRules(prof *sandbox.Profile, roots []tool.Root) (*paths.Rules, error) {
	if prof.NoRoots || len(roots) == 0 {
		return nil, nil
	}
	set := &l.cfg.Permissions.Paths
	hide, err := policy.Globs(set.Deny, roots[0].Path)
	if err != nil {
		return nil, err
	}
	protect, err := policy.Globs(set.Protect, roots[0].Path)
	if err != nil {
		return nil, err
	}
	rules := &paths.Rules{Hide: hide, Protect: protect, Names: l.settings()}
	if len(hide) == 0 && (!prof.WriteRoots || len(protect)+len(rules.Names) == 0) {
		return nil, nil
	}
	return rules, nil
}

// kept returns the paths that tools of a plugin cannot change, because the kernel protects these paths.
func (l *Launcher) kept(prof *sandbox.Profile, roots []tool.Root) ([]string, error) {
	out := slices.Clone(l.cfg.Protected)
	rules, err := l.pathRules(prof, roots)
	if err != nil || rules == nil {
		return out, err
	}
	matches, _, err := l.parts.masks.search(rules, l.searched(roots)).sweep()
	for _, m := range matches {
		if !m.Setting {
			out = append(out, m.Path)
		}
	}
	return out, err
}

// settings returns the names of the settings that tools cannot change.
func (l *Launcher) settings() []string {
	return slices.DeleteFunc(slices.Clone(sandbox.Settings), func(name string) bool {
		return slices.Contains(l.cfg.Permissions.Paths.Writable, name)
	})
}

// searched returns the roots to search for paths. It omits the state directory of the host.
func (l *Launcher) searched(roots []tool.Root) (out []paths.Root) {
	for _, r := range roots {
		if home := l.parts.Home.Root; home == "" || r.CopyOf != "" || !(tool.Root{Path: home}).Contains(r.Path) {
			root := paths.Root{Path: r.Path, Writable: r.Writable, View: r.View, CopyOf: r.CopyOf}
			if r.Branch != "" && l.parts.Layer != nil {
				root.Layer = l.parts.Layer(r.Branch, r.Path)
			}
			out = append(out, root)
		}
	}
	return out
}

// search returns the search for the rules in the roots. If a root is a branch, the search uses the search of
// the workspace itself, which all branches of the workspace share.
func (m *masks) search(rules *paths.Rules, roots []paths.Root) *search {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.searchLocked(rules, roots)
}

func (m *masks) searchLocked(rules *paths.Rules, roots []paths.Root) *search {
	key := fmt.Sprintf("%q %v", *rules, roots)
	if s := m.finders[key]; s != nil {
		return s
	}
	if m.finders == nil {
		m.finders = make(map[string]*search)
	}
	if len(m.finders) >= maxFinders {
		for k, s := range m.finders {
			if !slices.ContainsFunc(m.plugins, func(p *masked) bool { return p.search == s }) {
				delete(m.finders, k)
			}
		}
	}
	s := &search{hides: len(rules.Hide) > 0, settings: len(rules.Hide)+len(rules.Protect) == 0}
	if layered := layeredRoots(roots); len(layered) == 0 {
		s.Finder = paths.New(roots, *rules)
	} else {
		s.below = m.searchLocked(rules, layered)
		s.Finder = paths.NewLayered(roots, *rules, s.below.Finder, s.below.sweep)
	}
	m.finders[key] = s
	return s
}

// layeredRoots returns the directories below the roots with a layer.
func layeredRoots(roots []paths.Root) (out []paths.Root) {
	for _, r := range roots {
		if r.Layer != "" {
			out = append(out, paths.Root{Path: r.Path, Writable: r.Writable})
		}
	}
	return out
}

// add registers a plugin that is about to start.
func (m *masks) add(p *masked) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.search.hides && m.watcher == nil {
		w, err := newWatcher(m)
		if err != nil {
			return err
		}
		m.watcher = w
	}
	m.plugins = append(m.plugins, p)
	return nil
}

// remove removes a plugin that ended from the list. It stops the watcher after the last plugin.
func (m *masks) remove(p *masked) {
	m.mu.Lock()
	m.plugins = slices.DeleteFunc(m.plugins, func(o *masked) bool { return o == p })
	if len(m.plugins) == 0 && m.watcher != nil {
		m.watcher.close()
		m.watcher = nil
	}
	m.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inside != nil {
		_ = p.inside.Close() // ignore the error: nothing was written to the descriptors
		p.inside = nil
	}
}

// processesOf returns the masked processes of a plugin in sessions with the given roots.
func (m *masks) processesOf(plugin string, roots []tool.Root) (out []*masked) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var others []*masked
	for _, p := range m.plugins {
		switch {
		case p.plugin != plugin:
		case p.roots[0].Path == roots[0].Path:
			out = append(out, p)
		default:
			others = append(others, p)
		}
	}
	if out == nil { // no process has this first root, but one directory can have several paths, so return all processes
		return others
	}
	return out
}

// running opens the root of the plugin process for later checks of its masks.
func (p *masked) running(pid int) error {
	inside, err := warden.Enter(pid)
	if errors.Is(err, warden.ErrEnded) {
		return nil // return no error, because the supervisor reports the reason
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inside = inside
	return nil
}

// wanted returns the required masks for matches. Each directory precedes its subdirectories.
func (p *masked) wanted(matches []paths.Match) (out []confine.Mask) {
	fixed := make(map[string]bool)
	for _, m := range matches {
		switch {
		case m.Hidden:
			out = append(out, confine.Mask{Path: m.Path, Kind: confine.Hide})
		case !p.writes:
		default:
			if !m.Setting {
				out = p.fixParents(out, fixed, m.Path)
			}
			out = append(out, confine.Mask{Path: m.Path, Kind: confine.Protect})
		}
	}
	return out
}

// fixParents adds masks for the directories between a root and a path. Without these masks, a tool could rename a
// directory and create another file at the protected path.
func (p *masked) fixParents(out []confine.Mask, fixed map[string]bool, path string) []confine.Mask {
	i := slices.IndexFunc(p.roots, func(r tool.Root) bool { return r.Contains(path) })
	if i < 0 {
		return out
	}
	top := p.roots[i].Path
	rel, err := filepath.Rel(top, filepath.Dir(path))
	if err != nil || rel == "." {
		return out
	}
	for name := range strings.SplitSeq(rel, "/") {
		top = filepath.Join(top, name)
		if !fixed[top] {
			fixed[top] = true
			out = append(out, confine.Mask{Path: top, Kind: confine.Fix})
		}
	}
	return out
}

// check mounts missing masks. A mask is missing for a new match. The kernel also removes a mask if a program outside of
// the sandbox replaces the file.
func (p *masked) check(matches []paths.Match, generation int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inside == nil {
		return nil // the plugin is starting with masks or has ended
	}
	complete := false
	defer func() {
		if !complete { // the next check must compare all masks
			p.generation = 0
		}
	}()
	for range maskAttempts {
		missing, err := p.missing(matches, generation)
		if err != nil {
			return err
		}
		if len(missing) == 0 {
			p.generation, complete = generation, true
			return nil
		}
		if err := p.inside.Mask(p.launcher, p.dir, missing); errors.Is(err, warden.ErrEnded) {
			return nil
		} else if err != nil {
			return fmt.Errorf("a denied or protected path cannot be masked: %w", err)
		}
		p.note(missing)
	}
	return errors.New("denied or protected paths are replaced faster than they can be masked; stop the program that does this")
}

// note records masks that were mounted.
func (p *masked) note(all []confine.Mask) {
	if len(p.seen) > 4*paths.MaxMatches {
		clear(p.seen)
		for path := range p.applied {
			p.seen[path] = true
		}
	}
	for _, m := range all {
		p.applied[m.Path], p.seen[m.Path] = m.Kind, true
	}
}

// missing returns the masks that are not mounted.
func (p *masked) missing(matches []paths.Match, generation int) (out []confine.Mask, err error) {
	gone := false
	for path, kind := range p.applied {
		ok, err := p.holds(path, kind)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the mask of %s cannot be checked: %w", path, err)
		}
		if !ok { // the path no longer exists, or the kernel removed the mask
			delete(p.applied, path)
			gone = true
		}
	}
	wanted := p.absent
	if gone || generation != p.generation {
		wanted = p.wanted(matches)
	}
	p.absent = nil
	for _, m := range wanted {
		if p.applied[m.Path] == m.Kind {
			continue
		}
		ok, err := p.holds(m.Path, m.Kind)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			p.absent = append(p.absent, m)
		case err != nil:
			return nil, fmt.Errorf("%s cannot be checked: %w", m.Path, err)
		case ok && m.Kind == confine.Hide: // the file was renamed, and its mask moved with it
			p.applied[m.Path] = m.Kind
		default:
			out = append(out, m)
		}
	}
	return out, nil
}

// holds reports whether a mask is mounted.
func (p *masked) holds(path, kind string) (bool, error) {
	o, mounted, err := p.inside.Stat(path)
	if err != nil {
		return false, err
	}
	if kind == confine.Hide {
		return mounted && (o == p.objects[0] || o == p.objects[1]), nil
	}
	return mounted, nil
}

// checkMasks checks the masks of a plugin's processes before a call.
func (l *Launcher) checkMasks(p *config.Plugin, roots []tool.Root) error {
	if len(roots) == 0 {
		return nil
	}
	running := l.parts.masks.processesOf(p.Name, roots)
	if len(running) == 0 {
		l.prepareMasks(p, roots)
	}
	for _, m := range running {
		if err := l.parts.masks.check(m); err != nil {
			return tool.Errorf(tool.Unavailable, "The call was not run, because the paths that permissions.paths restricts cannot be kept from tools: %w", err)
		}
	}
	return nil
}

// prepareMasks starts the search for a plugin that starts at its first call. The search runs concurrently with other
// searches.
func (l *Launcher) prepareMasks(p *config.Plugin, roots []tool.Root) {
	backend, _, err := l.Choose(p, roots)
	if err != nil || !backend.Abilities().OwnRoot {
		return
	}
	prof := Profile(p)
	if rules, err := l.pathRules(&prof, roots); err == nil && rules != nil {
		s := l.parts.masks.search(rules, l.searched(roots))
		go func() { _, _, _ = s.sweep() }() // ignore the error: the launch of the plugin reports it
	}
}

// check checks the masks of one process. If the search fails, it checks the masks that the last search needed.
func (m *masks) check(p *masked) error {
	matches, generation, err := p.search.sweep()
	if err != nil {
		matches, generation, _ = p.search.Recent(0)
		return errors.Join(err, p.check(matches, generation))
	}
	return errors.Join(m.watch(p, generation), p.check(matches, generation))
}
