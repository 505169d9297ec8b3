package mirror

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/internal/filetree"
)

// Project makes the copy equal to the original with the layer over it, after the original or the layer was changed on
// purpose. It keeps changes that a program made in the copy after the last Gather. No program should work in the copy
// during Project. If the process is killed, Project can be repeated.
func (m *Mirror) Project() error {
	if err := m.open(); err != nil {
		return err
	}
	err := m.project()
	return m.close(err)
}

func (m *Mirror) project() error {
	all, err := m.differences()
	if err != nil {
		return err
	}
	layer, err := filetree.Open(m.Layer)
	if err != nil {
		return err
	}
	defer layer.Close()
	p := &projection{m: m, layer: layer}
	for top, to := range map[string]**filetree.Opened{m.Layer: &p.inOpened, m.Tree: &p.opened} {
		if *to, err = filetree.OpenOwn(top); err != nil {
			(*to).Close()
			return err
		}
		defer (*to).Close()
	}
	paths, err := p.candidates(all)
	if err != nil {
		return err
	}
	var removed []string
	for _, path := range paths {
		hidden, err := p.hidden(path)
		if err != nil {
			return err
		}
		if hidden {
			removed = append(removed, path)
			continue
		}
		if err := p.path(path); err != nil {
			return err
		}
	}
	for _, path := range slices.Backward(removed) {
		have, _, err := p.mine(path)
		if err == nil {
			err = p.clear(path, have)
		}
		if err = errors.Join(err, p.remove(path)); err != nil {
			return err
		}
	}
	p.forgetRestored()
	f := &follower{m: m, copier: &copier{m: m, dirs: p.dirs}}
	if err := f.follow(nil); err != nil {
		return err
	}
	for _, path := range slices.Backward(p.layerDirs) {
		if err := p.finish(path); err != nil {
			return err
		}
	}
	return nil
}

// forgetRestored makes the follower copy the paths that the copy lacks, as if it had never had them.
func (p *projection) forgetRestored() {
	p.m.again = make(map[string]*pair)
	for _, path := range p.restored {
		p.m.again[path] = p.m.known[path]
		delete(p.m.known, path)
		p.m.dirty = true
	}
}

type projection struct {
	m     *Mirror
	layer *filetree.Tree
	// opened and inOpened are the copy and the layer. Programs can have closed directories for their owner.
	opened, inOpened *filetree.Opened
	// restored lists paths that the copy lacks and gets from the original.
	restored []string
	// dirs and layerDirs list directories whose metadata comes from the original and from the layer.
	dirs, layerDirs []string
}

// candidates lists the paths at which the copy can differ from the original with the layer over it, sorted by name.
func (p *projection) candidates(all []Difference) ([]string, error) {
	set := make(map[string]bool)
	for _, d := range all {
		set[d.Path] = true
	}
	for path, k := range p.m.known {
		if !k.seen { // this includes paths below a deleted directory, or below a directory that became a file
			set[path] = true
		}
	}
	for path := range p.m.layered {
		set[path] = true
	}
	err := filepath.WalkDir(p.m.Layer, func(path string, _ fs.DirEntry, err error) error {
		set[p.m.relative(p.m.Layer, path)] = true
		return err
	})
	var out []string
	for path := range set {
		out = append(out, path)
	}
	slices.SortFunc(out, strings.Compare)
	return out, err
}

// inLayer returns the state of a path in the layer. The result "hides" reports whether the layer hides the path of the
// original.
func (p *projection) inLayer(path string) (now Stamp, hides bool, err error) {
	for at := path; at != "."; at = filepath.Dir(at) {
		up := filepath.Join(p.m.Layer, at)
		s, st, err := stat(up)
		if err != nil {
			return Stamp{}, false, err
		}
		if s == (Stamp{}) {
			continue
		}
		s.Mode = p.inOpened.Mode(at, s.Mode)
		if filetree.IsWhiteout(&st) {
			return Stamp{}, true, nil
		}
		if at == path {
			now = s
			continue
		}
		if !s.isDir() {
			return Stamp{}, true, nil
		}
		opaque, err := filetree.IsOpaque(up)
		if err != nil {
			return Stamp{}, false, err
		}
		hides = hides || opaque
	}
	return now, hides, nil
}

