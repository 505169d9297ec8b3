package admission

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/host/internal/lazyregexp"
)

// runners maps programs to the task files that they read in their working directory.
var runners = []struct {
	program *lazyregexp.Regexp
	files   []string
}{
	{lazyregexp.New(`^g?make$`), []string{"Makefile", "makefile", "GNUmakefile"}},
	{packageRunner, []string{"package.json", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", "pnpm-workspace.yaml", "bunfig.toml"}},
	{lazyregexp.New(`^(uv|uvx|poetry|pdm|hatch|rye|pipenv|pixi)$`), []string{"pyproject.toml", "uv.toml", "poetry.toml", "pdm.toml", "hatch.toml", "Pipfile", "pixi.toml", ".env"}},
	{lazyregexp.New(`^deno$`), []string{"deno.json", "deno.jsonc", "package.json"}},
	{lazyregexp.New(`^just$`), []string{"justfile", "Justfile", ".justfile"}},
	{lazyregexp.New(`^task$`), []string{"Taskfile.yml", "Taskfile.yaml", "taskfile.yml", "taskfile.yaml"}},
	{lazyregexp.New(`^(rake|bundle)$`), []string{"Rakefile", "rakefile", "Gemfile", "gems.rb", ".bundle/config"}},
	{lazyregexp.New(`^go$`), []string{"*.go", "go.mod", "go.work"}},
	{lazyregexp.New(`^cargo$`), []string{"Cargo.toml", "build.rs", "src/*.rs", "src/*/*.rs", ".cargo/config.toml", ".cargo/config"}},
	{lazyregexp.New(`^dotnet$`), []string{"*.csproj", "*.fsproj", "*.cs", "Directory.Build.*", "nuget.config"}},
	{lazyregexp.New(`^gradlew?$`), []string{"*.gradle", "*.gradle.kts", "gradle.properties", "gradle/wrapper/*"}},
	{lazyregexp.New(`^(mvnw?|ant)$`), []string{"pom.xml", "build.xml", ".mvn/*", ".mvn/wrapper/*"}},
	{lazyregexp.New(`^(nix|nix-shell|nix-build|devbox)$`), []string{"*.nix", "devbox.json"}},
	{lazyregexp.New(`^mix$`), []string{"mix.exs", "config/*.exs"}},
	{lazyregexp.New(`^docker-compose$`), []string{"docker-compose*.y*ml", "compose*.y*ml", "Dockerfile"}},
	{lazyregexp.New(`^direnv$`), []string{".envrc"}},
	{lazyregexp.New(`^mise$`), []string{"mise.toml", ".mise.toml", ".tool-versions"}},
}

// packageRunner matches the programs that run the scripts and installed packages of the directory.
var packageRunner = lazyregexp.New(`^(npm|npx|pnpm|pnpx|yarn|corepack|bun|bunx|tsx|ts-node)$`)

// entries lists the files that an interpreter runs if its argument is a directory.
var entries = []string{"package.json", "index.js", "index.mjs", "index.cjs", "__main__.py"}

// implicit lists what interpreters add to the name of a script, a module or a library.
var implicit = []string{".js", ".mjs", ".cjs", ".json", ".node", ".ts", ".mts", ".cts", ".tsx", ".jsx", ".py", ".rb",
	".pm", ".lua", ".class", ".php", ".R"}

// reference matches an object in a Python module, such as app:server.
var reference = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$`)

// maxDirectories limits the number of directories in which the files of one command are searched.
const maxDirectories = 50

// split returns the words of an argument that can be paths.
func split(text string) []string {
	words := append(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(separators, r) }), text)
	for i, word := range words {
		if strings.HasPrefix(word, "-") && len(word) > 2 {
			words[i] = word[2:] // the value of an option such as -r./lib.rb
		}
		words[i] = strings.TrimPrefix(words[i], "@") // a list of options
	}
	return words
}

// words returns the names of the files that an argument can mean. If the argument "code" is true, it
// includes the files that an interpreter finds by an incomplete name.
func words(text string, code bool) []string {
	out := split(text)
	if module, _, _ := strings.Cut(text, ":"); reference.MatchString(text) {
		out = append(out, strings.ReplaceAll(module, ".", "/")+".py")
	}
	if !code {
		return out
	}
	unknown := strings.ContainsAny(text, "$`~") // the beginning of a path can be in a variable
	for _, word := range append(slices.Clone(out), split(strings.ReplaceAll(text, "::", "/"))...) {
		names := []string{word, strings.ReplaceAll(word, ".", "/")}
		for rest, more := word, unknown; more; names = append(names, rest) {
			_, rest, more = strings.Cut(rest, "/")
		}
		for _, name := range names {
			if name == "" {
				continue
			}
			out = append(out, name)
			for _, ending := range implicit {
				out = append(out, name+ending)
			}
		}
	}
	return out
}

// commandText reports whether an argument is a command with arguments, as some programs expect.
func commandText(arg string) bool {
	fields := strings.Fields(arg)
	return len(fields) > 1 && begins(fields[:1]) == 0 && interpreterOf(fields[0]) != nil && !sources(fields[0])
}

// directories adds the directories that the code in a command names, because a command can change to them.
func directories(look *look, code, dirs []string) []string {
	dirs = slices.Clone(dirs)
	for _, arg := range code {
		for _, word := range words(arg, false) {
			for _, dir := range dirs {
				if filepath.IsAbs(word) {
					dir = ""
				}
				if path := filepath.Join(dir, word); word != "" && len(dirs) < maxDirectories && filepath.IsAbs(path) &&
					!slices.Contains(dirs, path) && look.isDir(path) {
					dirs = append(dirs, path)
				}
			}
		}
	}
	return dirs
}

// loaded returns the files that a command runs without naming them in its arguments: the task file of a
// runner, the entry file of a directory, an installed package, and the file of a Python module. The argument "code"
// contains the words of the command that are code.
func loaded(look *look, code, dirs []string) (paths []string) {
	var names []string
	packages := false
	for i, arg := range code {
		for _, word := range split(arg) {
			for _, r := range runners {
				if r.program.MatchString(filepath.Base(word)) {
					names = append(names, r.files...)
				}
			}
			packages = packages || packageRunner.MatchString(filepath.Base(word))
		}
		if i == 0 {
			continue
		}
		module := strings.ReplaceAll(strings.TrimPrefix(arg, "-m"), ".", "/")
		names = append(names, module+".py", module+"/__main__.py", module+"/__init__.py")
		for _, entry := range entries {
			names = append(names, filepath.Join(arg, entry))
		}
		if name := strings.TrimRight(arg, "/"); packages && name != "" {
			if at := strings.LastIndexByte(name, '@'); at > 0 { // its version
				name = name[:at]
			}
			names = append(names, "node_modules/"+name+"/package.json", "node_modules/.bin/"+filepath.Base(name))
		}
	}
	add := func(path string) {
		if look.file(path) != nil && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	for _, name := range names {
		for _, dir := range dirs {
			path := name
			if !filepath.IsAbs(path) {
				path = filepath.Join(dir, path)
			}
			if !strings.Contains(name, "*") {
				add(path)
				continue
			}
			found, _ := filepath.Glob(path) // the only error is a wrong pattern
			for _, path := range found {
				add(path)
			}
		}
	}
	for _, path := range paths {
		if filepath.Base(path) == "package.json" {
			for _, name := range mains(path) {
				add(filepath.Join(filepath.Dir(path), name))
			}
		}
	}
	return paths
}

// mains returns the files that node and npm run for a package, as its package.json names them.
func mains(path string) (names []string) {
	text, err := os.ReadFile(path)
	var is struct {
		Main string
		Bin  any
	}
	if err != nil || json.Unmarshal(text, &is) != nil {
		return nil
	}
	all := []any{is.Main, is.Bin}
	if bin, ok := is.Bin.(map[string]any); ok {
		all = append(all, slices.Collect(maps.Values(bin))...)
	}
	for _, name := range all {
		if name, ok := name.(string); ok && name != "" {
			names = append(names, name, name+".js", filepath.Join(name, "index.js"))
		}
	}
	return names
}
