package policy

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/bmatcuk/doublestar/v4"

	"toolhost.dev/host/internal/scratch"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/shellscript"
)

// deletes reports whether a command deletes files that existed before the session.
func deletes(f *facts) bool {
	files, targets := f.req.files(), f.deleted()
	if slices.ContainsFunc(targets, func(t target) bool { return isReference(t.path) && files.exists(t.path) }) {
		return true // ask even if git created the file in this session
	}
	return slices.ContainsFunc(targets, func(t target) bool {
		if !files.exists(t.path) {
			return false // the file does not exist, or the script creates it first
		}
		return t.all || f.req.older(t.path)
	}) || len(targets) > 0 && f.suspect()
}

// packers lists programs that replace a file by a compressed or decompressed file.
var packers = []string{
	"gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz", "lzma", "unlzma", "compress", "uncompress", "zstd", "lz4",
}

// deleted returns the existing files that a command deletes. It omits build results and the content of
// directories for temporary files.
func (f *facts) deleted() []target {
	if slices.Contains([]string{"chmod", "tee"}, f.c.Name()) || f.c.Remote {
		return nil
	}
	targets, _ := f.removed()
	switch f.c.Name() {
	case "find":
		targets = f.found()
	case "zstd", "lz4":
		if short, long, operands := arguments(f.c); canHave(long, "rm") ||
			f.c.Name() == "lz4" && strings.Contains(short, "m") {
			targets = f.targets(operands)
		}
	case "gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz", "lzma", "unlzma", "compress", "uncompress": // these programs delete the original file
		if short, long, operands := arguments(f.c); !strings.ContainsAny(short, "cktl") &&
			!canHave(long, "stdout", "to-stdout", "keep", "test", "list") {
			targets = f.targets(operands)
		}
	case "mv": // a destination outside of the roots is lost with the sandbox
		to := f.destination()
		if rel, _ := f.ephemeral(to); to == "" || rel != "" && !regenerable(rel) {
			return nil
		}
	}
	return slices.DeleteFunc(targets, func(t target) bool {
		rel, temporary := f.ephemeral(t.path)
		if rel != "" {
			return regenerable(rel) && !isReference(t.path)
		}
		return temporary && !slices.Contains(temporaryDirs(), t.path)
	})
}

// ephemeral returns the path of a file relative to its root. For a file outside of the roots, it reports
// whether the file is in a directory for temporary files, or is such a directory. A directory that contains a root is
// not temporary.
func (f *facts) ephemeral(path string) (rel string, temporary bool) {
	root := tool.Root{Path: f.req.Workspace}
	inside := root.Path != "" && within(path, root.Path)
	if !inside && f.req.Call != nil {
		rest, _ := scratch.Split(f.req.Call.Roots)
		root, inside = containing(rest, path)
	}
	if inside {
		rel, _ = root.Rel(path)
		return rel, false
	}
	if f.containsRoot(path) {
		return "", false
	}
	if h := homeDir(); h != "" && within(path, h) {
		return "", within(path, filepath.Join(h, ".cache"))
	}
	return "", isStream(path) || slices.ContainsFunc(temporaryDirs(), func(dir string) bool {
		return within(path, dir)
	})
}

// containsRoot reports whether a directory contains a root, so that what happens to its files happens to those of the
// root.
func (f *facts) containsRoot(dir string) bool {
	if f.req.Workspace != "" && within(f.req.files().follow(f.req.Workspace), dir) {
		return true
	}
	if f.req.Call == nil {
		return false
	}
	rest, _ := scratch.Split(f.req.Call.Roots)
	return slices.ContainsFunc(rest, func(root tool.Root) bool { return within(f.req.files().follow(root.Path), dir) })
}

// destination returns the file or directory to which mv moves files.
func (f *facts) destination() string {
	args := texts(f.c)
	for i, a := range args {
		value, next := "", ""
		if i+1 < len(args) {
			next = args[i+1]
		}
		if long, ok := strings.CutPrefix(a, "--"); ok {
			if long == "" || !canHave([]string{long}, "target-directory") {
				continue
			}
			if _, value, ok = strings.Cut(long, "="); !ok {
				value = next
			}
		} else if k := strings.IndexByte(a, 't'); k > 0 && a[0] == '-' {
			if value = a[k+1:]; value == "" {
				value = next
			}
		}
		if value != "" {
			return f.resolve(value)
		}
	}
	_, _, operands := arguments(f.c)
	if len(operands) < 2 {
		return ""
	}
	return f.resolve(operands[len(operands)-1])
}

