package policy

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/shellscript"
)

// discarded reports which uncommitted work a git command discards. The result "all" reports the loss of all changes in
// a repository. The result "some" reports the loss of single files, branches or stashes. The first argument of the
// command must be the subcommand.
func (f *facts) discarded() (all, some bool) {
	if f.c.Name() != "git" || len(f.c.Words) < 2 || f.c.Remote || f.req.byGit {
		return false, false
	}
	if tree := f.req.workTree; tree != "" && f.c.Dir != "" { // git then works in the directory of GIT_WORK_TREE
		req, c := *f.req, *f.c
		if c.Dir = tree; !filepath.IsAbs(tree) {
			c.Dir = filepath.Join(f.c.Dir, tree)
		}
		req.workTree = ""
		return (&facts{req: &req, c: &c}).discarded()
	}
	if f.c.Obscure {
		return false, true
	}
	g := &gitCommand{facts: f, sub: f.c.Words[1].Text}
	if f.c.Dir != "" {
		g.top = f.req.files().repositoryOf(f.c.Dir)
	}
	rest := *f.c
	rest.Words = f.c.Words[1:]
	g.short, g.long, g.operands = arguments(&rest)
	if slices.ContainsFunc(rest.Words[1:], func(w shellscript.Word) bool { return w.Text == "--" }) {
		i := slices.IndexFunc(rest.Words, func(w shellscript.Word) bool { return w.Text == "--" })
		g.paths, g.separated = nil, true
		for _, w := range rest.Words[i+1:] {
			g.paths = append(g.paths, w.Text)
		}
	} else {
		g.paths = g.operands
	}
	if f.c.Dir != "" && g.top == "" && (f.req.gitDir || f.c.GitDir) && f.req.Workspace != "" { // GIT_DIR can name any repository, so assume the repository of the workspace
		req, c := *f.req, *f.c
		req.gitDir, c.GitDir, c.Dir = false, false, f.req.Workspace
		return (&facts{req: &req, c: &c}).discarded()
	}
	if f.c.Dir != "" && g.top == "" {
		return f.suspect(), g.loses() // the data of the repository can be elsewhere
	}
	return g.judge()
}

type gitCommand struct {
	*facts
	sub, top, short string
	long, operands  []string
	// paths contains the words that can be paths. The field "separated" reports whether the word "--" precedes the
	// paths.
	paths     []string
	separated bool
}

// hasOption reports whether the command can have one of the given options, which make git discard data.
func (g *gitCommand) hasOption(letters string, names ...string) bool {
	return letters != "" && strings.ContainsAny(g.short, letters) || canHave(g.long, names...)
}

// spared reports whether the command certainly has one of the given options, which prevent a loss.
func (g *gitCommand) spared(letters string, names ...string) bool {
	if slices.ContainsFunc(g.long,
		func(l string) bool { return strings.HasPrefix(l, "no-") && canHave([]string{l[len("no-"):]}, names...) }) {
		return false
	}
	return letters != "" && strings.ContainsAny(g.short, letters) || slices.ContainsFunc(g.long, func(l string) bool {
		return len(l) > 2 && canHave([]string{l}, names...)
	})
}

func (g *gitCommand) judge() (all, some bool) {
	switch g.sub {
	case "reset":
		return g.hasOption("", "hard"), g.hasOption("", "merge", "keep")
	case "clean":
		if g.spared("nh", "dry-run", "help") { // the option -i prevents nothing, because a program can answer its questions
			return false, false
		}
		all = len(g.paths) == 0 && g.wholeDir() || g.whole()
		return all, !all
	case "checkout":
		return g.checkout()
	case "restore":
		if g.spared("S", "staged") && !g.hasOption("W", "worktree") || g.spared("h", "help") {
			return false, false
		}
		all = g.whole() || g.hasOption("", "pathspec-from-file")
		return all, !all
	case "switch":
		creates := strings.Contains(g.short, "C") ||
			slices.ContainsFunc(g.long, func(l string) bool { return strings.HasPrefix(l, "force-c") })
		return g.hasOption("f", "force", "discard-changes"), creates &&
			(len(g.operands) == 0 || g.canExist("refs/heads/"+g.operands[0]))
	case "rm":
		if g.spared("n", "cached", "dry-run") {
			return false, false
		}
		return g.hasOption("r") && (g.whole() || g.hasOption("", "pathspec-from-file")), g.hasOption("f", "force")
	case "read-tree":
		return g.hasOption("u") && g.hasOption("", "reset"), g.hasOption("u") || g.hasOption("", "reset")
	case "checkout-index":
		return g.hasOption("f", "force") && g.hasOption("a", "all"), g.hasOption("f", "force")
	}
	return false, g.loses()
}

