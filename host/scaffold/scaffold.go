// Package scaffold creates new plugins and their manifests from templates.
package scaffold

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/build"
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
	// Dir is the directory to create. An existing directory must be empty. If Dir is empty, New creates a directory
	// with the plugin's name in the current directory.
	Dir string
	// SDK is the directory of the module toolhost.dev/sdk, for Go plugins. If SDK is empty, New searches near the
	// executable. For TypeScript, SDK is an archive of the package @toolhost/sdk, which New copies. If New finds no
	// SDK, the build gets the SDK from the registry of the language.
	SDK string
}

// Made describes a plugin that New created.
type Made struct {
	Dir   string // absolute path
	Files []string
	// Fetched is the name of the SDK that the build gets from the registry of the language. It is empty if the SDK is
	// on this machine.
	Fetched string
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
		if err := goModule(opts.Name, opts.SDK, contents); err != nil {
			return nil, err
		}
		m.Build, m.Binary = []string{"make", "build"}, "bin/"+opts.Name
	case "python":
		m.Build, m.Binary, m.Runtime = []string{"make", "build"}, "main.py", "python"
		m.Needs = Needs{Read: []string{"."}} // for the module beside main.py
	case "typescript":
		m.Build, m.Binary, m.Runtime = []string{"make", "build"}, "dist/"+opts.Name+".mjs", "node"
		m.Needs = Needs{Read: []string{"dist"}}
		if npm, err = npmPackage(opts.SDK, contents); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("unknown language %q; use go, python or typescript, or see docs/protocol.md for other languages", opts.Lang)
	}
	// The name of the tool is also a function name for models. Function names cannot contain dots or dashes.
	replace := strings.NewReplacer("__NAME__", opts.Name, "__SDK__", npm, "__TOOL__",
		strings.NewReplacer("-", "_", ".", "_").Replace(opts.Name))
	for from, to := range map[string]string{opts.Lang: "", "gitignore": ".gitignore", "calls.jsonl": "calls.jsonl",
		"common/LICENSE": "LICENSE", "common/ci.yml": ciFile} {
		if err := load(contents, from, to, replace); err != nil {
			return nil, err
		}
	}
	contents[ciFile] = bytes.Replace(contents[ciFile], []byte("__SETUP__\n"), contents[setupFile], 1)
	delete(contents, setupFile)
	if contents[ManifestFile], err = json.MarshalIndent(m, "", "  "); err != nil {
		return nil, err
	}
	contents[ManifestFile] = append(contents[ManifestFile], '\n')
	contents["plugin.hcl"] = []byte(m.Block(dir))
	made, err := write(dir, contents)
	if err == nil && opts.SDK == "" {
		made.Fetched = map[string]string{"go": sdkModule + " v" + build.Version,
			"typescript": "@toolhost/sdk " + npm}[opts.Lang]
	}
	return made, err
}

const (
	ciFile    = ".github/workflows/ci.yml"
	setupFile = "setup.yml" // the steps of the CI file that differ between the languages
)

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
		for _, made := range []string{".github/workflows", ".github", "vendor"} {
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

// npmPackage returns the version of the package @toolhost/sdk for a package.json. The argument "given" is the path of
// an archive that npm pack made, or empty. npmPackage adds the archive to the contents, so that the sources can be
// built on other machines.
func npmPackage(given string, contents map[string][]byte) (string, error) {
	if given == "" {
		return "^" + build.Version, nil
	}
	b, err := os.ReadFile(given)
	if err == nil && !bytes.HasPrefix(b, []byte("\x1f\x8b")) {
		err = fmt.Errorf("%s is not an archive that npm pack made", given)
	}
	if err != nil {
		return "", fmt.Errorf("--sdk does not name the package @toolhost/sdk: %w", err)
	}
	name := "vendor/" + filepath.Base(given)
	contents[name] = b
	return "file:" + name, nil
}

// findSDK returns the absolute directory of the SDK's module. It returns "" if no directory is given and the sources
// are not near the executable.
func findSDK(given string) (string, error) {
	candidates := []string{given}
	if given == "" {
		candidates = nil
		if exe, err := os.Executable(); err == nil {
			if exe, err = filepath.EvalSymlinks(exe); err == nil {
				candidates = []string{
					filepath.Join(filepath.Dir(exe), "sdk"), filepath.Join(filepath.Dir(exe), "..", "sdk"),
				}
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
	return "", nil
}

const sdkModule = "toolhost.dev/sdk"

// goModule adds the file go.mod of a module that requires the SDK. The argument "sdk" is the directory of the SDK's
// sources on this machine, or empty. If it is not empty, the file go.work refers to it and to its module statedb, and
// go.mod and go.sum contain the requirements of the SDK. The first build then needs no network.
func goModule(name, sdk string, contents map[string][]byte) error {
	f := new(modfile.File)
	path := "example.com/" + name
	if module.CheckPath(path) != nil { // for example, "a." is not a valid module path
		path = "example.com/plugin"
	}
	if err := f.AddModuleStmt(path); err != nil {
		return err
	}
	goVersion := lowestGo
	if sdk != "" {
		b, err := os.ReadFile(filepath.Join(sdk, "go.mod"))
		if err != nil {
			return err
		}
		of, err := modfile.Parse("go.mod", b, nil)
		if err != nil {
			return fmt.Errorf("the SDK's go.mod: %w", err)
		}
		goVersion = of.Go.Version
		for _, r := range of.Require {
			f.AddNewRequire(r.Mod.Path, r.Mod.Version, true)
		}
		work := new(modfile.WorkFile)
		work.Syntax = new(modfile.FileSyntax)
		if err := errors.Join(work.AddGoStmt(goVersion), work.AddUse(".", ""), work.AddReplace(sdkModule, "", sdk, ""),
			work.AddReplace(sdkModule+"/statedb", "", filepath.Join(sdk, "statedb"), "")); err != nil {
			return err
		}
		contents["go.work"] = modfile.Format(work.Syntax)
		if contents["go.sum"], err = os.ReadFile(filepath.Join(sdk, "go.sum")); err != nil {
			return err
		}
		if contents["go.work.sum"], err = os.ReadFile(filepath.Join(sdk, "statedb", "go.sum")); err != nil { // for a plugin that uses the package
			return err
		}
	}
	if err := f.AddGoStmt(goVersion); err != nil {
		return err
	}
	f.AddNewRequire(sdkModule, "v"+build.Version, false)
	f.Cleanup()
	mod, err := f.Format()
	contents["go.mod"] = mod
	return err
}

// lowestGo is the Go version in the go.mod of the SDK.
const lowestGo = "1.26.0"
