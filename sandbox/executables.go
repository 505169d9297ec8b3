package sandbox

import (
	"bufio"
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/sandbox/confine"
	"toolhost.dev/shellscript"
)

// programDirs lists the directories that are searched for listed programs after the directories of PATH. The last two
// directories contain the programs of git.
var programDirs = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin",
	"/usr/lib/git-core", "/usr/libexec/git-core"}

// runtimes maps the names of interpreters to globs for directories with their compiled modules.
var runtimes = map[string][]string{
	"python": {"/usr/lib/python*", "/usr/lib64/python*", "/usr/local/lib/python*"}, "perl": {"/usr/lib/*/perl*", "/usr/lib*/perl*", "/usr/local/lib/*/perl"},
	"ruby": {"/usr/lib/ruby", "/usr/lib/*/ruby", "/usr/lib64/ruby", "/var/lib/gems"}, "node": {"/usr/lib/node_modules", "/usr/share/nodejs", "/usr/lib/*/nodejs"},
	"php": {"/usr/lib/php", "/usr/lib64/php"}, "lua": {"/usr/lib/*/lua", "/usr/lib*/lua"}, "R": {"/usr/lib/R", "/usr/lib64/R"}, "gcc": {"/usr/lib/gcc", "/usr/libexec/gcc"},
}

// everything is the pattern that lists all programs.
const everything = "*"

// executables collects the files that can be executed in a sandbox with a list of programs. These are the programs,
// their interpreters, and the directories of their libraries.
type executables struct {
	// writable lists the directories that the plugin can write. A program in such a directory is executable
	// only if the list names the program by its path.
	writable []string
	// dirs lists the directories to search for programs.
	dirs   []string
	found  map[string]bool
	loaded bool // whether the directories of the dynamic linker were added
}

// executable returns the files and directories that a plugin can execute with a list of programs. An entry of the list
// can be a pattern. If the plugin has no list, the result is nil, which means that everything can be executed.
func executable(at *Place, p *confine.Policy) []string {
	if at.Listed == nil || slices.Contains(at.Listed, everything) {
		return nil
	}
	e := executables{writable: slices.Concat(p.Write, p.Scratch), found: make(map[string]bool)}
	e.dirs = slices.Concat(searched(lookup(at.Env, "PATH"), lookup(at.Env, "HOME")), programDirs)
	e.add(at.Binary)
	for _, path := range at.Run {
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
			e.add(path)
		}
	}
	for _, name := range at.Listed {
		name = strings.ReplaceAll(name, "[", `\[`)
		if strings.Contains(name, "/") {
			e.byPath(at, name)
			continue
		}
		for _, dir := range e.dirs {
			e.matches(filepath.Join(dir, name), false)
		}
	}
	out := make([]string, 0, len(e.found))
	for path := range e.found {
		out = append(out, path)
	}
	slices.Sort(out)
	return out
}

// byPath adds programs that the list names by a path. A relative path is relative to each root.
func (e *executables) byPath(at *Place, name string) {
	if filepath.IsAbs(name) {
		e.matches(name, true)
		return
	}
	for _, r := range at.Roots {
		e.matches(filepath.Join(r.Path, name), true)
	}
}

// matches adds the programs that match a glob. It adds programs in writable directories only if the argument "explicit"
// is true.
func (e *executables) matches(glob string, explicit bool) {
	paths, _ := filepath.Glob(glob) // ignore the error: an invalid pattern matches no files
	for _, path := range paths {
		if resolved, err := filepath.EvalSymlinks(path); err == nil && (explicit || !e.inWritable(resolved)) {
			e.add(resolved)
		}
	}
}

func (e *executables) inWritable(path string) bool {
	return slices.ContainsFunc(e.writable, func(dir string) bool { return tool.Within(dir, path) })
}

// add adds a program, its interpreter and its libraries.
func (e *executables) add(path string) {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil || e.found[resolved] {
		return
	}
	st, err := os.Stat(resolved)
	if err != nil || !st.Mode().IsRegular() || st.Mode().Perm()&0o111 == 0 {
		return
	}
	e.found[resolved] = true
	f, err := os.Open(resolved)
	if err != nil {
		return
	}
	defer f.Close() //nolint:errcheck // only read
	in := bufio.NewReader(f)
	if mark, err := in.Peek(2); err == nil && string(mark) == "#!" {
		line, _ := in.ReadString('\n')
		e.interpreted(strings.TrimPrefix(line, "#!"))
		return
	}
	b, err := elf.NewFile(f)
	if err != nil {
		return
	}
	e.linked(resolved, b)
	e.runtime(resolved)
}

