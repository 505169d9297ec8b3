package policy

import (
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/shellscript"
)

// Builtin is a rule that applies without configuration. The operator's rules replace it only if they list its name in
// [Rule.Builtins].
type Builtin struct {
	Effect       Effect
	Name, Reason string
	// Careful reports that the rule applies only with [Rules.Careful].
	Careful bool
	// programs contains the names of the programs to which the rule applies. Nil means all programs.
	programs []string
	match    func(f *facts) bool
}

// Builtins lists rules for commands that destroy the system, the work of a person, or other people's data. Without
// these rules, the sandbox would be the only protection.
var Builtins = []Builtin{
	{Deny, "remove-system", "the command removes the file system, a system directory or the home directory", false, []string{"rm", "find"}, removesSystem},
	{Deny, "format", "the command formats an existing disk or partition", false, formatters, about(formats)},
	{Deny, "overwrite-device", "the command writes directly to a disk", false, []string{"dd", "shred", "tee", "blkdiscard", "cp", "mv", "truncate"}, about(writesDevice)},
	{Deny, "fork-bomb", "the command starts copies of itself without end", false, []string{bombName}, func(f *facts) bool { return f.c.Words[0].Text == bombName }},
	{Deny, "system-mode", "the command changes the mode or the owner of the whole system", false, []string{"chmod", "chown", "chgrp"}, about(changesSystem)},
	{Ask, "remove-workspace", "the command removes, moves away or overwrites the whole workspace", false, removers, removesWorkspace},
	{Ask, "remove-repository", "the command removes a repository or its data", false, removers, func(f *facts) bool { return f.loss() == repository }},
	{Ask, "discard-changes", "the command discards the uncommitted changes in a whole repository", false, []string{"git"}, func(f *facts) bool {
		all, _ := f.discarded()
		return all
	}},
	{Ask, "privilege", "the command runs other commands as another user, but the sandbox allows no privileges", false, elevators, func(f *facts) bool {
		return slices.Contains(elevators, f.c.Name()) && len(f.c.Words) > 1 && !f.c.Remote
	}},
	{Ask, "power", "the command stops the machine", false, append([]string{"systemctl", "loginctl", "init", "telinit"}, stoppers...), about(stops)},
	{Ask, "signal-all", "the command sends a signal to all processes", false, []string{"kill", "killall5", "pkill", "killall"}, about(signalsAll)},
	{Ask, "discard-files", "the command discards uncommitted changes, stashes or branches", true, []string{"git", "patch", "hg", "svn"}, func(f *facts) bool {
		_, some := f.discarded()
		return some || f.reverts()
	}},
	{Ask, "delete", "the command deletes files that existed before the session", true, slices.Concat([]string{"find"}, packers, removers), deletes},
	{Ask, "modes", "the command lets others write files, lets a program run as its owner, or changes the modes or owners of a whole directory", true, modeChangers, changesModes},
	{Ask, "publish", "the command sends or publishes data to another machine", true, nil, publishes},
	{Ask, "credentials", "the command reads credentials", true, nil, readsCredentials},
}

var (
	elevators = []string{"sudo", "doas", "pkexec", "su", "runuser"}
	stoppers  = []string{"shutdown", "reboot", "halt", "poweroff"}
	// modeChangers lists programs that change who can use a file.
	modeChangers = []string{"chmod", "chown", "chgrp", "setfacl", "chattr", "setcap", "install", "mkdir"}
	formatters   = []string{"mkfs", "mke2fs", "mkswap", "wipefs", "sgdisk", "sfdisk", "fdisk", "parted"}
)

// about returns a condition that depends on the command alone.
func about(match func(c *shellscript.Command) bool) func(*facts) bool {
	return func(f *facts) bool { return match(f.c) }
}

// concerned contains the names of the programs to which a built-in rule applies. It also contains
// programs that carry out the work of other programs in their own process.
var concerned = func() map[string]bool {
	out := map[string]bool{"git": true, "find": true, "busybox": true, "toybox": true, "coreutils": true}
	for i := range Builtins {
		if !Builtins[i].Careful {
			for _, name := range Builtins[i].programs {
				out[name] = true
			}
		}
	}
	return out
}()

// concerns reports whether a built-in rule can apply to a program.
func concerns(x *Execution) bool {
	is := func(name string) bool {
		return concerned[name] || strings.HasPrefix(name, "mkfs.") || strings.HasPrefix(name, "git-")
	}
	return is(filepath.Base(x.Path)) || is(filepath.Base(x.File)) || is(x.invoked()) ||
		slices.ContainsFunc(x.copies, is)
}

