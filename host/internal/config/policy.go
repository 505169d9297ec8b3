package config

import "slices"

// Policies lists the values of [Permissions.Policy] in ascending order of restrictions.
var Policies = []string{"open", "careful", "listed"}

// Stricter returns the stricter one of two values of [Permissions.Policy]. Empty means "open".
func Stricter(a, b string) string {
	if max(0, slices.Index(Policies, b)) > max(0, slices.Index(Policies, a)) {
		return b
	}
	return a
}

// listedAllow and listedAsk are the default lists of programs for policy = "listed". The programs in listedAllow only
// read. If one of them has an option that writes its output to a file, listedAsk contains the program with this option.
// The other programs in listedAsk build, run code of the workspace, or change files. After a person confirmed such a
// program, it can start any program.
var (
	listedAllow = []string{
		"ls *", "cat *", "head *", "tail *", "wc *", "nl *", "tac *", "cut *", "paste *", "tr *", "uniq", "uniq ?*", "uniq -?* ?*", "uniq -?* -?* ?*", "comm *", "join *", "fold *", "column *", "rev *", "seq *", "expr *", "date", "date +*", "sleep *",
		"pwd *", "echo *", "printf *", "true *", "false *", "test *", "[ *", "basename *", "dirname *", "realpath *", "readlink *", "stat *", "file *", "du *", "df *", "tree *", "which *", "id", "whoami", "uname *", "nproc *",
		"diff *", "cmp *", "md5sum *", "sha1sum *", "sha256sum *", "cksum *", "od *", "hexdump *", "strings *", "base64 *", "jq *", "grep *", "egrep *", "fgrep *", "rg *", "sort *", "find *",
		"git status *", "git diff *", "git log *", "git show *", "git blame *", "git rev-parse *", "git rev-list *", "git ls-files *", "git ls-tree *", "git cat-file *", "git describe *", "git shortlog *", "git merge-base *",
		"git branch", "git branch -a *", "git branch -v *", "git branch --list *", "git branch --show-current", "git remote", "git remote -v", "git tag", "git tag -l *", "git tag --list *", "git stash list *", "git grep *", "git check-ignore *", "git --version",
	}
	listedAsk = []string{
		"mkdir *", "touch *", "cp *", "mv *", "rm *", "rmdir *", "ln *", "chmod *", "tee *", "sed *", "awk *", "patch *", "xxd *", "tar *", "gzip *", "gunzip *", "zip *", "unzip *", "curl *", "wget *", "gh *",
		"sort -o *", "sort --output *", "tree -o *", "find * -fprint* *", "find * -fls *", "git diff --output *", "git log --output *", "git show --output *", "git shortlog --output *", "git stash list --output *",
		"git add *", "git commit *", "git checkout *", "git switch *", "git restore *", "git reset *", "git clean *", "git stash push *", "git stash pop *", "git stash apply *", "git stash drop *", "git rm *", "git mv *", "git init *", "git clone *",
		"git fetch *", "git pull *", "git push *", "git merge *", "git rebase *", "git cherry-pick *", "git revert *", "git apply *", "git worktree *", "git tag -a *", "git branch -d *", "make *", "cmake *",
		"ninja *", "go *", "gofmt *", "cargo *", "rustc *", "npm *", "npx *", "pnpm *", "yarn *", "bun *", "node *", "tsc *", "python *", "python3 *", "pip *", "pip3 *", "uv *", "pytest *", "ruff *", "mypy *", "java *", "javac *",
		"mvn *", "gradle *", "gcc *", "g++ *", "clang *", "ruby *", "bundle *", "rake *", "php *", "composer *", "dotnet *", "docker *",
	}
)

// list adds the default lists of programs for policy = "listed". If the configuration sets a list, list does not add
// its default.
func (p *Permissions) list(at position) {
	p.Programs.Listed = true
	for _, l := range []struct {
		effect       string
		list, starts []string
		into         *[]string
	}{{"ask", listedAsk, []string{"*"}, &p.Programs.Ask}, {"allow", listedAllow, nil, &p.Programs.Allow}} {
		if *l.into == nil {
			*l.into = l.list
			p.Rules = append(p.Rules, PermissionRule{
				Effect: l.effect, Name: "programs." + l.effect, Commands: l.list, Starts: l.starts, List: true, at: at,
			})
		}
	}
}
