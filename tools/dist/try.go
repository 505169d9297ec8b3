package dist

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"toolhost.dev/tools/project"
)

// tinyPlugin is the source of a small plugin that uses the SDK.
const tinyPlugin = `package main

import (
	"context"

	"toolhost.dev/sdk"
)

type arguments struct {
	Name string ` + "`json:\"name\"`" + `
}

func main() {
	sdk.Serve(sdk.Plugin{Name: "tiny", Version: "1.0.0", Tools: []sdk.Tool{
		sdk.NewTool(sdk.Definition{Name: "tiny", Description: "Greet."}, func(_ context.Context, _ *sdk.Call, a arguments) (*sdk.Result, error) {
			return sdk.Text("Hello, " + a.Name), nil
		}),
	}})
}
`

// TryProxy tests a module proxy that [Make] wrote. In a directory outside the repository, it builds a plugin with the
// SDK, installs the host and a bundled plugin, and checks the plugin against the protocol. It takes all other modules
// from the module cache or from the proxies in the environment.
func TryProxy(p *project.Project, proxy string) error {
	version, err := p.Version()
	if err != nil {
		return err
	}
	t, clean, err := newTrial()
	if err != nil {
		return err
	}
	defer clean()
	dir := t.dir
	cache, proxies, err := goEnv()
	if err != nil {
		return err
	}
	t.env = append(t.env,
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(cache, "cache", "download")+","+proxies,
		// Use a separate module cache, because the usual cache can contain other sources of this version. GOSUMDB=off
		// is safe, because the modules of other projects were already verified with go.sum.
		"GOMODCACHE="+filepath.Join(dir, "modules"), "GOSUMDB=off", "GONOPROXY=", "GOPRIVATE=",
		"GOFLAGS=-mod=mod -modcacherw -trimpath", "GOWORK=off", "CGO_ENABLED=0", "GOBIN="+filepath.Join(dir, "bin"), "GOTOOLCHAIN=local",
	)
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(tinyPlugin), 0o600); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"mod", "init", "example.com/tiny"},
		{"get", "toolhost.dev/sdk@v" + version, "toolhost.dev/sdk/statedb@v" + version, "toolhost.dev/shellscript@v" + version, "toolhost.dev/sandbox@v" + version, "toolhost.dev/branch@v" + version, "toolhost.dev/host@v" + version},
		{"build", "-o", filepath.Join(dir, "bin", "tiny"), "."},
		{"install", "toolhost.dev/host/cmd/toolhost@v" + version},
		{"install", "toolhost.dev/plugins/read@v" + version},
	} {
		if _, err := t.run("go", args...); err != nil {
			return err
		}
	}
	program := filepath.Join(dir, "bin", "toolhost")
	out, err := t.run(program, "version")
	if err == nil && !strings.Contains(out, version) {
		err = fmt.Errorf("toolhost version prints %q, want %s", out, version)
	}
	if err != nil {
		return err
	}
	_, err = t.run(program, "plugin", "test", filepath.Join(dir, "bin", "tiny"))
	return err
}

// goEnv returns the module cache and the module proxies of the go command.
func goEnv() (cache, proxies string, err error) {
	out, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	cache, proxies, ok := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if err == nil && !ok {
		err = fmt.Errorf("go env: %q", out)
	}
	return cache, proxies, err
}

// trial runs programs in a temporary directory with its own environment.
type trial struct {
	dir string
	env []string
}

func (t trial) run(name string, args ...string) (string, error) {
	c := exec.Command(name, args...) //nolint:gosec // the go command, and what it built
	c.Dir, c.Env = t.dir, t.env
	out, err := c.CombinedOutput()
	if err != nil {
		err = errors.Join(fmt.Errorf("%s %s: %w", filepath.Base(name), strings.Join(args, " "), err), errors.New(string(out)))
	}
	return string(out), err
}