// bombName is the command name that represents a fork bomb. No real command can have this name.
const bombName = "\x00bomb"

// builtinNames returns the names of the built-in rules.
func builtinNames() []string {
	out := make([]string, len(Builtins))
	for i := range Builtins {
		out[i] = Builtins[i].Name
	}
	return out
}

// builtins returns the built-in rules that match a command.
func (p *Policy) builtins(req *Request, c *shellscript.Command) (out []*Builtin) {
	if p.rules.NoBuiltin {
		return nil
	}
	f := &facts{req: req, c: c}
	if !c.Words[0].Known() {
		if b := maybeBuiltin(f); b != nil {
			out = append(out, b)
		}
		return out
	}
	name := c.Name()
	for i := range Builtins {
		b := &Builtins[i]
		f.uncertain = false
		if (!b.Careful || p.rules.Careful) &&
			(b.programs == nil || slices.Contains(b.programs, name) || strings.HasPrefix(name, "mkfs.")) && b.match(f) {
			if f.uncertain {
				unclear := *b
				unclear.Reason = uncertainReason
				b = &unclear
			}
			out = append(out, b)
		}
	}
	return out
}

// uncertainReason is the reason for asking if the file system did not show the effect of a command.
const uncertainReason = "the command names too many files, or files that cannot be examined, so that it is not known whether it is harmless. Name fewer files"

// matchBuiltins reports whether the part matches one of the named built-in rules.
func (p *part) matchBuiltins(names []string) shellscript.Match {
	for _, b := range p.builtins {
		if slices.Contains(names, b.Name) {
			if b.match == nil { // the rule only suspects a loss, because the command name is unknown
				return shellscript.Maybe
			}
			return shellscript.Yes
		}
	}
	return shellscript.No
}

// floor returns the strictest built-in rule that matches the part. It ignores the rules in the argument "lowered".
func (p *part) floor(lowered []string) (out *Builtin) {
	for _, b := range p.builtins {
		if !slices.Contains(lowered, b.Name) && (out == nil || b.Effect == Deny && out.Effect != Deny) {
			out = b
		}
	}
	return out
}

// maybeBuiltin returns a rule for a command with an unknown name. The rule asks for a confirmation if rm with the same
// arguments would remove the system. Otherwise maybeBuiltin returns nil.
func maybeBuiltin(f *facts) *Builtin {
	guess := *f.c
	guess.Words = append([]shellscript.Word{{Text: "rm"}}, f.c.Words[1:]...)
	if !removesSystem(&facts{req: f.req, c: &guess}) {
		return nil
	}
	return &Builtin{Effect: Ask, Name: "remove-system", Reason: "the command's name is unknown before it runs, and with these arguments rm would remove the system"}
}

func helps(c *shellscript.Command) bool {
	return slices.ContainsFunc(c.Words[1:], func(w shellscript.Word) bool {
		return slices.Contains([]string{"--help", "--version", "-V"}, w.Text)
	})
}

// arguments returns the options and operands of a command.
func arguments(c *shellscript.Command) (short string, long, operands []string) {
	for i, w := range c.Words[1:] {
		switch {
		case w.Text == "--":
			for _, o := range c.Words[i+2:] {
				operands = append(operands, o.Text)
			}
			return short, long, operands
		case strings.HasPrefix(w.Text, "--"):
			long = append(long, w.Text[2:])
		case len(w.Text) > 1 && w.Text[0] == '-':
			short += w.Text[1:]
		default:
			operands = append(operands, w.Text)
		}
	}
	return short, long, operands
}

// canHave reports whether one of the long options of a command can stand for an option in names. Programs accept
// abbreviations of their options. An ambiguous abbreviation counts as every option that it can stand for.
func canHave(long []string, names ...string) bool {
	return slices.ContainsFunc(long, func(l string) bool {
		l, _, _ = strings.Cut(l, "=")
		return slices.ContainsFunc(names, func(n string) bool { return shellscript.Abbreviates(l, n) })
	})
}

// isRecursive reports whether the command has --recursive, an abbreviation of --recursive, or one of the short options
// in the argument "letters".
func isRecursive(short string, long []string, letters string) bool {
	return strings.ContainsAny(short, letters) || canHave(long, "recursive")
}

// systemDirs lists the top-level directories of a system.
var systemDirs = []string{
	"/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/opt", "/proc", "/root", "/sbin", "/srv", "/sys",
	"/usr", "/usr/bin", "/usr/lib", "/usr/local", "/var", "/Users", "/System", "/Library", "/Applications",
}

