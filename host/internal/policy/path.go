package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/scratch"
)

// maxLinks limits the symbolic links in a path. The Linux kernel has the same limit.
const maxLinks = 40

// resolve returns the target of a path and the root that contains the target. The result is only information for the
// person who decides. A link that changes later cannot lead outside of the root, because the tool opens the path
// through os.Root.
func (p *Policy) resolve(call *tool.Call, path string, write bool) (string, tool.Root, error) {
	if strings.IndexByte(path, 0) >= 0 {
		return "", tool.Root{}, tool.Errorf(tool.Security, "The path %q contains a NUL byte. Remove it.", path)
	}
	if path == "" {
		return "", tool.Root{}, tool.Errorf(tool.InvalidArguments, "The path is empty. Name a file, or . for the working directory.")
	}
	if p.rules.Strict && hasDotDot(path) {
		return "", tool.Root{}, tool.Errorf(tool.Security, "%s contains \"..\", which the configuration forbids (sandbox paths = \"strict\"). Write the path without it.", path)
	}
	abs := absolute(call, path)
	target, links, err := follow(call.Roots, abs)
	if err != nil {
		return "", tool.Root{}, tool.Errorf(tool.Security, "%s cannot be resolved: %w.", path, err)
	}
	root, ok := containing(call.Roots, target)
	if !ok || root.Source != "" && scratch.Foreign(call.Roots, target, write) {
		via := ""
		if target != abs {
			via = " (it leads to " + target + ")"
		}
		hint := ""
		if at, copied := scratch.Copied(call.Roots, target); copied {
			return "", tool.Root{}, tool.Errorf(tool.Security, "%s is not a path of this session, whose branch is a copy of the workspace%s. Use %s.", path, via, at)
		}
		if _, tmp := scratch.Split(call.Roots); ok {
			hint = fmt.Sprintf(" The session has a %s of its own, which does not contain it.", tmp.Path)
		} else if tmp.Path != "" && within(target, scratch.Path) {
			hint = fmt.Sprintf(" Temporary files of the session are in %s.", tmp.Path)
		}
		return "", tool.Root{}, tool.Errorf(tool.Security, "%s is outside of the roots%s: %s. %s%s",
			path, via, p.rootList(call.Roots), widen(target, write), hint)
	}
	if p.rules.Strict && links {
		return "", tool.Root{}, tool.Errorf(tool.Security, "%s goes through a symbolic link, which the configuration forbids (sandbox paths = \"strict\"). Use %s.", path, target)
	}
	return target, root, nil
}

// absolute returns the absolute form of a path and resolves no links. A relative path is relative to the directory of
// the call.
func absolute(call *tool.Call, path string) string {
	path = ExpandHome(path)
	if !filepath.IsAbs(path) {
		path = filepath.Join(call.Cwd, path)
	}
	return filepath.Clean(path)
}

func hasDotDot(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if part == ".." {
			return true
		}
	}
	return false
}

// ExpandHome replaces a leading "~" in a path by the home directory of the user. It returns other paths unchanged. If
// the home directory is unknown, it changes nothing.
func ExpandHome(path string) string {
	if path != "~" && !strings.HasPrefix(path, "~/") {
		return path
	}
	home := homeDir()
	if home == "" {
		return path
	}
	return filepath.Join(home, path[1:])
}

// homeDir returns the home directory of the user, or "" if it is unknown.
func homeDir() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return home
}

// errLinks is the error for a path with too many links.
var errLinks = errors.New("too many symbolic links")

// Follow resolves the symbolic links in an absolute path as the tools of a session with the given roots do. The path
// can end with elements that do not exist.
func Follow(roots []tool.Root, path string) (string, error) {
	target, _, err := follow(roots, path)
	return target, err
}

// follow resolves the symbolic links in a path. The path can end with elements that do not exist.
func follow(roots []tool.Root, path string) (target string, links bool, err error) {
	at, hops := "/", 0
	if r, ok := containing(roots, path); ok {
		at = r.Path // the path of a root never contains links
	}
	rest := strings.Split(strings.TrimPrefix(strings.TrimPrefix(path, at), "/"), "/")
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		if aboveRoot(roots, next) {
			at = next
			continue
		}
		st, err := os.Lstat(scratch.OnHost(roots, next))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return filepath.Join(append([]string{next}, rest...)...), links, nil
		case err != nil:
			// An element of the path is a file or an unreadable directory. Return no error here, because the tool
			// returns a better error.
			return filepath.Join(append([]string{next}, rest...)...), links, nil //nolint:nilerr // see above
		case st.Mode().Type() != fs.ModeSymlink:
			at = next
			continue
		}
		links = true
		if hops++; hops > maxLinks {
			return "", links, errLinks
		}
		link, err := os.Readlink(scratch.OnHost(roots, next))
		if err != nil {
			return "", links, err
		}
		if filepath.IsAbs(link) {
			at = "/"
		}
		rest = append(strings.Split(link, "/"), rest...)
	}
	return at, links, nil
}

// aboveRoot reports whether a directory in the temporary directory of a session contains a root. The directory need not
// exist there. Tools see it in any case, because it is a parent of the root.
func aboveRoot(roots []tool.Root, dir string) bool {
	i := slices.IndexFunc(roots, func(r tool.Root) bool { return r.Source != "" && r.Contains(dir) })
	return i >= 0 && slices.ContainsFunc(roots, func(r tool.Root) bool { return r.Source == "" && within(r.Path, dir) })
}

// containing returns the innermost root that contains a path.
func containing(roots []tool.Root, path string) (best tool.Root, ok bool) {
	for _, r := range roots {
		if r.Contains(path) && (!ok || len(r.Path) > len(best.Path)) {
			best, ok = r, true
		}
	}
	return best, ok
}

// widen returns the advice for a path outside of the roots. It names the smallest root that contains the path. It names
// none if this root would be the root of the file system, or, because of a single file, a directory directly below it,
// or one that contains the home directory.
func widen(target string, write bool) string {
	dir := target
	if st, err := os.Stat(target); err != nil || !st.IsDir() {
		if dir = filepath.Dir(target); filepath.Dir(dir) == "/" || within(homeDir(), dir) {
			dir = "/"
		}
	}
	if dir == "/" {
		return "Use a path inside of a root, or ask the user for a copy of the file in a root."
	}
	access := "{}"
	if write {
		access = "{ writable = true }"
	}
	return fmt.Sprintf("Use a path inside of a root, or ask the operator to add root %q %s to the sandbox block.", dir, access)
}

// rootList names the roots, without those in the host's own directory.
func (p *Policy) rootList(roots []tool.Root) string {
	var names []string
	roots, _ = scratch.Split(roots)
	for _, r := range roots {
		if p.rules.Private == "" || !within(r.Path, p.rules.Private) {
			names = append(names, r.Path)
		}
	}
	switch len(names) {
	case 0:
		return "no root is configured"
	case 1:
		return "the root is " + names[0]
	}
	return "the roots are " + strings.Join(names, ", ")
}
