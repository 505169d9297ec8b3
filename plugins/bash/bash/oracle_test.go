package bash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"toolhost.dev/plugins/bash/shell"
)

// seen contains the fields of a result that are compared with real bash.
type seen struct {
	stdout, stderr string
	exit           int
}

// oracle runs commands in dir in one real bash process, as if a user typed them one after the other. Between the
// commands, it resets the options that do not persist in sessions.
func oracle(t *testing.T, dir string, commands []string) []seen {
	t.Helper()
	files := t.TempDir()
	script := []string{"shopt -s expand_aliases; oracle_rc() { return $1; }; oracle_s=0;"}
	for i, c := range commands {
		if err := os.WriteFile(fmt.Sprintf("%s/c%d", files, i), []byte(c), 0o600); err != nil {
			t.Fatal(err)
		}
		script = append(script, fmt.Sprintf(`IFS= builtin read -rd "" oracle_c <"%[1]s/c%[2]d"; oracle_rc "$oracle_s"; builtin eval "$oracle_c" >"%[1]s/o%[2]d" 2>"%[1]s/e%[2]d"; `+
			`{ oracle_s=$?; builtin set +euxv +o pipefail; builtin trap - DEBUG ERR; } 2>/dev/null; builtin printf %%s "$oracle_s" >|"%[1]s/s%[2]d";`, files, i))
	}
	realBash(t, dir, strings.Join(script, " "), nil)
	var all []seen
	for i := range commands {
		read := func(kind string) string {
			b, err := os.ReadFile(fmt.Sprintf("%s/%s%d", files, kind, i))
			if err != nil {
				t.Fatalf("real bash did not get to command %d: %v", i, err)
			}
			return string(b)
		}
		s := seen{stdout: read("o"), stderr: read("e")}
		if _, err := fmt.Sscan(read("s"), &s.exit); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

// realBash runs bash -c. The last program of a command must not be setsid. Otherwise bash replaces itself by setsid,
// and this process gets a child in another session. The plugin in this process would treat that child as an orphan of a
// command.
func realBash(t *testing.T, dir, command string, stdin *string) seen {
	t.Helper()
	path, err := shell.Find()
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path, "--norc", "--noprofile", "-c", command, "bash")
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(shell.Environment(os.Environ()), "PWD="+dir), &stdout, &stderr
	if stdin != nil {
		cmd.Stdin = strings.NewReader(*stdin)
	}
	s := seen{}
	var exit *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exit) {
		if s.exit = exit.ExitCode(); s.exit < 0 {
			s.exit = 128 + int(exit.Sys().(syscall.WaitStatus).Signal())
		}
	} else if err != nil {
		t.Fatal(err)
	}
	s.stdout, s.stderr = stdout.String(), stderr.String()
	return s
}

// functionLine matches the line number of an error in a function. The number differs from real bash, because a fresh
// shell defines the function on another line.
var functionLine = regexp.MustCompile(`environment: line \d+:`)

// common removes the expected differences between two outputs: "-c" and "eval" in bash's messages, and
// different paths.
func common(s, dir string) string {
	s = strings.ReplaceAll(s, dir, "DIR")
	s = functionLine.ReplaceAllString(s, "environment:")
	return strings.NewReplacer("bash: eval: line", "bash: line", "bash: -c: line", "bash: line").Replace(s)
}
