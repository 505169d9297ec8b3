package confinement

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"mvdan.cc/sh/v3/syntax"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/lazyregexp"
	"toolhost.dev/host/internal/scratch"
	"toolhost.dev/sandbox"
	"toolhost.dev/sandbox/hostlist"
)

// Limits describes in one sentence the restrictions of the sandbox for commands of a plugin. It returns "" if the
// plugin runs no commands or is not confined.
func (l *Launcher) Limits(p *config.Plugin) string {
	prof := Profile(p)
	if !prof.StartProcesses || p.Missing != "" {
		return ""
	}
	backend, _, err := l.Choose(p, nil)
	if err != nil || !backend.Abilities().Confines {
		return ""
	}
	var limits []string
	switch {
	case prof.Network:
	case len(prof.Hosts) > 0:
		limits = append(limits, "network only to "+strings.Join(prof.Hosts, ", "))
	default:
		limits = append(limits, "no network")
	}
	if backend.Abilities().OwnRoot {
		limits = append(limits, "private /tmp and home")
	}
	return "Sandbox: " + strings.Join(append(limits, "only the workspace can be changed"), "; ") + "."
}

// hint returns one sentence that explains how the sandbox caused the failure of a command. The sentence names the
// setting with which the operator can permit the action. Hint returns "" if the sandbox is probably not the cause.
func (l *Launcher) hint(p *config.Plugin, roots []tool.Root, e call.Ended) string {
	prof := Profile(p)
	git := gitCommand.MatchString(e.Command)
	if !prof.StartProcesses || e.Exit == 0 && !e.TimedOut && !git && !offline.MatchString(e.Printed) {
		return ""
	}
	backend, _, err := l.Choose(p, roots)
	if err != nil || !backend.Abilities().Confines {
		return ""
	}
	if git {
		if text := l.gitHint(roots, e); text != "" {
			return text
		}
	}
	if text := l.networkHint(p, prof, e); text != "" || e.Exit == 0 || e.TimedOut {
		return text
	}
	if text := programHint(e); text != "" {
		return text
	}
	return l.pathHint(p, prof, roots, backend, e.Printed)
}

// offline matches messages of programs that cannot look up a name or reach a network.
var offline = lazyregexp.New(`(?i)could ?n[o']t resolve|temporary failure (?:in name resolution|resolving)|name or service not known|\bEAI_AGAIN\b|\bENOTFOUND\b|\bENETUNREACH\b|network is unreachable|nodename nor servname|name resolution failed|unknown host|lookup [\w.-]+(?: on \S+)?: `)

// networkPrograms maps programs that use the network to the exit statuses of a failed connection. A nil list means that
// every failure counts. waitingPrograms lists programs that retry connections for a long time and print little.
var (
	networkPrograms = map[string][]int{
		"curl": {5, 6, 7, 28, 35}, "wget": {4}, "ssh": {255}, "scp": {255}, "sftp": {255}, "rsync": {10, 12, 30, 35, 255}, "getent": {2},
		"ping": nil, "ping6": nil, "dig": nil, "host": nil, "nslookup": nil, "telnet": nil, "nc": nil, "ncat": nil, "ftp": nil, "traceroute": nil, "whois": nil, "mtr": nil,
	}
	waitingPrograms = []string{"npm", "npx", "yarn", "pnpm", "bun", "pip", "pip3", "uv", "poetry", "go", "cargo", "gem",
		"bundle", "composer", "mvn", "gradle", "apt", "apt-get", "docker", "git", "gh"}
	// unproxied lists programs that cannot use an HTTP proxy. The sandbox permits single hosts only through an HTTP
	// proxy.
	unproxied = []string{"ssh", "scp", "sftp", "rsync", "getent", "ping", "ping6", "dig", "host", "nslookup", "telnet",
		"nc", "ncat", "ftp", "traceroute", "whois", "mtr"}
)

