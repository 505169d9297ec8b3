package shell

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"toolhost.dev/sdk/tool"
)

const (
	// drainTime limits how long the login shell's output is read after the login shell has ended.
	drainTime = 100 * time.Millisecond
	// maxLogin limits the size of the login shell's output in bytes.
	maxLogin = 1 << 20
)

// loginShells lists shells that accept the options -l and -c and the syntax of the command in Login.
var loginShells = []string{"bash", "zsh", "sh", "dash", "ash", "ksh", "mksh", "fish"}

// Login returns the variables that the user's login shell adds to the environment env or changes in it. The variables
// have the form NAME=VALUE. The variables come from /etc/profile and the user's own login files. Login omits variables
// whose names suggest a secret. If the user's shell is unknown or missing, Login runs bash. Login takes at most the
// time limit, and kills all processes that the login files start.
func (r *Runner) Login(ctx context.Context, limit time.Duration, bash, dir string, env []string) ([]string, error) {
	path := Users()
	if info, err := os.Stat(path); err != nil || info.IsDir() || !slices.Contains(loginShells, filepath.Base(path)) {
		path = bash
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close() //nolint:errcheck // only read
	mark := rand.Text()
	// The mark separates the environment from the output of the login files, which comes first.
	cmd := exec.Command(path, "-l", "-c", fmt.Sprintf(`printf '%%s\0' %s; exec env -0`, mark)) //nolint:gosec // the user's shell
	cmd.Dir, cmd.Env, cmd.Stdout = dir, append(slices.Clone(env), tool.CallEnv+"="+tool.NoCall), write
	tree, err := r.keeper.Start(cmd)
	_ = write.Close()
	if err != nil {
		return nil, fmt.Errorf("%s cannot be started: %w", path, err)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var out []byte
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		out, err = io.ReadAll(io.LimitReader(read, maxLogin))
	}()
	select {
	case <-tree.Done():
	case <-printed: // the output is too long, or the shell closed its end of the pipe
	case <-ctx.Done():
	}
	tree.Kill(0)                                        // also kills processes that the login files started
	_ = read.SetReadDeadline(time.Now().Add(drainTime)) // a process that could not be killed can keep the pipe open
	<-printed
	_, list, found := bytes.Cut(out, []byte(mark+"\x00"))
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s -l took longer than %s", path, limit)
	case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("%s -l: %w", path, err)
	case !found || len(list) == 0 || len(out) == maxLogin:
		return nil, fmt.Errorf("the login shell %s -l does not print its environment", path)
	}
	made := strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00")
	return slices.DeleteFunc(made, func(e string) bool {
		name, _, ok := strings.Cut(e, "=")
		return !ok || name == "" || !taken(name) || secretName.MatchString(name) || slices.Contains(env, e)
	}), nil
}

// secretName matches the names of variables that are not imported. The host hides secrets from commands, and a login
// file must not reveal them.
var secretName = regexp.MustCompile(`(?i)(pass|secret|token|key|credential|auth|cookie|session)`)

// AddLogin adds the variables of [Runner.Login] that are missing in an environment. It also adds missing directories
// to PATH. It changes no other variable.
func AddLogin(env, login []string) []string {
	names := make(map[string]int, len(env))
	for i, e := range env {
		name, _, _ := strings.Cut(e, "=")
		names[name] = i
	}
	for _, e := range login {
		name, value, _ := strings.Cut(e, "=")
		switch i, there := names[name]; {
		case !there:
			env = append(env, e)
		case name == "PATH":
			env[i] = addPath(env[i], value)
		}
	}
	return env
}

// addPath appends missing directories to a PATH=… entry.
func addPath(path, more string) string {
	have := filepath.SplitList(strings.TrimPrefix(path, "PATH="))
	for _, dir := range filepath.SplitList(more) {
		if filepath.IsAbs(dir) && !slices.Contains(have, dir) {
			have = append(have, dir)
			path += string(filepath.ListSeparator) + dir
		}
	}
	return path
}
