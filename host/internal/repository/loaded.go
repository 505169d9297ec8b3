package repository

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"toolhost.dev/host/internal/paths"
)

// WhyLoaded is the reason why the guard moves settings of other programs to the quarantine.
const WhyLoaded = "programs such as editors and agents load it without being told"

// loadedPrefix begins the keys for settings of other programs. Such a key contains the name of a file, and nothing
// about its content. The kernel protects existing files, so only a program outside the sandbox can change their
// content.
const loadedPrefix = "loaded:"

// maxLoaded is the maximum number of files in a directory that the guard removes individually. A directory with more
// files is renamed.
const maxLoaded = 200

// watchSettings sets the names of settings of other programs. If the names changed, the next update reads the whole
// tree again.
func (t *tree) watchSettings(names []string) {
	if slices.Equal(t.names, names) {
		return
	}
	t.names = slices.Clone(names)
	clear(t.dirs)
}

// isSetting reports whether an entry of a directory is a setting of another program.
func (t *tree) isSetting(rel, name string) bool {
	return slices.Contains(t.names, name) && !inGit(rel) && !slices.Contains(strings.Split(rel, "/"), paths.Packages)
}

// loaded returns the settings of other programs in the tree. The key identifies the directory by its inode.
// Therefore a moved directory keeps its settings, and a new directory with the same path does not inherit them.
func (t *tree) loaded() (out []found) {
	for rel, n := range t.dirs {
		for _, name := range n.settings {
			key := loadedPrefix + hash(fmt.Appendf(nil, "%d %d %s", n.stamp.Dev, n.stamp.Ino, name))
			out = append(out, found{rel: join(rel, name), kind: KindFile, why: WhyLoaded, keys: []string{key}})
		}
	}
	slices.SortFunc(out, func(a, b found) int { return strings.Compare(a.rel, b.rel) })
	return out
}

// begin records the start of a call. If settings appeared at the top of the tree while no call ran, a program outside
// the sandbox, such as an editor, wrote them. Therefore they are not removed. For speed, begin does not read other
// directories. Searches between calls read them.
func (w *watched) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls++; w.calls > 1 || w.tree == nil || len(w.names) == 0 {
		return
	}
	top := w.dirs["."]
	if now, err := w.root.stat("."); err != nil || top == nil || top.stamp.Same(&now) {
		return
	}
	w.read(".", true)
	w.leave()
	w.adopt(slices.DeleteFunc(w.loaded(), func(f found) bool { return filepath.Dir(f.rel) != "." }))
}

// finish records the end of a call.
func (w *watched) finish() {
	if w.calls--; w.calls == 0 {
		w.fresh = nil
	}
}

// update finds the changes since its last call.
func (w *watched) update() {
	w.tree.update()
	for _, rel := range w.added {
		if w.fresh == nil {
			w.fresh = make(map[string]bool)
		}
		w.fresh[rel] = true
	}
}

// adoptLoaded accepts new settings of other programs if no call runs. If a call runs, these settings are handled at the
// end of the call.
func (g *Guard) adoptLoaded(w *watched) {
	if w.calls > 0 {
		return
	}
	w.fresh = nil
	for _, f := range w.loaded() {
		if !w.known[f.keys[0]] {
			g.opts.Log.Warn("a setting of another program appeared while no call ran", "path", filepath.Join(w.path, f.rel))
			w.adopt([]found{f})
		}
	}
}

// clone returns the new repository that contains a path. It returns "" if no new repository contains the
// path.
func (w *watched) clone(rel string) string {
	for dir := filepath.Dir(rel); dir != "."; dir = filepath.Dir(dir) {
		if git := join(dir, ".git"); w.fresh[dir] && (w.repos[git] != nil || w.pointers[git]) {
			return dir
		}
	}
	return ""
}

// keepCloned removes settings in new repositories from a list and accepts them. If the guard removed these files from a
// clone, git would show them as deleted. keepCloned returns a message for each repository.
func (w *watched) keepCloned(all []found) (rest []found, out []string) {
	clones := make(map[string][]string)
	for _, f := range all {
		dir := w.clone(f.rel)
		if dir == "" {
			rest = append(rest, f)
			continue
		}
		w.adopt([]found{f})
		name, _ := filepath.Rel(dir, f.rel) // no error, because the file is inside dir
		clones[dir] = append(clones[dir], name)
	}
	for _, dir := range slices.Sorted(maps.Keys(clones)) {
		out = append(out, fmt.Sprintf("%s is a new repository with %s. Editors and agents load such files without being told: read them before you open the directory with such a program", filepath.Join(w.path, dir), strings.Join(clones[dir], ", ")))
	}
	return rest, out
}

