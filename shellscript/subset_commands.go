package shellscript

import (
	"path"
	"slices"
	"strings"
)

// allowedBuiltins lists the builtins in the subset. checkBuiltin checks the conditions for some of these builtins.
var allowedBuiltins = []string{
	":", "[", "test", "true", "false", "echo", "printf", "cd", "pwd", "exit", "return", "break", "continue", "shift", "set", "unset", "read", "getopts", "wait", "type", "command", "builtin",
	"umask", "ulimit", "kill", "jobs", "bg", "fg", "disown", "times", "pushd", "popd", "dirs", "help",
}

// refusedBuiltins lists the builtins that run text as code, or that change the meaning of later commands.
var refusedBuiltins = []string{
	"eval", ".", "source", "trap", "alias", "unalias", "hash", "enable", "mapfile", "readarray", "compgen", "complete", "compopt", "coproc", "exec", "let", "bind", "fc", "history", "shopt",
	"suspend", "caller", "logout", "declare", "typeset", "export", "readonly", "local",
}

// IsBuiltin reports whether a name is the name of a builtin of bash.
func IsBuiltin(name string) bool {
	return slices.Contains(allowedBuiltins, name) || slices.Contains(refusedBuiltins, name)
}

// runners lists programs that run a command from their arguments or their input. The policy cannot judge such a
// command.
var runners = []string{
	"xargs", "parallel", "setarch", "linux32", "linux64", "i386", "x86_64", "uname26", "prlimit", "taskset", "chrt", "ionice", "numactl", "unshare", "nsenter", "chroot", "setpriv", "setsid", "script", "strace", "ltrace",
	"gdb", "watch", "flock", "busybox", "toybox", "sudo", "doas", "su", "sg", "newgrp", "runuser", "pkexec", "ssh", "rsh", "entr", "systemd-run", "systemd-inhibit", "dbus-run-session", "dbus-launch", "faketime", "choom", "runcon", "capsh",
	"unbuffer", "xvfb-run", "rlwrap", "start-stop-daemon", "run-parts", "tmux", "screen", "at", "batch", "crontab", "socat", "daemonize", "softlimit", "fakeroot", "proxychains", "proxychains4",
	"caffeinate", "catchsegv", "setuidgid", "chpst", "cgexec", "firejail", "bwrap", "perf", "valgrind", "torsocks", "tsocks", "expect", "time", "pidexec", "lt", "logsave", "stdbuf", "sandbox-exec", "arch",
	"aa-exec", "aoss", "byobu", "cpulimit", "distcc", "dtach", "dumb-init", "eatmydata", "envdir", "envuidgid", "fakechroot", "genie", "gosu", "grc", "hyperfine", "ksu", "msgexec", "msgfilter", "multitime", "nocache", "openvt", "pexec", "setlock",
	"ssh-agent", "sshpass", "su-exec", "tini", "tmate", "torify",
}

// Several programs have the following options.
var (
	texOptions        = []string{"-shell-escape*", "--shell-escape*", "-enable-write18*", "--enable-write18*"}
	rpmOptions        = []string{"--eval", "-E", "--pipe", "--define", "-D", "--macros", "--rcfile", "--load"}
	downloaderOptions = []string{
		"--exec*", "--downloader*", "--external-downloader*", "--config-location*", "--ffmpeg-location*",
	}
)

