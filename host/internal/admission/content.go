package admission

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/lazyregexp"
	"toolhost.dev/host/internal/statedir"
	"toolhost.dev/host/internal/trust"
)

// unreadable replaces the hash of a program that cannot be read. No file has this hash, so the program never runs.
const unreadable = "unreadable"

// The method "content" returns the hashes of all files of a configuration: the parsed text, optional files, and programs
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
		if out.Files[path], err = trust.Hash(path); err != nil {
			return nil, fmt.Errorf("%s cannot be read: %w", path, err)
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

// interpreters matches the names of programs that run the files in their arguments.
var interpreters = lazyregexp.New(`^(ba|da|z|k|c|fi)?sh$|^(python|node|ruby|perl|php|lua|deno|bun|java|env|npx|uv|uvx|tsx|ts-node|make)[0-9.]*$`)

// The type "look" finds files. It queries the file system only once for each path, because the blocks of many servers
// name the same files. Therefore use a new value for each analysis of a configuration.
type look struct {
	files    map[string]fs.FileInfo // regular files by path; nil for other paths
	programs map[string]string      // by name
}

func newLook() *look {
	return &look{files: make(map[string]fs.FileInfo), programs: make(map[string]string)}
}

// The method "file" returns the regular file at a path. It returns nil if none exists.
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

// The method "program" searches the PATH of the host for a program. It returns the path of the program, or the name if
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
// because programs change them. Relative names are searched in the directory of the configuration, in the workspace, and
// in the program's working directory. If the program has no working directory, the argument "cwd" is used.
func (s Source) filesOf(look *look, p config.Program, cfg *config.Config, cwd string) []string {
	out := []string{program(look, p)}
	all := interpreters.MatchString(filepath.Base(p.Command[0]))
	dirs := []string{filepath.Dir(cfg.Path), s.Workspace}
	if dir := cmp.Or(p.Dir, cwd); dir != "" && !slices.Contains(dirs, dir) {
		dirs = append(dirs, dir)
	}
	add := func(text string) {
		for _, word := range append(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(separators, r) }), text) {
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
	out = append(out, loaded(look, p, dirs)...)
	if p.Plugin && trust.IsScript(out[0]) {
		out = append(out, trust.CodeBeside(out[0])...)
	}
	for _, arg := range p.Command[1:] {
		add(arg)
	}
	for _, value := range p.Env {
		add(value)
	}
	return out
}

// The function "program" returns the absolute path of a program. It searches the PATH of the block. If the block sets no
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

// The method "plugins" returns the paths of the plugin binaries.
func (s Source) plugins(cfg *config.Config) (paths []string) {
	for _, p := range cfg.Programs(s.BundledDir) {
		if p.Plugin {
			paths = append(paths, p.Command[0])
		}
	}
	return paths
}

// useCopies makes hooks and fields run copies of their trusted programs. Tools cannot change the copies.
func (s Source) useCopies(cfg *config.Config, content *trust.Content) error {
	dir, err := statedir.Find(s.StateDir, cfg.Host.StateDir)
	if err == nil {
		dir, err = statedir.Home{Root: dir}.Pinned()
	}
	if err != nil {
		return err
	}
	store := &trust.Store{Dir: dir, Hash: hashFile}
	copies := make(map[string]string)
	for _, p := range cfg.Programs(s.BundledDir) {
		path := program(newLook(), p)
		sum := content.Programs[path]
		if p.Plugin || sum == "" || sum == unreadable { // a plugin always runs as a copy
			continue
		}
		if copies[p.Command[0]], err = store.Executable(path, sum); err != nil {
			return fmt.Errorf("%s of %s cannot be run: %w", path, p.Block, err)
		}
	}
	for path := range content.Programs { // protect the originals, because the configuration now names only the copies
		cfg.Protected = append(cfg.Protected, path)
	}
	cfg.RunCopies(copies)
	return nil
}

// acceptDigest trusts a configuration for this run because --trust contains its digest.
func (s Source) acceptDigest(cfg *config.Config, content *trust.Content) error {
	cfg.Trusted = maps.Clone(content.Files)
	maps.Copy(cfg.Trusted, content.Programs)
	return s.useCopies(cfg, content)
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