// found returns the directories in which the program "find" deletes files. If each deletion is restricted to empty
// files or to files with names of build results, it returns only directories outside of the roots. A deletion that is
// not restricted to certain names is judged as a deletion of the whole directory.
func (f *facts) found() []target {
	starts, deletions := shellscript.FindDeletions(f.c.Words[1:])
	if !slices.ContainsFunc(deletions, func(d shellscript.FindDeletion) bool {
		return !d.Empty && !slices.ContainsFunc(d.Names, func(name string) bool {
			name = strings.TrimLeft(name, "*")
			return regenerable(name) || regenerable("x"+name)
		})
	}) {
		return slices.DeleteFunc(f.targets(starts), func(t target) bool {
			rel, temporary := f.ephemeral(t.path)
			return rel != "" || temporary || len(deletions) == 0
		})
	}
	return f.targets(starts)
}

// isReference reports whether a file in a .git directory stores branches, tags, stashes, their history, or objects.
func isReference(path string) bool {
	_, in, ok := strings.Cut(path, "/.git/")
	return ok && !strings.HasSuffix(in, ".lock") &&
		(slices.ContainsFunc([]string{"refs", "logs", "worktrees", "modules", "objects"},
			func(dir string) bool { return in == dir || strings.HasPrefix(in, dir+"/") }) || in == "packed-refs")
}

func temporaryDirs() []string {
	return []string{"/tmp", "/var/tmp", "/dev/shm", "/private/tmp", filepath.Clean(os.TempDir())}
}

// IsReplaceable reports whether the deletion of a path in a root never depends on whether the path existed before the
// session: a build creates it again, or it is one of git's objects.
func IsReplaceable(rel string) bool { return regenerable(rel) || isReference("/"+rel) }

// regenerable reports whether a build or a test creates a file or directory again.
func regenerable(path string) bool {
	if slices.ContainsFunc(strings.Split(path, "/"), func(name string) bool {
		return slices.Contains([]string{
			"node_modules", "dist", "build", "out", "target", "bin", "obj", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".cache", ".tox", ".nox", "coverage", "htmlcov", ".nyc_output", ".next", ".nuxt",
			".turbo", ".parcel-cache", ".gradle", "tmp", "temp", "logs", "venv", ".venv", ".eggs", "test-results", "playwright-report", "DerivedData", "_build", "CMakeFiles",
		}, name) || strings.HasSuffix(name, ".egg-info")
	}) {
		return true
	}
	name := filepath.Base(path)
	return slices.Contains([]string{"package-lock.json", "yarn.lock", "pnpm-lock.yaml", ".coverage", "a.out", "core",
		".DS_Store", "nohup.out"}, name) ||
		slices.Contains([]string{".pyc", ".pyo", ".o", ".obj", ".class", ".log", ".tmp", ".temp", ".swp", ".out",
			".test", ".prof", ".pid", ".lock", ".tsbuildinfo", ".exe"}, filepath.Ext(name))
}

// reverts reports whether a program other than git discards uncommitted changes.
func (f *facts) reverts() bool {
	short, long, _ := arguments(f.c)
	if f.c.Name() == "patch" {
		return (strings.Contains(short, "R") || canHave(long, "reverse")) && !slices.Contains(long, "dry-run")
	}
	return matchesAny(f.c, reverting()) && !helps(f.c)
}

var reverting = patterns("hg revert *", "hg update --clean *", "hg update -C *", "hg up -C *", "hg checkout -C *",
	"hg purge *", "hg strip *", "svn revert *", "svn cleanup --remove-unversioned *")