// execOptions lists options with which a program runs another program. "--long" also matches abbreviations and values.
// "-x" also matches joined options. "-name*" matches every word that begins with "-name".
var execOptions = map[string][]string{
	"agetty": {"-l", "--login-program"}, "aria2c": {"--on-*", "--conf-path"},
	"apt": {"-o", "--option", "-c", "--config-file"}, "apt-get": {"-o", "--option", "-c", "--config-file"},
	"ar": {"--plugin"}, "nm": {"--plugin"}, "ranlib": {"--plugin"},
	"borg": {"--rsh", "--remote-path"}, "bpftrace": {"--unsafe", "-c"}, "bsdtar": {"--use-compress-program"}, "busctl": {"--address*"},
	"cc": {"-wrapper*", "-B*", "-fplugin*", "-specs*"}, "gcc": {"-wrapper*", "-B*", "-fplugin*", "-specs*"}, "g++": {"-wrapper*", "-B*", "-fplugin*", "-specs*"}, "clang": {"-fplugin*", "-B*", "-Xclang*"},
	"certbot": {"--pre-hook", "--post-hook", "--deploy-hook", "--renew-hook", "--manual-auth-hook", "--manual-cleanup-hook"}, "cpio": {"--rsh-command"}, "curl": {"--engine", "-K", "--config"},
	"dhclient": {"-sf", "-cf"}, "dmsetup": {"--exec"}, "dnsmasq": {"--conf-script*", "--dhcp-script*", "-C", "--conf-file*"}, "dvips": {"-R0"}, "enscript": {"-I", "--filter"},
	"fd": {"-x", "-X", "--exec", "--exec-batch"}, "fdfind": {"-x", "-X", "--exec", "--exec-batch"},
	"find": {"-exec*", "-ok*", "-fprint*", "-fls*"},
	"fzf":  {"--bind", "--preview", "--listen*", "--with-shell"}, "gem": {"-e", "--editor"},
	"git": {
		"-c", "--exec-path", "--config-env", "--config", "--upload-pack", "--receive-pack", "--exec", "--extcmd", "--ext-diff", "--textconv", "--tool", "--open-files-in-pager", "-O", "--paginate", "--template",
		"--server-option", "--filters", "--run", "--git-dir", "--work-tree",
	},
	"go":    {"-exec*", "--exec*", "-toolexec*", "--toolexec*", "-vettool*", "--vettool*", "-ldflags*", "--ldflags*", "-overlay*", "--overlay*", "-gccgoflags*", "--gccgoflags*"},
	"hg":    {"--config"},
	"latex": texOptions, "pdflatex": texOptions, "tex": texOptions, "pdftex": texOptions, "xelatex": texOptions, "xetex": texOptions, "lualatex": texOptions, "luatex": texOptions,
	"latexmk": {"-e", "-r", "-latex*", "-pdflatex*", "-xelatex*", "-lualatex*", "-dvips*", "-shell-escape"}, "lftp": {"-c", "-e", "-f"}, "logrotate": {"-m", "--mail"}, "mail": {"--exec*"},
	"install": {"--strip-program"},
	"make":    {"-f", "--file", "--makefile", "--eval", "-I", "--include-dir", "-E", "-C", "--directory"}, "gmake": {"-f", "--file", "--makefile", "--eval", "-I", "--include-dir", "-E", "-C", "--directory"},
	"man":   {"-P", "-H", "--pager", "--html", "-T", "-X", "--gxditview", "--preprocessor", "-p", "-C", "--config-file"},
	"mysql": {"--default-auth*", "--plugin-dir*", "--pager*"}, "nc": {"-e", "-c"}, "netcat": {"-e", "-c"}, "ncat": {"-e", "-c", "--exec", "--sh-exec", "--lua-exec"}, "socket": {"-p"},
	"openvpn": {"--up*", "--down*", "--script-security", "--config", "--plugin", "--tls-verify", "--client-connect", "--client-disconnect", "--learn-address", "--auth-user-pass-verify", "--route-up", "--ipchange"}, "pidstat": {"-e"}, "pip": {"--editor"}, "pip3": {"--editor"}, "plymouth": {"--command*"},
	"restic": {"--password-command", "-o", "--option"}, "rpm": rpmOptions, "rpmbuild": rpmOptions, "rpmdb": rpmOptions, "rpmkeys": rpmOptions, "rpmquery": rpmOptions, "rpmspec": rpmOptions, "rpmverify": rpmOptions,
	"scrot": {"-e", "--exec"}, "sshfs": {"-o", "-F"}, "ssh-add": {"-s"}, "ssh-keygen": {"-D", "-w"}, "yt-dlp": downloaderOptions, "youtube-dl": downloaderOptions, "zic": {"-y"},
	"npm": {"--script-shell", "--shell", "--prefix", "--node-options"}, "openssl": {"-engine*", "-provider*"}, "patch": {"-e", "--ed"},
	"rg": {"--pre", "--hostname-bin", "-z", "--search-zip"}, "rsync": {"-e", "--rsh", "--rsync-path"}, "scp": {"-S", "-o", "-F", "-J"}, "sftp": {"-S", "-o", "-F", "-J", "-D", "-b"},
	"sdiff": {"--diff-program"}, "diff3": {"--diff-program"}, "sort": {"--compress-program"}, "split": {"--filter"}, "svn": {"--config-option", "--editor-cmd", "--diff-cmd", "--diff3-cmd", "--config-dir"},
	"tar":  {"--to-command", "--checkpoint-action", "--use-compress-program", "-I", "--rsh-command", "--rmt-command", "--info-script", "--new-volume-script", "-F"},
	"gtar": {"--to-command", "--checkpoint-action", "--use-compress-program", "-I", "--rsh-command", "--rmt-command", "--info-script", "--new-volume-script", "-F"},
	"wget": {"--use-askpass", "--config", "-e", "--execute"}, "zip": {"-T", "--unzip-command", "-TT"}, "tcpdump": {"-z"},
	"gawk": {"-f", "--file", "-i", "--include", "-l", "--load", "-E", "--exec", "-D", "--debug"}, "awk": {"-f", "--file", "-i", "--include", "-l", "--load", "-E", "--exec", "-D", "--debug"},
	"mawk": {"-f", "--file", "-W"}, "sed": {"-f", "--file"}, "gsed": {"-f", "--file"},
}