// inBase returns the state of a path of the original. It is zero if the original does not have the path.
func (m *Mirror) inBase(path string) (now Stamp, err error) {
	at, err := m.base.At(path)
	if err == nil {
		now, _, err = stat(at)
	}
	return now, ignoreMissing(err)
}

// hidden reports whether the copy must not have a path.
func (p *projection) hidden(path string) (bool, error) {
	now, hides, err := p.inLayer(path)
	if err != nil || now != (Stamp{}) || hides {
		return hides && now == Stamp{}, err
	}
	base, err := p.m.inBase(path)
	if errors.Is(err, fs.ErrPermission) {
		return false, nil // the path is in a directory of the original that this user cannot read
	}
	return base == Stamp{}, err
}

// mine returns the state of a path of the copy. The result "known" reports whether this is the last known
// state.
func (p *projection) mine(path string) (now Stamp, known bool, err error) {
	at, err := p.m.tree.At(path)
	if err == nil {
		now, _, err = stat(at)
	}
	if errors.Is(err, fs.ErrPermission) {
		return now, false, nil // the path is in a directory that a program made unreadable
	}
	if err = ignoreMissing(err); err != nil {
		return now, false, err
	}
	now.Mode = p.opened.Mode(path, now.Mode)
	k := p.m.known[path]
	l, layered := p.m.layered[path]
	return now, now == (Stamp{}) || k != nil && k.Tree == now || layered && l.Tree == now, nil
}

// path makes one path of the copy equal to the path of the layer or, if the layer does not have it, of the original.
func (p *projection) path(path string) error {
	m := p.m
	have, known, err := p.mine(path)
	if err != nil || !known {
		return err
	}
	want, _, err := p.inLayer(path)
	if err != nil {
		return err
	}
	l, layered := m.layered[path]
	switch {
	case want.isDir():
		return p.directory(path, have)
	case want != (Stamp{}) && layered && l.Layer.renamed(want) && l.Tree == have && have != (Stamp{}):
		return nil
	case want != (Stamp{}):
		if err := p.clear(path, have); err != nil {
			return err
		}
		if have.isDir() {
			have = Stamp{}
		}
		err := m.bring(p.layer, path, path, have)
		return err
	}
	err = p.original(path, have)
	delete(m.layered, path)
	m.dirty = true
	return err
}

// original copies the version of the original to the copy.
func (p *projection) original(path string, have Stamp) error {
	m := p.m
	at, err := m.base.At(path)
	if err != nil {
		return ignoreMissing(err)
	}
	base, st, err := stat(at)
	k := m.known[path]
	switch {
	case err != nil:
		return err
	case have == (Stamp{}):
		p.restored = append(p.restored, path)
		return nil
	case k != nil && k.Base == base && k.Tree == have:
		return nil
	case base.isDir() && have.isDir():
		m.derive(path, base, Stamp{})
		p.dirs = append(p.dirs, path)
		return nil
	case base.isDir() != have.isDir():
		if err := p.clear(path, have); err != nil {
			return err
		}
		if !have.isDir() {
			if gone, err := m.unlink(path, have); err != nil || !gone {
				return err
			}
		}
		p.restored = append(p.restored, path)
		return nil
	}
	mine, err := m.tree.At(path)
	if err != nil {
		return err
	}
	_, own, err := stat(mine)
	if err != nil {
		return err
	}
	if same, err := filetree.Same(at, mine, &st, &own); err == nil && same {
		m.derive(path, base, have)
		return nil
	}
	err = m.bring(m.base, path, path, have)
	return ignoreMissing(err)
}

