package shellscript

import (
	"path"
	"slices"
	"strings"
)

// gitCommands contains the built-in commands of git. Git executes any other word as an alias or as an external program.
var gitCommands = strings.Fields(`
	add add--interactive am annotate apply archimport archive backfill bisect bisect--helper blame branch bugreport bundle cat-file check-attr
	check-ignore check-mailmap check-ref-format checkout checkout--worker checkout-index cherry cherry-pick citool clean clone column commit commit-graph
	commit-tree config count-objects credential credential-cache credential-cache--daemon credential-gcloud.sh credential-store cvsexportcommit cvsimport
	cvsserver daemon describe diagnose diff diff-files diff-index diff-pairs diff-tree difftool difftool--helper env--helper fast-export fast-import fetch
	fetch-pack filter-branch fmt-merge-msg for-each-ref for-each-repo format-patch fsck fsck-objects fsmonitor--daemon gc get-tar-commit-id gitk grep gui
	hash-object help history hook http-backend http-fetch http-push imap-send index-pack init init-db instaweb interpret-trailers last-modified lfs log
	ls-files ls-remote ls-tree mailinfo mailsplit maintenance merge merge-base merge-file merge-index merge-octopus merge-one-file merge-ours
	merge-recursive merge-recursive-ours merge-recursive-theirs merge-resolve merge-subtree merge-tree mergetool mktag mktree multi-pack-index mv name-rev notes
	p4 pack-objects pack-redundant pack-refs patch-id pickaxe prune prune-packed pull push quiltimport range-diff read-tree rebase receive-pack reflog
	refs remote remote-ext remote-fd remote-ftp remote-ftps remote-http remote-https repack replace replay repo request-pull rerere reset restore rev-list
	rev-parse revert rm scalar send-email send-pack sh-i18n--envsubst shell shortlog show show-branch show-index show-ref sparse-checkout stage stash
	status stripspace submodule submodule--helper subtree svn switch symbolic-ref tag unpack-file unpack-objects update-index update-ref
	update-server-info upload-archive upload-archive--writer upload-pack url-parse var verify-commit verify-pack verify-tag version web--browse whatchanged worktree
	write-tree
`)

// isGitSetting reports whether a variable of the environment changes the settings of git, and thus its aliases.
func isGitSetting(name string) bool {
	return strings.HasPrefix(name, "GIT_CONFIG") && name != "GIT_CONFIG_NOSYSTEM"
}

// IsGitSetting reports whether an element of an environment, such as "GIT_CONFIG_COUNT=1", changes the settings of git.
func IsGitSetting(element string) bool {
	name, _, _ := strings.Cut(element, "=")
	return isGitSetting(name)
}

// IsGitCommand reports whether a command line of git runs a command of git itself. It returns false for an alias.
func IsGitCommand(args []string) bool {
	if len(args) == 0 {
		return false
	}
	if sub, ok := strings.CutPrefix(path.Base(args[0]), "git-"); ok {
		return slices.Contains(gitCommands, sub)
	}
	for i := 1; i < len(args); i++ {
		switch {
		case slices.Contains(gitOptions, args[i]):
			i++
		case !strings.HasPrefix(args[i], "-"):
			return slices.Contains(gitCommands, args[i])
		}
	}
	return false
}

// Corrections returns the git command once for each command name that is similar to a mistyped name. With the setting
// "help.autocorrect", git runs the most similar command. Corrections returns nothing if the name is correct.
func (c *Command) Corrections() (out []Command) {
	if c.Name() != "git" || len(c.Words) < 2 || !c.Words[1].Known() || c.Remote ||
		strings.HasPrefix(c.Words[1].Text, "-") || slices.Contains(gitCommands, c.Words[1].Text) {
		return nil
	}
	best := notSimilar
	for _, name := range gitCommands {
		switch d := mistakes(c.Words[1].Text, name, best); {
		case d >= notSimilar || d > best:
			continue
		case d < best:
			best, out = d, nil
		}
		other := *c
		other.Words = slices.Concat(c.Words[:1], []Word{{Text: name}}, c.Words[2:])
		out = append(out, other)
	}
	return out
}

// notSimilar is the number of mistakes at which git no longer suggests a correction.
const notSimilar = 6

// mistakes returns the weighted number of mistakes that turn a name into another word, in the metric of git. If there
// are more than limit mistakes, the result can be any number above limit.
func mistakes(word, name string, limit int) int {
	const replaced, inserted, removed = 2, 1, 3 // weights of mistakes; swapped letters have the weight 0
	if len(name)-len(word) > limit || len(word) > len(name)+limit {
		return limit + 1
	}
	var before, last, row []int // the last three rows of the distance table
	for j := range len(name) + 1 {
		last = append(last, j*inserted)
	}
	for i := range len(word) {
		row = []int{(i + 1) * removed}
		for j := range len(name) {
			d := min(last[j+1]+removed, row[j]+inserted)
			switch {
			case word[i] == name[j]:
				d = min(d, last[j])
			case i > 0 && j > 0 && word[i-1] == name[j] && word[i] == name[j-1]:
				d = min(d, before[j-1], last[j]+replaced)
			default:
				d = min(d, last[j]+replaced)
			}
			row = append(row, d)
		}
		before, last = last, row
	}
	return last[len(name)]
}

