//go:build linux

package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"toolhost.dev/sdk/tooltest/need"

	"toolhost.dev/host/cmd/test/hosttest"
)

// repositoryWays contains commands that create a repository in the current directory. The repository makes git run the
// program $E. $S is a directory outside of the workspace in which commands can write. If the name of a command begins
// with "of a person", $P is a repository that a person created before the command.
var repositoryWays = map[string]string{
	"fsmonitor":          `git init -q && git config core.fsmonitor $E`,
	"appended":           `git init -q && printf '[core]\n\tfsmonitor = %s\n' $E >> .git/config`,
	"same line":          `git init -q && printf '[core]fsmonitor=%s' $E >> .git/config`,
	"deep":               `mkdir -p a/b/c/d && cd a/b/c/d && git init -q && git config core.fsmonitor $E`,
	"hook":               `git init -q && cp $E .git/hooks/pre-commit`,
	"hook link":          `git init -q && ln -s $E .git/hooks/pre-commit`,
	"hooks link":         `mkdir h && cp $E h/pre-commit && git init -q && rm -rf .git/hooks && ln -s ../h .git/hooks`,
	"hooksPath":          `mkdir h && cp $E h/pre-commit && git init -q && git config core.hooksPath h`,
	"alias":              `git init -q && git config alias.st '!'$E`,
	"alias of grep":      `git init -q && git config alias.st "grep --no-index --open-files-in-pager=$E x" && echo x > f`,
	"editor":             `git init -q && git config core.editor $E`,
	"include":            `git init -q && printf '[core]\n\tfsmonitor = %s\n' $E > inc && git config include.path ../inc`,
	"includeIf":          `git init -q && printf '[core]\n\tfsmonitor = %s\n' $E > inc && git config includeIf.gitdir:/.path ../inc`,
	"bare":               `git init -q --bare . && git config alias.st '!'$E`,
	"bare by hand":       `mkdir objects refs && echo ref: refs/heads/x > HEAD && git config -f config alias.st '!'$E`,
	"separate":           `mkdir w && git init -q --separate-git-dir $PWD/g w && git -C w config core.fsmonitor $E && cd w`,
	"pointer":            `git init -q --bare g && mkdir w && echo gitdir: ../g > w/.git && printf '[core]\n\tbare = false\n\tfsmonitor = %s\n' $E > g/config`,
	"pointer out":        `git init -q --bare $S/g && printf '[core]\n\tbare = false\n\tfsmonitor = %s\n' $E > $S/g/config && echo gitdir: $S/g > .git`,
	"pointer by a link":  `git init -q o && git init -q --bare o/.git/objects/g && printf '[core]\n\tbare = false\n\tfsmonitor = %s\n' $E > o/.git/objects/g/config && ln -s o/.git/objects l && mkdir w && echo gitdir: ../l/g > w/.git`,
	"pointer to objects": `git init -q o && git init -q --bare o/.git/objects/g && printf '[core]\n\tbare = false\n\tfsmonitor = %s\n' $E > o/.git/objects/g/config && mkdir w && echo gitdir: ../o/.git/objects/g > w/.git`,
	"link":               `git init -q g && mkdir w && ln -s ../g/.git w/.git && rm -rf $S/l && cp -r g/.git $S/l && git -C $S/l config core.fsmonitor $E && ln -sfn $S/l w/.git`,
	"settings by a link": `git init -q && cp .git/config c && git config -f c core.fsmonitor $E && ln -sf ../c .git/config`,
	"commondir":          `git init -q && mkdir c && cp -r .git/objects .git/refs c && printf '[core]\n\tfsmonitor = %s\n' $E > c/config && echo ../c > .git/commondir`,
	"commondir out":      `git init -q && rm -rf $S/c && mkdir $S/c && cp -r .git/objects .git/refs $S/c && printf '[core]\n\tfsmonitor = %s\n' $E > $S/c/config && echo $S/c > .git/commondir`,
	"worktree settings":  `git init -q && git config extensions.worktreeConfig true && git config --worktree core.fsmonitor $E`,
	"worktree":           `git init -q m && cd m && git commit -q --allow-empty -m x && git config extensions.worktreeConfig true && git worktree add -q ../w && cd ../w && git config --worktree core.fsmonitor $E`,
	"submodule":          `git init -q s && git -C s commit -q --allow-empty -m x && git init -q && git -c protocol.file.allow=always submodule --quiet add ./s m && git config -f .git/modules/m/config core.fsmonitor $E`,
	"filter":             `git init -q && echo '* filter=x' > .gitattributes && git config filter.x.clean $E`,
	"textconv":           `git init -q && echo 'f diff=x' > .gitattributes && echo 1 > f && git add . && git commit -qm 1 && echo 2 > f && git config diff.x.textconv $E`,
	"external diff":      `git init -q && echo 1 > f && git add . && git commit -qm 1 && echo 2 > f && git config diff.external $E`,
	"ssh":                `git init -q && git remote add o ssh://host/x && git config core.sshCommand $E`,
	"upload-pack":        `git init -q && git remote add o . && git config remote.o.uploadpack $E`,
	"ext":                `git init -q && git remote add o "ext::$E" && git config protocol.ext.allow always`,
	"credentials":        `git init -q && git config credential.helper $E`,
	"gpg":                `git init -q && git config gpg.program $E`,
	"merge tool":         `git init -q && git config merge.tool ../../../../../../../../../../..$E && git config mergetool.prompt false && echo 0 > f && git add f && git commit -qm 0 && git checkout -qb a && echo 1 > f && git commit -qam 1 && git checkout -qb b HEAD~1 && echo 2 > f && git commit -qam 2 && ! git merge -q a`,
	"clone":              `git init -q s && cd s && git init -q --bare b && git config -f b/config alias.st '!'$E && echo x > b/refs/x && echo x > b/objects/x && git add . && git commit -qm x && git clone -q . ../c && cd ../c/b`,
	"moved":              `git init -q x && git -C x config core.fsmonitor $E && mv x y`,
	"of a person":        `cd $P && git config core.fsmonitor $E`,
	"of a person, hook":  `cd $P && cp $E .git/hooks/pre-commit`,
	"in the background":  `git init -q; (sleep 1; git config core.fsmonitor $E) > /dev/null 2>&1 &`,
}