// directory makes a path of the copy a directory, because the path is a directory in the layer.
func (p *projection) directory(path string, have Stamp) error {
	if path == "." {
		return nil
	}
	if !have.isDir() {
		if have != (Stamp{}) {
			if gone, err := p.m.unlink(path, have); err != nil || !gone {
				return err
			}
		}
		want, _, err := stat(filepath.Join(p.m.Layer, path))
		if err = errors.Join(err, p.m.mkdir(path, want)); err != nil {
			return ignoreMissing(err)
		}
	}
	p.layerDirs = append(p.layerDirs, path)
	return nil
}

// finish copies the metadata of a directory from the layer to the copy.
func (p *projection) finish(path string) error {
	from := filepath.Join(p.m.Layer, path)
	now, st, err := stat(from)
	if err != nil || !now.isDir() {
		return err
	}
	to, err := p.m.tree.At(path)
	if err != nil {
		return ignoreMissing(err)
	}
	now.Mode = p.inOpened.Mode(path, now.Mode)
	filetree.SetMode(&st, now.Mode)
	p.opened.Keep(path)
	if err := filetree.Like(to, from, &st); err != nil {
		return ignoreMissing(err)
	}
	mine, _, err := stat(to)
	k := p.m.known[path]
	if base, baseErr := p.m.inBase(path); baseErr == nil && base.isDir() && base.Mode == mine.Mode &&
		base.Attributes == mine.Attributes {
		if k == nil || k.Base != base || k.Tree != mine {
			p.m.derive(path, base, mine)
		}
		return err
	}
	p.m.layered[path], p.m.dirty = layered{Tree: mine, Layer: now}, true
	return err
}

// clear removes a directory of the copy with its content, because the path does not remain a directory. It does nothing
// for other paths.
func (p *projection) clear(path string, have Stamp) error {
	if !have.isDir() {
		return nil
	}
	at, err := p.m.tree.At(path)
	if err != nil {
		return err
	}
	var below []string
	err = filepath.WalkDir(at, func(inner string, _ fs.DirEntry, err error) error {
		below = append(below, filepath.Join(path, strings.TrimPrefix(inner, at)))
		return err
	})
	if err != nil {
		return err
	}
	for _, rel := range slices.Backward(below) {
		if err := p.remove(rel); err != nil {
			return err
		}
	}
	return nil
}

// remove removes a path that the copy must not have. It keeps a path that a program changed after the last Gather.
func (p *projection) remove(path string) error {
	m := p.m
	have, known, err := p.mine(path)
	if err != nil || !known {
		return err
	}
	if have != (Stamp{}) {
		if gone, err := m.unlink(path, have); err != nil || !gone {
			return err
		}
	}
	delete(m.layered, path)
	if now, st, err := stat(filepath.Join(m.Layer, path)); err == nil && filetree.IsWhiteout(&st) {
		m.layered[path] = layered{Layer: now}
	} else if base, err := m.inBase(path); err == nil && base == (Stamp{}) {
		delete(m.known, path)
	}
	m.dirty = true
	return nil
}

// Inherit declares that this copy and the copy of the mirror "from" are derived from the same versions of the original.
// It does this only for paths in the layer of "from". For other paths, this copy has newer versions than "from".
func (m *Mirror) Inherit(from *Mirror) error {
	if err := errors.Join(m.open(), from.open()); err != nil {
		return err
	}
	m.round = from.round
	for _, k := range m.known {
		k.Round = m.round + 1
	}
	err := filetree.WalkOwn(from.Layer, 0o500, func(_, rel string, _ *unix.Stat_t, err error) error {
		if k := from.known[rel]; k == nil {
			delete(m.known, rel)
		} else if mine := m.known[rel]; mine != nil {
			mine.Base, mine.Round = k.Base, k.Round
		} else {
			m.known[rel] = &pair{Base: k.Base, Round: k.Round}
		}
		return err
	})
	m.dirty = true
	return errors.Join(from.close(err), m.close(nil))
}