// checkout reports which uncommitted work "git checkout" discards. The command switches branches or overwrites files.
func (g *gitCommand) checkout() (all, some bool) {
	switch {
	case g.spared("h", "help"):
		return false, false
	case g.whole():
		return true, false
	case g.hasOption("p", "patch"):
		return len(g.paths) == 0, true
	case g.separated && len(g.paths) > 0 || g.hasOption("", "ours", "theirs", "pathspec-from-file"):
		return g.hasOption("", "pathspec-from-file"), true
	case g.hasOption("f", "force"):
		return true, false
	case strings.Contains(g.short, "B"):
		return false, len(g.operands) == 0 || g.canExist("refs/heads/"+g.operands[0])
	case g.spared("b", "orphan", "detach", "track"):
		return false, false
	case len(g.operands) > 1:
		return false, true
	case len(g.operands) == 1 && g.c.Dir != "": // the operand is a branch or a file
		return false, g.req.files().exists(filepath.Join(g.c.Dir, g.operands[0]))
	}
	return false, false
}

// loses reports whether a git command discards stashes, branches or the history of references.
func (g *gitCommand) loses() bool {
	first := ""
	if len(g.operands) > 0 {
		first = g.operands[0]
	}
	switch g.sub {
	case "stash":
		return first == "drop" || first == "clear"
	case "branch":
		return g.hasOption("D") || g.hasOption("d", "delete") && g.hasOption("f", "force") || g.replaces()
	case "worktree":
		return first == "remove" && g.hasOption("f", "force")
	case "reflog":
		return first == "expire" || first == "delete"
	case "update-ref":
		return g.hasOption("d") || g.hasOption("", "stdin") || len(g.operands) > 1 && g.canExist(first)
	case "rebase":
		if g.hasOption("", "abort", "skip") {
			return true
		}
		i := slices.IndexFunc(g.long, func(l string) bool { return canHave([]string{l}, "onto") })
		if i >= 0 && !strings.Contains(g.long[i], "=") {
			g.operands = g.operands[min(1, len(g.operands)):]
		}
		return i >= 0 && len(g.operands) > 0 && slices.Contains([]string{"HEAD", "@"}, g.operands[0]) // if the upstream is HEAD, git applies no commit to the new base
	case "prune":
		return !g.spared("n", "dry-run") && !slices.ContainsFunc(texts(g.c), isLongAgo)
	case "gc":
		return g.prunes("prune")
	case "submodule":
		return (first == "deinit" || first == "update") && g.hasOption("f", "force")
	case "filter-branch", "filter-repo", "fast-import", "receive-pack":
		return true
	case "diff", "diff-index", "diff-files": // the patch takes changes back
		return g.hasOption("R") && !g.spared("", "stat", "numstat", "shortstat", "summary", "name-only", "name-status",
			"check", "quiet", "exit-code")
	case "apply":
		return g.hasOption("R", "reverse") && !g.spared("", "cached", "check", "stat", "numstat", "summary")
	case "merge", "am", "cherry-pick", "revert": // "--abort" discards staged changes
		return g.hasOption("", "abort", "skip")
	case "tag":
		return g.hasOption("d", "delete") || g.hasOption("f", "force") && g.canExist("refs/tags/"+first)
	case "symbolic-ref":
		return g.hasOption("d", "delete") || len(g.operands) > 1 && first != "HEAD" && g.canExist(first)
	case "fetch", "pull":
		return g.fetches()
	case "mv":
		return g.buries()
	}
	return false
}