// publishing lists commands that send data to other machines or change data on other machines.
var publishing = patterns(
	"git push *", "git send-pack *", "git http-push *", "git subtree push *", "git send-email *", "git imap-send *", "git svn dcommit *", "git p4 submit *", "git lfs push *",
	"npm publish *", "npm unpublish *", "npm deprecate *", "npm dist-tag *", "yarn publish *", "yarn npm publish *", "pnpm publish *", "bun publish *", "lerna publish *", "npx semantic-release *", "jsr publish *",
	"cargo publish *", "cargo yank *", "twine upload *", "poetry publish *", "uv publish *", "flit publish *", "hatch publish *", "gem push *", "mvn deploy *", "gradle publish *", "./gradlew publish *", "dotnet nuget push *",
	"goreleaser release *", "helm push *", "conda upload *", "anaconda upload *", "composer publish *", "mix hex.publish *", "dart pub publish *", "vsce publish *",
	"docker push *", "podman push *", "docker image push *", "docker compose push *", "buildah push *", "skopeo copy *", "crane push *", "docker buildx build --push *", "oras push *",
	"gh pr create *", "gh pr merge *", "gh pr close *", "gh pr comment *", "gh pr review *", "gh pr edit *", "gh pr ready *", "gh issue create *", "gh issue close *", "gh issue comment *", "gh issue edit *", "gh issue delete *",
	"gh release create *", "gh release upload *", "gh release edit *", "gh release delete *", "gh repo create *", "gh repo delete *", "gh repo edit *", "gh repo fork *", "gh repo sync *", "gh gist create *", "gh gist edit *", "gh gist delete *",
	"gh workflow run *", "gh run rerun *", "gh run cancel *", "gh secret set *", "gh secret delete *", "gh variable set *", "glab mr create *", "glab mr merge *", "glab issue create *", "glab release create *",
	"terraform apply *", "terraform destroy *", "tofu apply *", "tofu destroy *", "pulumi up *", "pulumi destroy *", "cdk deploy *", "cdk destroy *", "sam deploy *", "serverless deploy *", "ansible-playbook *",
	"kubectl apply *", "kubectl create *", "kubectl delete *", "kubectl replace *", "kubectl patch *", "kubectl edit *", "kubectl scale *", "kubectl rollout restart *", "kubectl drain *", "kubectl exec *", "helm install *", "helm upgrade *", "helm uninstall *",
	"aws s3 cp *", "aws s3 mv *", "aws s3 rm *", "aws s3 sync *", "aws s3 rb *", "gsutil cp *", "gsutil rm *", "gsutil rsync *", "gcloud app deploy *", "gcloud run deploy *", "gcloud functions deploy *", "az webapp up *",
	"vercel deploy *", "vercel --prod *", "vercel", "netlify deploy *", "fly deploy *", "flyctl deploy *", "firebase deploy *", "wrangler deploy *", "wrangler publish *", "heroku *", "surge *", "railway up *", "eb deploy *", "cf push *",
	"docker build --push *", "docker buildx bake --push *", "podman image push *", "podman manifest push *", "hg push *", "svn commit *", "svn ci *", "svn import *", "jj git push *", "hub push *", "pdm publish *", "maturin publish *", "maturin upload *", "cargo release *",
	"python -m twine upload *", "python3 -m twine upload *", "npx wrangler deploy *", "kubectl cp *", "gcloud storage cp *", "gcloud storage mv *", "gcloud storage rm *", "gcloud storage rsync *", "gcloud compute scp *", "gcloud builds submit *",
	"az storage blob upload *", "az storage blob upload-batch *", "az storage blob sync *", "s3cmd put *", "s3cmd sync *", "s3cmd del *", "ssh-copy-id *",
	"rclone copy *", "rclone sync *", "rclone move *", "huggingface-cli upload *", "hf upload *", "kaggle datasets *", "ngrok *", "cloudflared tunnel *",
	"ssh *", "sftp *", "ftp *", "lftp *", "mail *", "mailx *", "sendmail *", "mutt *",
)

// patterns returns a function that returns the parsed patterns by the names of their programs. The function parses the
// patterns at its first call, because most hosts never need them.
func patterns(texts ...string) func() map[string][]shellscript.Pattern {
	return sync.OnceValue(func() map[string][]shellscript.Pattern {
		out := make(map[string][]shellscript.Pattern)
		for _, text := range texts {
			p, err := shellscript.ParsePattern(text)
			if err != nil {
				panic(err) // cannot happen, because the text is a constant of this package
			}
			name := filepath.Base(p.Name())
			out[name] = append(out[name], p)
		}
		return out
	})
}

