//go:build docs && linux

package docs

import (
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestNewPluginsShip checks that a new plugin in each language can be published and installed. The author commits the
// plugin. Another machine, which has no sources of toolhost, clones the tag and runs the commands of the CI file, which
// publish the plugin. An operator installs the plugin and runs its tool.
func TestNewPluginsShip(t *testing.T) {
	t.Parallel()
	_, noSDK := os.Stat("../../../../sdk/node/node_modules/.bin/esbuild")
	if noSDK != nil {
		t.Skip("the packages of sdk/node are not installed; run make peers")
	}
	s := newShipping(t)
	t.Run("go", func(t *testing.T) {
		source := hosttest.SourceEnv()
		// Each machine has its own module cache in its home directory. Without -trimpath, each machine would compile
		// all modules again.
		elsewhere := []string{"GOMODCACHE=", "GOPATH=", "GOCACHE=" + source["GOCACHE"], "GOFLAGS=-modcacherw -trimpath", "GOSUMDB=off", "GOTOOLCHAIN=local", "GOPROXY="}
		author := s.author(t, "go", "../../../../sdk", append(elsewhere, "GOPROXY="+s.proxies()))
		if work, err := os.ReadFile(filepath.Join(author.dir, "go.work")); err != nil || !strings.Contains(string(work), "replace toolhost.dev/sdk => ") {
			t.Errorf("go.work: %v\n%s", err, work)
		}
		author.run(2, "make publish", "go.sum has no hash of toolhost.dev/sdk; run make tidy")
		author.run(0, "make tidy")
		s.ship(t, author, elsewhere, "")
	})
	t.Run("python", func(t *testing.T) {
		debian := hosttest.SourceEnv()["DEBIAN"]
		if debian == "" {
			t.Skip("there is no gRPC for Python")
		}
		packages, libs := debian+"/usr/lib/python3/dist-packages", hosttest.SourceEnv()["DEBIAN_LIBS"]
		// With these variables, pip finds that the requirements are already satisfied, and needs no package index.
		elsewhere := []string{"PYTHONPATH=" + packages, "LD_LIBRARY_PATH=" + libs, "PATH=" + debian + "/bin:" + os.Getenv("PATH"), "PIP_NO_INDEX=1", "PIP_BREAK_SYSTEM_PACKAGES=1"}
		s.ship(t, s.author(t, "python", "", elsewhere), elsewhere, fmt.Sprintf("env = { PYTHONPATH = %q, LD_LIBRARY_PATH = %q }\n  sandbox { read = [%q, %q] }", packages, libs, packages, libs))
	})
	t.Run("typescript", func(t *testing.T) {
		elsewhere := []string{"npm_config_registry=" + newSourceRegistry(t), "npm_config_cache=" + filepath.Join(t.TempDir(), "npm")}
		archives, err := filepath.Glob(filepath.Join(s.packages, "toolhost-sdk-*.tgz"))
		if err != nil || len(archives) != 1 {
			t.Fatal(archives, err)
		}
		author := s.author(t, "typescript", archives[0], elsewhere)
		author.run(0, "make build")
		s.ship(t, author, elsewhere, "")
	})
}

// shipping contains the values that the machines of the test share.
type shipping struct {
	packages string // directory of the packages that a release has for plugin authors
	registry string
	archive  string // a release with the program toolhost, and its checksum
	sum      string
	key      string // the author's private key
	public   string
}

func newShipping(t *testing.T) *shipping {
	t.Helper()
	dir := t.TempDir()
	s := &shipping{packages: filepath.Join(dir, "packages"), registry: hosttest.NewRegistry(t), archive: filepath.Join(dir, "toolhost_linux.tar")}
	task := exec.CommandContext(t.Context(), "go", "run", "./task", "packages")
	task.Dir, task.Env = "../../../../tools", append(os.Environ(), "GOWORK=off", "OUT="+s.packages)
	if out, err := task.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	hosttest.Must(t, os.Mkdir(filepath.Join(dir, "release"), 0o755))
	for _, name := range []string{"toolhost", "toolhost-shim", "toolhost-sandbox"} {
		hosttest.Must(t, os.Link(filepath.Join(hosttest.Bin, name), filepath.Join(dir, "release", name)))
	}
	for _, line := range []string{"tar cf " + s.archive + " -C " + dir + " release", hosttest.Bin + "/toolhost plugin key acme"} {
		c := exec.CommandContext(t.Context(), "sh", "-c", line)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	sum, err := exec.CommandContext(t.Context(), "sha256sum", s.archive).Output()
	hosttest.Must(t, err)
	s.sum, _, _ = strings.Cut(string(sum), " ")
	key, err := os.ReadFile(filepath.Join(dir, "acme.key"))
	hosttest.Must(t, err)
	s.key, s.public = string(key), filepath.Join(dir, "acme.pub")
	return s
}

// proxies returns the Go module proxies of the test: the proxy with the modules of toolhost, and the module cache.
func (s *shipping) proxies() string {
	return "file://" + filepath.Join(s.packages, "proxy") + ",file://" + filepath.Join(hosttest.SourceEnv()["GOMODCACHE"], "cache/download")
}

// machine is a simulated machine. It runs commands in a directory, with its own home directory and without the programs
// of the test.
type machine struct {
	t   *testing.T
	dir string
	env []string
}

func newMachine(t *testing.T, env []string) *machine {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	hosttest.Must(t, err)
	own := []string{"HOME=" + home, "XDG_CONFIG_HOME=" + home + "/config", "XDG_STATE_HOME=" + home + "/state", "XDG_DATA_HOME=" + home + "/data", "XDG_RUNTIME_DIR=", "DOCKER_CONFIG=" + home + "/docker",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_CONFIG_GLOBAL=/dev/null", "GOWORK="}
	return &machine{t, filepath.Join(home, "shipped"), append(append(os.Environ(), own...), env...)}
}

func (m *machine) run(status int, line string, want ...string) string {
	m.t.Helper()
	c := exec.CommandContext(m.t.Context(), "bash", "-e", "-o", "pipefail", "-c", line)
	c.Dir, c.Env = m.dir, m.env
	out, err := c.CombinedOutput()
	if c.ProcessState == nil || c.ProcessState.ExitCode() != status {
		m.t.Fatalf("%s: %v, wanted exit status %d\n%s", line, err, status, out)
	}
	for _, w := range want {
		if !strings.Contains(string(out), w) {
			m.t.Fatalf("%s: no %q in\n%s", line, w, out)
		}
	}
	return string(out)
}

// author returns a machine whose directory contains a new plugin.
func (s *shipping) author(t *testing.T, lang, sdk string, env []string) *machine {
	t.Helper()
	m := newMachine(t, env)
	args := []string{"plugin", "new", "shipped", "--lang", lang, "--dir", m.dir}
	if sdk != "" {
		args = append(args, "--sdk", sdk)
	}
	c := hosttest.CommandContext(t.Context(), args...)
	c.Env = m.env
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return m
}

// workflow is the part of a CI file that the test uses.
type workflow struct {
	Jobs map[string]struct {
		Steps []struct {
			Uses, If, Run string
			Env           map[string]string
		}
	}
}

var expression = regexp.MustCompile(`\$\{\{ (.*?) \}\}`)

// ship commits the plugin, runs its CI file on another machine, and installs the published plugin. The argument
// "settings" is added to the operator's plugin block.
func (s *shipping) ship(t *testing.T, author *machine, elsewhere []string, settings string) {
	t.Helper()
	author.run(0, "git init -q && git add . && git commit -qm first && git tag v0.1.0")
	if out := author.run(0, "git grep -lF -e "+filepath.Dir(author.dir)+" -e "+hosttest.SourceEnv()["SOURCES"]+" || true", ""); out != "" {
		t.Errorf("committed files name directories of this machine:\n%s", out)
	}
	runner := newMachine(t, elsewhere)
	temp := t.TempDir()
	text, err := os.ReadFile(filepath.Join(author.dir, ".github/workflows/ci.yml"))
	hosttest.Must(t, err)
	var w workflow
	hosttest.Must(t, yaml.Unmarshal(text, &w))
	name := filepath.Base(author.dir)
	values := map[string]string{"vars.GOPROXY": s.proxies(), "vars.TOOLHOST_URL": "file://" + s.archive, "vars.TOOLHOST_SHA256": s.sum, "vars.SOURCE": s.registry + "/acme/" + languageOf(t) + "/" + name, "secrets.PLUGIN_KEY": s.key, "secrets.GITHUB_TOKEN": "token"}
	source := values["vars.SOURCE"]
	// A script replaces docker and stores the login as docker does.
	docker := filepath.Join(t.TempDir(), "docker")
	hosttest.Must(t, os.WriteFile(docker, []byte("#!/bin/sh\nmkdir -p $DOCKER_CONFIG\nprintf '{\"auths\":{\"%s\":{\"auth\":\"%s\"}}}' \"$2\" \"$(printf %s:%s \"$4\" \"$(cat)\" | base64 -w0)\" > $DOCKER_CONFIG/config.json\n"), 0o755))
	paths := []string{filepath.Dir(docker)}
	added := filepath.Join(temp, "path")
	steps := 0
	for _, step := range w.Jobs["test"].Steps {
		if strings.HasPrefix(step.Uses, "actions/checkout@") {
			hosttest.Must(t, os.Mkdir(runner.dir, 0o755))
			runner.run(0, "git clone -q -b v0.1.0 "+author.dir+" .")
		}
		if step.Run == "" {
			continue
		}
		path := os.Getenv("PATH")
		for _, v := range runner.env {
			if p, ok := strings.CutPrefix(v, "PATH="); ok {
				path = p
			}
		}
		m := *runner
		m.env = append(append([]string{}, runner.env...), "PATH="+strings.Join(paths, ":")+":"+path, "RUNNER_TEMP="+temp, "GITHUB_PATH="+added, "GITHUB_ACTOR=acme", "GITHUB_REF_NAME=v0.1.0")
		for key, value := range step.Env {
			m.env = append(m.env, key+"="+expression.ReplaceAllStringFunc(value, func(e string) string {
				v, ok := values[expression.FindStringSubmatch(e)[1]]
				if !ok {
					t.Errorf("the CI file uses %s, which the test does not set", e)
				}
				return v
			}))
		}
		m.run(0, step.Run)
		steps++
		if b, err := os.ReadFile(added); err == nil {
			paths = append(paths, strings.Fields(string(b))...)
		}
	}
	if steps < 3 {
		t.Errorf("the CI file has %d commands", steps)
	}
	s.operate(t, source, settings)
}

func languageOf(t *testing.T) string { return filepath.Base(t.Name()) }

// operate installs a published plugin and runs its tool.
func (s *shipping) operate(t *testing.T, source, settings string) {
	t.Helper()
	public, err := os.ReadFile(s.public)
	hosttest.Must(t, err)
	o := hosttest.NewOperator(t, fmt.Sprintf("bundled = false\nplugin \"shipped\" {\n  source = %q\n  version = \"~> 0.1\"\n  %s\n}\npublisher \"acme\" {\n  sources = [\"%s/*\"]\n  keys = [file(\"acme.pub\")]\n}\n", source, settings, s.registry))
	if languageOf(t) == "python" { // the interpreter and its packages are those of the tests
		o.Env = append(o.Env, "PATH="+hosttest.Bin+":"+hosttest.SourceEnv()["DEBIAN"]+"/bin:"+os.Getenv("PATH"), "PYTHONPATH="+hosttest.SourceEnv()["DEBIAN"]+"/usr/lib/python3/dist-packages", "LD_LIBRARY_PATH="+hosttest.SourceEnv()["DEBIAN_LIBS"])
	}
	hosttest.Must(t, os.WriteFile(filepath.Join(o.Dir, "config", "toolhost", "acme.pub"), public, 0o644))
	o.Run(0, "toolhost plugin info "+source, "linux/amd64", "linux/arm64")
	o.Run(0, "toolhost plugin install", "shipped 0.1.0  installed", "signed by acme (SHA256:")
	o.Run(0, "toolhost run 'shipped World --style loud'", "HELLO, WORLD")
}

// newSourceRegistry returns the address of an npm registry with the packages of sdk/node/node_modules.
func newSourceRegistry(t *testing.T) string {
	t.Helper()
	const root = "../../../../sdk/node/node_modules"
	// This map contains the contents by path. They are stored after the server has started, because the packages
	// contain its address.
	var files sync.Map
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, ok := files.Load(r.URL.Path)
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(b.([]byte))
	}))
	t.Cleanup(server.Close)
	arch := strings.Replace(runtime.GOARCH, "amd64", "x64", 1)
	for _, name := range []string{"esbuild", "@esbuild/linux-" + arch, "typescript", "@types/node", "undici-types"} {
		dir := filepath.Join(root, name)
		b, err := os.ReadFile(filepath.Join(dir, "package.json"))
		hosttest.Must(t, err)
		var manifest map[string]any
		hosttest.Must(t, json.Unmarshal(b, &manifest))
		delete(manifest, "optionalDependencies")
		if name == "esbuild" { // the packages for other platforms are not installed
			manifest["optionalDependencies"] = map[string]any{"@esbuild/linux-" + arch: manifest["version"]}
		}
		file := packedDir(t, dir, manifest)
		sum := sha512.Sum512(file)
		version := manifest["version"].(string)
		manifest["dist"] = map[string]string{"tarball": server.URL + "/tarballs/" + name + ".tgz", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}
		document, err := json.Marshal(map[string]any{"name": name, "dist-tags": map[string]string{"latest": version}, "versions": map[string]any{version: manifest}})
		hosttest.Must(t, err)
		files.Store("/"+name, document)
		files.Store("/tarballs/"+name+".tgz", file)
	}
	return server.URL
}

// packedDir returns an npm package with the files of a directory and a different package.json.
func packedDir(t *testing.T, dir string, manifest map[string]any) []byte {
	t.Helper()
	text, err := json.Marshal(manifest)
	hosttest.Must(t, err)
	files := map[string]string{"package/package.json": string(text)}
	hosttest.Must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(dir, path)
		if err != nil || relErr != nil || !d.Type().IsRegular() || rel == "package.json" {
			return err
		}
		b, err := os.ReadFile(path)
		files["package/"+filepath.ToSlash(rel)] = string(b)
		return err
	}))
	return hosttest.Archive(t, files)
}
