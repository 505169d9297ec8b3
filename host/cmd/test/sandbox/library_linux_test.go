package sandbox

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/sdk/tooltest/need"

	"toolhost.dev/host/cmd/test/hosttest"
)

// searchesWorkspace writes a modified copy of a program. The copy first searches a directory below the working
// directory for its libraries. This directory has the same name as the program's first library, and the function
// returns this name. To modify the program without a compiler, the function replaces the entry DT_DEBUG, which only
// debuggers need, by DT_RUNPATH.
func searchesWorkspace(t *testing.T, program, to string) (library string) {
	t.Helper()
	b, err := os.ReadFile(program)
	hosttest.Must(t, err)
	f, err := elf.Open(program)
	hosttest.Must(t, err)
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	hosttest.Must(t, err)
	var name uint64 // index of the library's name in the string table
	entry := 0      // offset of the entry DT_DEBUG
	for _, p := range f.Progs {
		if p.Type != elf.PT_DYNAMIC || f.Class != elf.ELFCLASS64 {
			continue
		}
		for at := p.Off; at+16 <= p.Off+p.Filesz; at += 16 {
			value := binary.LittleEndian.Uint64(b[at+8:])
			switch elf.DynTag(binary.LittleEndian.Uint64(b[at:])) {
			case elf.DT_NEEDED:
				if name == 0 {
					name = value
				}
			case elf.DT_DEBUG:
				entry = int(at)
			}
		}
	}
	if len(libraries) == 0 || name == 0 || entry == 0 {
		need.Missing(t, program+" is no dynamic program of 64 bits")
	}
	binary.LittleEndian.PutUint64(b[entry:], uint64(elf.DT_RUNPATH))
	binary.LittleEndian.PutUint64(b[entry+8:], name)
	hosttest.Must(t, os.WriteFile(to, b, 0o755))
	return libraries[0]
}

// TestLibrariesOfTheWorkspace checks a listed program that searches a directory of the workspace for libraries. With a
// list of programs, it must not load the library from there. Without a list, it must load the library.
func TestLibrariesOfTheWorkspace(t *testing.T) {
	hosttest.NeedsNamespaces(t)
	t.Parallel()
	const list = "permissions {\n programs {\n mode = \"listed\"\n allow = [\"./prog *\", \"ls *\"]\n}\n}"
	for name, permissions := range map[string]string{"open": "", "listed": list} {
		ws, config := writeConfig(t, "plugin \"bash\" {\n config {\n login_environment = false\n}\n}\n"+permissions)
		library := searchesWorkspace(t, "/usr/bin/env", filepath.Join(ws, "prog"))
		found, err := filepath.Glob("/lib*/" + library)
		if more, _ := filepath.Glob("/lib/*/" + library); err == nil {
			found = append(found, more...)
		}
		if len(found) == 0 {
			need.Missing(t, "the file of "+library+" is not found")
		}
		b, err := os.ReadFile(found[0])
		hosttest.Must(t, err)
		hosttest.Must(t, os.Mkdir(filepath.Join(ws, library), 0o755))
		hosttest.Must(t, os.WriteFile(filepath.Join(ws, library, library), b, 0o755))
		out := runIn(t, ws, t.TempDir(), nil, "--config", config, "run", "./prog; echo status $?")
		loaded, refused := strings.Contains(out, "status 0"), strings.Contains(out, "failed to map segment") && strings.Contains(out, "status 127")
		if (name == "open") != loaded || (name == "listed") != refused {
			t.Errorf("%s: loaded %v, refused %v: %s", name, loaded, refused, out)
		}
		// Replace the library by an invalid file. The program must fail, which shows that it searches the workspace
		// before the system.
		hosttest.Must(t, os.WriteFile(filepath.Join(ws, library, library), []byte("no library"), 0o755))
		if out := runIn(t, ws, t.TempDir(), nil, "--config", config, "run", "./prog; echo status $?"); !strings.Contains(out, "status 127") {
			t.Errorf("%s: the program does not search the workspace: %s", name, out)
		}
	}
}
