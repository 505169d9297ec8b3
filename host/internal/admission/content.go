package admission

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/trust"
)

// unreadable replaces the hash of a program that cannot be read. No file has this hash, so the program never runs.
const unreadable = "unreadable"

// content returns the hashes of all files of a configuration: the parsed text, optional files, and programs
// in exposed directories.
func (s Source) content(cfg *config.Config) (*trust.Content, error) {
	out := &trust.Content{Files: make(map[string]string), Programs: make(map[string]string)}
	if cfg.Path == "" {
		return out, nil
	}
	var err error
	if out.Config, err = canonical(cfg.Path); err != nil {
		return nil, err
	}
	// The files with variables and pins are optional. The digest records their absence, because a new file changes the
	// configuration.
	lock, err := trust.PathFor(cfg.Path)
	if err != nil {
		return nil, err
	}
	for _, path := range []string{config.VariableFile(cfg.Path), lock} {
		if path, err = canonical(path); err != nil {
			return nil, err
		}
		if out.Files[path], err = trust.Hash(path); err != nil { // without pins, the host refuses the plugins that need them
			out.Files[path] = unreadable
		}
	}
	for path, text := range cfg.Texts() { // hash the parsed text, because the file can change after parsing
		if path, err = canonical(path); err != nil {
			return nil, err
		}
		sum := sha256.Sum256(text)
		out.Files[path] = hex.EncodeToString(sum[:])
	}
	dirs := s.exposed(cfg)
	seen := make(map[string]bool) // many blocks can run the same program
	look := newLook()
	for _, p := range cfg.Programs(s.BundledDir) {
		for _, path := range s.filesOf(look, p, cfg, "") {
			if seen[path] {
				continue
			}
			seen[path] = true
			if !writable(dirs, path) {
				continue
			}
			sum, err := trust.Hash(path)
			if err != nil {
				sum = unreadable
			}
			out.Programs[path] = sum
		}
	}
	return out, nil
}

// separators contains the characters that end a path inside an argument, for example in a shell script.
const separators = " \t\r\n;|&()<>'\"`=:,$"

// look finds files. It queries the file system only once for each path, because the blocks of many servers
// name the same files. Therefore use a new value for each analysis of a configuration.
type look struct {
	files    map[string]fs.FileInfo // regular files by path; nil for other paths
	dirs     map[string]bool
	programs map[string]string // by name
}

func newLook() *look {
	return &look{files: make(map[string]fs.FileInfo), dirs: make(map[string]bool), programs: make(map[string]string)}
}

// file returns the regular file at a path. It returns nil if none exists.
func (l *look) file(path string) fs.FileInfo {
	st, known := l.files[path]
	if !known {
		if found, err := os.Stat(path); err == nil && found.Mode().IsRegular() {
			st = found
		}
		l.files[path] = st
	}
	return st
}

// isDir reports whether a path is a directory.
func (l *look) isDir(path string) bool {
	is, known := l.dirs[path]
	if !known {
		st, err := os.Stat(path)
		is = err == nil && st.IsDir()
		l.dirs[path] = is
	}
	return is
}

// program searches the PATH of the host for a program. It returns the path of the program, or the name if
// the program does not exist.
func (l *look) program(name string) string {
	path, known := l.programs[name]
	if !known {
		path = name
		if found, err := exec.LookPath(name); err == nil || errors.Is(err, exec.ErrDot) {
			path = found
		}
		l.programs[name] = path
	}
	return path
}

// filesOf returns the program of a command and the code files in its arguments and environment. It omits data files,
// because programs change them. Relative names are searched in the directory of the configuration, in the workspace,
// and in the program's working directory. If the program has no working directory, the argument "cwd" is used.
func (s Source) filesOf(look *look, p config.Program, cfg *config.Config, cwd string) []string {
	out := []string{program(look, p)}
	dirs := []string{filepath.Dir(cfg.Path), s.Workspace}
	if dir := cmp.Or(p.Dir, cwd); dir != "" && !slices.Contains(dirs, dir) {
		dirs = append(dirs, dir)
	}
	first := begins(p.Command)
	n, script := codeWords(p.Command[first:])
	code := slices.Clone(p.Command[first:max(first+n, first+1)])
	if script > 0 {
		code[script] = withoutData(code[script])
	}
	dirs = directories(look, code[1:], dirs)
	add := func(text string, all bool) { // if all is false, only executable files and files with the extension of code count
		for _, word := range words(text, all) {
			for _, dir := range dirs {
				path := word
				if !filepath.IsAbs(path) {
					path = filepath.Join(dir, path)
				}
				if path, err := filepath.Abs(path); err == nil {
					if st := look.file(path); st != nil && (all || st.Mode().Perm()&0o111 != 0 || trust.IsCode(path)) {
						out = append(out, path)
					}
				}
			}
		}
	}
	out = append(out, loaded(look, code, dirs)...)
	if p.Plugin && trust.IsScript(out[0]) {
		out = append(out, trust.CodeBeside(out[0])...)
	}
	in := interpreterOf(p.Command[first])
	for i, arg := range p.Command {
		name, _, assigned := strings.Cut(arg, "=")
		switch i -= first; {
		case i == -first: // the program
		case i == script && i > 0:
			add(code[i], true)
			add(arg, false)
		case i > 0 && i < n && in.launches && assigned && !strings.HasPrefix(name, "-"):
			add(arg, codeVariables.MatchString(name))
		case commandText(arg):
			add(withoutData(arg), true)
			add(arg, false)
		default:
			add(arg, i >= 0 && i < n)
		}
	}
	for name, value := range p.Env {
		add(value, in != nil && in.whole || codeVariables.MatchString(name))
	}
	return out
}

