package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// patchelf is the program that changes where a program looks for its libraries. It is one of the Debian packages.
const patchelf = "usr/bin/patchelf"

// setLibraryDirs makes the unpacked programs and libraries in dir look for their libraries in the directory final, into
// which dir is moved later. The environment variable LD_LIBRARY_PATH would not do, because some programs start
// themselves again without it. The directories must be absolute: $ORIGIN does not count for a program that starts with
// more privileges.
func setLibraryDirs(dir, final string) error {
	var dirs []string
	for _, d := range libraryDirs(dir) {
		rel, err := filepath.Rel(dir, d)
		if err != nil {
			return err
		}
		dirs = append(dirs, filepath.Join(final, rel))
	}
	files, err := linked(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range files {
		if f == filepath.Join(dir, patchelf) {
			continue // a running program cannot be changed; it needs only libraries that apt-get needs, too
		}
		out, err := exec.Command(filepath.Join(dir, patchelf), "--force-rpath", "--set-rpath", strings.Join(dirs, ":"), f).CombinedOutput() //nolint:gosec // a program of the build
		if err != nil {
			errs = append(errs, fmt.Errorf("patchelf %s: %w: %s", f, err, out))
		}
	}
	return errors.Join(errs...)
}

// libraryDirs returns the directories of the unpacked Debian packages that contain shared libraries.
func libraryDirs(dir string) []string {
	var dirs []string
	for _, pattern := range []string{"lib/*-linux-gnu", "usr/lib/*-linux-gnu"} {
		found, _ := filepath.Glob(filepath.Join(dir, pattern)) // the pattern is correct
		for _, d := range found {
			dirs = append(dirs, d)
			for _, sub := range []string{"systemd", "pulseaudio", "nss"} {
				if more, _ := filepath.Glob(filepath.Join(d, sub, "*.so*")); len(more) > 0 {
					dirs = append(dirs, filepath.Join(d, sub))
				}
			}
		}
	}
	return dirs
}

// linked returns the programs and libraries in dir that need shared libraries.
func linked(dir string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := elf.Open(path)
		if err != nil {
			return nil // it is no program and no library
		}
		defer f.Close() //nolint:errcheck // nothing was written
		if needed, err := f.ImportedLibraries(); err == nil && len(needed) > 0 {
			files = append(files, path)
		}
		return nil
	})
	return files, err
}

// missingLibraries returns a line for each program and library in dir that, in an empty environment, needs a library
// that is neither in dir nor part of every Debian system.
func missingLibraries(dir string) ([]string, error) {
	base, err := baseLibraries()
	if err != nil {
		return nil, err
	}
	files, err := linked(dir)
	if err != nil {
		return nil, err
	}
	loader, err := filepath.Glob("/lib*/ld-linux-*.so.*")
	if err != nil || len(loader) == 0 {
		return nil, errors.Join(err, errors.New("the system has no loader /lib*/ld-linux-*.so.*"))
	}
	var missing []string
	for _, f := range files {
		c := exec.Command(loader[0], f) //nolint:gosec // the loader prints the libraries and does not run the program
		c.Env = []string{"LD_TRACE_LOADED_OBJECTS=1"}
		out, err := c.CombinedOutput()
		if err != nil {
			missing = append(missing, fmt.Sprintf("%s: %v: %s", f, err, out))
		}
		for line := range strings.Lines(string(out)) {
			name, path, ok := strings.Cut(strings.TrimSpace(line), " => ")
			if ok && !strings.HasPrefix(path, dir+"/") && !base[name] {
				missing = append(missing, fmt.Sprintf("%s: %s is at %s", f, name, path))
			}
		}
	}
	slices.Sort(missing)
	return missing, nil
}

// baseLibraries returns the names of the libraries that every Debian system has: the libraries in the essential
// packages, in apt, and in the packages on which these depend.
func baseLibraries() (map[string]bool, error) {
	query := func(name string, args ...string) ([]string, error) {
		out, err := exec.Command(name, args...).Output() //nolint:gosec // programs of Debian
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return strings.Split(strings.TrimSpace(string(out)), "\n"), nil
	}
	essential, err := query("dpkg-query", "-W", "-f", "${Essential} ${Package}\n")
	if err != nil {
		return nil, err
	}
	roots := []string{"apt"}
	for _, line := range essential {
		if name, ok := strings.CutPrefix(line, "yes "); ok {
			roots = append(roots, name)
		}
	}
	needed, err := query("apt-cache", append([]string{"depends", "--recurse", "--installed", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances"}, roots...)...)
	if err != nil {
		return nil, err
	}
	names := make(map[string]bool)
	for _, line := range needed {
		if line == "" || strings.HasPrefix(line, " ") || strings.HasPrefix(line, "<") {
			continue
		}
		files, err := query("dpkg-query", "-L", line)
		if err != nil {
			continue // a virtual package
		}
		for _, f := range files {
			names[filepath.Base(f)] = true
		}
	}
	return names, nil
}