// checkCommand refuses a command if its words can run other commands that the analysis does not find. The words must be
// expanded.
func (w *walker) checkCommand(words []Word) {
	if !w.strict || !words[0].Known() || words[0].Split {
		return // the caller reports an unknown name as a doubt
	}
	name := words[0].Text
	if slices.Contains(refusedBuiltins, name) {
		w.refuse("%s can run text, or change what later commands mean", name)
		return
	}
	if slices.Contains(allowedBuiltins, name) {
		w.checkBuiltin(name, words[1:])
		return
	}
	if w.functions[name] != nil {
		return
	}
	base := path.Base(name)
	if known(base) && base != name && !slices.Contains(SystemDirs, path.Dir(path.Clean(name))) {
		w.refuse("%s is not the program %s of the system", shortened(name), base)
		return
	}
	switch {
	case slices.Contains(runners, base) || strings.HasPrefix(base, "ld-linux") || strings.HasPrefix(base, "ld.so") ||
		strings.HasPrefix(base, "ld-musl"):
		w.refuse("%s runs the command in its arguments", base)
	case slices.Contains(shells, base):
		w.checkShell(base, words)
	case base == "env" || base == "timeout" || base == "nice" || base == "nohup":
		w.checkWrapper(base, words[1:])
	case execOptions[base] != nil:
		w.checkOptions(base, words[1:])
	}
}

// checkShell refuses a shell except in the forms "bash -c SCRIPT" and "SHELL FILE", because other shells read scripts
// differently. The commands in a file are not judged. Therefore a rule must list the shell together with the file.
func (w *walker) checkShell(name string, words []Word) {
	literal := func(i int) bool { return i < len(words) && words[i].Known() && !words[i].Split }
	if name == "bash" && literal(1) && words[1].Text == "-c" && literal(2) {
		return
	}
	if !literal(1) || words[1].Text == "" || strings.ContainsRune("-+", rune(words[1].Text[0])) ||
		isStdin(words[1].Text) {
		w.refuse("%s runs commands that are not in the script; write bash -c 'SCRIPT' or the commands", name)
	}
}

var (
	timeoutOption = lazily(`^(-s|--signal=|-k|--kill-after=)[A-Za-z0-9.]+$|^(--foreground|--preserve-status|-v|--verbose)$`)
	niceOption    = lazily(`^(-n|--adjustment=)?-?[0-9]+$`)
	duration      = lazily(`^[0-9.]+[smhd]?$`)
)

// checkWrapper refuses a wrapper if the analysis and the program can interpret its options differently.
func (w *walker) checkWrapper(name string, args []Word) {
	i := 0
	next := func(is func(string) bool) bool {
		if i < len(args) && args[i].Known() && !args[i].Split && is(args[i].Text) {
			i++
			return true
		}
		return false
	}
	switch name {
	case "env":
		for next(func(s string) bool { return s == "-i" }) || next(isAssignment) {
			if variable, _, ok := strings.Cut(args[i-1].Text, "="); ok {
				w.variable(variable)
			}
		}
	case "timeout":
		for next(timeoutOption().MatchString) {
		}
		if !next(duration().MatchString) {
			w.refuse("timeout has options that are not in the subset; write timeout SECONDS COMMAND")
			return
		}
	case "nice":
		if next(func(s string) bool { return s == "-n" }) {
			next(niceOption().MatchString)
		} else {
			next(func(s string) bool { return strings.HasPrefix(s, "-") && niceOption().MatchString(s) })
		}
	}
	if i < len(args) && (!args[i].Known() || args[i].Split || strings.HasPrefix(args[i].Text, "-") ||
		strings.Contains(args[i].Text, "=")) {
		w.refuse("%s has options that are not in the subset", name)
	}
}

// mayBeOption reports whether a word can be an option when the command runs.
func mayBeOption(word Word) bool {
	if strings.HasPrefix(word.Text, "-") {
		return true
	}
	if !word.Known() {
		return word.Split || strings.HasPrefix(word.Text, Unknown)
	}
	return word.Split && word.Text != "" && strings.ContainsRune("*?[", rune(word.Text[0])) // the wildcard can match a file name that begins with "-"
}

