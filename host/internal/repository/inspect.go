package repository

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"toolhost.dev/sandbox/stamp"
)

// found is a file or setting of a repository that makes git run a program.
type found struct {
	rel  string // relative path of the file
	repo *repo  // nil if the file only points to a repository
	kind string // one of the kinds of a [QuarantineEntry]
	why  string
	keys []string // keys that identify the content and its path
	// settings contains the settings that run programs. The field is empty unless kind is KindSettings.
	settings []setting
}

// inspector inspects the repositories of a tree.
type inspector struct {
	*tree
	all []string // pointers into these trees are harmless
	// incomplete contains the other trees that are not searched completely, with the repositories that were found
	// there.
	incomplete map[string]map[string]bool
}

// check returns the files and settings that make git run programs. It inspects the changed repositories and
// all repositories with pointers.
func (i *inspector) check() (out []found) {
	for rel := range i.pointers {
		f, err := i.pointer(rel)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) { // another program replaced or removed the directory
			delete(i.pointers, rel)
		}
		out = append(out, f...)
	}
	for rel, r := range i.repos {
		if i.changed(r) {
			for _, f := range i.inspect(rel, r) {
				f.repo = r
				out = append(out, f)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b found) int { return strings.Compare(a.rel, b.rel) })
	return out
}

func (i *inspector) changed(r *repo) bool {
	for rel, was := range r.watched {
		now, err := i.root.stat(rel)
		if err != nil && was == (stamp.Stamp{}) && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil || !was.Same(&now) {
			return true
		}
	}
	for rel, was := range r.contents {
		if now, err := i.root.identity(rel); err == nil && now != was {
			return true
		}
	}
	return r.watched == nil || r.unread
}

// inspect returns the files and settings of one repository that make git run programs.
func (i *inspector) inspect(rel string, r *repo) (out []found) {
	d, err := i.root.open(rel)
	if err != nil {
		return nil
	}
	defer d.close()
	r.watched, r.contents, r.unread = make(map[string]stamp.Stamp), make(map[string]string), false
	for _, name := range []string{"config", "config.worktree"} {
		out = append(out, i.settings(d, rel, name, r)...)
	}
	if st := i.watch(d, rel, "commondir", r); st.IsLink() {
		out = append(out, i.link(d, rel, "commondir")...)
	} else if st.IsFile() {
		out = append(out, i.common(d, rel)...)
		r.watched[join(rel, "commondir")] = stamp.Stamp{Ino: 1} // no file has this stamp: the path is always checked again, because its components can become links
	}
	out = append(out, i.alternates(d, rel, r)...)
	return append(out, i.hooks(d, rel, r)...)
}

// watch stores the state of a file. A missing file has the zero stamp.
func (i *inspector) watch(d directory, rel, name string, r *repo) stamp.Stamp {
	st, err := d.stat(name)
	if err != nil {
		st = stamp.Stamp{}
	}
	r.watched[join(rel, name)] = st
	return st
}

// settings returns the settings in a file that run programs. If the file cannot be parsed, the method
// returns the whole file.
func (i *inspector) settings(d directory, rel, name string, r *repo) []found {
	st := i.watch(d, rel, name, r)
	if st.IsLink() {
		return i.link(d, rel, name)
	}
	if !st.IsFile() { // git reads only regular files
		return nil
	}
	at := join(rel, name)
	whole := func(why string, identity string) []found {
		return []found{{rel: at, kind: KindFile, why: why, keys: []string{i.key(at, identity)}}}
	}
	text, _, err := d.read(name)
	if errors.Is(err, errLarge) {
		return whole("the settings are too large to be checked", stateOf(&st))
	}
	if err != nil { // the file disappeared or is unreadable, also for git
		r.unread = !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission)
		return nil
	}
	r.contents[at] = hash(text)
	all, err := parse(text)
	if err != nil {
		return whole("the settings cannot be checked", hash(text))
	}
	f := found{rel: at, kind: KindSettings}
	var whys []string
	for _, s := range all {
		why := reason(&s, func(path string) bool { return !leads(i.all, filepath.Join(i.path, rel), path) })
		if why == "" {
			continue
		}
		f.settings = append(f.settings, s)
		f.keys = append(f.keys, i.settingKey(at, &s))
		if !slices.Contains(whys, why) {
			whys = append(whys, why)
		}
	}
	switch {
	case len(f.settings) == 0:
		return nil
	case len(f.settings) > maxSettings:
		return whole(fmt.Sprintf("more than %d settings make git run programs", maxSettings), hash(text))
	}
	f.why = strings.Join(whys, "; ")
	return []found{f}
}

// maxSettings limits the number of settings that the guard removes from one file. A file with more dangerous settings
// is moved as a whole.
const maxSettings = 500

func (i *inspector) settingKey(at string, s *setting) string {
	return i.key(at, "setting "+s.name()+"="+s.value)
}

