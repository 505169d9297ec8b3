package trust

import (
	"io"
	"os"
	"path/filepath"
)

// The map "code" contains the file extensions of code that programs load.
var code = map[string]bool{
	".sh": true, ".bash": true, ".py": true, ".pyz": true, ".js": true, ".mjs": true, ".cjs": true, ".ts": true, ".mts": true, ".rb": true, ".pl": true,
	".php": true, ".lua": true, ".jar": true, ".so": true, ".node": true, ".wasm": true, ".dylib": true, ".class": true, ".mk": true,
	".zsh": true, ".fish": true, ".ps1": true, ".psm1": true, ".bat": true, ".cmd": true, ".exe": true, ".dll": true, ".pyw": true, ".pyc": true, ".cts": true,
	".tsx": true, ".jsx": true, ".pm": true, ".phar": true, ".go": true, ".rs": true, ".java": true, ".kt": true, ".kts": true, ".scala": true, ".groovy": true,
	".gradle": true, ".clj": true, ".cs": true, ".csx": true, ".fsx": true, ".csproj": true, ".fsproj": true, ".swift": true, ".dart": true, ".tcl": true,
	".R": true, ".r": true, ".jl": true, ".ex": true, ".exs": true, ".erl": true, ".escript": true, ".awk": true, ".sed": true, ".scm": true, ".rkt": true,
	".lisp": true, ".el": true, ".hs": true, ".nim": true, ".cr": true, ".nix": true,
}

// IsCode reports whether a file name has the extension of code.
func IsCode(path string) bool { return code[filepath.Ext(path)] }

// IsScript reports whether a program is a script.
func IsScript(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // only read
	var head [2]byte
	_, err = io.ReadFull(f, head[:])
	return err == nil && string(head[:]) == "#!"
}

// CodeBeside returns the code files in the directory of a script. The script can load these files.
func CodeBeside(script string) (paths []string) {
	dir := filepath.Dir(script)
	entries, _ := os.ReadDir(dir) // error ignored: a script cannot load files from an unreadable directory
	for _, e := range entries {
		if path := filepath.Join(dir, e.Name()); path != script && !e.IsDir() && IsCode(path) {
			paths = append(paths, path)
		}
	}
	return paths
}
