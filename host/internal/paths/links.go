package paths

import (
	"maps"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// hardLinks adds the other names of matching files in the roots, because a tool could use the file by such a name.
func (f *Finder) hardLinks(found []Match, changed []string) []Match {
	linked := make(map[object]bool) // the value reports whether the file is hidden
	names := make(map[string]bool)
	for _, m := range found {
		names[m.Path] = true
		if id, ok := severalNames(m.Path); ok {
			linked[id] = linked[id] || m.Hidden
		}
	}
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
			if id, ok := severalNames(path); ok {
				if _, is := linked[id]; is {
					f.others[path] = id
				}
			}
		}
	}
	f.linked = linked
	for path, id := range f.others {
		now, ok := severalNames(path)
		if hidden, is := linked[id]; !ok || now != id || !is {
			delete(f.others, path)
		} else if !names[path] {
			found = append(found, Match{Path: path, Hidden: hidden})
		}
	}
	return found
}

// severalNames returns the identity of a regular file with more than one name.
func severalNames(path string) (object, bool) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink < 2 {
		return object{}, false
	}
	return object{uint64(st.Dev), st.Ino}, true //nolint:unconvert // types differ between systems
}
