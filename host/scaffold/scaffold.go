// Package scaffold creates new plugins and their manifests from templates.
package scaffold

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/manifest"
)

//go:embed files
var files embed.FS

// Options describes a new plugin.
type Options struct {
	// Name is the name of the plugin and of its only tool. It must satisfy [tool.ValidName].
	Name string
	// Lang is "go", "python" or "typescript".
	Lang string
	// Dir is the directory to create. An existing directory must be empty. If Dir is empty, New creates a directory with
	// the plugin's name in the current directory.
	Dir string
	// SDK is the directory of the module toolhost.dev/sdk, for Go plugins. If SDK is empty, New searches near the
	// executable. For TypeScript, SDK is a directory or an archive with the package @toolhost/sdk. If it is empty, the
	// package comes from the registry.
	SDK string
}

// Made describes a created plugin.
type Made struct {
	Dir   string // absolute path
	Files []string
}

// New creates the sources of a plugin. If New fails, it removes all files that it created.
func New(opts Options) (*Made, error) {
	if !tool.ValidName(opts.Name) {
		return nil, fmt.Errorf("the name %q is not valid: %s", opts.Name, manifest.NameRule)
	}
	if opts.Dir == "" {
		opts.Dir = opts.Name
	}
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return nil, err
	}
	contents := make(map[string][]byte)
	npm := ""
	m := Manifest{Name: opts.Name, Version: "0.1.0"}
	switch opts.Lang {
	case "go":
		if opts.SDK, err = findSDK(opts.SDK); err != nil {
			return nil, err
		}
		if contents["go.mod"], contents["go.sum"], err = goModule(opts.Name, opts.SDK); err != nil {
			return nil, err
		}
		m.Build, m.Binary = []string{"make", "build"}, "bin/"+opts.Name
	case "python":
		m.Build, m.Binary = []string{"make", "build"}, "main.py"
		// A script needs Python's runtime and libraries. Therefore the sandbox must permit the plugin to read them.
		m.Needs = Needs{Read: append([]string{"."}, pythonPaths()...), Env: []string{"PYTHONPATH", "LD_LIBRARY_PATH"}}
	case "typescript":
		m.Build, m.Binary = []string{"make", "build"}, "dist/"+opts.Name+".mjs"
		m.Needs = Needs{Read: []string{"dist"}}
		if npm, err = npmPackage(opts.SDK); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("unknown language %q; use go, python or typescript, or see docs/protocol.md for other languages", opts.Lang)
	}
	// The name of the tool is also a function name for models. Function names cannot contain dots or dashes.
	replace := strings.NewReplacer("__NAME__", opts.Name, "__SDK__", npm, "__TOOL__", strings.NewReplacer("-", "_", ".", "_").Replace(opts.Name))
	for from, to := range map[string]string{opts.Lang: "", "gitignore": ".gitignore", "calls.jsonl": "calls.jsonl", "common/LICENSE": "LICENSE"} {
		if err := load(contents, from, to, replace); err != nil {
			return nil, err
		}
	}
	if contents[ManifestFile], err = json.MarshalIndent(m, "", "  "); err != nil {
		return nil, err
	}
	contents[ManifestFile] = append(contents[ManifestFile], '\n')
	contents["plugin.hcl"] = []byte(m.Block(dir))
	return write(dir, contents)
}

// load adds an embedded file, or all files of an embedded directory, to contents.
func load(contents map[string][]byte, from, to string, replace *strings.Replacer) error {
	root := "files/" + from
	return fs.WalkDir(files, root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := files.ReadFile(path)
		name := to
		if name == "" {
			name = strings.TrimSuffix(strings.TrimPrefix(path, root+"/"), ".tmpl")
			if name == "ci.yml" {
				name = ".github/workflows/ci.yml"
			}
		}
		contents[name] = []byte(replace.Replace(string(b)))
		return err
	})
}