// isSystem reports whether an operand names a top-level directory of the system, or all files in a top-level directory.
func isSystem(c *shellscript.Command, operand string) bool {
	if strings.Contains(operand, shellscript.Unknown) {
		return false
	}
	path := locate(c.Dir, shellscript.Word{Text: operand})
	if c.Dir == "" && !filepath.IsAbs(operand) {
		return false
	}
	path, all := strings.CutSuffix(path, "/*")
	if all && path == "" {
		path = "/"
	}
	if path == "/" || slices.Contains(systemDirs, path) {
		return true
	}
	home := homeDir()
	return home != "" && path == home
}

func removesSystem(f *facts) bool {
	short, long, operands := arguments(f.c)
	if f.c.Name() != "rm" || !isRecursive(short, long, "rR") {
		return false
	}
	return f.loss() == home || slices.ContainsFunc(operands, func(o string) bool {
		return isSystem(f.c, o) && !isWorkspace(f.req, f.c, o) || f.leadsToSystem(o)
	})
}

// leadsToSystem reports whether an operand leads to a top-level directory of the system through symbolic links.
func (f *facts) leadsToSystem(operand string) bool {
	path := f.resolve(operand)
	return path != "" && path != f.req.Workspace && isSystem(f.c, path)
}

// isWorkspace reports whether an operand names the workspace, or all files in the workspace.
func isWorkspace(req *Request, c *shellscript.Command, operand string) bool {
	if strings.Contains(operand, shellscript.Unknown) || c.Dir == "" && !filepath.IsAbs(operand) ||
		req.Workspace == "" || req.Workspace == "/" || c.Remote {
		return false
	}
	path := locate(c.Dir, shellscript.Word{Text: operand})
	return strings.TrimSuffix(path, "/*") == req.Workspace
}

func removesWorkspace(f *facts) bool {
	short, long, operands := arguments(f.c)
	if f.c.Name() == "rm" && isRecursive(short, long, "rR") &&
		slices.ContainsFunc(operands, func(o string) bool { return isWorkspace(f.req, f.c, o) }) {
		return true
	}
	return f.loss() >= workspace
}

// stops reports whether a command stops or restarts the machine.
func stops(c *shellscript.Command) bool {
	if helps(c) {
		return false
	}
	_, _, operands := arguments(c)
	first := ""
	if len(operands) > 0 {
		first = operands[0]
	}
	switch c.Name() {
	case "systemctl", "loginctl":
		return slices.Contains([]string{"reboot", "poweroff", "halt", "kexec", "soft-reboot", "suspend", "hibernate",
			"hybrid-sleep", "suspend-then-hibernate", "rescue", "emergency", "exit"}, first)
	case "init", "telinit":
		return slices.Contains([]string{"0", "1", "6", "s", "S"}, first)
	}
	return slices.Contains(stoppers, c.Name())
}

// signalsAll reports whether a command sends a signal to all processes of the user.
func signalsAll(c *shellscript.Command) bool {
	if helps(c) {
		return false
	}
	args := texts(c)
	switch c.Name() {
	case "killall5":
		return true
	case "kill":
		if len(args) > 0 && (args[0] == "-l" || args[0] == "-L") {
			return false
		}
		return slices.Contains(args[min(1, len(args)):], "-1") // as the first word, -1 is a signal: kill -1 PID
	case "pkill", "killall":
		_, _, operands := arguments(c)
		return slices.Contains(operands, ".") || slices.Contains(operands, ".*") ||
			slices.Contains(args, "-u") && len(operands) < 2
	}
	return false
}

func texts(c *shellscript.Command) []string {
	out := make([]string, len(c.Words)-1)
	for i, w := range c.Words[1:] {
		out[i] = w.Text
	}
	return out
}

func formats(c *shellscript.Command) bool {
	name := c.Name()
	_, _, operands := arguments(c)
	if !strings.HasPrefix(name, "mkfs.") && !slices.Contains(formatters, name) || helps(c) {
		return false
	}
	return slices.ContainsFunc(operands, isDisk) || name == "mkfs" && len(operands) > 0 &&
		!slices.ContainsFunc(operands, func(o string) bool { return strings.Contains(o, ".") })
}

// isDisk reports whether a path is a block device such as a disk.
func isDisk(path string) bool {
	name, ok := strings.CutPrefix(filepath.Clean(path), "/dev/")
	return ok &&
		slices.ContainsFunc([]string{"sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "rdisk", "md", "dm-", "mapper/",
			"loop", "mem", "kmem", "root", "block/"}, func(prefix string) bool {
			return strings.HasPrefix(name, prefix)
		})
}