// program returns the absolute path of a program. It searches the PATH of the block. If the block sets no
// PATH, it searches the PATH of the host.
func program(look *look, p config.Program) string {
	name := p.Command[0]
	if path, own := p.Env["PATH"]; own && !p.Plugin && !strings.Contains(name, "/") {
		for _, dir := range filepath.SplitList(path) {
			candidate := filepath.Join(cmp.Or(dir, "."), name)
			if st := look.file(candidate); st != nil && st.Mode().Perm()&0o111 != 0 {
				name = candidate
				break
			}
		}
	}
	if !strings.Contains(name, "/") {
		name = look.program(name)
	}
	if abs, err := filepath.Abs(name); err == nil {
		return abs
	}
	return name
}

// admit turns off each block that runs a file that tools can change, unless a person trusts the file with its current
// content. All other blocks work. The argument "trusted" contains the trusted hashes of files. The argument "why" is
// the reason why they are unknown, or nil. Hooks and fields then run copies of their trusted programs, which tools
// cannot change.
func (s Source) admit(cfg *config.Config, content *trust.Content, trusted map[string]string, why error) {
	dirs, look := s.exposed(cfg), newLook()
	store, storeErr := s.copies(cfg)
	copies := make(map[string]string)
	for _, p := range cfg.Programs(s.BundledDir) {
		var err error
		for i, path := range s.filesOf(look, p, cfg, "") {
			beside := p.Plugin && filepath.Dir(path) == filepath.Dir(p.Command[0]) // see [Source.Guard]
			if err != nil || beside || !writable(dirs, path) {
				continue
			}
			is := content.Programs[path]
			switch {
			case i == 0 && is == "" && strings.HasPrefix(p.Block, "hook "): // a tool must not turn off a hook by removing its program
				err = fmt.Errorf("the file %s does not exist", path)
			case why != nil:
				err = why
			default:
				err = s.changed(p, path, is, trusted[path])
			}
			if err == nil && i == 0 && is != "" { // a plugin always runs as a copy
				if err = storeErr; err == nil {
					copies[p.Command[0]], err = store.Executable(path, is)
				}
			}
		}
		if err != nil {
			cfg.Refuse(p.Block, err.Error())
		}
	}
	for path := range content.Programs { // protect the originals, because the configuration now names only the copies
		cfg.Protected = append(cfg.Protected, path)
	}
	cfg.RunCopies(copies)
}

// copies returns the store of the copies of programs.
func (s Source) copies(cfg *config.Config) (*trust.Store, error) {
	dir, err := state.FindDir(s.StateDir, cfg.Host.StateDir)
	if err == nil {
		dir, err = state.Home{Root: dir}.Pinned()
	}
	return &trust.Store{Dir: dir, Hash: hashFile}, err
}

// changed returns an error if the content of a file is not the trusted content. The arguments "is" and
// "trusted" are hashes. It returns nil for a missing file, because the program fails without it.
func (s Source) changed(p config.Program, path, is, trusted string) error {
	review := "toolhost trust"
	if !s.discovered() {
		review += " --config " + s.Path
	}
	switch {
	case is == "":
		return nil
	case trusted == "":
		return fmt.Errorf("%s of %s is in a directory that tools can write, and it is not trusted. Review it with %s, or move it to another directory", path, p.Block, review)
	case is == unreadable:
		return fmt.Errorf("%s of %s cannot be read, so it cannot be compared with the file that a person trusted", path, p.Block)
	case is != trusted:
		return fmt.Errorf("%s of %s changed since it was trusted, and tools can write its directory. Restore it, or review it: %s", path, p.Block, review)
	}
	return nil
}

func hashFile(path string) (out [32]byte, err error) {
	sum, err := trust.Hash(path)
	if err == nil && sum == "" {
		err = os.ErrNotExist
	}
	if err == nil {
		_, err = hex.Decode(out[:], []byte(sum))
	}
	return out, err
}
