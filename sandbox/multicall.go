package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// fewNames is the usual maximum number of names of a program, such as python, python3 and python3.13.
const fewNames = 4

// maxShownNames limits the number of names in a text.
const maxShownNames = 8

// MultiCall describes listed programs whose file also contains unlisted programs, such as busybox. It omits files with
// at most fewNames names. The argument "listed" contains the patterns of the list, and "path" is the value of PATH.
func MultiCall(listed []string, path string) (out []string) {
	names := make(map[string][]string) // program names, by file
	for _, dir := range slices.Concat(searched(path, ""), programDirs) {
		if filepath.Base(dir) == "git-core" { // the file names in this directory are subcommands of git
			continue
		}
		entries, _ := os.ReadDir(dir) // ignore the error: a missing directory contains no programs
		for _, e := range entries {
			file, err := filepath.EvalSymlinks(filepath.Join(dir, e.Name()))
			if err != nil {
				continue
			}
			st, err := os.Stat(file)
			if err != nil || !st.Mode().IsRegular() || st.Mode().Perm()&0o111 == 0 {
				continue
			}
			key := file
			if id, links := fileID(st); links > 1 { // hard links to the same file have different paths
				key = id
			}
			if !slices.Contains(names[key], e.Name()) {
				names[key] = append(names[key], e.Name())
			}
		}
	}
	for _, all := range names {
		var in, others []string
		for _, name := range all {
			if slices.ContainsFunc(listed,
				func(pattern string) bool { ok, _ := filepath.Match(pattern, name); return ok }) {
				in = append(in, name)
			} else {
				others = append(others, name)
			}
		}
		if len(all) > fewNames && len(in) > 0 && len(others) > 0 {
			out = append(out, fmt.Sprintf("%s can be executed as %s, which the same file contains", shown(in), shown(others)))
		}
	}
	slices.Sort(out)
	return out
}

// shown joins names for a message. It shows at most maxShownNames names and the number of the others.
func shown(names []string) string {
	slices.Sort(names)
	if more := len(names) - maxShownNames; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxShownNames], ", "), more)
	}
	return strings.Join(names, ", ")
}

// fileID returns a text that identifies a file on this machine, and the number of its hard links.
func fileID(st fs.FileInfo) (id string, links uint64) {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return "", 0
	}
	return fmt.Sprintf("%d:%d", sys.Dev, sys.Ino), uint64(sys.Nlink)
}