// interpreted adds the interpreter from the first line of a script. If the interpreter is env, it also adds the program
// that env executes. Tools can change scripts. Therefore interpreted adds only known interpreters, and no interpreter
// from a writable directory.
func (e *executables) interpreted(line string) {
	fields := strings.Fields(line)
	if len(fields) == 0 || !filepath.IsAbs(fields[0]) || !shellscript.IsInterpreter(fields[0]) {
		return
	}
	e.matches(fields[0], false)
	if filepath.Base(fields[0]) != "env" || len(fields) == 1 {
		return
	}
	name := fields[1]
	if name == "-S" && len(fields) > 2 {
		name = fields[2]
	} else {
		name = strings.TrimPrefix(name, "-S")
	}
	if shellscript.IsInterpreter(name) && !strings.ContainsAny(name, `/*?[\`) {
		for _, dir := range e.dirs {
			e.matches(filepath.Join(dir, name), false)
		}
	}
}

// linked adds the dynamic linker of a program and the directories in which the linker finds libraries.
func (e *executables) linked(path string, b *elf.File) {
	dynamic := false
	for _, p := range b.Progs {
		if p.Type == elf.PT_INTERP {
			name := make([]byte, min(p.Filesz, 4096))
			if _, err := p.ReadAt(name, 0); err == nil {
				e.add(strings.TrimRight(string(name), "\x00"))
				dynamic = true
			}
		}
	}
	if !dynamic {
		return
	}
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		if e.inWritable(path) { // ignore the directories, because tools can change the program
			break
		}
		values, _ := b.DynString(tag)
		for _, dir := range strings.Split(strings.Join(values, ":"), ":") {
			dir = strings.NewReplacer("$ORIGIN", filepath.Dir(path), "${ORIGIN}", filepath.Dir(path)).Replace(dir)
			if filepath.IsAbs(dir) {
				e.dir(dir)
			}
		}
	}
	if e.loaded {
		return
	}
	e.loaded = true
	shared, _ := filepath.Glob("/usr/lib/*-linux-gnu*")
	shared = append(shared, "/usr/lib64", "/lib64", "/usr/lib32", "/usr/libx32")
	if len(shared) == 4 {
		shared = append(shared, "/usr/lib", "/lib")
	}
	more, _ := filepath.Glob("/lib/*-linux-gnu*")
	for _, dir := range slices.Concat(shared, more, linkerDirs("/etc/ld.so.conf", 0)) {
		e.dir(dir)
	}
}

// linkerDirs returns the directories in a configuration file of the dynamic linker.
func linkerDirs(file string, depth int) (dirs []string) {
	b, err := os.ReadFile(file)
	if err != nil || depth > 4 {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "#")
		if glob, ok := strings.CutPrefix(line, "include "); ok {
			files, _ := filepath.Glob(strings.TrimSpace(glob))
			for _, f := range files {
				dirs = append(dirs, linkerDirs(f, depth+1)...)
			}
		} else if filepath.IsAbs(line) {
			dirs = append(dirs, line)
		}
	}
	return dirs
}

// runtime adds the directories with the compiled modules of an interpreter. These directories are next to the
// interpreter or in the system's directories.
func (e *executables) runtime(path string) {
	name := filepath.Base(path)
	prefix := filepath.Dir(filepath.Dir(path))
	if filepath.Base(filepath.Dir(path)) == "bin" && prefix != "/" && prefix != "/usr" && prefix != "/usr/local" {
		e.dir(filepath.Join(prefix, "lib"))
		e.dir(filepath.Join(prefix, "lib64"))
	}
	for interpreter, globs := range runtimes {
		if !strings.HasPrefix(name, interpreter) {
			continue
		}
		for _, glob := range globs {
			dirs, _ := filepath.Glob(glob)
			for _, dir := range dirs {
				e.dir(dir)
			}
		}
	}
}

// dir adds a directory. It skips a directory that the plugin can write, and a directory that contains a writable
// directory.
func (e *executables) dir(path string) {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil || e.inWritable(resolved) ||
		slices.ContainsFunc(e.writable, func(dir string) bool { return (tool.Root{Path: resolved}).Contains(dir) }) {
		return
	}
	if st, err := os.Stat(resolved); err == nil && st.IsDir() {
		e.found[resolved] = true
	}
}

// kind describes the other files that the kernel needs to execute a binary.
type kind struct {
	static       bool
	interpreters []string
}

// binaryKind inspects a binary. It treats an unreadable binary as static. The error is then reported when the binary is
// executed.
func binaryKind(path string) kind {
	f, err := os.Open(path)
	if err != nil {
		return kind{static: true}
	}
	defer func() { _ = f.Close() }()
	in := bufio.NewReader(f)
	if mark, err := in.Peek(2); err == nil && string(mark) == "#!" {
		return kind{interpreters: isScript(in)}
	}
	b, err := elf.NewFile(f)
	if err != nil {
		return kind{static: true}
	}
	for _, p := range b.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		name := make([]byte, min(p.Filesz, 4096))
		if _, err := p.ReadAt(name, 0); err == nil {
			return kind{interpreters: []string{strings.TrimRight(string(name), "\x00")}}
		}
	}
	return kind{static: true}
}

// isScript returns the interpreters of a script. If the script uses env, the interpreter can be any program in PATH.
// Therefore isScript then returns the directories of the system's programs. The interpreter runs in the process of the
// plugin and not in a second process.
func isScript(in *bufio.Reader) []string {
	line, _ := in.ReadString('\n')
	fields := strings.Fields(strings.TrimPrefix(line, "#!"))
	if len(fields) == 0 {
		return nil
	}
	if filepath.Base(fields[0]) == "env" {
		return system
	}
	own := []string{fields[0]}
	if target, err := filepath.EvalSymlinks(fields[0]); err == nil {
		return append(own, binaryKind(target).interpreters...)
	}
	return own
}
