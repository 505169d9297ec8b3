package main_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/host/internal/shim"
	"toolhost.dev/host/internal/shim/wire"
)

// builds builds the program with each of its two entry points. It returns the paths of the binaries.
func builds(t *testing.T) map[string]string {
	t.Helper()
	flags := map[string]string{"runtime": "-s"}
	if runtime.GOOS == "linux" && (runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64") {
		flags["entry"] = "-s -E main.entry"
	}
	out := make(map[string]string)
	for name, f := range flags {
		path := filepath.Join(t.TempDir(), "tool:"+name)
		c := exec.Command("go", "build", "-ldflags="+f, "-o", path, ".")
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if b, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		out[name] = path
	}
	return out
}

// serve starts a server for shims. It returns the environment with the server's address.
func serve(t *testing.T, handle shim.Handler) (env []string) {
	t.Helper()
	s, err := shim.Listen(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	token, revoke := s.Grant(context.Background(), handle)
	t.Cleanup(revoke)
	path := s.Address(0)
	if s.Inherit != nil {
		path = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), s.Inherit.Fd())
	}
	return []string{"OTHER=1", "TOOLHOST_CALLS=no", "TOOLHOST_COMMANDS=" + path, "TOOLHOST_CALL=" + token}
}

// describe prints all fields of a request. Then it prints as much further output as the arguments of the request
// specify.
func describe(_ context.Context, r wire.Request, st shim.Streams) int {
	fmt.Fprintf(st.Stdout, "%q %q %q\n", r.Cwd, r.Stdin, r.Args)
	if len(r.Args) == 0 {
		return 0
	}
	switch r.Args[0] {
	case "cat":
		n, err := io.Copy(st.Stdout, st.Stdin)
		fmt.Fprintf(st.Stderr, "%d %v", n, err)
		return 4
	case "some":
		_, _ = io.ReadFull(st.Stdin, make([]byte, 10))
	case "flood":
		for range 100 {
			if _, err := st.Stdout.Write(bytes.Repeat([]byte("x"), wire.MaxFrame)); err != nil {
				return 1
			}
		}
	case "status":
		return 255
	}
	return 0
}

func TestBothEntryPoints(t *testing.T) {
	env := serve(t, describe)
	dir := t.TempDir()
	deep := filepath.Join(dir, strings.Repeat("d", 200), "ü x")
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	programs := builds(t)
	for name, tc := range map[string]struct {
		args   []string
		stdin  string // empty means no standard input
		env    []string
		dir    string
		status int
		stdout string // expected part of the output after the description of the request
		stderr string
	}{
		"nothing":         {},
		"arguments":       {args: []string{"", "a b", "-x=\n", "\xff\x01", "ü", ""}},
		"long arguments":  {args: []string{strings.Repeat("a", 100_000), strings.Repeat("b", 65_536), strings.Repeat("c", 65_535), "d"}},
		"many arguments":  {args: strings.Split(strings.Repeat("x,", 20_000), ",")},
		"directory":       {dir: deep},
		"status":          {args: []string{"status"}, status: 255},
		"standard input":  {args: []string{"cat"}, stdin: strings.Repeat("0123456789", 100_000), status: 4, stdout: strings.Repeat("0123456789", 100_000), stderr: "1000000 <nil>"},
		"no input":        {args: []string{"cat"}, status: 4, stderr: "0 <nil>"},
		"input left over": {args: []string{"some"}, stdin: strings.Repeat("0123456789", 500_000)},
		"much output":     {args: []string{"flood"}, stdout: strings.Repeat("x", 100*wire.MaxFrame)},
		"no token":        {env: []string{env[2]}, status: 126, stderr: "belongs to no call that is running"},
		"forged token":    {env: []string{env[2], "TOOLHOST_CALL=x"}, status: 126, stderr: "belongs to no call that is running"},
		"no host":         {env: []string{env[3]}, status: 127, stderr: "the tool host cannot be reached"},
		"a long path":     {env: []string{"TOOLHOST_COMMANDS=/" + strings.Repeat("x", 5000)}, status: 127, stderr: "the tool host cannot be reached"},
		"no environment":  {env: []string{}, status: 127, stderr: "the tool host cannot be reached"},
	} {
		for entry, path := range programs {
			t.Run(name+"/"+entry, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				c := exec.CommandContext(ctx, path, tc.args...)
				c.Dir, c.Env = tc.dir, tc.env
				if tc.stdin != "" {
					c.Stdin = strings.NewReader(tc.stdin)
				}
				if tc.env == nil {
					c.Env = env
				}
				var stdout, stderr bytes.Buffer
				c.Stdout, c.Stderr = &stdout, &stderr
				_ = c.Run() // the test checks the exit status
				if c.ProcessState.ExitCode() != tc.status || !strings.Contains(stderr.String(), tc.stderr) {
					t.Fatalf("%v, wanted status %d; standard error: %.300q", c.ProcessState, tc.status, stderr.String())
				}
				if tc.env != nil {
					return
				}
				where := tc.dir
				if where == "" {
					where, _ = os.Getwd()
				}
				args := tc.args
				if args == nil {
					args = []string{}
				}
				kind := ""
				if tc.stdin != "" {
					kind = wire.Piped
				}
				want := fmt.Sprintf("%q %q %q\n", where, kind, args) + tc.stdout
				if got := stdout.String(); got != want {
					t.Errorf("%d bytes %.300q\nwanted %d bytes %.300q", len(got), got, len(want), want)
				}
			})
		}
	}
}