// fetches reports whether git fetch replaces or removes branches of the repository.
func (g *gitCommand) fetches() bool {
	return slices.ContainsFunc(g.operands, func(o string) bool {
		from, to, ok := strings.Cut(o, ":")
		if !ok || to == "" || strings.Contains(to, "/") && !strings.HasPrefix(to, "refs/") &&
			!strings.HasPrefix(to, "heads/") || strings.HasPrefix(to, "refs/remotes/") {
			return false // the operand is a URL or a remote branch
		}
		if g.hasOption("p", "prune") {
			return true
		}
		return (g.hasOption("f", "force") || strings.HasPrefix(from, "+")) &&
			(strings.Contains(to, "*") || g.canExist("refs/heads/"+path.Base(to)) || g.canExist(to))
	})
}

// buries reports whether git mv moves files into a directory of build results, where a deletion needs no
// confirmation.
func (g *gitCommand) buries() bool {
	n := len(g.operands) - 1
	if n < 1 || g.spared("n", "dry-run") {
		return false
	}
	rel, _ := g.ephemeral(g.resolve(g.operands[n]))
	return regenerable(rel) && slices.ContainsFunc(g.operands[:n], func(o string) bool {
		from, _ := g.ephemeral(g.resolve(o))
		return !regenerable(from)
	})
}

// prunes reports whether an option with a time makes git remove recent objects.
func (g *gitCommand) prunes(option string) bool {
	return slices.ContainsFunc(g.long, func(l string) bool {
		_, age, valued := strings.Cut(l, "=")
		return valued && canHave([]string{l}, option) && !isLongAgo(age)
	})
}

// isLongAgo reports whether a time is at least a week ago, so that current work is not lost.
func isLongAgo(age string) bool {
	return slices.ContainsFunc([]string{"week", "month", "year", "never"}, func(unit string) bool {
		return strings.Contains(age, unit)
	})
}

// replaces reports whether git branch moves an existing branch to another commit.
func (g *gitCommand) replaces() bool {
	n := len(g.operands)
	switch {
	case n == 0:
		return false
	case g.hasOption("MC"):
		return g.canExist("refs/heads/" + g.operands[n-1])
	}
	return g.hasOption("f", "force") && g.canExist("refs/heads/"+g.operands[0])
}

// canExist reports whether a reference can exist. If packed references exist, it returns true without reading them.
func (g *gitCommand) canExist(ref string) bool {
	dir, files := filepath.Join(g.top, ".git"), g.req.files()
	if _, isDir, ok := files.lstat(dir); g.c.Dir == "" || !ok || !isDir || strings.Contains(ref, shellscript.Unknown) {
		return true
	}
	return files.exists(filepath.Join(dir, ref)) || files.exists(filepath.Join(dir, "packed-refs"))
}

// wholeDir reports whether the working directory is the top of the repository, or contains a directory whose loss is
// judged.
func (g *gitCommand) wholeDir() bool {
	dir := g.req.files().follow(g.c.Dir)
	if g.c.Dir == "" || dir == g.top {
		return true
	}
	return slices.ContainsFunc(g.places(), func(p guarded) bool { return within(p.path, dir) })
}

// whole reports whether the paths of the command cover all files of the repository.
func (g *gitCommand) whole() bool {
	var targets []target
	positive, excludes := false, false
	for _, text := range g.paths {
		if strings.Contains(text, shellscript.Unknown) {
			continue
		}
		p := parsePathspec(text)
		if excludes = excludes || p.exclude; p.exclude {
			continue
		}
		found, all := g.find(&p)
		if all {
			return true
		}
		targets = append(targets, found...)
		positive = positive || g.separated || len(found) != 1 || g.req.files().exists(found[0].path) // a single name must be a revision if no file has this name
	}
	return excludes && !positive || g.covered(targets, true) > nowhere
}