// takeLoaded moves new settings of other programs to the quarantine. It returns a message for each setting.
func (g *Guard) takeLoaded(w *watched, level slog.Level) (out []string) {
	all := w.loaded()
	present := make(map[string]bool)
	for _, f := range all {
		present[f.keys[0]] = true
	}
	for key := range w.known { // a removed name counts as unknown when it appears again
		if strings.HasPrefix(key, loadedPrefix) && !present[key] {
			delete(w.known, key)
		}
	}
	all = slices.DeleteFunc(all, func(f found) bool { return w.known[f.keys[0]] })
	all, out = w.keepCloned(all)
	if all = w.ripe(all, w.calls > 1, g.opts.interval); len(all) == 0 {
		return out
	}
	store, err := g.opts.Store()
	if err != nil {
		return append(out, fmt.Sprintf("%s: %s, but the quarantine cannot be used: %v", filepath.Join(w.path, all[0].rel), WhyLoaded, err))
	}
	restored, err := store.Allowed()
	if err != nil {
		g.opts.Log.Warn("nothing in the quarantine counts as restored", "error", err)
	}
	for _, f := range all {
		if restored[f.keys[0]] {
			w.adopt([]found{f})
			continue
		}
		out = append(out, g.takeSetting(w, &f, store, level)...)
	}
	return out
}

// takeSetting moves one setting of another program to the quarantine. The setting can be a directory.
func (g *Guard) takeSetting(w *watched, f *found, store Store, level slog.Level) (out []string) {
	files, err := w.filesIn(f)
	taken := 0
	var last *QuarantineEntry
	for i := range files {
		if err != nil {
			break
		}
		var e *QuarantineEntry
		if e, err = w.takeOut(&files[i], nil, store); err == nil {
			taken++
			last = e
			g.took(e, level)
		} else if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	path := filepath.Join(w.path, f.rel)
	switch {
	case err != nil:
		g.opts.Log.Warn("a setting of another program could not be moved to the quarantine", "path", path, "error", err)
		return []string{fmt.Sprintf("%s: %s, and it could not be moved to the quarantine: %v. Check it before you open the directory", path, f.why, err)}
	case taken == 0:
	case taken == 1:
		out = append(out, message(last))
	default:
		out = append(out, fmt.Sprintf("%s with %d files was moved to the quarantine: %s, also outside of the sandbox. A person can restore the files: toolhost quarantine list", path, taken, f.why))
	}
	w.removeEmpty(f.rel)
	return out
}

// filesIn returns the files of a setting. For a directory with too many files, it returns the directory.
func (t *tree) filesIn(f *found) (out []found, err error) {
	dir, name := filepath.Split(f.rel)
	d, err := t.root.open(filepath.Clean(dir))
	if err != nil {
		return nil, err
	}
	defer d.close()
	st, err := d.stat(name)
	if err != nil || !st.IsDir() {
		return []found{*f}, err
	}
	var walk func(rel string) error
	walk = func(rel string) error {
		entries, err := t.list(rel)
		for _, e := range entries {
			at := join(rel, e.Name())
			if len(out) > maxLoaded {
				return nil
			}
			if !e.IsDir() {
				file := *f
				file.rel = at
				out = append(out, file)
			} else if below := walk(at); below != nil {
				err = below
			}
		}
		return err
	}
	// An unreadable or large directory is renamed as a whole.
	if err := walk(f.rel); err != nil || len(out) > maxLoaded {
		return []found{*f}, nil
	}
	return out, nil
}

// removeEmpty removes the directories at and below a path if they contain no file.
func (t *tree) removeEmpty(rel string) {
	entries, err := t.list(rel)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			t.removeEmpty(join(rel, e.Name()))
		}
	}
	dir, name := filepath.Split(rel)
	if d, err := t.root.open(filepath.Clean(dir)); err == nil {
		_ = unix.Unlinkat(d.fd, name, unix.AT_REMOVEDIR) // error ignored: removal fails if the directory contains a new file, which the next search finds
		d.close()
	}
}