func write(dir string, contents map[string][]byte) (made *Made, err error) {
	entries, err := os.ReadDir(dir)
	isNew := errors.Is(err, os.ErrNotExist)
	switch {
	case isNew:
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // sources, for everybody
			return nil, fmt.Errorf("the plugin cannot be created in %s: %w. Name another directory with --dir", dir, err)
		}
	case err != nil:
		return nil, fmt.Errorf("the plugin cannot be created in %s: %w. Name another directory with --dir", dir, err)
	case len(entries) > 0:
		return nil, fmt.Errorf("%s is not empty; name a new directory with --dir", dir)
	}
	made = &Made{Dir: dir}
	defer func() {
		if err == nil {
			return
		}
		for _, name := range made.Files {
			_ = os.Remove(filepath.Join(dir, name))
		}
		for _, made := range []string{".github/workflows", ".github"} {
			_ = os.Remove(filepath.Join(dir, made))
		}
		if isNew {
			_ = os.Remove(dir)
		}
	}()
	for name, b := range contents {
		mode := os.FileMode(0o644)
		if strings.HasPrefix(string(b), "#!") {
			mode = 0o755
		}
		made.Files = append(made.Files, name)
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil { //nolint:gosec // sources, for everybody
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, mode); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// npmPackage returns the version of the package @toolhost/sdk in a package.json. The argument is a directory or an archive
// that npm can install, or empty.
func npmPackage(given string) (string, error) {
	if given == "" {
		return "^0.1.0", nil
	}
	path, err := filepath.Abs(given)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return "", fmt.Errorf("--sdk does not name the package @toolhost/sdk: %w", err)
	}
	return "file:" + path, nil
}

// findSDK returns the absolute directory of the SDK's module.
func findSDK(given string) (string, error) {
	candidates := []string{given}
	if given == "" {
		candidates = nil
		if exe, err := os.Executable(); err == nil {
			if exe, err = filepath.EvalSymlinks(exe); err == nil {
				candidates = []string{filepath.Join(filepath.Dir(exe), "sdk"), filepath.Join(filepath.Dir(exe), "..", "sdk")}
			}
		}
	}
	for _, c := range candidates {
		b, err := os.ReadFile(filepath.Join(c, "go.mod"))
		if err == nil && modfile.ModulePath(b) == sdkModule {
			return filepath.Abs(c)
		}
	}
	if given != "" {
		return "", fmt.Errorf("--sdk %s does not contain the module %s; set --sdk to the directory sdk of toolhost's sources", given, sdkModule)
	}
	return "", fmt.Errorf("the module %s is not published and not beside the executable; name its directory with --sdk", sdkModule)
}

const sdkModule = "toolhost.dev/sdk"

// goModule returns go.mod and go.sum for a module that requires the SDK. The files contain the requirements of the SDK,
// so that the build does not look up versions.
func goModule(name, sdk string) (mod, sum []byte, err error) {
	b, err := os.ReadFile(filepath.Join(sdk, "go.mod"))
	if err != nil {
		return nil, nil, err
	}
	of, err := modfile.Parse("go.mod", b, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("the SDK's go.mod: %w", err)
	}
	f := new(modfile.File)
	path := "example.com/" + name
	if module.CheckPath(path) != nil { // for example, "a." is not a valid module path
		path = "example.com/plugin"
	}
	if err := f.AddModuleStmt(path); err != nil {
		return nil, nil, err
	}
	if err := f.AddGoStmt(of.Go.Version); err != nil {
		return nil, nil, err
	}
	f.AddNewRequire(sdkModule, "v0.0.0", false)
	for _, r := range of.Require {
		f.AddNewRequire(r.Mod.Path, r.Mod.Version, true)
	}
	if err := f.AddReplace(sdkModule, "", sdk, ""); err != nil {
		return nil, nil, err
	}
	f.Cleanup()
	if mod, err = f.Format(); err != nil {
		return nil, nil, err
	}
	sum, err = os.ReadFile(filepath.Join(sdk, "go.sum"))
	return mod, sum, err
}

// pythonPaths returns the directories of Python's modules that a sandbox does not contain by default.
func pythonPaths() []string {
	var paths []string
	for _, name := range []string{"PYTHONPATH", "LD_LIBRARY_PATH"} {
		for _, p := range filepath.SplitList(os.Getenv(name)) {
			if filepath.IsAbs(p) {
				paths = append(paths, p)
			}
		}
	}
	out, err := exec.Command("python3", "-c", "import sys; print(sys.prefix)").Output()
	if prefix := strings.TrimSpace(string(out)); err == nil && filepath.IsAbs(prefix) && prefix != "/usr" {
		paths = append(paths, prefix) // the directory of a virtual environment or of a separate Python installation
	}
	return paths
}