// gitHelper analyzes a program of git, such as git-push, as the corresponding command of git.
func (w *walker) gitHelper(name string, args []Word, sc *scope, in feed) {
	at := len(w.out.Commands)
	w.run(slices.Concat([]Word{{Text: "git"}, {Text: name[len("git-"):]}}, args), sc.copy(), in)
	if at < len(w.out.Commands) {
		w.out.Commands[at].Wrapper = true // lists of programs count the separate entry of the program instead
	}
}

// gitOptions lists the global options of git that take an argument.
var gitOptions = []string{
	"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix", "--config-env",
}

// git analyzes the commands that git runs. It also adds the git command without its global options to the analysis. The
// result is false if a global option can change which programs git runs.
func (w *walker) git(args []Word, sc *scope) bool {
	inner := sc.copy()
	i, harmless, obscure, gitDir := 0, true, w.gitSettings, false
	aliases := make(map[string]string)
	for ; i < len(args) && strings.HasPrefix(args[i].Text, "-"); i++ {
		name, value, valued := strings.Cut(args[i].Text, "=")
		gitDir = gitDir || name == "--git-dir" || name == "--bare"
		if valued && name == "--work-tree" {
			inner.dir = inner.join(Word{Text: value})
		}
		harmless = harmless &&
			slices.Contains([]string{"-C", "-P", "-p", "--no-pager", "--paginate", "--literal-pathspecs",
				"--no-optional-locks"}, name)
		obscure = obscure || name == "--config-env"
		if valued || !slices.Contains(gitOptions, name) || i+1 == len(args) {
			continue
		}
		i++
		switch name {
		case "-C", "--work-tree":
			inner.dir = inner.join(args[i])
		case "-c":
			key, value, _ := strings.Cut(args[i].Text, "=")
			obscure = obscure || slices.Contains([]string{"help.autocorrect", "include.path"}, strings.ToLower(key)) ||
				strings.HasPrefix(strings.ToLower(key), "includeif.")
			if isExpiry(key) { // like the option --prune, for every command after which git collects garbage
				w.out.Commands = append(w.out.Commands, Command{
					Words: []Word{{Text: "git"}, {Text: "gc"}, {Text: "--prune=" + value}}, Dir: inner.dir,
				})
			}
			if alias, ok := strings.CutPrefix(strings.ToLower(key), "alias."); ok {
				aliases[alias] = value
			} else if w.started {
				continue
			} else if strings.HasPrefix(value, "!") ||
				slices.Contains(gitPrograms, path.Base(strings.ReplaceAll(strings.ToLower(key), ".", "/"))) {
				w.text(strings.TrimPrefix(value, "!"), inner.copy(), feed{from: "git"})
			}
		}
	}
	if i >= len(args) {
		return false
	}
	rest := args[i:]
	if value, ok := aliases[rest[0].Text]; ok {
		text := "git " + value
		if shell, ok := strings.CutPrefix(value, "!"); ok {
			text = shell
		}
		if w.started && text == strings.TrimPrefix(value, "!") {
			return false
		}
		w.text(text+" "+strings.Join(quoted(rest[1:]), " "), inner.copy(), feed{from: "git"})
		return false
	}
	if obscure = obscure && !slices.Contains(gitCommands, rest[0].Text); i > 0 || obscure {
		w.out.Commands = append(w.out.Commands, Command{
			Words: slices.Concat([]Word{{Text: "git"}}, rest), Dir: inner.dir, Obscure: obscure, GitDir: gitDir,
		})
	}
	switch sub := rest[0].Text; {
	case w.started:
	case len(rest) > 2 && sub == "submodule" && rest[1].Text == "foreach":
		words := rest[2:]
		for len(words) > 0 && strings.HasPrefix(words[0].Text, "-") {
			words = words[1:]
		}
		w.joined(words, inner, feed{from: "git"})
	case len(rest) > 2 && sub == "bisect" && rest[1].Text == "run":
		w.run(rest[2:], inner, feed{from: "git"})
	case sub == "rebase" || sub == "filter-branch" || sub == "difftool":
		for k, a := range rest {
			flag, value, valued := strings.Cut(a.Text, "=")
			if !slices.Contains([]string{"-x", "--exec", "--extcmd"}, flag) && !strings.HasSuffix(flag, "-filter") {
				continue
			}
			if !valued && k+1 < len(rest) {
				value = rest[k+1].Text
			}
			w.text(value, inner.copy(), feed{from: "git"})
		}
	}
	return i > 0 && harmless
}

// isExpiry reports whether a setting of git determines when it deletes old commits: gc.pruneExpire, gc.reflogExpire and
// similar ones.
func isExpiry(key string) bool {
	key = strings.ToLower(key)
	return strings.HasPrefix(key, "gc.") && strings.Contains(path.Base(strings.ReplaceAll(key, ".", "/")), "expire")
}

// gitPrograms lists the last parts of the names of git settings that contain a command.
var gitPrograms = []string{"sshcommand", "editor", "pager", "fsmonitor", "askpass", "external", "cmd", "command",
	"helper", "textconv", "clean", "smudge", "process", "driver", "program"}
