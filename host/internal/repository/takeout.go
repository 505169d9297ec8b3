package repository

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Store stores the content that the guard removes from repositories.
type Store interface {
	// Keep stores an entry and sets its ID.
	Keep(e *QuarantineEntry) error
	// Allowed returns the keys of the content that a person restored.
	Allowed() (map[string]bool, error)
}

// maxCopy limits the size in bytes of a file that is copied to the quarantine. A larger file is only renamed.
const maxCopy = 1 << 20

// takeOut removes a file or settings from a repository and stores them. If the content cannot be stored, it stays in
// the same directory under a name that git does not use. The function "drop" reports whether the content with the given
// key must be removed.
func (t *tree) takeOut(f *found, drop func(key string) bool, store Store) (*QuarantineEntry, error) {
	dir, name := filepath.Split(f.rel)
	d, err := t.root.open(filepath.Clean(dir))
	if err != nil {
		return nil, err
	}
	defer d.close()
	e := t.entryOf(f)
	if f.kind == KindSettings {
		return e, t.takeSettings(d, name, f, e, drop, store)
	}
	moved, err := d.moveAside(name)
	if err != nil {
		return nil, err
	}
	keep := func(err error) (*QuarantineEntry, error) {
		e.Left = filepath.Join(t.path, filepath.Dir(f.rel), moved)
		return e, errors.Join(err, store.Keep(e))
	}
	st, err := d.stat(moved)
	if err != nil {
		return nil, err
	}
	identify := func(key string) {
		if f.why != WhyLoaded { // an entry with WhyLoaded identifies only a name, and not the content
			e.Keys = []string{key}
		}
	}
	switch {
	case st.IsLink():
		to, err := d.readlink(moved)
		if err != nil {
			return keep(err)
		}
		e.Kind, e.Content = KindLink, []byte(to)
		identify(t.linkKey(f.rel, to))
	case st.IsFile():
		content, _, err := d.read(moved)
		if err != nil && !errors.Is(err, errLarge) {
			return keep(err)
		}
		if err != nil || len(content) > maxCopy {
			identity, err := d.identity(moved)
			identify(t.key(f.rel, identity))
			return keep(err)
		}
		// The current content can differ from the content that the search found. The entry must show the content that a
		// person restores.
		e.Kind, e.Content, e.Mode = KindFile, content, fileMode(st.Mode)
		identify(t.key(f.rel, hash(content)))
	default:
		return keep(nil)
	}
	if err := store.Keep(e); err != nil {
		e.Left = filepath.Join(t.path, filepath.Dir(f.rel), moved)
		return e, err
	}
	return e, unix.Unlinkat(d.fd, moved, 0)
}

// entryOf returns the entry of a finding, without its content.
func (t *tree) entryOf(f *found) *QuarantineEntry {
	at := filepath.Join(t.path, f.rel)
	return &QuarantineEntry{At: time.Now(), Kind: f.kind, Root: t.path, Path: at, Why: f.why, Keys: f.keys}
}

// takeSettings removes settings from a file. It reads the file again, because the file can have changed.
func (t *tree) takeSettings(d directory, name string, f *found, e *QuarantineEntry, drop func(string) bool,
	store Store) error {
	return d.rewrite(name, func(text []byte, st *unix.Stat_t) ([]byte, error) {
		all, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Path, err)
		}
		var gone []setting
		e.Keys = nil
		for _, s := range all {
			key := t.key(f.rel, "setting "+s.name()+"="+s.value)
			if !slices.Contains(f.keys, key) || !drop(key) {
				continue
			}
			gone = append(gone, s)
			if !slices.Contains(e.Keys, key) {
				e.Keys = append(e.Keys, key)
			}
			if !slices.Contains(e.Names, s.name()) {
				e.Names = append(e.Names, s.name())
			}
			e.Content = appendSetting(e.Content, text, &s)
		}
		if len(gone) == 0 {
			return nil, errNothing
		}
		e.Mode = fileMode(uint32(st.Mode)) //nolint:unconvert // 16 bits on other systems
		if err := store.Keep(e); err != nil {
			return nil, err
		}
		return remove(text, gone), nil
	})
}

// errNothing means that a setting disappeared before it was removed.
var errNothing = errors.New("nothing is left to take out")