// outsideCommands lists the commands that a person runs in each repository.
var outsideCommands = [][]string{
	{"status"}, {"st"}, {"add", "-A"}, {"diff", "HEAD"}, {"commit", "-q", "--allow-empty", "-m", "x"}, {"commit", "-q", "--allow-empty"}, {"log", "-p", "-1"},
	{"fetch", "--all"}, {"credential", "fill"}, {"commit", "-q", "-S", "--allow-empty", "-m", "x"}, {"checkout", "-q", "-b", "new"}, {"mergetool", "-y"},
}

// TestRepositoriesOfCommands checks that git outside of the sandbox runs no program from a repository that a command
// created. Without the quarantine, git must run each program, which shows that the quarantine is the reason.
func TestRepositoriesOfCommands(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"ns", "landlock"} {
		for _, mode := range []string{"quarantine", "off"} {
			if backend == "landlock" && mode == "off" { // the result would be the same as with the backend "ns"
				continue
			}
			t.Run(backend+"/"+mode, func(t *testing.T) {
				t.Parallel()
				if !hosttest.Supports(t, backend) {
					need.Missing(t, "this machine has no "+backend+": toolhost doctor reports why")
				}
				w := newRepositories(t, backend, mode)
				w.make(t)
				commands := outsideCommands
				if backend == "landlock" { // the quarantine works as with the backend "ns", so some commands are enough
					commands = commands[:5]
				}
				if mode == "off" {
					w.use(t, commands, w.ranFrom)
				} else {
					w.use(t, commands, nil)
				}
				for name := range repositoryWays {
					if ran := isThere(w.ran(name)); ran != (mode == "off") {
						t.Errorf("%s: git ran the program: %v", name, ran)
					}
				}
				if mode == "quarantine" {
					w.review(t)
				}
			})
		}
	}
}

// repositories is a workspace in which commands create repositories.
type repositories struct {
	dir, work string
	env       []string
	flags     []string
}

func newRepositories(t *testing.T, backend, mode string) *repositories {
	t.Helper()
	dir, err := os.MkdirTemp("", "th-repositories")
	hosttest.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &repositories{dir: dir, work: filepath.Join(dir, "work")}
	for _, d := range []string{"work", "home", "run"} {
		hosttest.Must(t, os.Mkdir(filepath.Join(dir, d), 0o700))
	}
	w.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "XDG_RUNTIME_DIR=" + filepath.Join(dir, "run"), "GIT_TERMINAL_PROMPT=0", "TERM=dumb"}
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "home", ".gitconfig"), []byte("[user]\n\tname = n\n\temail = a@b\n"), 0o600))
	config := filepath.Join(dir, "config.hcl")
	hosttest.Must(t, os.WriteFile(config, fmt.Appendf(nil, "sandbox {\n  backend = %q\n  repositories = %q\n}\nplugin \"bash\" {\n  start_timeout = \"60s\"\n}\n", backend, mode), 0o600))
	// With this state directory, the host knows the tools of the plugin before it starts the plugin for the first time.
	w.flags = []string{"--config", config, "--workspace", w.work, "--state", hosttest.KeptState(t, filepath.Join(dir, "state"))}
	for name := range repositoryWays {
		hosttest.Must(t, os.MkdirAll(w.at(name), 0o700))
		hosttest.Must(t, os.WriteFile(w.program(name), fmt.Appendf(nil, "#!/bin/sh\ntouch '%s' 2> /dev/null\n", w.ran(name)), 0o700))
		if strings.HasPrefix(name, "of a person") {
			person := exec.Command("git", "init", "-q", w.at(name)+"-person")
			person.Env = w.env
			hosttest.Must(t, person.Run())
		}
	}
	return w
}

