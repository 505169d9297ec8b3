package sandbox

import (
	"bufio"
	"debug/elf"
	"os"
	"path/filepath"
	"strings"
)

// kind describes what the kernel needs besides a binary to execute it.
type kind struct {
	static       bool
	interpreters []string
}

// binaryKind inspects a binary. It treats an unreadable binary as static, because executing the binary then reports the
// error.
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

// script returns the interpreters of a script. For a script that uses env, the interpreter can be any program on the
// PATH, so script returns the directories of the system's programs. The interpreter replaces the plugin's process; it is
// never a second process.
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