// matchesAny reports whether a command matches one of the patterns for its name.
func matchesAny(c *shellscript.Command, all map[string][]shellscript.Pattern) bool {
	return slices.ContainsFunc(all[c.Name()], func(p shellscript.Pattern) bool { return p.Match(c) == shellscript.Yes })
}

// senders lists programs that send data only with certain arguments.
var senders = []string{
	"scp", "rsync", "curl", "http", "https", "xh", "xhs", "nc", "ncat", "netcat", "telnet", "tftp", "socat", "wget",
}

// publishes reports whether a command sends data to another machine.
func publishes(f *facts) bool {
	c, args := f.c, texts(f.c)
	if helps(c) || slices.Contains(args, "--dry-run") || slices.Contains(args, "-h") || c.Remote {
		return false
	}
	short, long, operands := arguments(c)
	switch c.Name() {
	case "git":
		transports := f.req.byGit && len(args) > 0 && slices.Contains([]string{"send-pack", "http-push"}, args[0]) // the command "git push", which starts these programs, was already judged
		return matchesAny(c, publishing()) && !dry(args) && !transports
	case "scp", "rsync":
		return slices.ContainsFunc(operands, isRemotePath)
	case "curl":
		return sends(args, curlOptions, "dFT", curlValued) && reachesOut(args)
	case "http", "https", "xh", "xhs":
		return len(operands) > 1 && (changing(operands[0]) || slices.ContainsFunc(operands[1:], func(o string) bool {
			return strings.ContainsAny(o, "=@") && !strings.Contains(o, "==") && !strings.Contains(o, "://")
		})) && reachesOut(args)
	case "nc", "ncat", "netcat", "telnet", "tftp":
		return len(operands) > 0 && !strings.ContainsAny(short, "lz") && !canHave(long, "listen") &&
			!isLocal(operands[0])
	case "socat":
		return slices.ContainsFunc(operands, func(o string) bool {
			kind, to, _ := strings.Cut(o, ":")
			host, _, _ := strings.Cut(to, ":")
			return slices.ContainsFunc([]string{"TCP", "UDP", "SSL", "OPENSSL", "SCTP", "PROXY", "SOCKS"},
				func(p string) bool { return strings.HasPrefix(strings.ToUpper(kind), p) }) &&
				!strings.Contains(strings.ToUpper(kind), "LISTEN") && !isLocal(host)
		})
	case "mvn", "mvnw":
		return slices.ContainsFunc(operands, func(o string) bool {
			return o == "deploy" || strings.HasPrefix(o, "deploy:") || o == "release:perform"
		})
	case "wget":
		return (canHave(long, "post-data", "post-file", "body-data", "body-file") || sends(args, nil, "", "")) &&
			reachesOut(args)
	case "gh":
		if len(args) > 1 && args[0] == "api" {
			return sends(args, []string{"field", "raw-field", "input"}, "fF", "HXpqt") && !slices.Contains(args, "GET")
		}
	case "ssh":
		if len(args) == 0 {
			return false
		}
		last := args[len(args)-1] // the git command that starts ssh is judged
		return len(operands) > 0 && short != "V" && !strings.HasPrefix(last, "git-upload-pack ") &&
			!strings.HasPrefix(last, "git-receive-pack ")
	}
	return matchesAny(c, publishing()) || slices.ContainsFunc(withoutOptions(c.Words[1:], maxSubcommands, maxGlobals),
		func(words []shellscript.Word) bool {
			plain := *c
			plain.Words = slices.Concat(c.Words[:1], words)
			return matchesAny(&plain, publishing())
		})
}

// maxSubcommands is the number of leading operands that can select a subcommand, such as "buildx build". maxGlobals
// limits the options before and between these operands.
const (
	maxSubcommands = 3
	maxGlobals     = 6
)

