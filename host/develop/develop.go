// Package develop rebuilds a plugin whenever its sources change. [Open] reads a plugin's manifest, and [Sources.Watch]
// waits for changes.
package develop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/toolrpc"

	"toolhost.dev/host/internal/watch"
	"toolhost.dev/host/scaffold"
)

// Sources is a directory with the sources and the manifest of a plugin.
type Sources struct {
	// Dir is the absolute path of the directory.
	Dir      string
	Manifest *scaffold.Manifest
	// SettingsFile has what belongs into the plugin's block during development, such as its config block. [Open] sets
	// it to dev.hcl beside the manifest. The file need not exist.
	SettingsFile string
	// Env contains additional environment variables for the build in the form KEY=VALUE.
	Env []string
	// Out receives the output of the build.
	Out io.Writer
}

// Open reads the manifest in a directory. The writer out receives the output of later builds.
func Open(dir string, out io.Writer) (*Sources, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	m, err := scaffold.ReadManifest(dir)
	if err != nil {
		return nil, err
	}
	return &Sources{Dir: dir, Manifest: m, Out: out, SettingsFile: filepath.Join(dir, "dev.hcl")}, nil
}

// Binary returns the path of the plugin's program.
func (s *Sources) Binary() string { return filepath.Join(s.Dir, s.Manifest.Binary) }

// Build runs the build command. The command prints its own errors, and the returned error contains only the exit
// status.
func (s *Sources) Build(ctx context.Context) error {
	if len(s.Manifest.Build) > 0 {
		c := exec.CommandContext(ctx, s.Manifest.Build[0], s.Manifest.Build[1:]...) //nolint:gosec // what the author's own manifest says
		c.Dir, c.Stdout, c.Stderr = s.Dir, s.Out, s.Out
		c.Env = append(os.Environ(), s.Env...)
		// Use a process group, so that the compiler and its child processes end with the build.
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
		c.WaitDelay = time.Second
		if err := c.Run(); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(s.Manifest.Build, " "), err)
		}
	}
	if st, err := os.Stat(s.Binary()); err != nil || st.IsDir() || st.Mode()&0o111 == 0 {
		return fmt.Errorf("the build did not create the program %s; check the build command and binary in the manifest", s.Binary())
	}
	return nil
}

// Watch calls changed after each change of the sources, until ctx is canceled. The sources are all files in the
// directory, and the settings file. Watch ignores names that begin with a dot, the directory of the binary, and the
// directories in madeDirs.
func (s *Sources) Watch(ctx context.Context, log *slog.Logger, changed func()) error {
	wake := make(chan struct{}, 1)
	w, err := watch.New(log, func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return err
	}
	defer w.Close()
	seen, dirs := s.look()
	w.Set([]string{s.SettingsFile}, dirs)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		}
		now, dirs := s.look()
		if now == seen {
			continue
		}
		seen = now
		w.Set([]string{s.SettingsFile}, dirs)
		changed()
	}
}

// madeDirs lists the names of directories that build tools create.
var madeDirs = []string{"node_modules", "__pycache__", "target"}

// look returns a text that describes the state of the sources, and a list of their directories.
func (s *Sources) look() (state string, dirs []string) {
	var b strings.Builder
	made := filepath.Dir(s.Binary())
	_ = filepath.WalkDir(s.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it is gone again
		}
		name := d.Name()
		if d.IsDir() {
			if path != s.Dir && (strings.HasPrefix(name, ".") || path == made || slices.Contains(madeDirs, name)) {
				return fs.SkipDir
			}
			dirs = append(dirs, path)
			return nil
		}
		info, err := d.Info()
		if err == nil && !strings.HasPrefix(name, ".") &&
			(path != s.Binary() || len(s.Manifest.Build) == 0 || made == s.Dir) {
			fmt.Fprintf(&b, "%s %d %d %s\n", path, info.Size(), info.ModTime().UnixNano(), info.Mode())
		}
		return nil
	})
	if info, err := os.Stat(s.SettingsFile); err == nil {
		fmt.Fprintf(&b, "%s %d %d\n", s.SettingsFile, info.Size(), info.ModTime().UnixNano())
	}
	return b.String(), dirs
}

// Settings returns the text of the settings file. A missing file has no settings.
func (s *Sources) Settings() (string, error) {
	b, err := os.ReadFile(s.SettingsFile)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return string(b), err
}

// Options configures the host of a plugin under development.
type Options struct {
	// Debug means that the plugin is not confined and that its start and its calls have a timeout of 24 hours.
	Debug bool
	// Wait means that the plugin waits for a debugger before it serves. The environment variable [toolrpc.WaitEnv] must
	// be set.
	Wait bool
	// Needs are the plugin's own declared needs, which the configuration grants. It can be nil.
	Needs *tool.Needs
	// Settings is added to the plugin's block.
	Settings string
}

// granted returns the manifest with the needs that the plugin declares itself. The developer's own plugin gets what it
// needs.
func (s *Sources) granted(n *tool.Needs) *scaffold.Manifest {
	m := *s.Manifest
	m.Needs.Env = append(slices.Clone(m.Needs.Env), toolrpc.WaitEnv)
	if n == nil {
		return &m
	}
	m.Needs.Network = m.Needs.Network || n.Network != tool.NotNeeded
	m.Needs.Exec = m.Needs.Exec || n.Exec != tool.NotNeeded
	for _, secret := range n.Secrets {
		m.Needs.Env = append(m.Needs.Env, secret.Name)
	}
	return &m
}

// Config returns a configuration that contains the plugin. The host adds the bundled plugins.
func (s *Sources) Config(opts Options) string {
	return s.beforeSettings(opts) + opts.Settings + "\n}\n"
}

// Locate replaces positions in a configuration by positions in the settings file, also in the quoted lines of messages.
// The configuration has the text of [Sources.Config] with the same options.
func (s *Sources) Locate(text, config string, opts Options) string {
	before := strings.Count(s.beforeSettings(opts), "\n")
	position := regexp.MustCompile(`(?m)(` + regexp.QuoteMeta(config) + `:|^ +)(\d+)(:| \|)`)
	return position.ReplaceAllStringFunc(text, func(found string) string {
		parts := position.FindStringSubmatch(found)
		line, err := strconv.Atoi(parts[2])
		if err != nil || line <= before {
			return found
		}
		return strings.Replace(parts[1], config, s.SettingsFile, 1) + strconv.Itoa(line-before) + parts[3]
	})
}

func (s *Sources) beforeSettings(opts Options) string {
	debug := opts.Debug || opts.Wait
	var b strings.Builder
	b.WriteString("host {\n  log_level = \"info\"\n")
	if debug {
		b.WriteString("  timeout = \"24h\"\n")
	}
	b.WriteString("}\nreload {\n  watch = false\n  changes = \"any\"\n}\n")
	if debug {
		b.WriteString("sandbox {\n  enforce = \"off\"\n}\n")
	}
	block := strings.TrimSuffix(s.granted(opts.Needs).Block(s.Dir), "}\n")
	if debug {
		block += "  start_timeout = \"24h\"\n"
	}
	b.WriteString(block)
	return b.String()
}
