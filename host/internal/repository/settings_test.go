package repository

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// texts maps files with settings to the names of the settings that run programs.
var texts = map[string][]string{
	"[core]\n\tfsmonitor = /evil\n\tbare = false\n":                                                          {"core.fsmonitor"},
	"[core]fsmonitor=/evil\n":                                                                                {"core.fsmonitor"},
	"[core] ; a comment\n bare = true # [x]\n fsMonitor \t= \"/e\\\\vil\" ; c\nx=1":                          {"core.fsmonitor"},
	"[core]\r\n\thooksPath = evil\r\n\tbare = false\r\n":                                                     {"core.hookspath"},
	"[core]\n\tpager = a \\\n  b\\\n\n\tbare = false\n":                                                      {"core.pager"},
	"\xef\xbb\xbf[core]\n\teditor = e":                                                                       {"core.editor"},
	"[core]\n\tfsmonitor = true\n\tfsmonitor = false\n\tfsmonitor\n":                                         nil,
	"[alias]\n\tst = status -s\n\tx = !evil\n\tg = grep -Oevil\n\tl = log --oneline\n":                       {"alias.x", "alias.g"},
	"[alias]\n\to = log --output=/home/me/.profile\n":                                                        {"alias.o"},
	"[alias \"a\"]\n\tcommand = !evil\n":                                                                     {"alias.a.command"},
	"[filter \"a]b\"]\n\tclean = evil\n\trequired = true\n":                                                  {"filter.a]b.clean"},
	"[filter.x]\n\tsmudge = evil\n":                                                                          {"filter.x.smudge"},
	"[diff \"d\"]\n\ttextconv = evil\n[diff]\n\texternal = evil\n\talgorithm = patience\n":                   {"diff.d.textconv", "diff.external"},
	"[merge \"d\"]\n\tdriver = evil\n[merge]\n\ttool = vimdiff\n\ttool = ../evil\n":                          {"merge.d.driver", "merge.tool"},
	"[include]\n\tpath = x\n[includeIf \"gitdir:/\"]\n\tpath = y\n":                                          {"include.path", "includeif.gitdir:/.path"},
	"[credential]\n\thelper = store\n[credential \"https://a\"]\n\thelper = !evil\n":                         {"credential.helper", "credential.https://a.helper"},
	"[remote \"o\"]\n\turl = ext::sh -c evil\n\tfetch = +refs/*:refs/*\n":                                    {"remote.o.url"},
	"[remote \"o\"]\n\turl = ../x\n\tuploadpack = evil\n\treceivepack = e\n\tvcs = hg\n":                     {"remote.o.uploadpack", "remote.o.receivepack", "remote.o.vcs"},
	"[url \"ext::evil\"]\n\tinsteadOf = https://\n[url \"git://a\"]\n\tinsteadOf = b\n":                      {"url.ext::evil.insteadof"},
	"[protocol \"ext\"]\n\tallow = always\n[protocol \"file\"]\n\tallow = never\n":                           {"protocol.ext.allow"},
	"[submodule \"s\"]\n\tupdate = !evil\n\turl = ../s\n\tactive = true\n":                                   {"submodule.s.update"},
	"[gpg]\n\tprogram = e\n[gpg \"ssh\"]\n\tdefaultKeyCommand = e\n\tprogram = e\n":                          {"gpg.program", "gpg.ssh.defaultkeycommand", "gpg.ssh.program"},
	"[pager]\n\tlog = evil\n\tdiff = false\n":                                                                {"pager.log"},
	"[hook \"x\"]\n\tcommand = evil\n\tevent = post-checkout\n":                                              {"hook.x.command"},
	"[gc]\n\trecentObjectsHook = e\n\tauto = 0\n[uploadpack]\n\tpackObjectsHook = e\n":                       {"gc.recentobjectshook", "uploadpack.packobjectshook"},
	"[tar \"x\"]\n\tcommand = e\n[trailer \"x\"]\n\tcmd = e\n\tkey = Signed\n":                               {"tar.x.command", "trailer.x.cmd"},
	"[difftool \"x\"]\n\tcmd = e\n[mergetool \"x\"]\n\tpath = e\n\tkeepBackup = false\n":                     {"difftool.x.cmd", "mergetool.x.path"},
	"[sequence]\n\teditor = e\n[interactive]\n\tdiffFilter = e\n\tsingleKey = true\n":                        {"sequence.editor", "interactive.difffilter"},
	"[sendemail]\n\tsmtpServer = mail.example.com\n\tsmtpServer = /evil\n\ttoCmd = e\n":                      {"sendemail.smtpserver", "sendemail.tocmd"},
	"[core]\n\tworktree = /\n[core]\n\tsshCommand = e\n\taskPass = e\n\tgitProxy = e\n":                      {"core.worktree", "core.sshcommand", "core.askpass", "core.gitproxy"},
	"[lfs \"customtransfer.x\"]\n\tpath = evil\n[lfs]\n\turl = https://a\n":                                  {"lfs.customtransfer.x.path"},
	"[user]\n\tname = x\n\temail = a@b\n[branch \"m\"]\n\tremote = o\n\tmerge = r\n":                         nil,
	"[http]\n\tsaveCookies = true\n\tcookieFile = ~/.bashrc\n[http \"u\"]\n\tcookiefile = x\n":               {"http.cookiefile", "http.u.cookiefile"},
	"[secrets]\n\tproviders = e\n[tig]\n\ttab-size = 4\n[tig \"bind\"]\n\tgeneric = q !e\n\tmain = q quit\n": {"secrets.providers", "tig.bind.generic"},
	"[browser \"x\"]\n\tcmd = e\n[man \"x\"]\n\tpath = e\n[instaweb]\n\thttpd = e\n":                         {"browser.x.cmd", "man.x.path", "instaweb.httpd"},
}