// withoutOptions removes the options before the first operands of a command. An option can use the next word as its
// value. Therefore the result contains one variant with this word and one without it.
func withoutOptions(words []shellscript.Word, operands, options int) [][]shellscript.Word {
	if len(words) == 0 || operands == 0 || options == 0 {
		return [][]shellscript.Word{words}
	}
	first, rest := words[0].Text, words[1:]
	if !strings.HasPrefix(first, "-") && !strings.HasPrefix(first, "+") {
		out := withoutOptions(rest, operands-1, options)
		for i := range out {
			out[i] = slices.Concat(words[:1], out[i])
		}
		return out
	}
	out := withoutOptions(rest, operands, options-1)
	if len(rest) > 0 && !strings.Contains(first, "=") && first[0] == '-' && !strings.HasPrefix(rest[0].Text, "-") {
		out = append(out, withoutOptions(rest[1:], operands, options-1)...)
	}
	return out
}

// dry reports whether the arguments of git push contain the option -n. In combined options, the text
// after the letter o is a value.
func dry(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		letters, _, _ := strings.Cut(a, "o")
		return len(letters) > 1 && letters[0] == '-' && letters[1] != '-' && strings.Contains(letters, "n")
	})
}

// isRemotePath reports whether an operand of scp or rsync is a path on another machine.
func isRemotePath(s string) bool {
	host, _, ok := strings.Cut(s, ":")
	return ok && host != "" && !strings.Contains(host, "/")
}

// curlOptions lists the options of curl that send data. curlValued contains the letters of all short options of curl
// with a value.
var (
	curlOptions = []string{"data", "data-raw", "data-binary", "data-urlencode", "data-ascii", "json", "form",
		"form-string", "upload-file", "url-query", "mail-from"}
	curlValued = "AbcCdDeEFhHKmoPQrtTuUwxXyYz"
)

// sends reports whether the arguments contain an option that sends data, or an HTTP method that changes
// data. The argument "letters" contains the short options that send data. The argument "valued" contains all short
// options with a value.
func sends(args, options []string, letters, valued string) bool {
	for i, a := range args {
		next := ""
		if i+1 < len(args) {
			next = args[i+1]
		}
		if long, ok := strings.CutPrefix(a, "--"); ok && long != "" {
			_, value, given := strings.Cut(long, "=")
			if !given {
				value = next
			}
			if long != "url" && canHave([]string{long}, options...) ||
				canHave([]string{long}, "request", "method") && changing(value) {
				return true
			}
			continue
		}
		if len(a) < 2 || a[0] != '-' {
			continue
		}
		for k := 1; k < len(a); k++ {
			value := a[k+1:]
			if value == "" {
				value = next
			}
			if strings.IndexByte(letters, a[k]) >= 0 || a[k] == 'X' && changing(value) {
				return true
			}
			if strings.IndexByte(valued, a[k]) >= 0 {
				break
			}
		}
	}
	return false
}

// changing reports whether an HTTP method changes data.
func changing(method string) bool {
	method = strings.ToUpper(strings.TrimPrefix(method, "="))
	return method != "" && strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" &&
		!slices.Contains([]string{"GET", "HEAD", "OPTIONS"}, method)
}

// isLocal reports whether a host is this machine. It also returns true for an unknown host.
func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return strings.Contains(host, shellscript.Unknown) || host == "localhost" ||
		strings.HasSuffix(host, ".localhost") || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// reachesOut reports whether the arguments contain a URL of another machine.
func reachesOut(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		if !strings.Contains(a, "://") {
			host, _, _ := strings.Cut(a, "/")
			if strings.HasPrefix(a, "-") || !strings.Contains(host, ".") || strings.ContainsAny(host, " {}\"'=@") {
				return false
			}
			a = "http://" + a
		}
		u, err := url.Parse(a)
		if err != nil || u.Host == "" || strings.Contains(u.Host, shellscript.Unknown) {
			return false
		}
		return !isLocal(u.Hostname())
	})
}

// credentialFiles lists globs for files with credentials. A glob is absolute, relative to the home directory, or begins
// with "**".
var credentialFiles = []string{
	"~/.ssh/**", "~/.gnupg/**", "~/.aws/credentials", "~/.aws/sso/**", "~/.netrc", "~/.git-credentials", "~/.config/gh/hosts.yml", "~/.npmrc", "~/.pypirc", "~/.docker/config.json", "~/.kube/config", "~/.config/gcloud/**",
	"~/.azure/**", "~/.cargo/credentials*", "~/.terraform.d/credentials*", "~/.pgpass", "~/.my.cnf", "~/.vault-token", "~/.config/op/**", "~/.password-store/**",
	"**/.env", "**/.env.*", "**/id_rsa", "**/id_ed25519", "**/id_ecdsa", "/etc/shadow", "/etc/gshadow",
}