// checkOptions refuses options with which a program runs another program.
func (w *walker) checkOptions(name string, args []Word) {
	for i, a := range args {
		joined := i == 0 && (name == "tar" || name == "gtar" || name == "ar") && !strings.HasPrefix(a.Text, "-") // the first word can contain options without a dash
		if joined {
			a.Text = "-" + a.Text
		}
		message := name == "git" && i > 0 && args[0].Text == "commit" &&
			slices.Contains([]string{"-m", "-am", "--message"}, args[i-1].Text) && !a.Split
		if !mayBeOption(a) || message {
			continue
		}
		if !a.Known() || a.Split {
			w.refuse("an unknown word can be an option with which %s runs a program; write ./* for names of files, and literal options", name)
			return
		}
		for _, option := range execOptions[name] {
			if takesOption(a.Text, option) && (name != "git" || option != "-c" || !afterCommit(args[:i])) {
				w.refuse("%s can run a program by its option %s", name, option)
				return
			}
		}
	}
	switch name {
	case "git":
		w.checkGit(args)
	case "make", "gmake":
		for _, a := range args {
			if !a.Known() || a.Split || strings.Contains(a.Text, "=") {
				w.refuse("a variable of %s can change which program a rule runs", name)
			}
		}
	case "awk", "gawk", "mawk":
		w.checkAwk(name, args)
	case "sed", "gsed":
		w.checkSed(name, args)
	}
}

// takesOption reports whether a word contains an option.
func takesOption(word, option string) bool {
	if prefix, ok := strings.CutSuffix(option, "*"); ok {
		return strings.HasPrefix(word, prefix)
	}
	if strings.HasPrefix(option, "--") {
		name, _, _ := strings.Cut(word, "=")
		return name == option || len(name) > 3 && strings.HasPrefix(option, name)
	}
	if len(option) > 2 {
		return word == option
	}
	return !strings.HasPrefix(word, "--") && strings.Contains(word[1:], option[1:])
}

// afterCommit reports whether the words before an option -c contain a git subcommand for which -c runs no program.
func afterCommit(before []Word) bool {
	return slices.ContainsFunc(before, func(a Word) bool {
		return slices.Contains([]string{"commit", "diff", "log", "show", "switch", "ls-files", "grep", "shortlog"},
			a.Text)
	})
}

// checkGit refuses subcommands of git that run other programs or change which programs git runs.
func (w *walker) checkGit(args []Word) {
	var rest []Word
	for i, a := range args {
		if strings.Contains(a.Text, "::") || !a.Known() && w.remote(args) {
			w.refuse("an address with :: or an unknown address can make git run a program")
			return
		}
		if rest == nil && !strings.HasPrefix(a.Text, "-") && (i == 0 || args[i-1].Text != "-C") {
			rest = args[i:]
		}
	}
	if len(rest) == 0 {
		return
	}
	sub := rest[0].Text
	has := func(words ...string) bool {
		return slices.ContainsFunc(rest[1:], func(a Word) bool { return slices.Contains(words, a.Text) })
	}
	switch {
	case !rest[0].Known() || rest[0].Split:
		w.refuse("the subcommand of git is unknown before the script runs")
	case slices.Contains([]string{
		"difftool", "mergetool", "filter-branch", "instaweb", "send-email", "credential", "hook", "submodule", "bisect",
		"maintenance", "daemon", "upload-pack", "receive-pack", "shell", "p4", "svn", "cvsserver", "archimport", "remote-ext", "remote-fd", "daemon", "gui", "citool", "for-each-repo", "help", "web--browse",
	}, sub):
		w.refuse("git %s runs other programs", sub)
	case sub == "config" && !has("--get", "--list", "-l", "--get-all", "--get-regexp", "get", "list"):
		w.refuse("git config can change which programs git runs; use git config --get")
	case sub == "rebase" && slices.ContainsFunc(rest[1:], func(a Word) bool {
		return strings.HasPrefix(a.Text, "-x") ||
			strings.HasPrefix(a.Text, "-i")
	}), sub == "rebase" && has("--interactive", "--edit-todo"):
		w.refuse("git rebase can run other programs by its options -x and -i")
	case (sub == "clone" || sub == "ls-remote" || sub == "archive") && slices.ContainsFunc(rest[1:], func(a Word) bool {
		return takesOption("-"+strings.TrimPrefix(a.Text, "-"), "-u") && strings.HasPrefix(a.Text, "-")
	}):
		w.refuse("git %s runs a program by its option -u", sub)
	}
}

