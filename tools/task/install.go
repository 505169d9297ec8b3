package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// The paths of installed files, relative to PREFIX. The programs are in one directory, because the host searches its
// own directory for the launcher and the plugins.
const (
	libexec  = "libexec/toolhost"
	link     = "bin/toolhost"
	linkTo   = "../libexec/toolhost/toolhost"
	manPages = "share/man/man1"
	// installedList is a file with the paths of all installed files.
	installedList = libexec + "/installed.txt"
)

// completionFiles maps shells to the files from which they load completions.
var completionFiles = map[string]string{
	"bash": "share/bash-completion/completions/toolhost",
	"zsh":  "share/zsh/site-functions/_toolhost",
	"fish": "share/fish/vendor_completions.d/toolhost.fish",
}

// installation is a set of files below a prefix.
type installation struct {
	prefix string // DESTDIR joined with PREFIX
	shown  string // PREFIX alone, for messages
}

func (t *task) installation() (*installation, error) {
	prefix := t.getenv("PREFIX")
	if prefix == "" {
		prefix = "/usr/local"
	}
	if rest, ok := strings.CutPrefix(prefix, "~/"); ok {
		prefix = filepath.Join(t.getenv("HOME"), rest)
	}
	if !filepath.IsAbs(prefix) {
		return nil, fmt.Errorf("PREFIX=%s is not absolute; write a path that begins with /", prefix)
	}
	return &installation{prefix: filepath.Join(t.getenv("DESTDIR"), prefix), shown: prefix}, nil
}

// install builds all programs and installs them below PREFIX. It removes files that only an earlier version had. If the
// environment variable BUILT names a directory, install takes the programs from there instead of building them.
func (t *task) install() error {
	in, err := t.installation()
	if err != nil {
		return err
	}
	built := t.getenv("BUILT")
	if built == "" {
		built = t.Path("bin")
		if err := t.build(); err != nil {
			return err
		}
	}
	before, err := in.installed()
	if err != nil {
		return err
	}
	if err := in.checkLink(); err != nil {
		return err
	}
	files, err := t.collect(built)
	if err != nil {
		return err
	}
	paths := []string{link}
	for path := range files {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		if path != link {
			if err := in.write(path, files[path]); err != nil {
				return err
			}
		}
	}
	if err := in.link(); err != nil {
		return err
	}
	stale := slices.DeleteFunc(before, func(p string) bool { return slices.Contains(paths, p) })
	if err := in.remove(stale); err != nil {
		return err
	}
	if err := in.write(installedList, file{[]byte(strings.Join(paths, "\n") + "\n"), 0o644}); err != nil {
		return err
	}
	fmt.Fprintf(t.out, "installed %s. Next: toolhost setup claude, or codex, gemini, opencode, vscode, cursor\n", filepath.Join(in.shown, link))
	return nil
}

// uninstall removes the files that the target install has installed.
func (t *task) uninstall() error {
	in, err := t.installation()
	if err != nil {
		return err
	}
	paths, err := in.installed()
	if err != nil {
		return err
	}
	if paths == nil {
		return fmt.Errorf("nothing is installed below %s; set PREFIX and DESTDIR to the values of the installation", in.prefix)
	}
	if err := in.remove(append(paths, installedList)); err != nil {
		return err
	}
	fmt.Fprintf(t.out, "removed %s\n", filepath.Join(in.shown, link))
	return nil
}

// file is the content of an installed file.
type file struct {
	content []byte
	mode    fs.FileMode
}

// collect returns the files to install, indexed by their paths below the prefix.
func (t *task) collect(built string) (map[string]file, error) {
	out := make(map[string]file)
	var errs []error
	add := func(path, from string, mode fs.FileMode) {
		b, err := os.ReadFile(from)
		out[path], errs = file{b, mode}, append(errs, err)
	}
	for _, name := range []string{"toolhost", "toolhost-sandbox", "toolhost-shim", "toolhost-coordinator"} {
		add(libexec+"/"+name, filepath.Join(built, name), 0o755)
	}
	for _, name := range t.Plugins {
		add(libexec+"/plugins/"+name, filepath.Join(built, "plugins", name), 0o755)
		add(libexec+"/plugins/"+name+".json", filepath.Join(built, "plugins", name+".json"), 0o644)
	}
	sources, err := t.SDK()
	errs = append(errs, err)
	for _, path := range sources {
		add(libexec+"/"+path, t.Path(path), 0o644)
	}
	dir, err := os.MkdirTemp("", "install-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is a temporary directory
	program := filepath.Join(built, "toolhost")
	errs = append(errs, exec.Command(program, "man", dir).Run()) //nolint:gosec // the program that was built
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	errs = append(errs, err)
	for _, page := range pages {
		add(manPages+"/"+filepath.Base(page), page, 0o644)
	}
	for shell, path := range completionFiles {
		var script bytes.Buffer
		c := exec.Command(program, "completion", shell) //nolint:gosec // as above
		c.Stdout = &script
		errs = append(errs, c.Run())
		out[path] = file{script.Bytes(), 0o644}
	}
	return out, errors.Join(errs...)
}

// installed returns the paths of the installed files. If nothing is installed, it returns nil.
func (in *installation) installed() ([]string, error) {
	b, err := os.ReadFile(in.path(installedList))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	paths := strings.Fields(string(b))
	for _, p := range paths {
		if !filepath.IsLocal(p) {
			return nil, fmt.Errorf("%s names %s, which is not below the prefix; remove the installation by hand", in.path(installedList), p)
		}
	}
	return paths, err
}

func (in *installation) path(name string) string { return filepath.Join(in.prefix, name) }

// checkLink returns an error if the path of the link belongs to another program.
func (in *installation) checkLink() error {
	target, err := os.Readlink(in.path(link))
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && target == linkTo:
		return nil
	case err == nil:
		return fmt.Errorf("%s is a link to %s; remove it, or choose another PREFIX", in.path(link), target)
	}
	return fmt.Errorf("%s exists, and make install did not write it; remove it, or choose another PREFIX", in.path(link))
}

// write writes a new file and renames it to its final name, because the file of a running program cannot be
// overwritten.
func (in *installation) write(name string, f file) error {
	path := in.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // programs are for everybody
		return err
	}
	return in.replace(path, func(temporary string) error {
		if err := os.WriteFile(temporary, f.content, f.mode); err != nil {
			return err
		}
		return os.Chmod(temporary, f.mode) // WriteFile can have set a more restrictive mode because of the umask
	})
}

func (in *installation) link() error {
	if err := os.MkdirAll(filepath.Dir(in.path(link)), 0o755); err != nil { //nolint:gosec // as above
		return err
	}
	return in.replace(in.path(link), func(temporary string) error { return os.Symlink(linkTo, temporary) })
}

func (in *installation) replace(path string, create func(temporary string) error) error {
	temporary := filepath.Join(filepath.Dir(path), ".new-"+filepath.Base(path))
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := create(temporary); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// remove removes files. Afterwards it also removes the directories of toolhost if they are empty.
func (in *installation) remove(names []string) error {
	var errs []error
	dirs := make(map[string]bool)
	for _, name := range names {
		if err := os.Remove(in.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		for dir := filepath.Dir(name); dir == libexec || strings.HasPrefix(dir, libexec+"/"); dir = filepath.Dir(dir) {
			dirs[dir] = true
		}
	}
	for _, dir := range slices.Backward(slices.Sorted(maps.Keys(dirs))) { // subdirectories first
		_ = os.Remove(in.path(dir)) // ignore the error: a directory with other files must remain
	}
	return errors.Join(errs...)
}
