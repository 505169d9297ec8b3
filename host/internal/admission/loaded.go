package admission

import (
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/lazyregexp"
)

// The variable "runners" maps programs to the task files that they read in their working directory.
var runners = []struct {
	program *lazyregexp.Regexp
	files   []string
}{
	{lazyregexp.New(`^g?make$`), []string{"Makefile", "makefile", "GNUmakefile"}},
	{lazyregexp.New(`^(npm|npx|pnpm|yarn|bun|bunx|tsx|ts-node)$`), []string{"package.json", ".npmrc", ".yarnrc.yml", ".pnpmfile.cjs"}},
	{lazyregexp.New(`^(uv|uvx|poetry|pdm|hatch)$`), []string{"pyproject.toml", "uv.toml"}},
	{lazyregexp.New(`^deno$`), []string{"deno.json", "deno.jsonc"}},
	{lazyregexp.New(`^just$`), []string{"justfile", "Justfile", ".justfile"}},
}

// The variable "entries" lists the files that an interpreter runs if its argument is a directory.
var entries = []string{"package.json", "index.js", "index.mjs", "index.cjs", "__main__.py"}

// The function "loaded" returns the files that a command runs without naming them in its arguments: the task file of a
// runner, the entry file of a directory, and the file of a Python module.
func loaded(look *look, p config.Program, dirs []string) (paths []string) {
	var names []string
	for _, word := range p.Command[:min(2, len(p.Command))] { // the second word is the program after env
		for _, r := range runners {
			if r.program.MatchString(filepath.Base(word)) {
				names = append(names, r.files...)
			}
		}
	}
	if n, _ := codeWords(p.Command); n > 0 {
		for i, arg := range p.Command[1:n] {
			if before := p.Command[i]; before == "-m" {
				module := strings.ReplaceAll(arg, ".", "/")
				names = append(names, module+".py", module+"/__main__.py", module+"/__init__.py")
			}
			for _, entry := range entries {
				names = append(names, filepath.Join(arg, entry))
			}
		}
	}
	for _, name := range names {
		for _, dir := range dirs {
			path := name
			if !filepath.IsAbs(path) {
				path = filepath.Join(dir, path)
			}
			if look.file(path) != nil && !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}
