package bash

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// loginHost returns a session for a user with the given login shell. The user's login file contains the text
// profile.
func loginHost(t *testing.T, userShell, file, profile string) *sess {
	t.Helper()
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, file), []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	t.Setenv("SHELL", userShell)
	t.Setenv("HAD", "from the host")
	return newHostWith(t, `{"login_environment":true}`).session()
}

const profile = `echo noise; echo more noise >&2; printf '\\0'; read answer
export TOOL_HOME=/opt/tool HAD=changed MY_TOKEN=t AWS_SECRET_ACCESS_KEY=s PAGER=less NOTE='a
b' BASH_ENV=/etc/passwd TOOLHOST_LIFELINE_FD=1 PATH="/first/bin:$PATH:/last/bin:relative"
not_exported=1; cd /; sleep 1000 &
`

func TestLoginEnvironment(t *testing.T) {
	for _, userShell := range []string{"/bin/bash", "/bin/sh", "/no/such/shell", "/bin/cat"} {
		t.Run(filepath.Base(userShell), func(t *testing.T) {
			s := loginHost(t, userShell, ".profile", profile)
			const show = `echo "$TOOL_HOME|$HAD|${MY_TOKEN-none}|${AWS_SECRET_ACCESS_KEY-none}|$PAGER|$NOTE|${not_exported-none}|${BASH_ENV-none}|${TOOLHOST_LIFELINE_FD-none}|${PATH##*:/first}"; pwd`
			want := "/opt/tool|from the host|none|none|cat|a\nb|none|none|none|/bin:/last/bin\n" + s.cwd + "\n"
			for _, when := range []string{"at first", "later"} {
				a := s.run(show)
				noneNow(s.h)
				if a.Stdout != want || a.Stderr != "" || strings.Contains(a.Output, "[note") {
					t.Errorf("%s: %s, want %s", when, a.text(), want)
				}
			}
			if strings.Contains(string(s.state), "MY_TOKEN") || strings.Contains(string(s.state), "SECRET") {
				t.Error("the state has a secret")
			}
			// The login shell runs once. The session keeps the environment of the login shell even if the login
			// files change later.
			if err := os.WriteFile(filepath.Join(os.Getenv("HOME"), ".profile"), []byte("export TOOL_HOME=/opt/other\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := s.ok("echo $TOOL_HOME"); got != "/opt/tool\n" {
				t.Errorf("%q", got)
			}
			// If the user unsets a variable of the login shell, it stays unset in the session.
			s.ok("unset TOOL_HOME")
			if got := s.ok("echo ${TOOL_HOME-none}"); got != "none\n" {
				t.Errorf("%q", got)
			}
			if got := s.h.session().ok("echo $TOOL_HOME"); got != "/opt/other\n" {
				t.Errorf("another session has %q", got)
			}
			// If the operator disables the login environment, new sessions lack its variables.
			s = s.h.session()
			s.ok("true")
			s.h.bash.login = false
			for _, s := range []*sess{s, s.h.session()} {
				if got := s.ok("echo ${TOOL_HOME-none}"); got != "none\n" {
					t.Errorf("without it: %q", got)
				}
			}
		})
	}
}

// TestBadLogins checks that the command runs even if the login shell fails, and that the failure is reported once.
func TestBadLogins(t *testing.T) {
	for name, profile := range map[string]string{
		"hangs": "sleep 1000\n", "hangs behind": "(trap '' TERM; sleep 1000; :) & exec sleep 1000\n", "exits": "exit 3\n", "execs": "exec true\n", "dies": "kill -9 $$\n",
		"no env": "env() { :; }; PATH=/nonexistent\n", "endless": "exec yes\n", "large": "for i in {1..12}; do printf -v big %0100000d; export big$i=$big; done\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := loginHost(t, "/bin/bash", ".bash_profile", profile)
			s.h.bash.loginTime = time.Second
			a := s.run("echo here; x=1")
			noneNow(s.h)
			if a.Stdout != "here\n" || !strings.Contains(a.Output, "The environment of the login shell could not be read") || !strings.Contains(a.Output, "login_environment = false") {
				t.Errorf("%s", a.text())
			}
			if a := s.run("echo $x"); a.Stdout != "1\n" || strings.Contains(a.Output, "login") {
				t.Errorf("then %s", a.text())
			}
		})
	}
}