// networkHint returns a hint for a command that needed the network.
func (l *Launcher) networkHint(p *config.Plugin, prof sandbox.Profile, e call.Ended) string {
	if prof.Network {
		return ""
	}
	programs := programsOf(e.Command)
	failed := offline.MatchString(e.Printed)
	raw := false // whether an HTTP proxy is not enough for a program
	for _, name := range programs {
		statuses, uses := networkPrograms[name]
		failed = failed || uses && e.Exit != 0 && (len(statuses) == 0 || slices.Contains(statuses, e.Exit)) ||
			e.TimedOut && (uses || slices.Contains(waitingPrograms, name))
		raw = raw || slices.Contains(unproxied, name)
	}
	hosts, local := hostsIn(e.Command + "\n" + e.Printed)
	if local && e.Exit != 0 && (failed || refusedConnection.MatchString(e.Printed)) {
		if list, err := hostlist.Parse(prof.Hosts); err == nil && list.NamesLoopback() {
			return fmt.Sprintf("In the sandbox, localhost is the sandbox itself. The proxy reaches the services of this machine that are listed (%s), if the command begins with NO_PROXY= no_proxy=. For programs without a proxy, the operator sets network = true in the sandbox block of %s", strings.Join(prof.Hosts, ", "), block(l.cfg, p))
		}
	}
	if !failed || len(hosts) == 0 && local {
		return ""
	}
	setting := "network = true"
	if len(hosts) > 0 && !raw {
		setting = fmt.Sprintf("network = [%q]", hosts[0])
	}
	switch {
	case len(prof.Hosts) == 0 && e.TimedOut:
		return fmt.Sprintf("The command may have waited for the network, which the sandbox does not have. To permit it, the operator sets %s in the sandbox block of %s", setting, block(l.cfg, p))
	case len(prof.Hosts) == 0:
		return fmt.Sprintf("The sandbox has no network. To permit it, the operator sets %s in the sandbox block of %s", setting, block(l.cfg, p))
	case raw || offline.MatchString(e.Printed):
		return fmt.Sprintf("The sandbox has a proxy for HTTP and HTTPS to %s, and no other network. To permit more, the operator sets network = true in the sandbox block of %s", strings.Join(prof.Hosts, ", "), block(l.cfg, p))
	}
	return ""
}

// refusedConnection matches messages of programs about a port to which nobody listens.
var refusedConnection = lazyregexp.New(`(?i)connection refused|\bECONNREFUSED\b|could ?n[o']t connect|failed to connect`)

// programsOf returns the literal names of the programs that a script runs.
func programsOf(script string) (names []string) {
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	if err != nil {
		return nil
	}
	syntax.Walk(f, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok {
			for _, word := range c.Args { // an argument can also be a program, as in: timeout 5 curl …
				if text := word.Lit(); text != "" {
					names = append(names, filepath.Base(text))
				}
			}
		}
		return true
	})
	return names
}

// named matches host names in commands and in messages of programs, with their ports.
var named = lazyregexp.New(`(?i)(?:[a-z+]+://(?:[^/\s@'"]*@)?|resolve host:? |resolve hostname |resolve |EAI_AGAIN |ENOTFOUND |lookup |host=')'?(\[[0-9a-f:]+\]|[a-z0-9][a-z0-9.-]*)(:\d{1,5})?`)

// hostsIn returns the host names in a text, except the names of this machine. A name has its port if a list of hosts
// needs it, which permits the ports of HTTP and HTTPS without one. The result "local" reports whether the text contains
// a name of this machine.
func hostsIn(text string) (hosts []string, local bool) {
	for _, m := range named.FindAllStringSubmatch(text, 50) {
		host := strings.TrimRight(strings.Trim(m[1], "[]"), ".-")
		ip := net.ParseIP(host)
		entry := host
		if m[2] != "" && m[2] != ":80" && m[2] != ":443" {
			entry = net.JoinHostPort(host, m[2][1:])
		}
		switch {
		case host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified()):
			local = true
		case ip == nil && !strings.Contains(host, "."):
		case !slices.Contains(hosts, entry):
			hosts = append(hosts, entry)
		}
	}
	return hosts, local
}

// notFound matches the message of bash about an unknown command.
var notFound = lazyregexp.New(`(?m)(?:^|: )([\w.+-]+): command not found$`)

// elsewhere returns directories that contain programs but are often missing in PATH.
func elsewhere() []string {
	dirs := []string{
		"/usr/local/go/bin", "/usr/local/bin", "/usr/local/sbin", "/usr/sbin", "/sbin", "/snap/bin",
		"/opt/homebrew/bin",
	}
	if home, err := os.UserHomeDir(); err == nil {
		for _, dir := range []string{"bin", ".local/bin", "go/bin", ".cargo/bin", ".bun/bin", ".deno/bin",
			".npm-global/bin"} {
			dirs = append(dirs, filepath.Join(home, dir))
		}
	}
	return dirs
}

// programHint returns a hint for an installed program that a command cannot find in the sandbox.
func programHint(e call.Ended) string {
	m := notFound.FindStringSubmatch(e.Printed)
	if e.Exit == 0 || m == nil {
		return ""
	}
	for _, dir := range elsewhere() {
		if st, err := os.Stat(filepath.Join(dir, m[1])); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return fmt.Sprintf("%s is installed in %s, which is not in the PATH of toolhost, and which the sandbox may not show. To permit it, the operator starts toolhost with this directory in PATH", m[1], dir)
		}
	}
	return ""
}

