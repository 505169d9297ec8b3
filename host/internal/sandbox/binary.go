package sandbox

import (
	"bufio"
	"debug/elf"
	"os"
	"path/filepath"
	"strings"
)

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
