package trust

import (
	"io"
	"os"
	"path/filepath"
)

// code are the extensions of files that programs load as code.
var code = map[string]bool{
	".sh": true, ".bash": true, ".py": true, ".pyz": true, ".js": true, ".mjs": true, ".cjs": true, ".ts": true, ".mts": true, ".rb": true, ".pl": true,
	".php": true, ".lua": true, ".jar": true, ".so": true, ".node": true, ".wasm": true, ".dylib": true, ".class": true, ".mk": true,
}

// IsCode reports whether the name of a file is that of code.
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

// CodeBeside returns the files of code in the directory of a script, which the script can load.
func CodeBeside(script string) (paths []string) {
	dir := filepath.Dir(script)
	entries, _ := os.ReadDir(dir) // a directory that cannot be read has nothing to load
	for _, e := range entries {
		if path := filepath.Join(dir, e.Name()); path != script && !e.IsDir() && IsCode(path) {
			paths = append(paths, path)
		}
	}
	return paths
}