// appendSetting appends a setting with its header, such that the result is a valid file.
func appendSetting(out, text []byte, s *setting) []byte {
	if i := bytes.LastIndex(out, []byte("[")); i < 0 || !bytes.HasPrefix(out[i:], append(bytes.Clone(s.header), '\n')) {
		out = append(append(out, s.header...), '\n')
	}
	body := bytes.Trim(text[s.start:s.end], " \t\r\n")
	if bytes.HasSuffix(body, []byte(`\`)) { // a trailing backslash would continue the last line
		body = append(bytes.Clone(body), '\n')
	}
	return append(append(append(out, '\t'), body...), '\n')
}

// takeOut takes out files and settings that are neither known nor restored. It returns a message for each file. The
// argument "others" reports whether other calls run in the tree. The argument "level" is the level of the log messages.
func (g *Guard) takeOut(w *watched, all []found, others bool, level slog.Level) (out []string) {
	all = slices.DeleteFunc(all, func(f found) bool {
		return !slices.ContainsFunc(f.keys, func(key string) bool { return !w.known[key] })
	})
	if len(all) == 0 {
		return nil
	}
	for _, f := range all {
		if f.repo != nil {
			f.repo.forget() // in any case, inspect the repository again
		}
	}
	if all = w.ripe(all, others, g.opts.interval); len(all) == 0 {
		return nil
	}
	store, err := g.opts.Store()
	if err != nil {
		return []string{fmt.Sprintf("%s makes git run programs and stays in place, because the quarantine cannot be used: %v", filepath.Join(w.path, all[0].rel), err)}
	}
	restored, err := store.Allowed()
	if err != nil {
		g.opts.Log.Warn("nothing in the quarantine counts as restored", "error", err)
	}
	drop := func(key string) bool { return !w.known[key] && !restored[key] }
	for _, f := range all {
		if !slices.ContainsFunc(f.keys, drop) {
			w.adopt([]found{f})
			continue
		}
		e, err := w.takeOut(&f, drop, store)
		switch {
		case errors.Is(err, errNothing) || errors.Is(err, os.ErrNotExist):
			continue
		case err != nil:
			g.opts.Log.Warn("a file or setting makes git run programs, and could not be moved to the quarantine", "path", filepath.Join(w.path, f.rel), "error", err)
			out = append(out, fmt.Sprintf("%s makes git run programs (%s), and could not be moved to the quarantine: %v. Do not run git there before you have checked it", filepath.Join(w.path, f.rel), f.why, err))
			continue
		}
		g.took(e, level)
		out = append(out, message(e))
	}
	return out
}

// ripe returns the files that can be removed now. If other calls run, one of these calls can still use a
// new file, and git fails if a file that it uses is locked or missing. Therefore a new file stays for the duration
// "patience" after the first search that found it.
func (w *watched) ripe(all []found, others bool, patience time.Duration) (out []found) {
	if !others {
		w.waiting = nil
		return all
	}
	if w.waiting == nil {
		w.waiting = make(map[string]time.Time)
	}
	now := time.Now()
	for _, f := range all {
		first, ok := w.waiting[f.rel]
		switch {
		case !ok:
			w.waiting[f.rel] = now
		case now.Sub(first) >= patience:
			delete(w.waiting, f.rel)
			out = append(out, f)
		}
	}
	return out
}

// took logs and reports an entry.
func (g *Guard) took(e *QuarantineEntry, level slog.Level) {
	if g.opts.Took != nil {
		g.opts.Took(e)
	}
	g.opts.Log.Log(context.Background(), level, "moved to the quarantine", "path", e.Path, "why", e.Why, "names",
		e.Names, "id", e.ID)
}

// message describes an entry to the model and the user.
func message(e *QuarantineEntry) string {
	what := e.Path
	if len(e.Names) > 0 {
		shown := e.Names[:min(len(e.Names), 5)]
		what = strings.Join(shown, ", ")
		if more := len(e.Names) - len(shown); more > 0 {
			what += fmt.Sprintf(" and %d more", more)
		}
		what += " in " + e.Path
	}
	return fmt.Sprintf("%s was moved to the quarantine: %s, also outside of the sandbox. A person can restore it: toolhost quarantine restore %s", what, e.Why, e.ID)
}