func writesDevice(c *shellscript.Command) bool {
	switch c.Name() {
	case "dd":
		return slices.ContainsFunc(c.Words[1:], func(w shellscript.Word) bool {
			to, ok := strings.CutPrefix(w.Text, "of=")
			return ok && isDisk(to)
		})
	case "shred", "tee", "blkdiscard", "cp", "mv", "truncate":
		_, _, operands := arguments(c)
		if c.Name() == "cp" || c.Name() == "mv" {
			return len(operands) > 1 && isDisk(operands[len(operands)-1])
		}
		return slices.ContainsFunc(operands, isDisk)
	}
	return false
}

func changesSystem(c *shellscript.Command) bool {
	if !slices.Contains([]string{"chmod", "chown", "chgrp"}, c.Name()) {
		return false
	}
	short, long, operands := arguments(c)
	return isRecursive(short, long, "R") && len(operands) > 1 &&
		slices.ContainsFunc(operands[1:], func(o string) bool { return o == "/" || o == "/*" })
}

// changesModes reports whether a command gives rights to others, lets a program run as its owner, or changes modes or
// owners of a whole directory that git cannot restore.
func changesModes(f *facts) bool {
	short, long, operands := arguments(f.c)
	recursive := isRecursive(short, long, "R")
	switch f.c.Name() {
	case "chmod":
		if mode := strings.Trim(short, "RcfvhHLP"); mode != "" || len(operands) == 0 || canHave(long, "reference") {
			return recursive && f.unrestorable(operands) // such a mode only removes rights, or is that of another file
		}
		special, public := grants(operands[0])
		return special || public && !f.ownFiles(operands[1:]) || recursive && f.unrestorable(operands[1:])
	case "install", "mkdir":
		for i, a := range texts(f.c) {
			mode, ok := strings.CutPrefix(a, "--mode=")
			if k := strings.IndexByte(a, 'm'); !ok && k > 0 && strings.HasPrefix(a, "-") &&
				!strings.HasPrefix(a, "--") {
				if mode, ok = a[k+1:], true; mode == "" && i+2 < len(f.c.Words) {
					mode = f.c.Words[i+2].Text
				}
			}
			files := slices.DeleteFunc(slices.Clone(operands), func(o string) bool { return o == mode })
			if special, public := grants(mode); ok && (special || public && !f.ownFiles(files)) {
				return true
			}
		}
		return false
	case "chown", "chgrp":
		return recursive && len(operands) > 1
	case "setcap":
		return len(operands) > 1
	}
	return len(operands) > 0 && !helps(f.c) && !slices.Contains(long, "test") // setfacl and chattr
}

// ownFiles reports whether all operands of a command are build results or temporary files.
func (f *facts) ownFiles(operands []string) bool {
	return !slices.ContainsFunc(operands, func(o string) bool {
		path := f.follow(f.resolve(o))
		rel, temporary := f.ephemeral(path)
		return path == "" || !temporary && (rel == "" || !regenerable(rel))
	})
}

// unrestorable reports whether one of the operands is a file of before the session for which no repository records the
// mode: one outside of the roots or outside of a repository. It ignores build results and temporary files.
func (f *facts) unrestorable(operands []string) bool {
	files := f.req.files()
	return slices.ContainsFunc(operands, func(o string) bool {
		path := f.follow(f.resolve(o))
		if path == "" || f.ownFiles([]string{o}) || !files.exists(path) || !f.req.older(path) {
			return false
		}
		rel, _ := f.ephemeral(path)
		return rel == "" || files.repositoryOf(path) == ""
	}) || f.suspect()
}

// grants reports whether a mode for chmod sets the bits with which a program runs as its owner or group, and whether it
// lets all users write.
func grants(mode string) (special, public bool) {
	for _, clause := range strings.Split(mode, ",") {
		who, rest := "", clause
		if i := strings.IndexAny(clause, "+-="); i >= 0 {
			who, rest = clause[:i], clause[i:]
		} else {
			rest = "=" + clause
		}
		for rest != "" {
			next := strings.IndexAny(rest[1:], "+-=") + 1
			if next == 0 {
				next = len(rest)
			}
			op, rights := rest[0], rest[1:next]
			rest = rest[next:]
			digits := rights != "" && strings.Trim(rights, "01234567") == ""
			switch {
			case op == '-':
			case digits:
				public = public || rights[len(rights)-1]&2 != 0 // a digit of ASCII ends with the bits of its value
				special = special || len(rights) > 3 && rights[len(rights)-4]&6 != 0
			default:
				special = special || strings.Contains(rights, "s")
				public = public || strings.ContainsAny(who, "oa") && strings.ContainsAny(rights, "wug")
			}
		}
	}
	return special, public
}