func dangerous(t *testing.T, text string) (all, drop []setting) {
	t.Helper()
	all, err := parse([]byte(text))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	for _, s := range all {
		if reason(&s, func(string) bool { return true }) != "" {
			drop = append(drop, s)
		}
	}
	return all, drop
}

func names(all []setting) (out []string) {
	for _, s := range all {
		if len(out) == 0 || out[len(out)-1] != s.name() {
			out = append(out, s.name())
		}
	}
	return out
}

// TestSettingsThatRunPrograms checks that the parser and git read the same settings. It also checks which settings the
// guard removes.
func TestSettingsThatRunPrograms(t *testing.T) {
	for text, want := range texts {
		all, drop := dangerous(t, text)
		if got := names(drop); !slices.Equal(got, want) {
			t.Errorf("%q: %q run programs, want %q", text, got, want)
		}
		before, ok := gitList(t, []byte(text))
		if !ok {
			t.Errorf("git refuses %q", text)
		}
		compare(t, []byte(text), all, drop, before)
	}
}

// TestRefusedSettings checks that the parser rejects every text that git rejects.
func TestRefusedSettings(t *testing.T) {
	for _, text := range []string{"[core\n", "[core]\n\tx = \"a\n", "[core]\n\tx = \\q\n", "[a \"b]\n\tx = 1\n", "[core]\n\t=1\n", "[core]\n\tx y\n", "\f[core]\n", "[core]\n\t1x = y\n", "[a \"b\"x]\n"} {
		if _, err := parse([]byte(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
		if _, ok := gitList(t, []byte(text)); ok {
			t.Errorf("git accepts %q", text)
		}
	}
}

// gitList returns the settings in a text as git lists them. It returns false if git refuses the text.
func gitList(t *testing.T, text []byte) ([]string, bool) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("git", "config", "--file", file, "--no-includes", "--null", "--list")
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "HOME=/nonexistent"}
	out, err := c.Output()
	if err != nil {
		return nil, false
	}
	var all []string
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if entry != "" {
			name, value, _ := strings.Cut(entry, "\n")
			all = append(all, name+"="+strings.Join(strings.Fields(value), " ")) // versions of git print different numbers of spaces inside values
		}
	}
	return all, true
}

// compare checks that git and the parser list the same settings, and that git lists the remaining settings after a
// removal.
func compare(t *testing.T, text []byte, all, drop []setting, before []string) {
	t.Helper()
	var want, kept []string
	for _, s := range all {
		line := s.name() + "=" + strings.Join(strings.Fields(s.value), " ")
		want = append(want, line)
		if !slices.ContainsFunc(drop, func(d setting) bool { return d.start == s.start }) {
			kept = append(kept, line)
		}
	}
	if !slices.Equal(want, before) {
		t.Errorf("%q: read %q, but git reads %q", text, want, before)
	}
	rest := remove(text, drop)
	after, ok := gitList(t, rest)
	if !ok || !slices.Equal(after, kept) {
		t.Errorf("%q: after the removal %q git reads %q, want %q", text, rest, after, kept)
	}
	var restored []byte
	for _, s := range drop {
		restored = appendSetting(restored, text, &s)
	}
	again, ok := gitList(t, append(append(slices.Clone(rest), '\n'), restored...))
	slices.Sort(again)
	slices.Sort(want)
	if !ok || !slices.Equal(again, want) {
		t.Errorf("%q: restored with %q, git reads %q, want %q", text, restored, again, want)
	}
}

// FuzzSettings compares the parser and the removal with git.
func FuzzSettings(f *testing.F) {
	for text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := parse(text)
		if err != nil { // the guard moves the whole file
			return
		}
		before, ok := gitList(t, text)
		if !ok { // git rejects the file and runs no program
			return
		}
		var drop []setting
		for _, s := range all {
			if reason(&s, func(string) bool { return true }) != "" {
				drop = append(drop, s)
			}
		}
		compare(t, text, all, drop, before)
	})
}