func slug(name string) string                      { return strings.NewReplacer(" ", "-", ",", "").Replace(name) }
func (w *repositories) at(name string) string      { return filepath.Join(w.work, slug(name)) }
func (w *repositories) program(name string) string { return filepath.Join(w.work, "run-"+slug(name)) }
func (w *repositories) ran(name string) string     { return filepath.Join(w.dir, "RAN-"+slug(name)) }

// make runs all commands of repositoryWays in one host.
func (w *repositories) make(t *testing.T) {
	t.Helper()
	var lines strings.Builder
	for name, command := range repositoryWays {
		state := filepath.Join(w.dir, "state", "plugins", "bash", slug(name))
		command = fmt.Sprintf("export GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=a@b; E=%s S=%s P=%s; mkdir -p $S && cd %s && { %s\n} && echo MADE", w.program(name), state, w.at(name)+"-person", w.at(name), command)
		b, err := json.Marshal(map[string]string{"id": name, "session": slug(name), "command": command})
		hosttest.Must(t, err)
		lines.Write(append(b, '\n'))
	}
	lines.WriteString(`{"id":"wait","session":"in-the-background","command":"sleep 2"}` + "\n")
	c := hosttest.Command(append(w.flags, "batch")...)
	c.Env, c.Stdin, c.Dir = w.env, strings.NewReader(lines.String()), w.dir
	out, err := c.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatal(err)
	}
	problems := make(map[string]string)
	for name := range repositoryWays {
		problems[name] = "it has no result"
	}
	var rest strings.Builder
	for line := range strings.Lines(string(out)) {
		var res struct{ ID, Output string }
		switch {
		case json.Unmarshal([]byte(line), &res) != nil:
			rest.WriteString(line)
		case strings.Contains(res.Output, "MADE\n"):
			delete(problems, res.ID)
		case problems[res.ID] != "":
			problems[res.ID] = line
		}
	}
	for name, problem := range problems {
		t.Errorf("the command %q made no repository: %s\nThe batch also printed: %s", name, problem, rest.String())
	}
}

// use runs git with the given arguments in each repository, outside of the sandbox. It skips the other
// commands for a repository when the function "ran" returns true for its path. The argument "ran" can be nil.
func (w *repositories) use(t *testing.T, commands [][]string, ran func(path string) bool) {
	t.Helper()
	hosttest.Must(t, filepath.WalkDir(w.work, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if !isThere(filepath.Join(path, ".git")) && !isThere(filepath.Join(path, "HEAD")) || strings.Contains(path, "/.git/") && !strings.Contains(path, "/objects/g") {
			return nil
		}
		for _, args := range commands {
			if ran != nil && ran(path) {
				break
			}
			c := exec.Command("timeout", append([]string{"10", "git"}, args...)...)
			c.Dir, c.Env, c.Stdin = path, slices.Concat(w.env, []string{"EDITOR=true"}), strings.NewReader("protocol=https\nhost=a\n\n")
			_ = c.Run() // ignore the error: many of the commands fail
		}
		return nil
	}))
}

// ranFrom reports whether git ran the program of the repository at a path.
func (w *repositories) ranFrom(path string) bool {
	rel, err := filepath.Rel(w.work, path)
	first, _, _ := strings.Cut(rel, string(filepath.Separator))
	return err == nil && isThere(w.ran(strings.TrimSuffix(first, "-person")))
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// review checks the list of the quarantine and the audit log.
func (w *repositories) review(t *testing.T) {
	t.Helper()
	run := func(args ...string) string {
		c := hosttest.Command(append(w.flags, args...)...)
		c.Env, c.Dir = w.env, w.dir
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", args, out)
		}
		return string(out)
	}
	var all []struct {
		ID, Path string
		Time     time.Time
	}
	hosttest.Must(t, json.Unmarshal([]byte(run("quarantine", "list", "--json")), &all))
	if len(all) < len(repositoryWays) {
		t.Errorf("the quarantine has %s entries for %d ways", strconv.Itoa(len(all)), len(repositoryWays))
	}
	if log := run("log", "--json"); strings.Count(log, "(quarantine)") != len(all) {
		t.Errorf("the audit log does not have %d entries of the quarantine: %s", len(all), log)
	}
}