// remote reports whether the words of a git command contain a subcommand that connects to an address.
func (w *walker) remote(args []Word) bool {
	return slices.ContainsFunc(args, func(a Word) bool {
		return slices.Contains([]string{"clone", "fetch", "pull", "push", "ls-remote", "remote", "archive", "submodule",
			"fetch-pack", "send-pack"}, a.Text)
	})
}

// checkBuiltin refuses uses of builtins that evaluate code in arguments, or that set variables with unknown names.
func (w *walker) checkBuiltin(name string, args []Word) {
	switch name {
	case "[", "test":
		w.checkTest(name, args)
	case "printf":
		if len(args) > 0 && mayBeOption(args[0]) && args[0].Text != "--" {
			w.refuse("printf can set a variable by its option -v; write printf with a literal format")
		}
	case "read":
		w.checkRead(args)
	case "getopts", "unset":
		if name == "getopts" && len(args) > 0 {
			args = args[1:]
			args = args[:min(1, len(args))]
		}
		for _, a := range args {
			if name == "unset" && (a.Text == "-v" || a.Text == "-f") {
				continue
			}
			w.name(a)
		}
	case "wait", "jobs":
		for _, a := range args {
			if mayBeOption(a) && a.Text != "-n" && a.Text != "-l" && a.Text != "-p" ||
				name == "wait" && a.Text == "-p" {
				w.refuse("%s with unusual options is not in the subset", name)
			}
		}
	case "set":
		for i, a := range args {
			if slices.Contains([]string{"-o", "+o"}, a.Text) {
				continue
			}
			after := i > 0 && strings.HasSuffix(args[i-1].Text, "o") &&
				strings.ContainsRune("-+", rune(args[i-1].Text[0]))
			if !setOption().MatchString(a.Text) && (!after ||
				!slices.Contains([]string{"pipefail", "errexit", "nounset", "noglob", "noclobber"}, a.Text)) {
				w.refuse("set with other options than -e, -u, -f and -o pipefail changes how the shell reads a script")
			}
		}
	case "command", "builtin":
		if len(args) > 0 && strings.HasPrefix(args[0].Text, "-") && args[0].Text != "-v" && args[0].Text != "-V" ||
			len(args) > 0 && (!args[0].Known() || args[0].Split) {
			w.refuse("%s with options is not in the subset", name)
		}
	case "cd", "pushd", "popd", "dirs", "type", "umask", "ulimit", "kill", "help", "bg", "fg", "disown", "times":
	}
}

var setOption = lazily(`^[-+][euf]*o?$`)

// name refuses a word that is not the name of an ordinary variable.
func (w *walker) name(a Word) {
	if !a.Known() || a.Split {
		w.refuse("the name of a variable is unknown before the script runs, and a shell can evaluate it")
		return
	}
	w.variable(a.Text)
}

func (w *walker) checkRead(args []Word) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		if !strings.HasPrefix(a.Text, "-") || !a.Known() {
			w.name(a)
			continue
		}
		switch strings.TrimLeft(a.Text, "-rs") {
		case "":
		case "p", "t", "n", "N", "d", "u":
			i++
			if i < len(args) && args[i].Split {
				w.refuse("the option %s of read has an unknown argument", a.Text)
			}
		default:
			w.refuse("read with the option %s is not in the subset", a.Text)
		}
	}
}

var (
	unaryTest  = lazily(`^-[efdnzrwxsLhpSbcgkuOGNt]$`)
	binaryTest = lazily(`^(=|==|!=|<|>|-eq|-ne|-lt|-le|-gt|-ge|-nt|-ot|-ef)$`)
)

// checkTest refuses a test with operators that are not literal. Such an operator could be -v, which evaluates code in a
// name.
func (w *walker) checkTest(name string, args []Word) {
	bad := slices.ContainsFunc(args, func(a Word) bool { return a.Split && a.Text != "*" && a.Text != "?" })
	if name == "[" && len(args) > 0 && args[len(args)-1].Text == "]" {
		args = args[:len(args)-1]
	}
	if len(args) > 0 && args[0].Text == "!" && len(args) != 3 {
		args = args[1:]
	} else if len(args) == 3 && args[0].Text == "!" && unaryTest().MatchString(args[1].Text) {
		args = args[1:]
	}
	switch len(args) {
	case 0, 1:
	case 2:
		bad = bad || !unaryTest().MatchString(args[0].Text)
	case 3:
		bad = bad || !binaryTest().MatchString(args[1].Text)
	default:
		bad = true
	}
	if bad {
		w.refuse("only tests of the form [ OPERATOR WORD ] and [ WORD OPERATOR WORD ] are in the subset, with quoted words; the operator -v evaluates code")
	}
}