// TestKindsOfStandardInput checks that a shim distinguishes files, pipes and other standard input.
func TestKindsOfStandardInput(t *testing.T) {
	env := serve(t, describe)
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for entry, path := range builds(t) {
		for redirect, want := range map[string]string{"<" + file: wire.Given, "</dev/null": "", "<&-": "", "</dev/zero": "", "<<E\ntext\nE": "pipe file"} {
			c := exec.Command("bash", "-c", `"$0" `+redirect, path)
			c.Env = slices.Concat(env, []string{"PATH=" + os.Getenv("PATH")})
			b, err := c.CombinedOutput()
			// Shells implement heredocs with files or with pipes.
			if kind := strings.Split(string(b), `"`)[3]; err != nil || kind != want && (kind == "" || !strings.Contains(want, kind)) {
				t.Errorf("%s: %s is %q, wanted %q; %v", entry, redirect, kind, want, err)
			}
		}
	}
}

// TestEndings checks how a shim ends in three cases: its output is closed, it receives SIGTERM, or its working
// directory is removed.
func TestEndings(t *testing.T) {
	leave := make(chan struct{})
	env := serve(t, func(ctx context.Context, r wire.Request, st shim.Streams) int {
		if len(r.Args) > 0 && r.Args[0] == "wait" {
			_, _ = io.WriteString(st.Stdout, "waiting\n")
			<-ctx.Done()
			leave <- struct{}{}
			return 0
		}
		return describe(ctx, r, st)
	})
	for entry, path := range builds(t) {
		t.Run(entry, func(t *testing.T) {
			c := exec.Command("sh", "-c", `"$0" flood | head -c 5; echo`, path)
			c.Env = slices.Concat(env, []string{"PATH=" + os.Getenv("PATH")})
			if b, err := c.CombinedOutput(); err != nil || len(b) != 6 {
				t.Errorf("%q, %v", b, err)
			}
			c = exec.Command(path, "wait")
			c.Env = env
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := out.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			_ = c.Process.Signal(syscall.SIGTERM)
			<-leave // the host has noticed that the shim ended
			if err := c.Wait(); err == nil || c.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
				t.Errorf("%v", err)
			}
			c = exec.Command("sh", "-c", `mkdir gone && cd gone && rmdir ../gone && "$0"`, path)
			c.Dir, c.Env = t.TempDir(), slices.Concat(env, []string{"PATH=" + os.Getenv("PATH")})
			if b, _ := c.CombinedOutput(); c.ProcessState.ExitCode() != 126 || !strings.Contains(string(b), "the working directory is gone") {
				t.Errorf("%v %q", c.ProcessState, b)
			}
		})
	}
}