// hooks returns the hooks of a repository. It omits samples, because the name of a hook contains no dot.
func (i *inspector) hooks(d directory, rel string, r *repo) (out []found) {
	switch st := i.watch(d, rel, "hooks", r); {
	case st.IsLink():
		return i.link(d, rel, "hooks")
	case !st.IsDir():
		return nil
	}
	hooks, err := d.open("hooks")
	if err != nil {
		r.unread = !errors.Is(err, fs.ErrPermission)
		return nil
	}
	defer hooks.close()
	entries, err := hooks.names(".")
	if err != nil {
		r.unread = true
		return nil
	}
	dir := join(rel, "hooks")
	for _, e := range entries {
		name := e.Name()
		if strings.Contains(name, ".") || e.IsDir() {
			continue
		}
		switch st := i.watch(hooks, dir, name, r); {
		case st.IsLink():
			out = append(out, i.link(hooks, dir, name)...)
		case st.IsFile():
			at := join(dir, name)
			identity, err := hooks.identity(name)
			if err != nil { // the hook is unreadable
				identity = stateOf(&st)
			}
			r.contents[at] = identity
			out = append(out, found{
				rel: at, kind: KindFile, why: "git runs the hook", keys: []string{i.key(at, identity)},
			})
		}
	}
	return out
}

// common returns the file commondir if its target is outside the trees. Git reads settings and hooks from
// this target.
func (i *inspector) common(d directory, rel string) []found {
	text, _, err := d.read("commondir")
	if err != nil && !errors.Is(err, errLarge) {
		return nil
	}
	if err == nil && i.leads(filepath.Join(i.path, rel), strings.TrimRight(string(text), "\r\n")) {
		return nil
	}
	at := join(rel, "commondir")
	return []found{{rel: at, kind: KindFile, why: "git reads settings and hooks from another directory", keys: []string{i.key(at, hash(text))}}}
}

// alternates returns the file with the alternates of a repository if one of them is outside the trees. Git
// reads objects from them, and the next sandbox would show them.
func (i *inspector) alternates(d directory, rel string, r *repo) []found {
	const name = "alternates"
	info, err := d.open("objects/info")
	if err != nil {
		i.watch(d, rel, "objects/info", r) // it can appear later
		return nil
	}
	defer info.close()
	dir := join(rel, "objects/info")
	st := i.watch(info, dir, name, r)
	if st.IsLink() {
		return i.link(info, dir, name)
	}
	text, _, err := info.read(name)
	if err != nil && !errors.Is(err, errLarge) {
		return nil
	}
	objects := filepath.Join(i.path, rel, "objects")
	for line := range strings.Lines(string(text)) {
		path := filepath.Clean(resolve(objects, strings.TrimRight(line, "\r\n")))
		if err != nil || i.partial || !i.leads("/", filepath.Dir(path)) || !noLinks(path) { // the guard finds no repository among objects, so not its alternates either
			at := join(dir, name)
			return []found{{rel: at, kind: KindFile, why: "git reads the objects of another directory", keys: []string{i.key(at, hash(text))}}}
		}
	}
	return nil
}

// pointer returns a file or link named .git if it leads to a repository that the guard does not search.
func (i *inspector) pointer(rel string) ([]found, error) {
	dir, name := filepath.Split(rel)
	dir = filepath.Clean(dir)
	d, err := i.root.open(dir)
	if err != nil {
		return nil, err
	}
	defer d.close()
	st, err := d.stat(name)
	switch {
	case err != nil:
		return nil, err
	case st.IsLink():
		return i.link(d, dir, name), nil
	case !st.IsFile():
		return nil, unix.ENOTDIR
	}
	text, _, err := d.read(name)
	if err != nil && !errors.Is(err, errLarge) {
		return nil, nil // git cannot read it either
	}
	to, is := strings.CutPrefix(strings.TrimRight(string(text), "\r\n"), "gitdir: ")
	if err == nil && (!is || i.leads(filepath.Join(i.path, dir), to)) {
		return nil, nil
	}
	return []found{{rel: rel, kind: KindFile, why: "git uses a repository in another directory", keys: []string{i.key(rel, hash(text))}}}, nil
}

// leads reports whether a path in a file of a directory leads to a searched directory. In a tree that is not
// searched completely, the search must have found the directory.
func (i *inspector) leads(from, to string) bool {
	within := func(tree string) string {
		if rel, err := filepath.Rel(tree, filepath.Clean(resolve(from, to))); err == nil && filepath.IsLocal(rel) {
			return rel
		}
		return ""
	}
	if leads(i.all, from, to) {
		rel := within(i.path)
		return !i.partial || rel == "" || i.dirs[rel] != nil
	}
	for tree, repos := range i.incomplete {
		if repos[within(tree)] && leads([]string{tree}, from, to) {
			return true
		}
	}
	return false
}

// link returns a symbolic link that replaces a file or directory of a repository.
func (i *inspector) link(d directory, dir, name string) []found {
	to, err := d.readlink(name)
	if err != nil {
		return nil
	}
	at := join(dir, name)
	return []found{
		{rel: at, kind: KindLink, why: "git follows the link to another place", keys: []string{i.linkKey(at, to)}},
	}
}

// key returns a key that identifies a path with its content.
func (t *tree) key(rel, identity string) string {
	return pathKey(filepath.Join(t.path, rel), identity)
}

func pathKey(path, identity string) string { return hash([]byte(path + "\x00" + identity)) }

func (t *tree) linkKey(rel, to string) string { return t.key(rel, "link "+to) }

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// stateOf returns a text that identifies the content of a file that is too large to read.
func stateOf(s *stamp.Stamp) string {
	return fmt.Sprintf("%d %d %d %d.%d", s.Dev, s.Ino, s.Size, s.Sec, s.Nsec)
}