// credentialSigns is a fast filter: every path that matches credentialFiles contains one of these texts.
var credentialSigns = []string{"/.", "/id_", "/etc/"}

// publicFiles lists globs for files without credentials that credentialFiles would also match.
var publicFiles = []string{"**/*.pub", "**/known_hosts*", "~/.ssh/config", "**/.env.example", "**/.env.sample",
	"**/.env.template", "**/.env.dist", "**/.env.test", "**/.env.defaults", "**/.env.schema"}

// isCredential reports whether a file contains credentials.
func isCredential(path string) bool {
	if strings.Contains(path, shellscript.Unknown) ||
		!slices.ContainsFunc(credentialSigns, func(sign string) bool { return strings.Contains(path, sign) }) {
		return false
	}
	is := func(globs []string) bool {
		return slices.ContainsFunc(globs, func(g string) bool {
			if rest, ok := strings.CutPrefix(g, "~"); ok {
				home := homeDir()
				return home != "" && doublestar.MatchUnvalidated(escapeGlob(home)+rest, path)
			}
			return doublestar.MatchUnvalidated(g, path)
		})
	}
	return is(credentialFiles) && !is(publicFiles)
}

// telling lists patterns of commands that print or store credentials.
var telling = patterns(
	"gh auth token *", "gh auth login *", "gcloud auth print-access-token *", "gcloud auth print-identity-token *", "aws configure get *", "aws configure export-credentials *", "aws ecr get-login-password *",
	"aws secretsmanager get-secret-value *", "git credential *", "npm token *", "npm login *", "npm adduser *", "docker login *", "security find-generic-password *", "security find-internet-password *", "pass show *", "op read *",
	"op item get *", "vault read *", "vault kv get *", "az account get-access-token *", "gpg --export-secret-keys *", "kubectl get secret *", "kubectl get secrets *", "doppler secrets *", "heroku auth:token *",
)

// ignorant lists programs that do not read the content of the files in their arguments.
var ignorant = []string{
	"ls", "test", "[", "[[", "stat", "touch", "mkdir", "rm", "rmdir", "chmod", "chown", "echo", "printf", "find", "git",
	"cd", "readlink", "realpath", "basename", "dirname", "ssh-keygen", "ssh-add", "file", "du", "unlink", "which",
}

// readsCredentials reports whether a command reads credentials.
func readsCredentials(f *facts) bool {
	if matchesAny(f.c, telling()) && !helps(f.c) {
		return true
	}
	if f.c.Remote || slices.Contains(ignorant, f.c.Name()) || strings.HasPrefix(f.c.Words[0].Text, "tool:") {
		return false
	}
	args := f.c.Words[1:]
	if n := len(args); n > 1 && slices.Contains([]string{"cp", "mv", "ln", "install", "tee"}, f.c.Name()) {
		args = args[:n-1] // the last word is the destination
	}
	if f.c.Name() == "tee" {
		return false
	}
	files := f.req.files()
	return slices.ContainsFunc(args, func(w shellscript.Word) bool {
		return files.spend(0) && slices.ContainsFunc(candidates(w.Text), func(text string) bool {
			if path := f.resolve(text); path != "" {
				return isCredential(path) || isCredential(files.follow(path))
			}
			return !filepath.IsAbs(text) && isCredential("/"+text)
		})
	}) || len(args) > 0 && f.suspect()
}

// builtinsOfPaths returns the built-in rules that match a file that a call reads.
func (p *Policy) builtinsOfPaths(pt *part) (out []*Builtin) {
	if !p.rules.Careful || p.rules.NoBuiltin || pt.kind == KindEdit || !slices.ContainsFunc(pt.paths, isCredential) {
		return nil
	}
	for i := range Builtins {
		if Builtins[i].Name == "credentials" {
			out = append(out, &Builtins[i])
		}
	}
	return out
}
