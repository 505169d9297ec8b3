package hosttest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// NewRegistry returns the address of an empty registry: Debian's docker-registry if it is installed, and otherwise a
// registry in this process. These registries differ in how they list signatures.
func NewRegistry(t *testing.T) string {
	t.Helper()
	program := filepath.Join(SourceEnv()["DEBIAN"], "usr/bin/docker-registry")
	if _, err := os.Stat(program); err != nil || SourceEnv()["DEBIAN"] == "" {
		server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true),
			registry.Logger(log.New(io.Discard, "", 0))))
		t.Cleanup(server.Close)
		return "localhost:" + server.URL[strings.LastIndexByte(server.URL, ':')+1:]
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yml")
	Must(t, os.WriteFile(config, []byte("version: 0.1\nlog: {level: info}\nstorage:\n  filesystem: {rootdirectory: "+dir+"/data}\nhttp: {addr: '127.0.0.1:0'}\n"), 0o600))
	c := exec.CommandContext(t.Context(), program, "serve", config)
	out, err := os.Create(filepath.Join(dir, "log"))
	Must(t, err)
	c.Stdout, c.Stderr = out, out
	Must(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait(); _ = out.Close() })
	listening := regexp.MustCompile(`listening on 127\.0\.0\.1:(\d+)`)
	var port string
	Wait(t, "docker-registry listens", func() bool {
		text, err := os.ReadFile(out.Name())
		Must(t, err)
		m := listening.FindSubmatch(text)
		if m != nil {
			port = string(m[1])
		}
		return m != nil
	})
	return "localhost:" + port
}

// Operator is a simulated machine with a user who has a configuration.
type Operator struct {
	t   *testing.T
	Dir string
	Env []string
}

// NewOperator returns a machine whose user has a configuration.
func NewOperator(t *testing.T, config string) *Operator {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	Must(t, err)
	o := &Operator{
		t, dir, append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir+"/config", "XDG_STATE_HOME="+dir+"/state",
			"XDG_DATA_HOME="+dir+"/data", "DOCKER_CONFIG="+dir, "XDG_RUNTIME_DIR=", "PATH="+Bin+":"+os.Getenv("PATH")),
	}
	Must(t, os.MkdirAll(filepath.Join(dir, "config", "toolhost"), 0o755))
	Must(t, os.Mkdir(filepath.Join(dir, "work"), 0o755))
	o.Configure(config)
	return o
}

// Configure writes the configuration.
func (o *Operator) Configure(text string) {
	Must(o.t, os.WriteFile(filepath.Join(o.Dir, "config", "toolhost", "toolhost.hcl"), []byte(text), 0o644))
}

// Lock returns the content of the lock file, or "" without one.
func (o *Operator) Lock() string {
	b, err := os.ReadFile(filepath.Join(o.Dir, "config", "toolhost", "toolhost.lock.json"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		o.t.Fatal(err)
	}
	return string(b)
}

// Command returns a command of the user, which the shell runs.
func (o *Operator) Command(line string) *exec.Cmd {
	c := exec.CommandContext(o.t.Context(), "sh", "-c", line)
	c.Dir, c.Env = filepath.Join(o.Dir, "work"), o.Env
	return c
}

// Run runs a command and checks its exit status and its output.
func (o *Operator) Run(status int, line string, want ...string) string {
	o.t.Helper()
	c := o.Command(line)
	out, err := c.CombinedOutput()
	if c.ProcessState == nil || c.ProcessState.ExitCode() != status {
		o.t.Fatalf("%s: %v, wanted exit status %d\n%s", line, err, status, out)
	}
	for _, w := range want {
		if !strings.Contains(string(out), w) {
			o.t.Fatalf("%s: no %q in\n%s", line, w, out)
		}
	}
	return string(out)
}

// Served returns the directory of the plugin. It checks that the running host uses the same directory as a new host
// would.
func (o *Operator) Served() string {
	o.t.Helper()
	dirs := regexp.MustCompile(`h1-[0-9a-f]{64}`).FindAllString(o.Run(0, "toolhost status", "running (pid"), -1)
	if len(dirs) != 2 || dirs[0] != dirs[1] {
		o.t.Fatalf("the running host and the lock file differ: %q", dirs)
	}
	return dirs[0]
}

// Archive returns a compressed tar archive of executable files. The key is the name, and the value the content.
func Archive(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, text := range files {
		Must(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))}))
		_, err := w.Write([]byte(text))
		Must(t, err)
	}
	Must(t, w.Close())
	Must(t, z.Close())
	return b.Bytes()
}
