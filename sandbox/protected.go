package sandbox

import (
	"os"
	"path/filepath"
	"slices"

	"toolhost.dev/sdk/tool"
)

// Settings lists files and directories that common programs load automatically from any directory. Tools cannot change
// these files and directories.
var Settings = []string{
	".agents", ".claude", ".codex", ".cursor", ".devcontainer", ".envrc", ".gemini", ".gitmodules", ".idea", ".mcp.json", ".mise.toml", ".opencode",
	".vscode", "mise.toml", "opencode.json",
}

// protectedPaths returns the paths in a writable root that must not change. A missing file is omitted, because its
// creation cannot be prevented.
func protectedPaths(root string, at *Place, onHost func(string) string) (out []string) {
	for _, name := range at.ProtectNames {
		if path := filepath.Join(root, name); canProtect(onHost(path)) {
			out = append(out, path)
		}
	}
	for _, path := range at.Protect {
		if (tool.Root{Path: root}).Contains(path) && path != root && canProtect(onHost(path)) {
			out = append(out, path)
		}
	}
	return out
}

// canProtect reports whether a path is a file or a directory. For a symbolic link, only the target can be protected.
func canProtect(path string) bool {
	st, err := os.Lstat(path)
	return err == nil && (st.Mode().IsRegular() || st.IsDir())
}

// parents returns the directories between a root and the given paths. They must be protected, too: if a tool could
// rename such a directory, it could create another file at a protected path.
func parents(root string, paths []string, onHost func(string) string) (out []string) {
	for _, path := range paths {
		for dir := filepath.Dir(path); dir != root && (tool.Root{Path: root}).Contains(dir); dir = filepath.Dir(dir) {
			if canProtect(onHost(dir)) && !slices.Contains(out, dir) {
				out = append(out, dir)
			}
		}
	}
	slices.Sort(out) // sort each directory before its subdirectories
	return out
}