// These expressions match lines in which a program reports a failed write or a missing file, and the absolute paths in
// a line.
var (
	refusedWrite = lazyregexp.New(`(?im)^.*(?:read-only file system|\bEROFS\b).*$`)
	refusedRead  = lazyregexp.New(`(?im)^.*(?:permission denied|\bEACCES\b|no such file or directory|\bENOENT\b).*$`)
	absolutePath = lazyregexp.New("(?:^|[\\s'\"`(‘=])(/[^\\s'\"`:,;)’]+)")
)

// shownDirs lists the system directories that are visible in the sandbox.
var shownDirs = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/proc", "/sys", "/dev",
}

// secret matches paths of keys and passwords. Hints never suggest making these paths visible.
var secret = lazyregexp.New(`(?i)/\.(?:ssh|aws|gnupg|kube|docker|azure|netrc|pgpass|npmrc|git-credentials)\b|/(?:g?shadow|sudoers)\b|secret|credential|token|password`)

// pathHint returns a hint for a path that the sandbox protects from writing or does not show.
func (l *Launcher) pathHint(p *config.Plugin, prof sandbox.Profile, roots []tool.Root, backend sandbox.Backend,
	printed string) string {
	for _, line := range refusedRead.FindAllString(printed, 5) {
		for _, m := range absolutePath.FindAllStringSubmatch(line, 5) {
			if at, copied := scratch.Copied(roots, m[1]); copied {
				return fmt.Sprintf("This session works in a branch that is a copy of the workspace, and %s is not in it. Use %s", m[1], at)
			}
		}
	}
	if slices.ContainsFunc(roots, func(r tool.Root) bool { return r.View != "" }) {
		switch {
		case strings.Contains(printed, syscall.EOVERFLOW.Error()) ||
			strings.Contains(printed, "Value too large for defined data type"):
			return "In a branch, files and directories of other owners or groups cannot be changed. Replace the file with a copy (cp FILE FILE.new; mv FILE.new FILE), or work without a branch"
		case strings.Contains(printed, "Invalid cross-device link") || strings.Contains(printed, "EXDEV"):
			return "In a branch, a directory of the workspace cannot be renamed in one step. Use mv, which copies it, or cp -a and rm -r"
		}
	}
	for _, line := range refusedWrite.FindAllString(printed, 5) {
		if path := outside(line, writable(prof, roots)); path != "" {
			hint := fmt.Sprintf("The sandbox permits changes only in the workspace. To permit them in %[1]s, the operator sets write = [%[1]q] in the sandbox block of %[2]s", filepath.Dir(path), block(l.cfg, p))
			if slices.ContainsFunc(roots, func(r tool.Root) bool { return r.Branch != "" }) {
				hint += ". The branch does not hold back changes there: they take effect at once, and discarding the branch does not undo them"
			}
			return hint
		}
	}
	own := backend.Abilities().OwnRoot
	home, _ := os.UserHomeDir() // ignore the error: without a home directory, home is empty
	for _, line := range refusedRead.FindAllString(printed, 5) {
		missing := !strings.Contains(strings.ToLower(line), "denied") && !strings.Contains(line, "EACCES")
		shown := slices.Concat(writable(prof, roots), prof.Read, shownDirs)
		for _, root := range roots {
			shown = append(shown, root.Path)
		}
		if missing {
			shown = append(shown, "/etc", "/var") // the sandbox shows parts of these directories, where a missing file is an ordinary error
		}
		path := outside(line, shown)
		switch {
		case path == "" || missing && !own || secret.MatchString(path):
		case missing && tool.Within(scratch.Path, path) && !tool.Within(home, path):
			if _, err := os.Lstat(path); err == nil {
				return fmt.Sprintf("The session has a %[1]s of its own, which other programs do not see. To show the file of the host, the operator sets read = [%[2]q] in the sandbox block of %[3]s", scratch.Path, path, block(l.cfg, p))
			}
		default:
			return fmt.Sprintf("The sandbox does not show %[1]s. To show it, the operator sets read = [%[1]q] in the sandbox block of %[2]s", path, block(l.cfg, p))
		}
	}
	return ""
}

// writable returns the directories in which commands can write.
func writable(prof sandbox.Profile, roots []tool.Root) []string {
	out := slices.Clone(prof.Write)
	for _, r := range roots {
		if r.Writable && prof.WriteRoots {
			out = append(out, r.Path)
		}
	}
	return out
}

// outside returns the first absolute path in a line. If the path is in one of the directories, the result
// is "".
func outside(line string, dirs []string) string {
	m := absolutePath.FindStringSubmatch(line)
	if m == nil {
		return ""
	}
	path := filepath.Clean(m[1])
	if slices.ContainsFunc(dirs, func(dir string) bool { return tool.Within(dir, path) }) {
		return ""
	}
	return path
}
