package watch

import (
	"os"
	"path/filepath"
	"strings"
)

// maxLinks limits the symbolic links in a path. The kernel has the same limit.
const maxLinks = 40

// Places returns the directory entries that determine the target of an absolute path: all symbolic links in the path,
// and the file itself. If the file does not exist, the last entry is the first missing part of the path.
func Places(path string) []string {
	var out []string
	at, rest := "/", strings.Split(strings.Trim(filepath.Clean(path), "/"), "/")
	for links := 0; len(rest) > 0; {
		next := filepath.Join(at, rest[0])
		st, err := os.Lstat(next)
		switch {
		case err != nil:
			return append(out, next)
		case st.Mode()&os.ModeSymlink != 0 && links < maxLinks:
			links++
			out = append(out, next)
			target, err := os.Readlink(next)
			if err != nil {
				return out
			}
			if !filepath.IsAbs(target) {
				target = filepath.Join(at, target)
			}
			rest = append(strings.Split(strings.Trim(filepath.Clean(target), "/"), "/"), rest[1:]...)
			at = "/"
		default:
			at, rest = next, rest[1:]
		}
	}
	return append(out, at)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
