package paths

import (
	"maps"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// maxLinked limits how many files in matching directories a sweep inspects for hard links. Above the limit, a sweep
// skips directories that did not change. This is safe, because tools cannot make hard links to files in these
// directories.
const maxLinked = 2000

// linkedFiles returns the files with several hard links that match or are in matching directories. The value of the map
// reports whether the file is hidden.
func (f *Finder) linkedFiles(found []Match, changed []string) (linked map[object]bool, names map[string]bool) {
	linked, names = make(map[object]bool), make(map[string]bool)
	add := func(path string, hidden bool) {
		names[path] = true
		if id, ok := f.severalNames(path); ok {
			linked[id] = linked[id] || hidden
		}
	}
	for _, m := range found {
		add(m.Path, m.Hidden)
	}
	inspected := 0
	for dir, n := range f.nodes {
		if !n.covered {
			continue
		}
		if inspected += len(n.files); inspected > maxLinked && !slices.Contains(changed, dir) {
			maps.Copy(linked, n.linked)
			for _, name := range n.files {
				names[filepath.Join(dir, name)] = true
			}
			continue
		}
		n.linked = nil
		for _, name := range n.files {
			path := filepath.Join(dir, name)
			names[path] = true
			if id, ok := f.severalNames(path); ok {
				if n.linked == nil {
					n.linked = make(map[object]bool)
				}
				n.linked[id] = n.hidden
				linked[id] = linked[id] || n.hidden
			}
		}
	}
	return linked, names
}

// hardLinks adds the other hard links of matching files in the roots, because a tool could use such a link to access
// the file.
func (f *Finder) hardLinks(found []Match, changed []string) []Match {
	linked, names := f.linkedFiles(found, changed)
	if len(linked) == 0 {
		f.linked, f.others = nil, nil
		return found
	}
	if f.others == nil {
		f.others = make(map[string]object)
	}
	search := changed
	if !maps.Equal(linked, f.linked) {
		search = nil
		for dir := range f.nodes {
			search = append(search, dir)
		}
	}
	for _, dir := range search {
		n := f.nodes[dir]
		if n == nil {
			continue
		}
		for _, name := range n.files {
			path := filepath.Join(dir, name)
			if id, ok := f.severalNames(path); ok {
				if _, is := linked[id]; is {
					f.others[path] = id
				}
			}
		}
	}
	f.linked = linked
	for path, id := range f.others {
		now, ok := f.severalNames(path)
		if hidden, is := linked[id]; !ok || now != id || !is {
			delete(f.others, path)
		} else if !names[path] {
			found = append(found, Match{Path: path, Hidden: hidden})
		}
	}
	return found
}

// severalNames returns the identity of a regular file with more than one hard link.
func (f *Finder) severalNames(path string) (object, bool) {
	var st unix.Stat_t
	if err := unix.Lstat(f.onHost(path), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink < 2 {
		return object{}, false
	}
	return object{uint64(st.Dev), st.Ino}, true //nolint:unconvert // types differ between systems
}
