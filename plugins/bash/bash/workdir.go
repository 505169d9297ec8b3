package bash

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// place contains the directories of a command and its session.
type place struct {
	dir     string // directory of the command
	session string // directory of the session; a command can change to another directory
	// lost is the session's previous directory if that directory no longer exists.
	lost string
}

// workdir returns the directory of the command: cwd if it is set, otherwise the session's directory.
func workdir(call *sdk.Call, cwd string) (*place, error) {
	p := &place{session: call.Cwd}
	if !isDir(p.session) {
		p.lost = call.Cwd
		root, ok := nearestRoot(call.Roots, call.Cwd)
		if !ok {
			return nil, sdk.Errorf(tool.NotFound, "The session's working directory %s does not exist, and no root of the sandbox exists either. Create one of these directories.", call.Cwd)
		}
		p.session = root
	}
	p.dir = p.session
	if cwd == "" {
		return p, nil
	}
	if strings.IndexByte(cwd, 0) >= 0 {
		return nil, sdk.Errorf(tool.InvalidArguments, "The path in cwd contains a NUL byte. Set cwd to the path of a directory.")
	}
	if home := os.Getenv("HOME"); home != "" && (cwd == "~" || strings.HasPrefix(cwd, "~/")) {
		cwd = home + cwd[1:]
	}
	if !filepath.IsAbs(cwd) {
		cwd = filepath.Join(p.session, cwd)
	}
	p.dir = filepath.Clean(cwd)
	info, err := os.Stat(p.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, sdk.Errorf(tool.NotFound, "The directory in cwd does not exist: %s. Relative paths start at the session's working directory, %s.", p.dir, p.session)
	case errors.Is(err, fs.ErrPermission):
		return nil, sdk.Errorf(tool.PermissionDenied, "The directory in cwd cannot be entered: %w. Set cwd to another directory, or change the mode of this directory.", err)
	case err != nil:
		return nil, sdk.Errorf(tool.InvalidArguments, "The directory in cwd cannot be used: %w. Set cwd to the path of a directory.", err)
	case !info.IsDir():
		return nil, sdk.Errorf(tool.InvalidArguments, "The path in cwd is not a directory: %s. Set cwd to the directory that contains it.", p.dir)
	}
	return p, nil
}

// moved records the shell's final directory. If a command with a cwd ends in that cwd, the session's directory
// stays unchanged.
func (p *place) moved(to string) {
	if to != p.dir {
		p.session = to
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return path != "" && err == nil && info.IsDir()
}

// nearestRoot returns the innermost existing root that contains path. If no root contains path, it returns any
// existing root.
func nearestRoot(roots []tool.Root, path string) (string, bool) {
	best, inside := "", false
	for _, r := range roots {
		if !isDir(r.Path) {
			continue
		}
		in := r.Contains(path)
		if best == "" || in && (!inside || len(r.Path) > len(best)) {
			best, inside = r.Path, in
		}
	}
	return best, best != ""
}
