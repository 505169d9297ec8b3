package sandbox

import (
	"os"
	"path/filepath"
	"slices"

	"toolhost.dev/sdk/tool"
)

// projectFiles are the files at the top of a workspace that decide what the host does there. They are protected even if
// they were not read, because the next host may read them.
var projectFiles = []string{"toolhost.hcl", "toolhost.hcl.json", "toolhost.hclvars", "toolhost.lock.json"}

// Settings are the files and directories that programs of a person load without being told, in any directory. Tools cannot
// change them.
var Settings = []string{
	".agents", ".claude", ".codex", ".cursor", ".devcontainer", ".envrc", ".gemini", ".gitmodules", ".idea", ".mcp.json", ".mise.toml", ".opencode",
	".vscode", "mise.toml", "opencode.json",
}

// protectedPaths returns the paths in a writable root that tools must not change: the project files and those of extra
// that are in the root. A file that does not exist cannot be protected from being created.
func protectedPaths(root string, extra []string) (out []string) {
	for _, name := range projectFiles {
		if path := filepath.Join(root, name); canProtect(path) {
			out = append(out, path)
		}
	}
	for _, path := range extra {
		if (tool.Root{Path: root}).Contains(path) && path != root && canProtect(path) {
			out = append(out, path)
		}
	}
	return out
}

// canProtect reports whether a path is a file or a directory. A symbolic link cannot be protected, only its target.
func canProtect(path string) bool {
	st, err := os.Lstat(path)
	return err == nil && (st.Mode().IsRegular() || st.IsDir())
}

// parents returns the directories between a root and paths in it. If a tool could rename one of them, another file could
// take the place of a protected path.
func parents(root string, paths []string) (out []string) {
	for _, path := range paths {
		for dir := filepath.Dir(path); dir != root && (tool.Root{Path: root}).Contains(dir); dir = filepath.Dir(dir) {
			if canProtect(dir) && !slices.Contains(out, dir) {
				out = append(out, dir)
			}
		}
	}
	slices.Sort(out) // a directory comes before those in it
	return out
}
